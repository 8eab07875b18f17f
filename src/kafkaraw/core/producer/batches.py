"""The batches of a producer, from sealed to settled: their order and sequence numbers, and the requests with them.

Theory of operation. Batches are sent in the order in which they were sealed, up to five in flight (Kafka's brokers
remember five). When a batch has to be retried, the partition is drained: no batch is sent until all batches in flight
have a response. Then the batches to retry are put in front of the queue in their old order, with their old sequence
numbers, and after a backoff the partition continues. So a later batch never overtakes an earlier one, regardless of the
order of the responses. If the broker had written a retried batch already, it recognises the sequence numbers and drops
the duplicate.

A failed batch leaves a hole in the sequence numbers if the broker never wrote it. The broker then answers the next
batch with OUT_OF_ORDER_SEQUENCE_NUMBER. It refuses all batches behind a hole, so none of them is written, and the
partition may safely start again at sequence 0 under its next epoch. (An epoch belongs to one partition of one producer
id, because a broker checks both per partition; Java's producer bumps it locally as well, KIP-360.) The hole must be
certain, though: a broker that does not know yet that it is no longer the leader answers from an old log. The hole is
certain when some batch with numbers of this epoch can never have been written; the refused batch may be that batch. A
batch that may have been written keeps its numbers until then.

Retried batches are sent alone; newer batches wait until all of them are settled. A broker recognises a batch that was
written without the client's knowledge only while it is among the last five: newer batches would push it out. Without
idempotence, brokers do not refuse batches that come too early; then only batches that were in flight together when the
first of them failed can be reordered.

If a batch is too large for the broker, it is split, and its parts share its sequence numbers (batch split).

A partition is forgotten, with its sequence numbers, when its topic was idle for `metadata_max_idle_ms`. If it is used
again, it cannot continue with them, and a broker that remembers the producer refuses sequence 0 in the same epoch. So
the partition starts again as after a hole: at sequence 0 of an epoch above the forgotten one
(`ProducerMachine._on_topics_idle`). That is safe because none of its batches is queued or in flight: no batch with old
numbers will be sent again.

The outcome of each batch is reported once, and its memory is released once, when no code reads it any more: a batch
that fails while it is in flight keeps its memory until its request has ended (`IncompleteBatches`).

`Requests` has the Produce requests in flight, `produce_request` makes one of batches, and `outcomes_of` translates its
response. A batch's bytes are a memoryview from the builder to the socket: nothing here copies them.

Start at `PartitionQueue` and `produce_request`. `PartitionQueue` must not depend on nodes or requests, and nothing here
decides: `machine.py` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum
from typing import Final

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.producer.events import (
    NO_IDENTITY,
    Acknowledge,
    Action,
    Fail,
    NumberedBatch,
    PartitionOutcome,
    ProducerIdentity,
    Release,
    SendProduce,
    Unacknowledged,
    summarise,
)
from kafkaraw.errors import DeliveryTimeoutError, KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kafkaraw.protocol.produce_frames import Produce, Written
from kafkaraw.records import SealedBatch, TopicPartition

SEQUENCE_MASK = 0x7FFFFFFF
"""Sequences count records and wrap from 2147483647 to 0."""
EPOCH_MAX = 0x7FFF
IN_FLIGHT_MAX = 5
"""Of one partition: as many batches as a broker remembers of a producer (Kafka's ProducerStateEntry)."""


class Renumbering(IntEnum):
    """How batches that go out again are numbered; the strongest that was asked for while draining counts."""

    KEEP = 0
    """As before: the broker must be able to recognise them."""
    SAME_EPOCH = 1
    """From 0, under the same epoch: the broker has forgotten this producer, and a coordinator gives the epochs."""
    NEXT_EPOCH = 2
    """From 0, under the next epoch: the broker remembers something else."""


class PartitionState(Enum):
    """What a partition is waiting for."""

    READY = "nothing: it may send"
    DRAINING = "answers to everything in flight"
    BACKING_OFF = "the time to send again"


class Change(Enum):
    """What can happen to a partition's state."""

    REENQUEUED = "a batch has to be sent again"
    DRAINED = "nothing is in flight any more"
    RESUMED = "the back-off is over"


TRANSITIONS = {
    (PartitionState.READY, Change.REENQUEUED): PartitionState.DRAINING,
    (PartitionState.DRAINING, Change.REENQUEUED): PartitionState.DRAINING,
    (PartitionState.DRAINING, Change.DRAINED): PartitionState.BACKING_OFF,
    (PartitionState.BACKING_OFF, Change.RESUMED): PartitionState.READY,
}


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A sealed batch with its sequence numbers, its attempts and its outcome. Source: Kafka's ProducerBatch.

    `first_index` counts the records that this producer sent to the partition before. `settled` is set when the outcome
    was reported; after a delivery timeout the batch may still be in flight then, so its memory is still read.
    `is_reenqueued` is set when it has to be settled before any newer batch is sent; `is_split` when it
    comes from a batch split.
    """

    sealed: SealedBatch
    topic_partition: TopicPartition
    first_index: int
    expires_ms: int
    identity: ProducerIdentity | None = None
    sequence: int = -1
    attempts: int = 0
    in_flight: bool = False
    is_reenqueued: bool = False
    is_split: bool = False
    maybe_written: bool = False
    settled: bool = False
    last_error: KafkaError | None = None

    def report(self) -> Unacknowledged:
        """This batch as an entry of the report of what is not acknowledged."""
        last_index = self.first_index + self.sealed.records_count - 1
        maybe_written = self.maybe_written or self.in_flight
        return Unacknowledged(
            *self.topic_partition, self.sealed.records_count, self.first_index, last_index, maybe_written
        )


class PartitionQueue:
    """The batches of one partition in order, and the numbers that the next ones get."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.state: PartitionState = PartitionState.READY
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.reenqueued: list[ProducerBatch] = []
        self.identity: ProducerIdentity | None = None
        self.next_sequence: int = 0
        self.records_count: int = 0
        self.failures: int = 0
        self.resume_ms: int = 0
        self.last_acked_offset: int = -1
        self.has_hole: bool = False
        self._node_id = -1
        self._proven = False
        self._renumbering = Renumbering.KEEP
        self._pauses = False

    def append(self, sealed: SealedBatch, expires_ms: int) -> ProducerBatch:
        """Queue a new batch behind all others."""
        batch = ProducerBatch(sealed, self.topic_partition, self.records_count, expires_ms)
        self.records_count += sealed.records_count
        self.waiting.append(batch)
        return batch

    def head(self) -> ProducerBatch | None:
        """Return the batch to send next; skips batches that have failed meanwhile."""
        while self.waiting and self.waiting[0].settled:
            self.forget(self.waiting.popleft())
        return self.waiting[0] if self.waiting else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, in flight or coming back."""
        return self.state is PartitionState.READY and not self.in_flight and self.head() is None

    def may_send_to(self, node_id: int) -> bool:
        """Whether one more batch may be in flight, to this node."""
        if not self.in_flight:
            return True
        if self.in_flight[0].is_reenqueued or self.waiting[0].is_reenqueued:
            return False
        return self._proven and node_id == self._node_id and len(self.in_flight) < IN_FLIGHT_MAX

    def take(self, identity: ProducerIdentity, node_id: int) -> ProducerBatch:
        """Take the head out to be sent to a node, numbered; a batch that was sent before keeps its numbers.

        Args:
            identity: the producer's; the partition adopts it when it has none, and keeps it from then on.
            node_id: the leader.
        """
        self._node_id = node_id
        batch = self.waiting.popleft()
        if self.identity is None:
            self.identity, self.next_sequence = identity, 0
        if batch.identity is None:
            batch.identity = self.identity
            if self.identity != NO_IDENTITY:
                batch.sequence = self.next_sequence
                self.next_sequence = (self.next_sequence + batch.sealed.records_count) & SEQUENCE_MASK
        batch.attempts += 1
        batch.in_flight = True
        self.in_flight.append(batch)
        return batch

    def adopt(self, identity: ProducerIdentity) -> None:
        """Number what comes from here on by another identity, from sequence 0; nothing may be in flight."""
        assert not self.in_flight
        self.identity, self.next_sequence = identity, 0
        self._proven = self.has_hole = False

    def forget(self, batch: ProducerBatch) -> None:
        """Note that a batch has failed and is not in flight any more: its numbers may be a hole now."""
        self.has_hole |= batch.sequence >= 0 and not batch.maybe_written

    def complete(self, batch: ProducerBatch) -> None:
        """Note that a batch is no longer in flight."""
        batch.in_flight = False
        self.in_flight.remove(batch)

    def note_written(self, last_offset: int) -> None:
        """A batch was acknowledged, up to this offset (or -1): the leader knows this producer now."""
        self.failures = 0
        if last_offset > self.last_acked_offset:
            self.last_acked_offset = last_offset
        self._proven = True

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch is still unsettled with the broker, in flight or sent back."""
        earlier = batch.first_index
        return all(other.first_index >= earlier for other in (*self.in_flight, *self.reenqueued))

    def reenqueue(
        self, batch: ProducerBatch, renumbering: Renumbering = Renumbering.KEEP, *, at_once: bool = False
    ) -> None:
        """Keep a batch that has landed to be sent again, and start draining.

        Args:
            batch: the batch.
            renumbering: how it and everything behind it is numbered once drained.
            at_once: the next try need not wait for anything to get better.
        """
        batch.is_reenqueued = True
        self._renumbering = max(self._renumbering, renumbering)
        self._pauses |= not at_once
        self.reenqueued.append(batch)
        self._change(Change.REENQUEUED)

    def split_and_reenqueue(self, batch: ProducerBatch, split: Sequence[SealedBatch]) -> list[ProducerBatch]:
        """Queue the batches of a batch split in its place, with its sequence numbers, as if they were not sent yet."""
        smaller: list[ProducerBatch] = []
        for sealed in split:
            before = sum(each.sealed.records_count for each in smaller)
            each = ProducerBatch(sealed, self.topic_partition, batch.first_index + before, batch.expires_ms)
            if batch.identity not in (None, NO_IDENTITY):
                each.sequence = (batch.sequence + before) & SEQUENCE_MASK
            each.identity = batch.identity
            each.is_split, each.maybe_written = True, batch.maybe_written
            each.is_reenqueued = batch.identity == NO_IDENTITY or each.maybe_written
            smaller.append(each)
        self.reenqueued += smaller
        self._change(Change.REENQUEUED)
        return smaller

    def try_end_drain(self, now_ms: int, backoff_ms: Callable[[int], int]) -> bool:
        """If it was draining and nothing is in flight any more, line up what came back, and back off if need be."""
        if self.state is not PartitionState.DRAINING or self.in_flight:
            return False
        self.reenqueued.sort(key=lambda batch: batch.first_index)
        self.waiting.extendleft(reversed(self.reenqueued))
        self.reenqueued.clear()
        self.head()
        if self._renumbering:
            self._renumber()
        self._proven = False
        self.resume_ms = now_ms
        if self._pauses:
            self.resume_ms += backoff_ms(self.failures)
            self.failures += 1
            self._pauses = False
        self._change(Change.DRAINED)
        return True

    def resume(self) -> None:
        """The back-off is over."""
        self._change(Change.RESUMED)

    def _renumber(self) -> None:
        renumbering, self._renumbering = self._renumbering, Renumbering.KEEP
        self.next_sequence = 0
        self.has_hole = False
        for batch in self.waiting:
            batch.identity, batch.sequence = None, -1
        if renumbering is Renumbering.SAME_EPOCH:
            return
        if self.identity is None or self.identity.epoch >= EPOCH_MAX:
            self.identity = None  # the machine has to get a new producer id first
        else:
            self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)

    def _change(self, change: Change) -> None:
        self.state = TRANSITIONS[self.state, change]


class IncompleteBatches:
    """The batches that are queued or in flight, oldest first.

    Args:
        delivery_timeout_ms: the maximum age of a batch; for the error message.
        emit: called with the actions that report an outcome or release memory.
    """

    def __init__(self, delivery_timeout_ms: int, emit: Callable[[Action], None]) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._emit = emit
        self._by_age: deque[ProducerBatch] = deque()

    def add(self, batch: ProducerBatch) -> None:
        """Add a new batch."""
        self._by_age.append(batch)

    def replace(self, batch: ProducerBatch, smaller: Sequence[ProducerBatch]) -> None:
        """Replace a batch with the batches of its split, which share its memory; each has an outcome of its own."""
        batch.settled = True
        at = self._by_age.index(batch)
        for each in reversed(smaller):
            self._by_age.insert(at, each)

    # ---- outcomes

    def acknowledge(self, batch: ProducerBatch, outcome: PartitionOutcome) -> None:
        """Report that a batch is written; its request has ended."""
        if not batch.settled:
            batch.settled = True
            self._emit(Acknowledge(batch.sealed, outcome.base_offset, outcome.log_append_time_ms))
        self._emit(Release(batch.sealed))

    def fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail a batch, unless it has an outcome. In flight, it keeps its memory until the request has ended."""
        if not batch.settled:
            batch.settled = True
            self._emit(Fail(batch.sealed, error, batch.report()))
        if not batch.in_flight:
            self._emit(Release(batch.sealed))

    def expire(self, now_ms: int, last_error: KafkaError | None) -> None:
        """Fail the batches whose delivery timeout has passed; `last_error` is the probable cause."""
        self._forget_settled()
        while self._by_age and self._by_age[0].expires_ms <= now_ms:
            batch = self._by_age.popleft()
            if not batch.settled:
                self.fail(batch, self._too_late(batch, last_error))

    def _too_late(self, batch: ProducerBatch, last_error: KafkaError | None) -> KafkaError:
        causes = dict.fromkeys(str(error) for error in (batch.last_error, last_error) if error is not None)
        why = f"; last seen: {'; '.join(causes)}" if causes else ""
        entry = batch.report()
        text = f"{entry}: not acknowledged within delivery_timeout_ms={self._delivery_timeout_ms}{why}"
        return DeliveryTimeoutError(text, unacknowledged=(entry,))

    # ---- questions

    @property
    def expires_ms(self) -> int | None:
        """Return when the delivery timeout of the oldest batch passes; None without batches."""
        by_age = self._by_age
        while by_age and by_age[0].settled:
            by_age.popleft()
        return by_age[0].expires_ms if by_age else None

    def unsettled(self) -> Iterator[ProducerBatch]:
        """Return the batches without an outcome, oldest first."""
        return (batch for batch in self._by_age if not batch.settled)

    def queued(self) -> Iterator[ProducerBatch]:
        """Return the batches without an outcome that are not in flight."""
        return (batch for batch in self.unsettled() if not batch.in_flight)

    def unsettled_batches(self) -> list[SealedBatch]:
        """Return the batches without an outcome, as `SealedBatch`."""
        return [batch.sealed for batch in self.unsettled()]

    def report(self) -> list[Unacknowledged]:
        """Return the records that are neither acknowledged nor failed, one entry per partition."""
        return summarise([batch.report() for batch in self.unsettled()])

    def _forget_settled(self) -> None:
        while self._by_age and self._by_age[0].settled:
            self._by_age.popleft()


RECORD_ERRORS_LISTED_MAX: Final = 3


class Requests:
    """The requests in flight.

    Args:
        in_flight_max: how many one node may have.
    """

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = in_flight_max
        self._requests: dict[int, tuple[int, Sequence[ProducerBatch]]] = {}
        self._counts: dict[int, int] = {}
        self._next_id = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._requests)

    def can_send_more(self, node_id: int) -> bool:
        """Whether one more request may be in flight to the node."""
        return self._counts.get(node_id, 0) < self._in_flight_max

    def make(self, node_id: int, batches: Sequence[ProducerBatch]) -> SendProduce:
        """Note that these batches are in flight to a node, and return the action that sends them."""
        request_id = self._next_id
        self._next_id += 1
        self._requests[request_id] = (node_id, batches)
        self._counts[node_id] = self._counts.get(node_id, 0) + 1
        numbered = [
            NumberedBatch(s.sealed, s.identity or NO_IDENTITY, s.sequence, s.attempts + s.is_split) for s in batches
        ]
        return SendProduce(request_id, node_id, numbered)

    def complete(self, request_id: int) -> Sequence[ProducerBatch]:
        """Note that a request was answered, or never will be; returns its batches."""
        node_id, batches = self._requests.pop(request_id)
        self._counts[node_id] -= 1
        return batches


def produce_request(
    action: SendProduce, cluster: ClusterView, *, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> Produce:
    """Build the request for some batches; compresses those that are not compressed yet.

    Args:
        action: the batches with their numbers, one per partition at most.
        cluster: for the topic ids (used from version 13 on).
        acks: 0, 1 or -1.
        timeout_ms: how long the leader may wait for its followers.
        transactional_id: the producer's, when the records are part of a transaction.
    """
    transactional = transactional_id is not None
    topics: dict[str, list[tuple[int, memoryview]]] = {}
    for numbered in action.batches:
        batch, (producer_id, epoch) = numbered.batch, numbered.identity
        records = batch.encode(producer_id, epoch, numbered.base_sequence, transactional=transactional)
        batches = topics.get(batch.topic)
        if batches is None:
            batches = topics[batch.topic] = []
        batches.append((batch.partition, records))
    named = [(name, cluster.topic_id_of(name), batches) for name, batches in topics.items()]
    return Produce(transactional_id, acks, timeout_ms, named)


def outcomes_of(
    request: Produce, response: Written | ProduceResponse, cluster: ClusterView, node_id: int
) -> Mapping[TopicPartition, PartitionOutcome]:
    """Translate the response, by the topic names of the request. Leaders that it names go to the metadata (KIP-951).

    Args:
        request: that was sent.
        response: to it.
        cluster: learns the new leaders and their addresses.
        node_id: the broker that responded.
    """
    if type(response) is Written:
        return {
            TopicPartition(name, index): PartitionOutcome(0, base_offset, append_time_ms, None, False, log_start)
            for name, index, base_offset, append_time_ms, log_start in response.partitions
        }
    assert isinstance(response, ProduceResponse)
    names = {topic_id: name for name, topic_id, _ in request.topics}
    cluster.add_brokers(BrokerNode(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints)
    outcomes: dict[TopicPartition, PartitionOutcome] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            topic_partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index)
            led_elsewhere = bool(answer.error_code) and _leads_elsewhere(answer, topic_partition, cluster, node_id)
            outcomes[topic_partition] = _outcome(answer, led_elsewhere)
    return outcomes


def _leads_elsewhere(
    answer: PartitionProduceResponse, topic_partition: TopicPartition, cluster: ClusterView, node_id: int
) -> bool:
    """Whether the response names a leader that metadata knows, and it is not the broker that responded."""
    hint = answer.current_leader
    if hint.leader_id < 0:
        return False
    cluster.update_leader(topic_partition, hint.leader_id, hint.leader_epoch)
    return cluster.leader_of(topic_partition) not in (None, node_id)


def unanswered(action: SendProduce) -> Mapping[TopicPartition, PartitionOutcome]:
    """Outcomes of a request with acks=0 whose bytes have left: assumed success, at an unknown offset."""
    return {TopicPartition(n.batch.topic, n.batch.partition): PartitionOutcome(0) for n in action.batches}


def _outcome(answer: PartitionProduceResponse, new_leader_known: bool) -> PartitionOutcome:
    return PartitionOutcome(
        answer.error_code,
        answer.base_offset,
        answer.log_append_time_ms,
        _explanation(answer),
        new_leader_known,
        answer.log_start_offset,
    )


def _explanation(answer: PartitionProduceResponse) -> str | None:
    """The broker's error message, and which records of the batch it rejects.  Source: KIP-467."""
    faults = [
        f"record {fault.batch_index} of the batch: {fault.batch_index_error_message or 'refused'}"
        for fault in answer.record_errors[:RECORD_ERRORS_LISTED_MAX]
    ]
    left_out = len(answer.record_errors) - len(faults)
    if left_out:
        faults.append(f"and {left_out} more records")
    parts = [answer.error_message, *faults]
    return "; ".join(part for part in parts if part) or None
