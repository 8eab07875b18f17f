"""Records that go by no key go more often where fewer batches wait."""

import random
from collections import Counter

import pytest

from kafkaraw.core.producer.partition_load import ORDER_SIZE, PartitionLoadStats
from tests.core.producer.machine_driver import Driver, FakeBatch


def stats(adaptive: bool = True) -> PartitionLoadStats:
    return PartitionLoadStats(adaptive, random.Random(7))


@pytest.mark.parametrize("waiting", [{}, {0: 2, 1: 2, 2: 2}])
def test_where_the_same_waits_everywhere_all_take_turns(waiting: dict[int, int]):
    assert not stats().order(3, [0, 1, 2], waiting, ())


def test_the_chance_of_a_partition_is_what_java_gives_it():
    """The example of BuiltInPartitioner: queues of 0, 3 and 1 make chances of 4, 1 and 3 in 8."""
    drawn = Counter()
    machine = stats()
    for _ in range(1000):
        drawn.update(machine.order(3, [0, 1, 2], {1: 3, 2: 1}, ()))
    assert sum(drawn.values()) == 1000 * ORDER_SIZE
    for partition, chance in ((0, 4), (1, 1), (2, 3)):
        assert drawn[partition] / (1000 * ORDER_SIZE) == pytest.approx(chance / 8, abs=0.02)


def test_partitions_without_a_leader_are_passed_over():
    assert stats().order(4, [0, 3], {}, ()) == [0, 3]
    assert set(stats().order(4, [0, 3], {3: 1}, ())) == {0, 3}
    assert not stats().order(4, [], {}, ()), "where none has one, it may come to any"


def test_brokers_that_could_not_be_sent_anything_for_long_are_passed_over():
    assert stats().order(3, [0, 1, 2], {}, [1]) == [0, 2]
    assert set(stats().order(3, [0, 1, 2], {0: 5, 1: 9}, [1])) == {0, 2}
    assert not stats().order(3, [0, 1, 2], {}, [0, 1, 2]), "where none is left, all are as good"


def test_what_waits_does_not_count_when_it_is_not_to():
    assert not stats(adaptive=False).order(3, [0, 1, 2], {1: 30}, [2])
    assert stats(adaptive=False).order(3, [0, 1], {1: 30}, ()) == [0, 1]


def test_what_waits_is_counted_by_partition():
    driver = Driver(in_flight_max=1)
    driver.seal(FakeBatch(), FakeBatch(), FakeBatch(partition=1), FakeBatch(partition=2))
    in_flight = {batch.batch.partition for request in driver.sent for batch in request.batches}
    assert in_flight == {0, 1, 2}
    assert driver.machine.waiting() == {("t", 0): 1}
    driver.answer()
    assert driver.machine.waiting() == {}


def test_a_node_is_held_up_while_something_waits_that_may_not_be_sent():
    driver = Driver(in_flight_max=1)
    driver.seal(FakeBatch())
    driver.sleep(1000)
    assert driver.machine.blocked_nodes(driver.now_ms) == set(), "nothing waits"
    driver.seal(FakeBatch(partition=1))
    since_ms = driver.now_ms
    driver.sleep(50)
    driver.seal(FakeBatch(partition=2))
    assert driver.machine.blocked_nodes(since_ms) == {1}
    assert driver.machine.blocked_nodes(since_ms - 1) == set()
    driver.answer()
    driver.answer()
    assert driver.machine.blocked_nodes(driver.now_ms) == set()
