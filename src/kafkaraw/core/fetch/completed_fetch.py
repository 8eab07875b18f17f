"""What a response brought for one partition: a batch to give, or why there is none; and the buffer of such. Pure.

A broker sends whole wire batches from the one that holds the position on, up to the last stable offset, with those of
aborted transactions; brokers before KIP-74 cut the last one. `complete` makes one `Batch` of that. No record is
decoded, so damaged records are found when they are read. `FetchBuffer` keeps the batch until a call takes it. Must not
know of brokers or error codes. Start at `complete`.

Source: KIP-74, KIP-98; Kafka's CompletedFetch and FetchBuffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from kafkaraw.core.fetch.failures import where
from kafkaraw.core.fetch.requests import FetchTarget
from kafkaraw.errors import CorruptBatchError, RecordTooLargeError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages.fetch import AbortedTransaction
from kafkaraw.records import (
    Batch,
    ControlType,
    TopicPartition,
    Wire,
    batches_of,
    control_type_of,
    emptied,
    parse_header,
)

_LENGTH_PREFIX_BYTES: Final = 12


class MakeBatch(Protocol):
    """Makes the batch that the caller is given; a consumer adds its deserializers and interceptors."""

    def __call__(self, topic: str, partition: int, data: Sequence[Wire], /, *, start_offset: int) -> Batch:
        """Make one of wire batches with their headers; records before `start_offset` are not given."""


class CompletedFetch(NamedTuple):
    """What one response brought for one partition.

    Attributes:
        node_id: the broker that sent it.
        batch: the records, from the fetched offset on.
        epochs: the leader epochs in which they were written, each with its first offset.
        topic_id: of the topic that they come from.
    """

    node_id: int
    batch: Batch
    epochs: Sequence[tuple[int, int]]
    topic_id: Uuid


def complete(
    node_id: int,
    target: FetchTarget,
    records: memoryview,
    aborted: Sequence[AbortedTransaction],
    make_batch: MakeBatch,
) -> CompletedFetch | int:
    """Make a batch of what a broker sent for a partition.

    Args:
        node_id: the broker.
        target: what was asked for.
        records: what was sent, not empty.
        aborted: transactions that were aborted, as the broker lists them for a read_committed consumer.
        make_batch: makes the batch.

    Returns:
        the batch; or, if not even the first wire batch is whole, the bytes to ask for to get all of it.

    Raises:
        CorruptBatchError: a header is damaged, or the batches end before the offset that was asked for.
        RecordTooLargeError: the broker cuts the first wire batch however many bytes are asked for.
    """
    try:
        wires = batches_of(records)
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{where(target)}: {error}; seek() behind it to go on") from error
    if not wires:
        return _size_of_first(target, records)
    next_offset = wires[-1][0].next_offset
    if next_offset <= target.offset:
        raise CorruptBatchError(f"{where(target)}: the broker sent batches that end at offset {next_offset}")
    epochs = _epochs_in(wires)
    left = without_aborted(wires, aborted)
    begin = next(index for index, (header, _) in enumerate(left) if header.next_offset > target.offset)
    topic, partition = target.topic_partition
    batch = make_batch(topic, partition, left[begin:] if begin else left, start_offset=target.offset)
    return CompletedFetch(node_id, batch, epochs, target.topic_id)


def without_aborted(wires: Sequence[Wire], aborted: Sequence[AbortedTransaction]) -> Sequence[Wire]:
    """Replace the batches of aborted transactions by empty ones, so that no reader has to know of transactions.

    Args:
        wires: whole wire batches with their headers.
        aborted: the transactions that end in an abort, with the first offset of each; in any order.

    Raises:
        CorruptBatchError: a header or a marker makes no sense.
    """
    if not aborted:
        return wires
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()  # producer ids
    left: list[Wire] = []
    for header, batch in wires:
        while coming and coming[-1].first_offset <= header.last_offset:
            aborting.add(coming.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and control_type_of(batch) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            empty = memoryview(emptied(header))
            left.append((parse_header(empty), empty))
            continue
        left.append((header, batch))
    return left


def _epochs_in(wires: Iterable[Wire]) -> list[tuple[int, int]]:
    """Return the leader epochs in which batches were written, each with its first offset."""
    epochs: list[tuple[int, int]] = []
    epoch = None
    for header, _ in wires:
        if header.partition_leader_epoch != epoch:
            epoch = header.partition_leader_epoch
            epochs.append((header.base_offset, epoch))
    return epochs


def _size_of_first(target: FetchTarget, records: memoryview) -> int:
    """Return the size of the first wire batch, of which only the beginning came."""
    if len(records) < _LENGTH_PREFIX_BYTES:
        return 2 * max(_LENGTH_PREFIX_BYTES, target.size_wanted_bytes)
    size = int.from_bytes(records[8:_LENGTH_PREFIX_BYTES], "big", signed=True) + _LENGTH_PREFIX_BYTES
    if size <= target.size_wanted_bytes:
        raise RecordTooLargeError(
            f"{where(target)}: the broker sends {len(records)} of the {size} bytes of a batch, however many are asked "
            f"for; raise its limit for fetches (fetch.max.bytes), or seek() behind the batch"
        )
    return size


class FetchBuffer:
    """Completed fetches that no call has taken, at most one of each partition, in the order in which they came.

    Those of paused partitions are kept apart: they are not given, and do not keep their broker from being asked.
    """

    def __init__(self) -> None:
        self._ready: dict[TopicPartition, CompletedFetch] = {}
        self._paused: dict[TopicPartition, CompletedFetch] = {}

    def __bool__(self) -> bool:
        return bool(self._ready)

    def __contains__(self, of: object) -> bool:
        return of in self._ready or of in self._paused

    @property
    def node_ids(self) -> set[int]:
        """The brokers of which something can be taken."""
        return {fetch.node_id for fetch in self._ready.values()}

    def put(self, of: TopicPartition, fetch: CompletedFetch, *, is_paused: bool) -> None:
        """Keep a completed fetch."""
        (self._paused if is_paused else self._ready)[of] = fetch

    def take(self) -> Iterator[tuple[TopicPartition, CompletedFetch]]:
        """Give up everything but the fetches of paused partitions."""
        taken, self._ready = self._ready, {}
        return iter(taken.items())

    def drop(self, of: TopicPartition) -> None:
        """Forget what came of a partition."""
        self._ready.pop(of, None)
        self._paused.pop(of, None)

    def pause(self, of: TopicPartition) -> None:
        """Keep what came of a partition until `resume`."""
        if of in self._ready:
            self._paused[of] = self._ready.pop(of)

    def resume(self, of: TopicPartition) -> None:
        """Let what came of a partition be taken again."""
        if of in self._paused:
            self._ready[of] = self._paused.pop(of)
