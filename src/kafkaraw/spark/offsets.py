"""Offsets as Spark and the JVM connector write them, and where a read starts or ends. Pure.

One form everywhere, in options, in the checkpoint and in progress events: `{"topic":{"0":123,"1":456}}`, the next
offset to read of each partition. Spark compares offsets as text, so the same offsets must always give the same text:
`to_json` sorts (topics by name, partitions by number, like the JVM connector).

This module must not talk to a broker; whoever has one calls `StartPosition.resolve` with what it answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafkaraw.errors import ConfigError
from kafkaraw.records import TopicPartition

LATEST = -1
EARLIEST = -2

PartitionOffsets = dict[TopicPartition, int]
OffsetJson = dict[str, dict[str, int]]

_WORDS = {"latest": LATEST, "earliest": EARLIEST}


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetJson:
    """The offsets as a JSON object whose text is always the same for the same offsets."""
    result: OffsetJson = {}
    for topic, partition in sorted(offsets):
        result.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return result


def from_json(value: object, *, what: str) -> PartitionOffsets:
    """Read `{"topic":{"0":123}}`.

    Args:
        value: the parsed JSON.
        what: the option or file it comes from, for the message.

    Raises:
        ConfigError: it has another form.
    """
    if not isinstance(value, dict):
        raise ConfigError(f'{what}: expected an object such as {{"topic":{{"0":123}}}}, got {_short(value)}')
    offsets: PartitionOffsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"{what}: {topic!r} must map partitions to offsets, got {_short(partitions)}")
        for partition, offset in partitions.items():
            offsets[TopicPartition(topic, partition_number(partition, what=what))] = _offset(
                topic, partition, offset, what
            )
    return offsets


def partition_number(value: object, *, what: str) -> int:
    """A partition as JSON has it: a number, or a number written as text.

    Raises:
        ConfigError: it is neither, or negative.
    """
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{what}: {_short(value)} is not a partition number")
    return int(text)


def _offset(topic: str, partition: object, offset: object, what: str) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
        raise ConfigError(
            f"{what}: {topic}-{partition}: {_short(offset)} is not an offset "
            f"(a number from 0, or {LATEST} for latest, {EARLIEST} for earliest)"
        )
    return offset


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def parse_json(text: str, *, what: str) -> object:
    """Parse the JSON of an option.

    Raises:
        ConfigError: it is not JSON; the message says where.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{what}={_short(text)} is not JSON: {error.msg} at character {error.pos + 1}") from None


@dataclass(frozen=True)
class Position:
    """What `startingOffsets` or `endingOffsets` say.

    Attributes:
        option: the option's name, for messages.
        everywhere: `EARLIEST` or `LATEST` for all partitions; None when `by_partition` speaks for each.
        by_partition: offset, `EARLIEST` or `LATEST` of each partition.
    """

    option: str
    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)

    def uses(self, special: int) -> bool:
        """Whether some partition is to be found by `EARLIEST` or `LATEST`."""
        return self.everywhere == special or special in self.by_partition.values()

    def partitions_at(self, special: int, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of the partitions whose position is `EARLIEST` or `LATEST`."""
        return frozenset(tp for tp in partitions if self._wanted(tp) == special)

    def resolve(
        self,
        partitions: Iterable[TopicPartition],
        earliest: Callable[[list[TopicPartition]], PartitionOffsets],
        latest: Callable[[list[TopicPartition]], PartitionOffsets],
    ) -> PartitionOffsets:
        """Turn words into numbers, asking only for what is needed.

        Raises:
            ConfigError: the JSON does not name exactly the partitions that are read.
        """
        wanted = sorted(partitions)
        self._check_complete(wanted)
        offsets = {tp: self._wanted(tp) for tp in wanted}
        for special, look_up in ((EARLIEST, earliest), (LATEST, latest)):
            asked = [tp for tp, offset in offsets.items() if offset == special]
            if asked:
                offsets.update(look_up(asked))
        return offsets

    def _wanted(self, partition: TopicPartition) -> int:
        return self.everywhere if self.everywhere is not None else self.by_partition[partition]

    def _check_complete(self, partitions: list[TopicPartition]) -> None:
        if self.everywhere is not None:
            return
        missing = [tp for tp in partitions if tp not in self.by_partition]
        if missing:
            raise ConfigError(
                f"{self.option} leaves out {_names(missing)}: name every partition that is read, "
                f"with {LATEST} for latest and {EARLIEST} for earliest"
            )
        extra = sorted(set(self.by_partition) - set(partitions))
        if extra:
            raise ConfigError(
                f"{self.option} names {_names(extra)}, which this query does not read or which do not exist"
            )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def parse_position(option: str, text: str) -> Position:
    """Read `earliest`, `latest` or the JSON form.

    Raises:
        ConfigError: it is none of them.
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return Position(option, everywhere=_WORDS[word.lower()])
    if not word.startswith("{"):
        raise ConfigError(
            f'{option}={_short(text)}: must be "earliest", "latest" or JSON such as {{"topic":{{"0":123}}}}'
        )
    return Position(option, by_partition=from_json(parse_json(word, what=option), what=option))
