"""The machine against a model of a broker that loses connections, moves leaders and refuses batches, over many seeds.

The model keeps what Kafka's brokers keep of a producer: per partition the epoch, the last sequence and the last five
batches. Audited with the invariants of Jepsen's Kafka checker: lost write, duplicate, send skip.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest

from kafkaraw.core.producer.events import Answered, PartitionOutcome, RequestLost, TopicsIdle
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.core.producer.machine_driver import LINK_LOST, Driver, FakeBatch
from tests.examples import examples


class BrokerModel:
    def __init__(self):
        self.logs = defaultdict(list)  # partition -> names of records, in order
        self.records_max = 9  # of one batch
        self.producers = {}  # (partition, producer id) -> [epoch, deque of (first, last, base offset)]

    def append(self, numbered):
        partition, batch = numbered.batch.partition, numbered.batch
        if batch.records_count > self.records_max:
            return PartitionOutcome(ErrorCode.MESSAGE_TOO_LARGE)
        (producer_id, epoch), first = numbered.identity, numbered.base_sequence
        last = first + batch.records_count - 1
        known = self.producers.get((partition, producer_id))
        if known is not None:
            for begin, end, base_offset in known[1] if epoch == known[0] else ():
                if (begin, end) == (first, last):
                    return PartitionOutcome(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset)
            if epoch < known[0]:
                return PartitionOutcome(ErrorCode.INVALID_PRODUCER_EPOCH)
            expected = known[1][-1][1] + 1 if epoch == known[0] else 0
            if first != expected:
                return PartitionOutcome(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if known is None or epoch > known[0]:
            known = self.producers[partition, producer_id] = [epoch, deque(maxlen=5)]
        log = self.logs[partition]
        known[1].append((first, last, len(log)))
        log.extend(batch.records)
        return PartitionOutcome(0, len(log) - batch.records_count)

    def forget_producers(self):
        self.producers.clear()


REFUSALS = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # of a leader that was deposed and has not heard of it
]


class Chaos(Driver):
    def __init__(self, seed):
        super().__init__(delivery_timeout_ms=8_000)
        self.rng = random.Random(seed)
        self.broker = BrokerModel()
        self.sent_batches = []

    def outcome(self, numbered):
        if self.rng.random() < 0.15:
            return PartitionOutcome(self.rng.choice(REFUSALS))
        return self.broker.append(numbered)

    def serve_oldest(self):
        """The oldest request of some node is carried out, and answered unless the connection breaks."""
        node_id = self.rng.choice([request.node_id for request in self.sent])
        request = next(request for request in self.sent if request.node_id == node_id)
        fate = self.rng.random()
        if fate < 0.8:
            self.sent.remove(request)
            outcomes = {TopicPartition("t", n.batch.partition): self.outcome(n) for n in request.batches}
            self.machine.receive(Answered(request.request_id, outcomes), self.now_ms)
            return
        # The connection breaks: some of what was sent is carried out all the same, none of it is answered.
        lost = [r for r in self.sent if r.node_id == node_id]
        carried_out = self.rng.randint(0, len(lost))
        for position, r in enumerate(lost):
            self.sent.remove(r)
            if position < carried_out:
                for numbered in r.batches:
                    self.outcome(numbered)
        for position, r in enumerate(lost):
            maybe = position < carried_out or self.rng.random() < 0.5
            self.machine.receive(RequestLost(r.request_id, LINK_LOST, maybe), self.now_ms)

    def run(self, steps):
        for _ in range(steps):
            move = self.rng.random()
            if move < 0.4:
                batches = [FakeBatch(partition=self.rng.randrange(3), records_count=self.rng.randint(1, 9))]
                self.sent_batches += batches
                self.seal(*batches)
            elif move < 0.85 and self.sent:
                self.serve_oldest()
            elif move < 0.97:
                self.sleep(self.rng.choice([1, 50, 400]))
            elif move < 0.98:
                self.broker.records_max = self.rng.choice([2, 5, 9, 9])  # max.message.bytes is set anew
            elif move < 0.985:
                self.machine.receive(TopicsIdle(frozenset({"t"})), self.now_ms)  # which some of its partitions are not
            else:
                self.leaders[TopicPartition("t", self.rng.randrange(3))] = self.rng.randint(1, 2)
            self.work()

    def settle(self):
        """The faults end: everything still under way must come to an end."""
        self.rng = random.Random(0)
        self.outcome = self.broker.append
        for _ in range(10_000):
            if self.machine.idle:
                return
            while self.sent:
                request = self.sent.pop(0)
                outcomes = {TopicPartition("t", n.batch.partition): self.outcome(n) for n in request.batches}
                self.machine.receive(Answered(request.request_id, outcomes), self.now_ms)
                self.work()
            self.sleep(50)
        raise AssertionError("batches are stuck")

    def audit(self):
        written = [record for log in self.broker.logs.values() for record in log]
        acknowledged, failed = records_of(self.acknowledged), records_of(self.failed)
        assert len(written) == len(set(written)), "duplicate"
        assert set(acknowledged) <= set(written), "lost write"
        assert sorted(acknowledged + failed) == records_of(self.sent_batches), "a sender was not told, or twice"
        assert sorted(records_of(self.released)) == records_of(self.sent_batches), "memory was not given back, or twice"
        silently = set(written) & {r for batch in self.failed if not self.perhaps[batch] for r in batch.records}
        assert not silently, "written, but reported as not written"
        for partition, log in self.broker.logs.items():
            sent = records_of(batch for batch in self.sent_batches if batch.partition == partition)
            assert log == [record for record in sent if record in set(log)], "send skip"


def records_of(batches):
    return [record for batch in batches for record in batch.records]


@pytest.mark.parametrize("seed", range(examples(150)))
def test_every_record_is_written_at_most_once_and_in_order(seed):
    chaos = Chaos(seed)
    chaos.run(400)
    chaos.settle()
    chaos.audit()
    assert len(records_of(chaos.acknowledged)) > 50
