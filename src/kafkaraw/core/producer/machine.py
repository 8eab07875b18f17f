"""The producer's decisions about sealed batches: when to send them to which broker, and when they succeed or fail.

Pure: `receive` takes events, `actions` returns what to do, `deadline_ms` returns when to call `tick`. The machine uses
no records, sockets or clocks; times are milliseconds of one monotonic clock. `batches.py` keeps the order of a
partition's batches, and explains it. The asyncio driver is `kafkaraw.client.sending.sender`.

Guarantees. With idempotence, every record is written at most once, in the order of sending, within its delivery
timeout. Without idempotence, a retried batch may be written twice, and may be written after later batches that were in
flight together with it; never after batches that were sent later than these.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from kafkaraw.core.producer.batches import (
    EPOCH_MAX,
    IncompleteBatches,
    PartitionQueue,
    PartitionState,
    ProducerBatch,
    Renumbering,
    Requests,
)
from kafkaraw.core.producer.events import (
    NO_IDENTITY,
    Abandoned,
    Action,
    AddPartitions,
    Answered,
    BatchesSealed,
    BatchSplit,
    Event,
    InitProducerId,
    Leaders,
    MetadataRefreshed,
    PartitionOutcome,
    PartitionsAdded,
    ProducerIdentity,
    ProducerIdFailed,
    ProducerIdReceived,
    RefreshMetadata,
    RequestLost,
    TopicsIdle,
    TransactionAborts,
    TransactionBegun,
    TransactionEnded,
    Unacknowledged,
)
from kafkaraw.core.producer.failures import HINTS, MAYBE_WRITTEN, Case, Remedy, Verdict, remedy_for, verdict_on
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import SealedBatch, TopicPartition

log: logging.Logger = logging.getLogger(__name__)

NO_ANSWER: Final = PartitionOutcome(ErrorCode.NETWORK_EXCEPTION, message="the response has no entry for this partition")
_READY: Final = PartitionState.READY  # members of an enum are slow to look up
_DRAINING: Final = PartitionState.DRAINING
RENUMBERING: Final = {Remedy.NEXT_EPOCH: Renumbering.NEXT_EPOCH, Remedy.SAME_EPOCH: Renumbering.SAME_EPOCH}


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """The settings that bear on sealed batches; names and units as in `ProducerConfig`."""

    idempotent: bool = True
    transactional: bool = False
    in_flight_max: int = 5
    request_size_max: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    retries: int = 2_147_483_647


@dataclass(slots=True)
class _PendingRequest:
    """Something that is asked for until it succeeds, with a back-off between the attempts."""

    under_way: bool = False
    attempts: int = 0
    next_ms: int = 0


def _split_batch(batch: SealedBatch) -> Sequence[SealedBatch]:
    from kafkaraw.records import split_batch  # few batches are ever split

    return split_batch(batch)


class ProducerMachine:
    """Decides about the sealed batches of one producer, over all partitions."""

    def __init__(
        self,
        limits: ProducerLimits,
        leaders: Leaders,
        backoff_ms: Callable[[int], int],
        split: Callable[[SealedBatch], Sequence[SealedBatch]] | None = None,
    ) -> None:
        """Start with no batches and, with idempotence, no producer id.

        Args:
            limits: the settings.
            leaders: looked up at each sending.
            backoff_ms: how long to wait after the n-th failure in a row (from 0).
            split: makes smaller batches of one that holds several records; None for `records.split_batch`.
        """
        self._limits = limits
        self._leaders = leaders
        self._backoff_ms = backoff_ms
        self._split = split or _split_batch
        self._identity = None if limits.idempotent else NO_IDENTITY
        self._partitions: dict[TopicPartition, PartitionQueue] = {}
        self._sendable: dict[TopicPartition, PartitionQueue] = {}
        self._backing_off: dict[TopicPartition, PartitionQueue] = {}
        self._incomplete = IncompleteBatches(limits.delivery_timeout_ms, self._do)
        self._requests = Requests(limits.in_flight_max)
        self._blocked_since: dict[int, int] = {}
        self._id_request = _PendingRequest()
        self._refreshing = _PendingRequest()
        self._stale: set[TopicPartition] = set()  # wait for a metadata refresh; others of their topics do not
        self._refreshed_topics: frozenset[str] = frozenset()
        self._last_error: KafkaError | None = None
        self._part_of_transaction: set[TopicPartition] = set()
        self._adding: frozenset[TopicPartition] = frozenset()
        self._adds_partitions = limits.transactional
        self._reject_with: Callable[[Unacknowledged], KafkaError] | None = None
        self._actions: list[Action] = []

    # ---- the four verbs

    def receive(self, event: Event, now_ms: int) -> None:
        """Process an event."""
        match event:
            case Answered():
                self._on_answer(event, now_ms)
            case BatchesSealed():
                self._on_sealed(event, now_ms)
            case RequestLost():
                self._on_lost(event, now_ms)
            case ProducerIdReceived():
                self._on_identity(event)
            case ProducerIdFailed():
                self._on_identity_refused(event, now_ms)
            case MetadataRefreshed():
                self._on_refreshed(event, now_ms)
            case TopicsIdle(topics):
                self._on_topics_idle(topics)
            case Abandoned():
                self._on_abandoned(event)
            case TransactionBegun(implicit):
                self._adds_partitions = not implicit
            case PartitionsAdded():
                self._on_partitions_added(event)
            case TransactionAborts():
                self._on_transaction_aborts(event)
            case TransactionEnded(identity):
                self._on_transaction_ended(identity)
        self._dispatch(now_ms)

    def actions(self) -> list[Action]:
        """Return what to do now, in this order; each action is returned once."""
        actions, self._actions = self._actions, []
        return actions

    def deadline_ms(self) -> int | None:
        """Return when to call `tick` at the latest; None while only an event can cause an action."""
        expires_ms = self._incomplete.expires_ms
        if not self._backing_off and not self._stale and self._identity is not None:  # all is well
            return expires_ms
        times = [queue.resume_ms for queue in self._backing_off.values()]
        if expires_ms is not None:
            times.append(expires_ms)
        if self._wants_identity() and not self._id_request.under_way:
            times.append(self._id_request.next_ms)
        if self._stale and not self._refreshing.under_way:
            times.append(self._refreshing.next_ms)
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Fail the batches whose delivery timeout has passed, and retry those whose backoff has ended."""
        self._incomplete.expire(now_ms, self._last_error)
        for topic_partition, queue in list(self._backing_off.items()):
            if queue.resume_ms <= now_ms:
                del self._backing_off[topic_partition]
                queue.resume()
                if queue.waiting:
                    self._sendable[topic_partition] = queue
        self._dispatch(now_ms)

    # ---- questions

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in flight, and no partition is being made part of a transaction."""
        return self._incomplete.expires_ms is None and not self._requests and not self._adding

    @property
    def last_error(self) -> KafkaError | None:
        """The last failure that was not about a single batch: what to look at when nothing moves."""
        return self._last_error

    def unsettled(self) -> list[SealedBatch]:
        """Return the batches without an outcome, oldest first."""
        return self._incomplete.unsettled_batches()

    def unsettled_reports(self) -> list[tuple[SealedBatch, Unacknowledged]]:
        """The same, each with what there is to report about it."""
        return [(batch.sealed, batch.report()) for batch in self._incomplete.unsettled()]

    def unacknowledged(self) -> list[Unacknowledged]:
        """Return the records that are neither acknowledged nor failed, one entry per partition."""
        return self._incomplete.report()

    def waiting(self) -> dict[TopicPartition, int]:
        """How many batches wait to be sent, by partition; only where there are any."""
        return dict(Counter(batch.topic_partition for batch in self._incomplete.queued()))

    def busy_topics(self) -> set[str]:
        """The topics of which a batch is queued, in flight or coming back."""
        return {of.topic for of, queue in self._partitions.items() if not queue.is_idle}

    def blocked_nodes(self, since_ms: int) -> set[int]:
        """The nodes for which something has waited since then, because as much as may be was in flight to them."""
        return {node_id for node_id, held_up_ms in self._blocked_since.items() if held_up_ms <= since_ms}

    # ---- events

    def _on_sealed(self, event: BatchesSealed, now_ms: int) -> None:
        for sealed, age_ms in zip(event.batches, event.ages_ms, strict=True):
            topic_partition = TopicPartition(sealed.topic, sealed.partition)
            queue = self._partitions.get(topic_partition)
            if queue is None:
                queue = self._partitions[topic_partition] = PartitionQueue(topic_partition)
            batch = queue.append(sealed, now_ms - age_ms + self._limits.delivery_timeout_ms)
            self._incomplete.add(batch)
            if self._reject_with is not None:
                self._incomplete.fail(batch, self._reject_with(batch.report()))
            elif queue.state is _READY:
                self._sendable[topic_partition] = queue

    def _on_identity(self, event: ProducerIdReceived) -> None:
        self._identity = event.identity
        self._id_request = _PendingRequest()

    def _on_identity_refused(self, event: ProducerIdFailed, now_ms: int) -> None:
        self._last_error = event.error
        self._id_request.under_way = False
        self._id_request.next_ms = now_ms + self._backoff_ms(self._id_request.attempts)
        self._id_request.attempts += 1
        if not event.retriable:
            for batch in self._incomplete.queued():
                self._incomplete.fail(batch, event.error)

    def _on_refreshed(self, event: MetadataRefreshed, now_ms: int) -> None:
        self._last_error = event.error or self._last_error
        self._stale = {one for one in self._stale if one.topic not in self._refreshed_topics}
        self._refreshed_topics = frozenset()
        self._refreshing.under_way = False
        self._refreshing.next_ms = now_ms + self._backoff_ms(self._refreshing.attempts)
        self._refreshing.attempts += 1
        if event.refused:
            for batch in self._incomplete.queued():
                topic_error = event.refused.get(batch.topic_partition.topic)
                if topic_error is not None:
                    self._incomplete.fail(batch, topic_error)

    def _on_answer(self, event: Answered, now_ms: int) -> None:
        outcomes = event.outcomes
        for queue, batch in self._complete(event.request_id):
            self._conclude(queue, batch, outcomes.get(batch.topic_partition, NO_ANSWER))
            if queue.state is _DRAINING:
                self._try_end_drain(queue, now_ms)

    def _on_lost(self, event: RequestLost, now_ms: int) -> None:
        self._last_error = event.error
        for queue, batch in self._complete(event.request_id):
            batch.maybe_written |= event.maybe_written
            self._stale.add(batch.topic_partition)
            self._retry(queue, batch, event.error, retriable=event.retriable)
            self._try_end_drain(queue, now_ms)

    def _on_topics_idle(self, topics: frozenset[str]) -> None:
        """Forget the partitions of these topics, where that is safe.

        A partition that comes back begins at sequence 0. Without idempotence nothing is numbered. An idempotent
        producer gives partitions that are new to it a higher epoch than any that was forgotten (as Java's client bumps
        the epoch locally, KIP-360). The epochs of a transactional producer are the coordinator's: there, a partition
        keeps its numbers unless they are those with which it would begin again.
        """
        for topic_partition, queue in list(self._partitions.items()):
            if topic_partition.topic not in topics or not queue.is_idle:
                continue
            identity = queue.identity
            if self._limits.transactional:
                is_fresh = identity is None or (identity == self._identity and queue.next_sequence == 0)
                if not is_fresh or topic_partition in self._part_of_transaction:
                    continue
            elif identity not in (None, NO_IDENTITY):
                self._begin_above(identity)
            del self._partitions[topic_partition]
            self._sendable.pop(topic_partition, None)

    def _begin_above(self, identity: ProducerIdentity) -> None:
        """Have partitions that are new from here on begin in a higher epoch than this one."""
        now = self._identity
        if now is None or now.producer_id != identity.producer_id or now.epoch > identity.epoch:
            return
        self._identity = None if identity.epoch >= EPOCH_MAX else ProducerIdentity(now.producer_id, identity.epoch + 1)

    def _on_abandoned(self, event: Abandoned) -> None:
        for batch in self._incomplete.unsettled():
            self._incomplete.fail(batch, event.make_error(batch.report()))

    def _on_partitions_added(self, event: PartitionsAdded) -> None:
        self._adding = frozenset()
        if event.error is None:
            self._part_of_transaction |= event.partitions
            return
        for batch in self._incomplete.unsettled():
            if batch.topic_partition in event.partitions:
                self._incomplete.fail(batch, event.error)

    def _on_transaction_aborts(self, event: TransactionAborts) -> None:
        self._reject_with = event.make_error
        for batch in self._incomplete.queued():
            self._incomplete.fail(batch, event.make_error(batch.report()))

    def _on_transaction_ended(self, identity: ProducerIdentity | None) -> None:
        self._part_of_transaction.clear()
        self._reject_with = None
        if identity is not None:
            self._identity = identity
            for queue in self._partitions.values():
                queue.adopt(identity)

    # ---- what becomes of a batch that was in flight

    def _complete(self, request_id: int) -> list[tuple[PartitionQueue, ProducerBatch]]:
        batches = self._requests.complete(request_id)
        partitions = self._partitions
        landed = [(partitions[batch.topic_partition], batch) for batch in batches]
        for queue, batch in landed:
            queue.complete(batch)
        return landed

    def _conclude(self, queue: PartitionQueue, batch: ProducerBatch, outcome: PartitionOutcome) -> None:
        verdict = verdict_on(outcome.error_code)
        if verdict is Verdict.WRITTEN:
            base_offset = outcome.base_offset
            queue.note_written(base_offset + batch.sealed.records_count - 1 if base_offset >= 0 else -1)
            self._refreshing.attempts = 0
            self._last_error = None
            self._incomplete.acknowledge(batch, outcome)
            return
        batch.maybe_written |= outcome.error_code in MAYBE_WRITTEN
        first = queue.is_first(batch)
        case = Case(batch, outcome, first, queue.has_hole, queue.last_acked_offset, self._limits.transactional)
        remedy = remedy_for(verdict, case)
        error = _error_of(batch, outcome)
        if remedy is Remedy.FAIL:
            self._incomplete.fail(batch, error)
            queue.forget(batch)
        elif remedy is Remedy.SPLIT and not batch.settled:
            self._send_back_split(queue, batch, error)
        else:
            if remedy is Remedy.RETRY_AFTER_REFRESH and not outcome.new_leader_known:
                self._stale.add(batch.topic_partition)
            at_once = outcome.new_leader_known or (verdict is Verdict.OUT_OF_SEQUENCE and not first)
            self._retry(queue, batch, error, RENUMBERING.get(remedy, Renumbering.KEEP), at_once=at_once)

    def _send_back_split(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        parts = queue.split_and_reenqueue(batch, self._split(batch.sealed))
        log.info(
            "batch split into %d batches, which are sent again (a lower batch_size avoids that): %s", len(parts), error
        )
        for part in parts:
            part.last_error = error
        self._incomplete.replace(batch, parts)
        self._do(BatchSplit(batch.sealed))
        self._sendable.pop(queue.topic_partition, None)

    def _retry(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: KafkaError,
        renumbering: Renumbering = Renumbering.KEEP,
        *,
        at_once: bool = False,
        retriable: bool = True,
    ) -> None:
        batch.last_error = error
        if batch.settled or not retriable or batch.attempts > self._limits.retries:
            self._incomplete.fail(batch, error)
        queue.reenqueue(batch, renumbering, at_once=at_once)
        self._sendable.pop(queue.topic_partition, None)

    def _try_end_drain(self, queue: PartitionQueue, now_ms: int) -> None:
        """After a landing: if that was the last one to wait for, back off (or not), then send again."""
        if not queue.try_end_drain(now_ms, self._backoff_ms):
            return
        self._backing_off[queue.topic_partition] = queue
        if queue.identity is None:  # its epochs are used up
            self._identity = None

    # ---- sending

    def _wants_identity(self) -> bool:
        return self._identity is None and bool(self._sendable)

    def _dispatch(self, now_ms: int) -> None:
        if self._sendable:
            self._drop_settled_heads()
            self._add_partitions()
            self._init_identity(now_ms)
            self._make_requests(now_ms)
        if self._stale and not self._refreshing.under_way and self._refreshing.next_ms <= now_ms:
            self._refreshing.under_way = True
            self._refreshed_topics = frozenset(one.topic for one in self._stale)
            self._do(RefreshMetadata(self._refreshed_topics))

    def _make_requests(self, now_ms: int) -> None:
        while self._sendable and self._identity is not None:
            requests = self._next_requests(self._identity, now_ms)
            if not requests:
                return
            for node_id, batches in requests.items():
                self._do(self._requests.make(node_id, batches))

    def _drop_settled_heads(self) -> None:
        for topic_partition, queue in list(self._sendable.items()):
            if queue.head() is None:
                del self._sendable[topic_partition]

    def _add_partitions(self) -> None:
        if self._adds_partitions and not self._adding:
            self._adding = frozenset(self._sendable.keys() - self._part_of_transaction)
            if self._adding:
                self._do(AddPartitions(self._adding))

    def _init_identity(self, now_ms: int) -> None:
        if self._wants_identity() and not self._id_request.under_way and self._id_request.next_ms <= now_ms:
            self._id_request.under_way = True
            self._do(InitProducerId())

    def _next_requests(self, identity: ProducerIdentity, now_ms: int) -> dict[int, list[ProducerBatch]]:
        """One more request for each node that may get one; a batch per partition, those that waited longest first."""
        requests: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        for queue in list(self._sendable.values()):
            if self._adds_partitions and queue.topic_partition not in self._part_of_transaction:
                continue
            head = queue.head()
            if head is None:
                continue
            node_id = self._leader_of(queue.topic_partition)
            if node_id is None or not queue.may_send_to(node_id):
                continue
            if not self._requests.can_send_more(node_id):
                self._blocked_since.setdefault(node_id, now_ms)
                continue
            self._blocked_since.pop(node_id, None)
            size = sizes.get(node_id, 0) + head.sealed.size_bytes
            if node_id in requests and size > self._limits.request_size_max:
                continue
            sizes[node_id] = size
            requests.setdefault(node_id, []).append(queue.take(identity, node_id))
            del self._sendable[queue.topic_partition]
            if queue.waiting and queue.head() is not None:
                self._sendable[queue.topic_partition] = queue  # at the end: the others come first
        return requests

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        if topic_partition in self._stale:
            return None
        node_id = self._leaders.leader_of(topic_partition)
        if node_id is None:
            self._stale.add(topic_partition)
        return node_id

    def _do(self, action: Action) -> None:
        self._actions.append(action)


def _error_of(batch: ProducerBatch, outcome: PartitionOutcome) -> KafkaError:
    what = str(batch.report())
    if verdict_on(outcome.error_code) is Verdict.TOO_LARGE:
        what = f"{what}, {batch.sealed.size_bytes} bytes uncompressed"
    parts = (what, outcome.message, HINTS.get(outcome.error_code))
    text = "; ".join(part for part in parts if part)
    return error_for(outcome.error_code, text, resource=batch.topic_partition.topic, operation="WRITE")
