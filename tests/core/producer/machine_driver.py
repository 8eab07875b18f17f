"""Drives a ProducerMachine by hand: a clock to turn, leaders to move, and requests to answer one by one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from kafkaraw.core.producer.events import (
    Acknowledge,
    Answered,
    BatchesSealed,
    Fail,
    InitProducerId,
    MetadataRefreshed,
    PartitionOutcome,
    ProducerIdentity,
    ProducerIdReceived,
    RefreshMetadata,
    Release,
    RequestLost,
    SendProduce,
)
from kafkaraw.core.producer.machine import ProducerLimits, ProducerMachine
from kafkaraw.errors import NetworkError, Stage
from kafkaraw.records import TopicPartition

LINK_LOST = NetworkError("the connection was lost", stage=Stage.REQUEST)
_names = count()


@dataclass(eq=False)
class FakeBatch:
    """As much of a SealedBatch as the machine looks at."""

    topic: str = "t"
    partition: int = 0
    records_count: int = 10
    size_bytes: int = 100
    name: int = field(default_factory=lambda: next(_names))
    first: int = 0

    @property
    def records(self):
        """Names of its records, in order; a part has those of the whole."""
        return [(self.name, self.first + index) for index in range(self.records_count)]


def halves(batch):
    """What `split_batch` does, as far as the machine looks at it."""
    first = batch.records_count // 2
    return [
        replace(batch, records_count=first, size_bytes=batch.size_bytes // 2),
        replace(
            batch,
            records_count=batch.records_count - first,
            size_bytes=batch.size_bytes - batch.size_bytes // 2,
            first=batch.first + first,
        ),
    ]


class Leaders(dict):
    def leader_of(self, topic_partition):
        return self.get(topic_partition, self.get("default"))


class Driver:
    """The machine with its surroundings; `sent` holds the requests that nobody has answered yet."""

    def __init__(self, **limits):
        self.leaders = Leaders(default=1)
        self.machine = ProducerMachine(
            ProducerLimits(**limits), self.leaders, lambda attempt: 100 * 2 ** min(attempt, 4), halves
        )
        self.now_ms = 0
        self.sent: list[SendProduce] = []
        self.acknowledged: dict[FakeBatch, int] = {}
        self.failed: dict[FakeBatch, Exception] = {}
        self.perhaps: dict[FakeBatch, bool] = {}
        self.released: list[FakeBatch] = []
        self.refreshes: list[frozenset] = []
        self.id_requests = 0
        self.identity = ProducerIdentity(77, 0)

    def seal(self, *batches, age_ms=0):
        self.machine.receive(BatchesSealed(batches, [age_ms] * len(batches)), self.now_ms)
        self.work()
        return self

    def work(self):
        """Carry the machine's actions out; producer ids and metadata come at once."""
        while actions := self.machine.actions():
            for action in actions:
                match action:
                    case SendProduce():
                        self.sent.append(action)
                    case Acknowledge(batch, base_offset, _):
                        assert batch not in self.acknowledged and batch not in self.failed
                        self.acknowledged[batch] = base_offset
                    case Fail(batch, error, report):
                        assert report.records_count == batch.records_count
                        assert batch not in self.acknowledged and batch not in self.failed
                        self.failed[batch] = error
                        self.perhaps[batch] = report.maybe_written
                    case Release(batch):
                        assert batch not in self.released
                        self.released.append(batch)
                    case RefreshMetadata(topics):
                        self.refreshes.append(topics)
                        self.on_refresh(topics)
                    case InitProducerId():
                        self.id_requests += 1
                        self.on_ask_id()

    def on_refresh(self, topics):
        self.machine.receive(MetadataRefreshed(), self.now_ms)

    def on_ask_id(self):
        self.machine.receive(ProducerIdReceived(self.identity), self.now_ms)

    def answer(self, code=0, base_offset=0, message=None, outcomes=None):
        """Answer the oldest request, all its partitions alike."""
        request = self.sent.pop(0)
        if outcomes is None:
            outcomes = {
                TopicPartition(n.batch.topic, n.batch.partition): PartitionOutcome(code, base_offset, -1, message)
                for n in request.batches
            }
        self.machine.receive(Answered(request.request_id, outcomes), self.now_ms)
        self.work()
        return self

    def lose(self, *, maybe_written=True, error=LINK_LOST, retriable=True):
        """The oldest request will never be answered."""
        self.machine.receive(RequestLost(self.sent.pop(0).request_id, error, maybe_written, retriable), self.now_ms)
        self.work()
        return self

    def sleep(self, ms):
        """Let time pass, waking the machine whenever it asks for it."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            assert deadline_ms > self.now_ms or self.machine.tick(self.now_ms) is None
            self.now_ms = max(self.now_ms, deadline_ms)
            self.machine.tick(self.now_ms)
            self.work()
        self.now_ms = end_ms
        self.machine.tick(self.now_ms)
        self.work()
        return self

    @property
    def in_flight(self):
        """(batch, identity, sequence) of every batch in every unanswered request, in order."""
        return [(n.batch, n.identity, n.base_sequence) for request in self.sent for n in request.batches]

    @property
    def batches_in_flight(self):
        return [batch for batch, _, _ in self.in_flight]

    @property
    def sequences_in_flight(self):
        return [sequence for _, _, sequence in self.in_flight]
