"""The size of batches follows what brokers take, without asking too often whether they take more."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.producer.batch_sizes import PATIENCE, BatchSizes

SETTING = 262_144


class Producer:
    """Sends full batches only, to a broker with a limit."""

    def __init__(self, broker_takes: int) -> None:
        self.broker_takes = broker_takes
        self.size = SETTING
        self.sizes = BatchSizes(SETTING, self.follow)
        self.refusals = 0

    def follow(self, topic: str, size: int) -> None:
        assert topic == "t"
        self.size = size

    def send(self, batches: int) -> None:
        for _ in range(batches):
            self.send_one(self.size)

    def send_one(self, size: int) -> None:
        if size > self.broker_takes:
            self.refusals += 1
            self.sizes.refused("t", size)
            self.send_one(size // 2)
            self.send_one(size - size // 2)
        else:
            self.sizes.written("t", size)


def test_nothing_is_learned_while_everything_is_taken():
    producer = Producer(SETTING)
    producer.send(1_000)
    assert (producer.size, producer.refusals, producer.sizes.learned) == (SETTING, 0, {})


def test_what_is_too_large_once_is_not_sent_again():
    producer = Producer(100_000)
    producer.send(PATIENCE // 2)
    assert producer.refusals == 3, "one of 256 KiB, and its two halves"
    assert producer.size == SETTING // 4


def test_the_size_comes_near_to_what_is_taken_and_hardly_any_batch_is_refused():
    producer = Producer(100_000)
    producer.send(30_000)
    assert 75_000 <= producer.size <= 100_000
    assert producer.refusals < 20


def test_when_brokers_take_more_the_setting_counts_again_in_the_end():
    producer = Producer(30_000)
    producer.send(50)
    producer.broker_takes = SETTING
    producer.send(20 * PATIENCE)
    assert (producer.size, producer.sizes.learned) == (SETTING, {})


def test_when_brokers_take_still_less_it_is_followed_down():
    producer = Producer(100_000)
    producer.send(10 * PATIENCE)
    producer.broker_takes = 10_000
    producer.send(5)
    assert producer.size <= 10_000


def test_batches_that_are_not_full_say_nothing():
    producer = Producer(100_000)
    producer.send(1)
    size = producer.size
    for _ in range(10 * PATIENCE):
        producer.sizes.written("t", size // 3)
    assert producer.size == size


def test_batches_that_were_in_flight_together_count_once():
    producer = Producer(200_000)
    for _ in range(5):
        producer.sizes.refused("t", SETTING)
    assert producer.size == SETTING // 2


@given(st.integers(), st.lists(st.integers(1, 2 * SETTING), min_size=1, max_size=8))
def test_whatever_brokers_take_the_size_stays_between_one_byte_and_the_setting(seed: int, limits: list[int]):
    rng = random.Random(seed)
    producer = Producer(SETTING)
    for limit in limits:
        producer.broker_takes = limit
        for _ in range(rng.randrange(2 * PATIENCE)):
            size = rng.choice([producer.size, rng.randint(1, SETTING)])
            (producer.sizes.refused if size > limit else producer.sizes.written)("t", size)
            assert 1 <= producer.size <= SETTING
