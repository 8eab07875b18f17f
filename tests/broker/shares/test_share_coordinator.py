"""The share coordinator: what it stores, which writes it fences, and that a load of its log gives the same states."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from kafkaraw.broker.shares.coordinator import Outcome, ShareCoordinator, Write
from kafkaraw.broker.shares.state import ShareKey, ShareRecord, ShareState, ShareUpdate, decode_record, encode_record
from kafkaraw.core.share.state_batches import StateBatch, combined
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

TOPIC = Uuid(b"t" * 16)
KEY = ShareKey("g", TOPIC, 0)
ACCEPTED, FREE, ARCHIVED = 2, 0, 4


class World:
    """A coordinator with a log in memory; records are replicated when told."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.records: list[ShareRecord] = []
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.now_ms = 1_000
        self.topics = {TOPIC: 2}
        self.updates_per_snapshot = updates_per_snapshot
        self.refuse = ErrorCode.NONE
        self.coordinator = self.loaded()

    def append(self, record: ShareRecord, done: Callable[[ErrorCode], None]) -> int | None:
        if self.refuse:
            done(self.refuse)
            return None
        decoded = decode_record(*encode_record(record))
        assert decoded == record
        self.records.append(record)
        self.waiting.append(done)
        return len(self.records) - 1

    def partitions_of(self, topic_id: Uuid) -> int | None:
        return self.topics.get(topic_id)

    def replicate(self, code: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(code)

    def loaded(self, start: int = 0) -> ShareCoordinator:
        coordinator = ShareCoordinator(self, self, lambda: self.now_ms, self.updates_per_snapshot)
        coordinator.load(list(enumerate(self.records))[start:])
        return coordinator

    def told(self, ask: Callable[[Callable[[Outcome], None]], None]) -> Outcome:
        found: list[Outcome] = []
        ask(found.append)
        self.replicate()
        assert len(found) == 1
        return found[0]

    def initialize(self, epoch: int = 1, start: int = -1) -> Outcome:
        return self.told(lambda done: self.coordinator.initialize(KEY, epoch, start, done))

    def write(self, *batches: StateBatch, start: int = -1, leader: int = 0, epoch: int = 1) -> Outcome:
        return self.told(lambda done: self.coordinator.write(KEY, Write(epoch, leader, start, -1, batches), done))

    def read(self, leader: int = 0) -> Outcome:
        return self.told(lambda done: self.coordinator.read(KEY, leader, done))


def test_a_write_updates_the_state() -> None:
    world = World()
    world.initialize()
    assert world.write(StateBatch(0, 9, FREE, 1), StateBatch(10, 19, ACCEPTED, 1), start=0).code == ErrorCode.NONE
    world.write(StateBatch(0, 4, ACCEPTED, 2), start=5)
    state = world.read().state
    assert state is not None
    assert (state.start_offset, state.batches) == (5, (StateBatch(5, 9, FREE, 1), StateBatch(10, 19, ACCEPTED, 1)))


def test_enough_updates_become_a_snapshot() -> None:
    world = World(updates_per_snapshot=2)
    world.initialize()
    for offset in range(4):
        world.write(StateBatch(offset, offset, ACCEPTED, 1))
    kinds = [type(record.value) for record in world.records]
    assert kinds == [ShareState, ShareUpdate, ShareUpdate, ShareState, ShareUpdate]
    assert world.coordinator.needed_from() == 3
    assert world.loaded(3).states() == world.coordinator.states()


def test_earlier_leaders_and_states_are_fenced() -> None:
    world = World()
    world.initialize(epoch=5)
    assert world.read(leader=3).code == ErrorCode.NONE
    assert world.read(leader=2).code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(StateBatch(0, 0, 2, 1), leader=2, epoch=5).code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(StateBatch(0, 0, 2, 1), leader=3, epoch=4).code == ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(epoch=4).code == ErrorCode.FENCED_STATE_EPOCH
    world.coordinator = world.loaded()
    assert world.read(leader=2).code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_partition_without_a_state_is_refused() -> None:
    world = World()
    assert world.read().message == "Read operation on uninitialized share partition not allowed."
    assert world.write(start=0).code == ErrorCode.INVALID_REQUEST
    assert world.coordinator.summary(KEY).state == ShareState()
    missing = ShareKey("g", TOPIC, 2)
    assert world.told(lambda done: world.coordinator.initialize(missing, 1, -1, done)).code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_deleting_writes_a_tombstone() -> None:
    world = World()
    world.initialize()
    assert world.told(lambda done: world.coordinator.delete(KEY, done)).code == ErrorCode.NONE
    assert world.records[-1] == ShareRecord(KEY, None)
    assert not world.coordinator.states() and not world.loaded().states()


def test_the_states_of_a_deleted_topic_are_forgotten() -> None:
    world = World()
    world.initialize()
    world.coordinator.forget_topic(TOPIC)
    assert not world.coordinator.states()


def test_a_cold_state_becomes_a_snapshot() -> None:
    world = World()
    world.initialize()
    world.write(StateBatch(0, 0, ACCEPTED, 1))
    world.now_ms += 60_000
    world.coordinator.snapshot_cold(60_000)
    assert world.coordinator.needed_from() == len(world.records) - 1


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_write_that_the_log_refuses_changes_nothing(code: ErrorCode) -> None:
    world = World()
    world.initialize()
    world.refuse = code
    before = world.coordinator.states()
    assert world.write(StateBatch(0, 0, 2, 1)).code == code
    assert world.coordinator.states() == before


def test_a_coordinator_that_resigned_answers_so() -> None:
    world, found = World(), list[Outcome]()
    world.coordinator.initialize(KEY, 1, -1, found.append)
    world.coordinator.resign()
    world.replicate()
    assert found[0].code == ErrorCode.NOT_COORDINATOR


def test_combined_batches_have_the_newest_state_of_each_record() -> None:
    rng = random.Random(932)
    for _ in range(300):
        batches = [
            StateBatch(first := rng.randrange(20), first + rng.randrange(8), rng.choice([0, 2, 4]), rng.randrange(1, 4))
            for _ in range(rng.randrange(6))
        ]
        start = rng.choice([-1, rng.randrange(20)])
        newest: dict[int, tuple[int, int]] = {}
        for batch in batches:
            for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
                newest[offset] = max(newest.get(offset, batch.rank), batch.rank)
        found = combined(batches, start)
        assert {
            offset: batch.rank for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)
        } == newest
        for left, right in itertools.pairwise(found):
            assert left.last_offset < right.first_offset
            assert left.rank != right.rank or left.last_offset + 1 < right.first_offset
