"""The choice of a partition for a record, by its key as other clients choose it, or without a key.

`PARTITIONERS` has the names of Java and librdkafka. A `Partitioner` is only a description: `OpenBatches` assigns the
records, and the compiled modules have a copy of the hashes. `StickyPartitioner` moves the partition of records without
a key. Start at `partition_for_key` and `Partitioner`.

Source: Kafka's Utils.murmur2 and BuiltInPartitioner; librdkafka's rd_kafka_msg_partitioner_* and its hashes.
"""

from __future__ import annotations

import operator
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, SupportsIndex, TypeAlias

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_CACHED_KEYS_MAX: Final = 8192
_WORDS: Final = tuple(struct.Struct(f"<{count}I").unpack_from for count in range(17))
_FNV_START: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193

STICKY_SIZE_MAX: Final = 16 * 1024
"""After this many bytes in sealed batches (half a batch, if that is less) the sticky partitioner turns to another
partition: Java's `batch.size`. Counted in bytes, not batches, so that small batches do not change shares (KIP-794)."""

PartitionFunction: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int | None]
"""A user's own function: topic, key, value and number of partitions -> a partition, or None for the default choice."""


@lru_cache(_CACHED_KEYS_MAX)
def murmur2(key: bytes) -> int:
    """Hash a key with MurmurHash2, Kafka's seed.

    The last few thousand keys are cached: key sets are mostly small, and in plain Python the hash costs more than the
    rest of the record.

    Returns:
        0 to 2**32 - 1; Java shows the same bits as a signed number.
    """
    size = len(key)
    words = size >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else struct.Struct(f"<{words}I").unpack_from
    value = _SEED ^ size
    for word in unpack(key):
        word = word * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ ((word ^ word >> 24) * _MULTIPLIER & _MASK)
    tail = size & 3
    if tail:
        value ^= int.from_bytes(key[-tail:], "little")
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


@lru_cache(_CACHED_KEYS_MAX)
def fnv1a(key: bytes) -> int:
    """Hash a key with FNV-1a, 32 bits, and take it as a signed number without its sign, as Sarama and librdkafka do."""
    value = _FNV_START
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value if value <= _MASK >> 1 else (1 << 32) - value


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key among all partitions, available or not. An empty key is a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class KeyHash(IntEnum):
    """The hash function of keys."""

    NONE = 0
    """None: keys are ignored."""
    MURMUR2 = 1
    """Java's, kafka-python's, aiokafka's."""
    CRC32 = 2
    """librdkafka's default, so confluent-kafka's."""
    FNV1A = 3
    """Sarama's."""


@dataclass(frozen=True, slots=True)
class Partitioner:
    """How to choose a partition for records that name none.

    Records without a key, or whose key is ignored, fill one batch after the other, in one partition after the other.

    Attributes:
        key_hash: the hash function for records with a key.
        null_is_a_key: all records without a key go to the partition of an empty key.
        empty_is_a_key: an empty key selects a partition, too.
        every_record: records whose partition no key selects change the partition with every record.
        function: a user's own function, which is called first.
    """

    key_hash: KeyHash = KeyHash.MURMUR2
    null_is_a_key: bool = False
    empty_is_a_key: bool = True
    every_record: bool = False
    function: PartitionFunction | None = None

    def hash_of(self, key: bytes | None) -> int:
        """Return the hash of a key, not negative; -1 if no key selects the record's partition."""
        if key is None:
            if not self.null_is_a_key:
                return -1
            key = b""
        elif not key and not self.empty_is_a_key:
            return -1
        return HASHES[self.key_hash](key)


class StickyPartitioner:
    """Moves the sticky partition of one topic, which takes the records whose partition no key selects.

    They fill one batch after the other, not all batches a little. Source: KIP-480, KIP-794; Kafka's BuiltInPartitioner.

    Args:
        partition_count: number of partitions of the topic.
        switch_bytes: after this many bytes in sealed batches it is the next partition's turn.
    """

    __slots__ = ("_count", "_order", "_position", "_sealed_bytes", "_switch_bytes")

    def __init__(self, partition_count: int, switch_bytes: int) -> None:
        self._count = partition_count
        self._switch_bytes = switch_bytes
        self._sealed_bytes = 0
        self._order: tuple[int, ...] = ()
        self._position = 0

    def set_partitions(self, partition_count: int) -> None:
        """Set the number of partitions, and forget the order."""
        self._count = partition_count
        self._order = ()

    def set_order(self, order: Sequence[int]) -> None:
        """Set the order of turns, each partition as often as its share; empty for all partitions in turn.

        An order that names a partition which does not exist is ignored: the number of partitions has just changed.
        """
        if all(0 <= partition < self._count for partition in order):
            self._order = tuple(order)

    def note_sealed(self, partition: int, size_bytes: int) -> int:
        """Note that a batch of the sticky partition was sealed; return the sticky partition from now on."""
        self._sealed_bytes += size_bytes
        return partition if self._sealed_bytes < self._switch_bytes else self.next_after(partition)

    def next_after(self, partition: int) -> int:
        """Move on; return the next sticky partition."""
        self._sealed_bytes = 0
        self._position += 1
        order = self._order
        return order[self._position % len(order)] if order else (partition + 1) % self._count


HASHES: Final[dict[KeyHash, Callable[[bytes], int]]] = {
    KeyHash.NONE: lambda key: -1,
    KeyHash.MURMUR2: lambda key: murmur2(key) & 0x7FFFFFFF,
    KeyHash.CRC32: zlib.crc32,
    KeyHash.FNV1A: fnv1a,
}


def whole_number(partition: SupportsIndex) -> int:
    """Check a user's value for a partition's number.

    Raises:
        UsageError: it is not an integer.
    """
    if not isinstance(partition, bool):
        with suppress(TypeError):
            return operator.index(partition)
    raise UsageError(
        f"partition {partition!r} must be a whole number, as in partition=0, not {type(partition).__name__}"
    )


def chosen(
    function: PartitionFunction, topic: str, key: bytes | None, value: bytes | None, partition_count: int
) -> int | None:
    """Let a user's function choose the partition of a record.

    Raises:
        UsageError: it raised, or the partition does not exist.
    """
    try:
        choice = function(topic, key, value, partition_count)
    except Exception as error:
        raise UsageError(
            f"the partitioner raised {type(error).__name__} for a record of topic {topic!r}, which has "
            f"{partition_count} partitions; its own error is the cause of this one; it must give a partition, or None"
        ) from error
    return in_range(choice, topic, partition_count)


def in_range(choice: object, topic: str, partition_count: int) -> int | None:
    """Return the partition that a user's function returned, if it exists.

    Raises:
        UsageError: it does not exist.
    """
    if choice is None or (type(choice) is int and 0 <= choice < partition_count):
        return choice
    raise UsageError(
        f"the partitioner chose {choice!r} for topic {topic!r}, which has partitions 0 to {partition_count - 1}; "
        "it must give one of these, or None"
    )


PartitionerName: TypeAlias = Literal[
    "default",
    "round_robin",
    "sticky",
    "consistent",
    "consistent_random",
    "murmur2",
    "murmur2_random",
    "fnv1a",
    "fnv1a_random",
]
"""The names of the setting `partitioner`."""
PARTITIONERS: Final[Mapping[PartitionerName, Partitioner]] = {
    "default": Partitioner(),
    "round_robin": Partitioner(KeyHash.NONE, every_record=True),
    "sticky": Partitioner(KeyHash.NONE),
    "consistent": Partitioner(KeyHash.CRC32, null_is_a_key=True),
    "consistent_random": Partitioner(KeyHash.CRC32, empty_is_a_key=False),
    "murmur2": Partitioner(KeyHash.MURMUR2, null_is_a_key=True),
    "murmur2_random": Partitioner(KeyHash.MURMUR2),
    "fnv1a": Partitioner(KeyHash.FNV1A, null_is_a_key=True),
    "fnv1a_random": Partitioner(KeyHash.FNV1A),
}
"""By the name of the setting: "default", "round_robin" and "sticky" (keys are ignored) are Java's, the others
librdkafka's."""
