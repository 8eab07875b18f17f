"""Batches of the source become batches of the target: sent, acknowledged, and reported with their offsets.

`BatchCopier` sends what was read to the partitions of the copies, limits how many bytes are in flight, and knows which
offset of the source became which one of the target. `ExactlyOnce` and `AtLeastOnce` bring the positions to the target:
in the transaction of the records, or after their acknowledgement, in one of their own. `copy_session.py` decides when.
Nothing here reads the source. Start at `BatchCopier.send`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.producer import AsyncProducer, core_of
from kafkaraw.core.producer.events import ProducerIdentity
from kafkaraw.errors import (
    CorruptBatchError,
    KafkaTimeoutError,
    TransactionAbortableError,
)
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.mirror.batches import Group, TargetLimits, Treatment, groups_of, pieces, rewritten, verbatim
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.metrics import PartitionMetrics
from kafkaraw.mirror.positions import Position
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, BatchPromise, SealedBatch, TopicPartition, WireBatch

if TYPE_CHECKING:
    from kafkaraw.client.sending.producer_core import ProducerCore

_VERBATIM = Treatment.VERBATIM  # slow to look up
LOOK_S: Final = 2.0
"""How often it is looked whether the copies still exist, while acknowledgements do not come."""
SENT_TOGETHER: Final = 16
"""The number of batches of a partition that are made before those of other partitions."""
ROOM_S: Final = 300.0
"""How long acknowledgements may fail to come; by `delivery_timeout_ms`, batches fail long before."""


@dataclass(slots=True)
class PartitionCopy:
    """A partition of the source, and its copy.

    Attributes:
        source: the partition.
        target: its copy.
        limits: what the copy's configuration says about batches.
        source_id: id of the source's topic.
        target_id: id of the copy's topic.
        settled_offset: offsets of the source before it are settled by batches that were sent.
        target_offset: the next offset of the copy, as far as is known; -1 if it is not.
        metrics: what is counted.
        joins: small batches become one; not after a refusal, which has to name its batch.
    """

    source: TopicPartition
    target: TopicPartition
    limits: TargetLimits
    source_id: Uuid
    target_id: Uuid
    settled_offset: int
    target_offset: int
    metrics: PartitionMetrics
    joins: bool


@dataclass(slots=True)
class _Sent:
    """A batch that was sent.

    Attributes:
        copy: where it is from and goes to.
        source_offsets: what it settles.
        runs: offsets of its records.
        records_count: number of its records.
        size_bytes: in flight until it is settled.
        max_timestamp: of its records, in milliseconds.
        promise: of the producer.
    """

    copy: PartitionCopy
    source_offsets: range
    runs: tuple[range, ...]
    records_count: int
    size_bytes: int
    max_timestamp: int
    promise: BatchPromise


class FailedBatch(NamedTuple):
    """Records that could not be copied.

    Attributes:
        copy: where they are from and should go to.
        offset: of the first one.
        batch_offset: of the first record of its batch.
        what: the stage and their size, for messages.
        error: why.
    """

    copy: PartitionCopy
    offset: int
    batch_offset: int
    what: str
    error: BaseException


class BatchCopier:
    """Sends batches of the source to the target.

    Args:
        producer: of the target; knows the topics.
        in_flight_max_bytes: limit of the bytes that are sent and not acknowledged; one poll may exceed it.
        now_ms: the wall clock.
        on_wait: called each `LOOK_S` while batches are waited for; an error that it raises ends the wait.

    Attributes:
        failed: what could not be copied, in order.
        sent_count: number of batches sent.
        age_ms: of the batch that was read last, when it was.
        changed: set when batches were settled, and a wait may be over.
    """

    def __init__(
        self,
        producer: AsyncProducer,
        in_flight_max_bytes: int,
        now_ms: Callable[[], int],
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.failed: list[FailedBatch] = []
        self.sent_count: int = 0
        self.age_ms: int = 0
        self.changed: asyncio.Event = asyncio.Event()
        self._core: ProducerCore = core_of(producer)
        self._in_flight_max_bytes = in_flight_max_bytes
        self._in_flight_bytes = 0
        self._now_ms = now_ms
        self._on_wait = on_wait
        self._sent: deque[_Sent] = deque()  # not taken by `take_copied`
        self._unacknowledged: deque[_Sent] = deque()  # the last ones of these
        self._awaited: list[Callable[[], bool]] = []  # conditions of the waits that are under way

    def send(self, read: Mapping[TopicPartition, Batch], copies: Mapping[TopicPartition, PartitionCopy]) -> int:
        """Send what was read; returns the number of batches, which may be none.

        A part of each partition is sent before the next part is looked at: to check 8 MB takes 50 ms or more, in which
        the target would have nothing to do at the begin of a transaction.

        Args:
            read: batches by partition of the source.
            copies: where they go; all of `read` are in it.

        Raises:
            KafkaError: the producer takes no batches.
        """
        now_ms, count = self._now_ms(), 0
        left = {
            of: groups_of(batch.wires, batch.start_offset, copies[of].limits, joins=copies[of].joins)
            for of, batch in read.items()
        }
        while left:
            sealed: list[SealedBatch] = []
            for of in list(left):
                copy = copies[of]
                try:
                    for _ in range(SENT_TOGETHER):
                        group = next(left[of], None)
                        if group is None:
                            del left[of]
                            break
                        self._seal(copy, group, read[of].start_offset, now_ms, sealed)
                except CorruptBatchError as error:
                    del left[of]
                    at = copy.settled_offset
                    self.failed.append(FailedBatch(copy, at, at, "reading", error))
            if sealed:
                count += len(sealed)
                self.sent_count += len(sealed)
                self._core.send_sealed(sealed)
        return count

    async def wait_for_room(self) -> None:
        """Wait until fewer bytes than the limit are in flight.

        Raises:
            KafkaTimeoutError: no batch was acknowledged for long.
            KafkaError: a batch could not be written.
        """
        await self._wait(lambda: self._in_flight_bytes < self._in_flight_max_bytes)

    async def wait_for(self, count: int) -> None:
        """Wait until the batches up to the `count`-th that was sent are acknowledged; raises as `wait_for_room`."""
        await self._wait(lambda: self.acknowledged_count >= count)

    def check(self) -> None:
        """Raise the error of the first batch that could not be copied."""
        if self.failed:
            raise self.failed[0].error

    async def settle(self, seconds: float) -> bool:
        """Wait until all batches have outcomes, also failed ones; returns whether they have."""

        def is_over() -> bool:
            return not self._in_flight_bytes

        self._awaited.append(is_over)
        try:
            async with asyncio.timeout(seconds):
                while not is_over():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        finally:
            self._awaited.remove(is_over)
        return True

    @property
    def acknowledged_count(self) -> int:
        """How many batches, from the first one on, are acknowledged without a gap."""
        while self._unacknowledged and self._unacknowledged[0].promise.done:
            self._unacknowledged.popleft()
        return self.sent_count - len(self._unacknowledged)

    def take_copied(self, count: int) -> list[CopiedBatch]:
        """Return what became of the batches up to the `count`-th that was sent, which are all acknowledged.

        Batches that follow each other on both sides are reported as one.
        """
        copied: list[CopiedBatch] = []
        runs: dict[TopicPartition, _CopiedRun] = {}  # of each partition the last one, which may go on
        while self._sent and self.sent_count - len(self._sent) < count:
            sent = self._sent.popleft()
            run = runs.get(sent.copy.source)
            if run is not None and run.extend(sent):
                continue
            if run is not None:
                copied += run.batches()
            runs[sent.copy.source] = _CopiedRun(sent)
        for run in runs.values():
            copied += run.batches()
        return copied

    # -- inside

    async def _wait(self, is_over: Callable[[], bool]) -> None:
        deadline = Deadline(ROOM_S)
        self._awaited.append(is_over)
        try:
            while True:
                self.check()
                if is_over():
                    return
                self.changed.clear()
                try:
                    async with asyncio.timeout(min(LOOK_S, deadline.remaining)):
                        await self.changed.wait()
                except TimeoutError:
                    self._on_wait()
                    if deadline.expired:
                        raise KafkaTimeoutError(
                            f"{self._in_flight_bytes} bytes were sent to the target {ROOM_S:g} s ago and are not "
                            f"acknowledged"
                        ) from None
        finally:
            self._awaited.remove(is_over)

    def _seal(
        self, copy: PartitionCopy, group: Group, start_offset: int, now_ms: int, sealed: list[SealedBatch]
    ) -> None:
        """Make batches to send of batches of the source, and note them."""
        treatment, wires = group
        header = wires[-1][0]
        max_timestamp = header.max_timestamp
        self.age_ms = max(0, now_ms - max_timestamp)
        copy.metrics.read(self.age_ms)
        if treatment is _VERBATIM:
            as_sent = verbatim(wires[0])
            promise = self._core.new_promise(*copy.target)
            offsets = range(header.base_offset, header.next_offset)
            self._note(copy, max_timestamp, offsets.stop, (offsets,), header.records_count, header.size, promise)
            sealed.append(WireBatch(as_sent, promise, created_ms=now_ms))
            return
        for builder, codec, runs in rewritten(copy.source, wires, start_offset, copy.limits):
            promise = self._core.new_promise(*copy.target)
            batch = SealedBatch(builder, promise, codec=codec, level=None, created_ms=now_ms)
            batch.released = True  # as batches that are sent as they are
            self._note(copy, max_timestamp, runs[-1].stop, runs, sum(map(len, runs)), batch.size_bytes, promise)
            sealed.append(batch)

    def _note(
        self,
        copy: PartitionCopy,
        max_timestamp: int,
        next_offset: int,
        runs: tuple[range, ...],
        records_count: int,
        size_bytes: int,
        promise: BatchPromise,
    ) -> None:
        offsets = range(copy.settled_offset, next_offset)
        copy.settled_offset = next_offset
        sent = _Sent(copy, offsets, runs, records_count, size_bytes, max_timestamp, promise)
        self._sent.append(sent)
        self._unacknowledged.append(sent)
        self._in_flight_bytes += size_bytes
        promise.add_callback(partial(self._settled, sent))

    def _settled(self, sent: _Sent, promise: BatchPromise) -> None:
        self._in_flight_bytes -= sent.size_bytes
        if promise.error is not None:
            promise.note_seen(range(sent.records_count))
            self.failed.append(_failed(sent, promise.error))
        else:
            latency_ms = max(0, self._now_ms() - sent.max_timestamp)
            now_s = asyncio.get_running_loop().time()
            sent.copy.metrics.acknowledged(sent.records_count, sent.size_bytes, latency_ms, now_s)
        # A wakeup of each wait costs a timer; most settled batches end none.
        if promise.error is not None or not self._awaited or any(is_over() for is_over in self._awaited):
            self.changed.set()


class _CopiedRun:
    """Acknowledged batches that follow each other in the source and in the copy.

    Args:
        first: of them.
    """

    __slots__ = ("_first", "_next_target_offset", "_source_stop", "_stop")

    def __init__(self, first: _Sent) -> None:
        self._first = first
        self._source_stop = first.source_offsets.stop
        is_one = len(first.runs) == 1 and first.promise.parts is None and first.promise.base_offset >= 0
        self._stop = first.runs[0].stop if is_one else -1  # of the offsets in the source; -1 does not go on
        self._next_target_offset = first.promise.base_offset + first.records_count

    def extend(self, sent: _Sent) -> bool:
        """Add the next batch of the partition; returns False if it does not follow, or is not a whole one."""
        runs, promise = sent.runs, sent.promise
        if (
            runs[0].start != self._stop
            or promise.base_offset != self._next_target_offset
            or promise.parts is not None
            or len(runs) > 1
            or sent.copy is not self._first.copy
        ):
            return False
        self._source_stop, self._stop = sent.source_offsets.stop, runs[0].stop
        self._next_target_offset += sent.records_count
        return True

    def batches(self) -> Iterator[CopiedBatch]:
        """Yield the mapping; several parts if the producer has divided the batch. Notes the offset behind it."""
        first = self._first
        copy, promise = first.copy, first.promise
        offsets = range(first.source_offsets.start, self._source_stop)
        if promise.parts is not None:
            yield from _parts(first)
            return
        if promise.base_offset >= 0:
            copy.target_offset = self._next_target_offset
        runs = first.runs if self._stop < 0 else (range(first.runs[0].start, self._stop),)
        yield CopiedBatch(copy.source, copy.target, offsets, runs, promise.base_offset, copy.target_id)


def _parts(sent: _Sent) -> Iterator[CopiedBatch]:
    """Return the mapping of a batch that the producer has divided, one for each part."""
    copy, left, count, begin = sent.copy, sent.runs, sent.records_count, sent.source_offsets.start
    for promise, _, here in sent.promise.pieces_of(0, count):  # each is a whole part
        part, left = pieces(left, 0, here), pieces(left, here, count)
        end = part[-1].stop if left else sent.source_offsets.stop
        if promise.base_offset >= 0:
            copy.target_offset = promise.base_offset + here
        yield CopiedBatch(copy.source, copy.target, range(begin, end), part, promise.base_offset, copy.target_id)
        begin = end


def _failed(sent: _Sent, error: BaseException) -> FailedBatch:
    """Return which records of a batch have failed; only a part of them if the producer has divided it."""
    left, first, size = sent.runs, sent.runs[0].start, f"{sent.size_bytes:,} bytes"
    for promise, _, here in sent.promise.pieces_of(0, sum(map(len, left))):
        part, left = pieces(left, 0, here), pieces(left, here, sum(map(len, left)))
        if promise.error is not None:
            records = f"{here:,} record{'s' * (here != 1)}" + (f", {size}" if part == sent.runs else "")
            return FailedBatch(sent.copy, part[0].start, first, f"writing {records} of", promise.error)
    return FailedBatch(sent.copy, first, first, f"writing {size} of", error)


# -- positions


class Commits(Protocol):
    """How positions reach the target.

    Attributes:
        overlaps: batches may be sent while a commit is under way.
    """

    overlaps: bool

    async def open(self) -> None:
        """Prepare; positions that were committed before are final from then on."""

    async def settle(self, copy: TopicPartition) -> None:
        """Have the coordinator of the group answer from all that earlier processes have committed; see `settle_group`.

        Args:
            copy: any partition of a copy; nothing is committed for it.
        """

    async def begin(self) -> None:
        """Do what has to be done before batches are sent."""

    async def commit(
        self, positions: Mapping[TopicPartition, Position], count: int, check: Callable[[], None] = lambda: None
    ) -> None:
        """Commit positions behind the batches that were sent.

        Args:
            positions: by partition of the copy.
            count: how many batches are before them.
            check: called when these are acknowledged; if it raises, positions are not committed.
        """

    async def note(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions of partitions that are not copied now, if the target takes them; nothing is in flight.

        Args:
            positions: by partition of the copy.
        """


class ExactlyOnce:
    """Positions and records are in one transaction.

    Args:
        copier: knows which batches are acknowledged.
        producer: with the flow's transactional id.
        group_id: has the positions.
        identity: of the producer, if another process has fenced earlier ones; None fences them here.
    """

    overlaps: bool = False

    def __init__(
        self, copier: BatchCopier, producer: AsyncProducer, group_id: str, identity: ProducerIdentity | None = None
    ) -> None:
        self._copier = copier
        self._producer = producer
        self._group_id = group_id
        self._identity = identity
        self._is_open = False

    async def open(self) -> None:
        """Fence an earlier process of the flow, and end its transaction."""
        await _take_over(self._producer, self._identity)

    async def settle(self, copy: TopicPartition) -> None:
        """Abort a transaction with an offset of the group."""
        await settle_group(self._producer, self._group_id, copy)

    async def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self._is_open:
            await self._producer.begin_transaction()
            self._is_open = True

    async def commit(
        self, positions: Mapping[TopicPartition, Position], count: int, check: Callable[[], None] = lambda: None
    ) -> None:
        """Commit the transaction, when all its batches are acknowledged."""
        await self.begin()
        await together(  # a round trip, while batches are in flight
            self._producer.send_offsets_to_transaction(_offsets(positions), self._group_id),
            self._copier.wait_for(count),
        )
        check()
        await self._producer.commit_transaction()
        self._is_open = False

    async def note(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions in a transaction of their own: only the process that owns the flow may."""
        if not self._is_open:
            with suppress(TransactionAbortableError):
                await _commit_alone(self._producer, positions, self._group_id)


class AtLeastOnce:
    """Positions are committed once the records before them are acknowledged, in a transaction of their own.

    Another producer sends the records, outside of transactions. The transaction is for the producer epoch: once a later
    process of the flow has taken over the transactional id, no position of an earlier one counts, and nothing that the
    earlier one copies is used to translate offsets.

    Args:
        copier: knows which records are acknowledged.
        owner: a producer with the flow's transactional id, which sends no records.
        group_id: has the positions.
        identity: of the owner, if another process has fenced earlier ones; None fences them here.
    """

    overlaps: bool = True

    def __init__(
        self, copier: BatchCopier, owner: AsyncProducer, group_id: str, identity: ProducerIdentity | None = None
    ) -> None:
        self._copier = copier
        self._owner = owner
        self._group_id = group_id
        self._identity = identity
        self._lock = asyncio.Lock()  # positions may be noted during a commit

    async def open(self) -> None:
        """Fence an earlier process of the flow."""
        await _take_over(self._owner, self._identity)

    async def settle(self, copy: TopicPartition) -> None:
        """Abort a transaction with an offset of the group."""
        await settle_group(self._owner, self._group_id, copy)

    async def begin(self) -> None:
        """Nothing has to be begun."""

    async def commit(
        self, positions: Mapping[TopicPartition, Position], count: int, check: Callable[[], None] = lambda: None
    ) -> None:
        """Commit positions of batches that were sent, when these are acknowledged."""
        await self._copier.wait_for(count)
        check()
        async with self._lock:
            await _commit_alone(self._owner, positions, self._group_id)

    async def note(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions."""
        async with self._lock:
            with suppress(TransactionAbortableError):
                await _commit_alone(self._owner, positions, self._group_id)


async def _take_over(producer: AsyncProducer, identity: ProducerIdentity | None) -> None:
    """Fence an earlier process, and end its transaction; with an identity, another process has done so."""
    if identity is None:
        await producer.init_transactions()
    else:
        core_of(producer).transactions.continue_as(identity)


async def _commit_alone(producer: AsyncProducer, positions: Mapping[TopicPartition, Position], group_id: str) -> None:
    """Commit positions in a transaction that has nothing else."""
    await producer.begin_transaction()
    try:
        await producer.send_offsets_to_transaction(_offsets(positions), group_id)
        await producer.commit_transaction()
    except TransactionAbortableError:
        await producer.abort_transaction()
        raise


async def settle_group(producer: AsyncProducer, group_id: str, of: TopicPartition) -> None:
    """Make the committed offsets of a group final and readable, after `init_transactions` and before they are read.

    A read of committed offsets is answered by one broker from its memory. If another one has become the coordinator and
    this one does not know it yet, its answer is an older position, and records would be copied twice. If offsets have
    arrived behind the end of their transaction, it answers UNSTABLE_OFFSET_COMMIT for ever. So this makes a write
    first: an offset in a transaction that is aborted. Only the present coordinator can acknowledge it, since all
    replicas in sync must have it. The abort also ends what is open of the producer id in the coordinator's partition.

    Args:
        producer: with the transactional id of the process; no transaction is open.
        group_id: the group.
        of: a partition that exists.

    Raises:
        ProducerFencedError: another process has taken over.
        KafkaError: a coordinator does not answer.
    """
    await producer.begin_transaction()
    with suppress(TransactionAbortableError):  # such as a missing permission, which the next read reports
        await producer.send_offsets_to_transaction({of: 0}, group_id)
    await producer.abort_transaction()


def _offsets(positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        target: OffsetAndMetadata(position.offset, position.metadata, position.leader_epoch)
        for target, position in positions.items()
    }


async def together(*work: Awaitable[Any]) -> list[Any]:
    """Wait for all; after the first error the others are cancelled, and it is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
