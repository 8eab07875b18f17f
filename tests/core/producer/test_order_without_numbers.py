"""Without idempotence: what is sent again goes before anything newer, on a new leader, too.

Only batches that were in flight together can change places, since no broker refuses what comes too early.
"""

import random

import pytest

from kafkaraw.core.producer.events import Answered, PartitionOutcome
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.core.producer.machine_driver import Driver, FakeBatch

FAILURES = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]


def started(count):
    driver = Driver(idempotent=False)
    driver.seal(FakeBatch()).answer()
    batches = [FakeBatch() for _ in range(count)]
    driver.seal(*batches)
    return driver, batches


def test_newer_batches_wait_until_what_failed_is_settled():
    driver, (first, second, third) = started(3)
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).lose().answer()
    newer = [FakeBatch() for _ in range(3)]
    driver.seal(*newer).sleep(100)
    assert driver.batches_in_flight == [first]
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).sleep(200)
    assert driver.batches_in_flight == [first], "it failed again, so the others go on waiting"
    driver.answer()
    assert driver.batches_in_flight == [second]
    driver.answer()
    assert driver.batches_in_flight == newer
    assert list(driver.acknowledged)[1:] == [third, first, second]


def test_newer_batches_wait_on_the_new_leader_too():
    driver, (first, second) = started(2)
    driver.leaders["default"] = 2
    for _ in range(2):
        outcome = PartitionOutcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, new_leader_known=True)
        driver.answer(outcomes={TopicPartition("t", 0): outcome})
    newer = FakeBatch()
    driver.seal(newer).sleep(0)
    order = []
    while driver.sent:
        assert driver.sent[0].node_id == 2 and len(driver.sent) == 1
        order += driver.batches_in_flight
        driver.answer()
    assert order == [first, second, newer]


def test_what_was_given_up_keeps_nobody_waiting_once_it_has_landed():
    driver, (first, second) = started(2)
    driver.answer(ErrorCode.NOT_ENOUGH_REPLICAS).answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.sleep(120_000)
    newer = FakeBatch()
    driver.seal(newer)
    assert list(driver.failed) == [first, second]
    assert driver.batches_in_flight == [first], "a broker may still write it"
    driver.lose().sleep(1000)
    assert driver.batches_in_flight == [newer]


class Life(Driver):
    """A broker that fails at random and whose answers to five requests come as they like."""

    def __init__(self, seed):
        super().__init__(idempotent=False)
        self.rng = random.Random(seed)
        self.sealed = []
        self.log = []
        self.met = set()  # pairs that were in flight together

    def live(self, steps, failing=0.3):
        for _ in range(steps):
            if self.rng.random() < 0.5:
                batch = FakeBatch()
                self.sealed.append(batch)
                self.seal(batch)
            elif self.sent:
                self.answer_any(failing)
            else:
                self.sleep(self.rng.choice([10, 200]))

    def answer_any(self, failing):
        names = [batch.name for batch in self.batches_in_flight]
        self.met |= {(a, b) for a in names for b in names if a < b}
        request = self.sent.pop(self.rng.randrange(len(self.sent)))
        (numbered,) = request.batches
        code = self.rng.choice(FAILURES) if self.rng.random() < failing else 0
        if code == 0:
            self.log.append(numbered.batch)
            if self.rng.random() < 0.1:
                self.leaders["default"] = self.rng.randint(1, 3)
        outcomes = {TopicPartition("t", 0): PartitionOutcome(code)}
        self.machine.receive(Answered(request.request_id, outcomes), self.now_ms)
        self.work()

    def settle(self):
        for _ in range(10_000):
            if self.machine.idle:
                return
            self.answer_any(failing=0) if self.sent else self.sleep(50)
        raise AssertionError("batches are stuck")


@pytest.mark.parametrize("seed", range(60))
def test_only_batches_that_were_in_flight_together_change_places(seed):
    life = Life(seed)
    life.live(300)
    life.settle()
    assert sorted(batch.name for batch in life.log) == [batch.name for batch in life.sealed], "lost write"
    overtaken = {
        (later.name, earlier.name)
        for position, earlier in enumerate(life.log)
        for later in life.log[position + 1 :]
        if later.name < earlier.name
    }
    assert overtaken <= life.met, "a newer batch went before one that had to be sent again"
