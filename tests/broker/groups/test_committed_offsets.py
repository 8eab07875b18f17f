"""Committed offsets: who may keep them, when they count, when they are forgotten, and that they survive."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkaraw.broker.groups import coordinator
from kafkaraw.broker.groups.coordinator import Batch, CommitIdentity
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.protocol.embedded.group_offsets import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupResponse
from kafkaraw.records import TopicPartition
from tests.broker.groups.world import GROUP, SESSION_MS, START_MS, World, subscription

NONE = ErrorCode.NONE
KEY, OTHER = TopicPartition("t", 0), TopicPartition("u", 1)
WEEK_MS = 7 * 86_400_000
PRODUCER = (7, 0)


def claim(joined: JoinGroupResponse | None = None, **changes: object) -> CommitIdentity:
    made = CommitIdentity(GROUP, version=9)
    if joined is not None:
        made = made._replace(epoch=joined.generation_id, member_id=joined.member_id)
    return made._replace(**changes)


def commit(
    world: World, offset: int, who: CommitIdentity | None = None, key: TopicPartition = KEY, expires_ms: int = -1
) -> ErrorCode | None:
    """The answer; None as long as there is none."""
    position = CommittedOffset(offset, 3, "m", START_MS + int(world.elapsed_ms), expires_ms)
    codes: list[ErrorCode] = []
    world.coordinator.commit(who or claim(), [(key, position)], codes.append)
    return codes[0] if codes else None


def commit_in_transaction(world: World, offset: int, who: CommitIdentity | None = None) -> ErrorCode | None:
    codes: list[ErrorCode] = []
    position = CommittedOffset(offset, 3, "m", START_MS)
    world.coordinator.commit_in_transaction(who or claim(), PRODUCER, [(KEY, position)], codes.append)
    return codes[0] if codes else None


def offsets(world: World, *, stable: bool = False) -> Mapping[TopicPartition, int | ErrorCode | None]:
    found = world.coordinator.committed_offsets(GROUP, None, stable=stable)
    return {key: one.offset if isinstance(one, CommittedOffset) else one for key, one in found.items()}


def mark(world: World, *, commit: bool) -> None:
    """A marker comes into the log, and to the coordinator."""
    world.log.append(Batch(PRODUCER[0], (), commit))
    world.coordinator.end_transaction(PRODUCER[0], commit=commit)


def test_a_position_counts_once_it_cannot_be_lost_and_is_there_on_the_next_coordinator():
    world = World(held=True)
    assert commit(world, 5) is None
    assert offsets(world) == {}
    world.land()
    assert offsets(world) == {KEY: 5}
    world.move()
    assert offsets(world) == {KEY: 5}
    kept = world.coordinator.committed_offsets(GROUP, [KEY], stable=False)[KEY]
    assert kept == CommittedOffset(5, 3, "m", START_MS)


def test_a_position_that_is_not_written_does_not_count():
    world = World(refuse=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert commit(world, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offsets(world) == {}


def test_members_commit_with_their_generation():
    world = World()
    first, second = world.stable(2)
    assert commit(world, 5, claim(first)) == NONE
    assert commit(world, 6, claim(first, epoch=9)) == ErrorCode.ILLEGAL_GENERATION
    assert commit(world, 6, claim(first, member_id="stranger")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, 6, claim(first, instance_id="nobody")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, 6) == ErrorCode.UNKNOWN_MEMBER_ID
    world.join(first.member_id)
    assert commit(world, 6, claim(second)) == NONE  # while the others join again
    world.join(second.member_id)
    assert commit(world, 7, claim(second, epoch=second.generation_id + 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert offsets(world) == {KEY: 6}


def test_a_commit_without_generation_creates_an_unknown_group():
    world = World()
    assert commit(world, 5, claim(epoch=3, version=8)) == ErrorCode.ILLEGAL_GENERATION
    assert commit(world, 5, claim(epoch=3)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(world, 5) == NONE
    assert [group.group_id for group in world.coordinator.groups()] == [GROUP]


def test_a_commit_keeps_the_session_alive():
    world = World()
    (joined,) = world.stable(1)
    for _ in range(5):
        world.pass_ms(9_000)
        assert commit(world, 5, claim(joined)) == NONE
    assert world.beat(joined) == NONE


# ---- in transactions


@pytest.mark.parametrize("decided", [True, False])
def test_positions_in_a_transaction_count_when_it_commits(decided: bool):
    world = World()
    commit(world, 1)
    assert commit_in_transaction(world, 5) == NONE
    assert (offsets(world), offsets(world, stable=True)) == ({KEY: 1}, {KEY: ErrorCode.UNSTABLE_OFFSET_COMMIT})
    world.move()
    assert offsets(world, stable=True) == {KEY: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    mark(world, commit=decided)
    assert offsets(world, stable=True) == {KEY: 5 if decided else 1}
    world.move()
    assert offsets(world, stable=True) == {KEY: 5 if decided else 1}


def test_require_stable_waits_from_the_first_pending_offset_on():
    world = World()
    commit(world, 1)
    world.held = True
    assert commit_in_transaction(world, 5) is None
    assert offsets(world, stable=True) == {KEY: ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_transactions_are_checked_less_strictly_than_members():
    world = World()
    (joined,) = world.stable(1)
    assert commit_in_transaction(world, 5) == NONE  # by a producer that knows nothing of generations
    assert commit_in_transaction(world, 5, claim(joined, epoch=9)) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(World(), 5, claim(epoch=3)) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(world, 5, claim(group_id="")) == ErrorCode.INVALID_GROUP_ID


# ---- expiry and deletion


def test_positions_without_a_group_expire_after_their_commit_and_the_group_with_them():
    world = World()
    commit(world, 5)
    world.pass_ms(WEEK_MS / 2)
    commit(world, 6, key=OTHER)
    world.pass_ms(WEEK_MS / 2 + 600_000)
    assert offsets(world) == {OTHER: 6}
    world.pass_ms(WEEK_MS / 2)
    assert (offsets(world), world.coordinator.groups()) == ({}, [])
    world.move()
    assert (offsets(world), world.coordinator.groups()) == ({}, [])
    assert world.timers.deadline_ms() is None


def test_positions_of_a_group_that_had_members_expire_after_it_became_empty():
    world = World()
    (joined,) = world.stable(1)
    commit(world, 5, claim(joined))
    for _ in range(3):
        world.pass_ms(5_000)
        world.beat(joined)
    world.leave(joined.member_id)
    world.pass_ms(WEEK_MS - 600_001)
    assert offsets(world) == {KEY: 5}
    world.pass_ms(2 * 600_001)
    assert offsets(world) == {}


def test_a_position_may_expire_by_its_own_time():
    world = World()
    commit(world, 5, expires_ms=START_MS + 1_000)
    world.move()
    world.pass_ms(600_001)
    assert offsets(world) == {}


def test_many_offsets_expire_in_batches_of_bounded_size_with_other_work_in_between(monkeypatch):
    monkeypatch.setattr(coordinator, "EXPIRED_OFFSETS_MAX", 100)
    world = World()
    count = 250
    position = CommittedOffset(1, 3, "m", START_MS)
    world.coordinator.commit(
        claim(), [(TopicPartition("t", index), position) for index in range(count)], lambda _: None
    )
    written = len(world.log)
    world.pass_ms(WEEK_MS + 600_000)
    sizes = [len(batch.records) for batch in world.log[written:]]
    assert sizes == [100, 100, 51], "the last one has the tombstone of the group"
    assert (offsets(world), world.coordinator.groups()) == ({}, [])


def test_a_member_that_joins_while_its_group_expires_joins_a_new_group():
    world = World()
    world.stable(1)
    world.pass_ms(SESSION_MS + 1)
    world.held = True
    world.pass_ms(600_001)
    assert world.coordinator.groups() == [], "its tombstone is in the log"
    world.land()
    world.held = False
    world.stable(1)
    assert len(world.coordinator.groups()) == 1


def test_what_an_open_transaction_wants_does_not_expire():
    world = World()
    commit(world, 1)
    commit_in_transaction(world, 5)
    world.pass_ms(2 * WEEK_MS)
    assert offsets(world) == {KEY: 1}


def test_a_group_is_deleted_with_its_positions_when_it_is_empty():
    world = World()
    (joined,) = world.stable(1)
    commit(world, 5, claim(joined))
    codes: list[ErrorCode] = []
    world.coordinator.delete_group(GROUP, codes.append)
    world.coordinator.delete_group("other", codes.append)
    world.leave(joined.member_id)
    world.coordinator.delete_group(GROUP, codes.append)
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, NONE]
    for _ in range(2):
        assert (offsets(world), world.coordinator.groups()) == ({}, [])
        world.move()


def test_positions_in_topics_that_members_read_are_not_deleted():
    world = World()
    (joined,) = world.stable(1, protocols=[("range", subscription("t"))])
    for key in (KEY, OTHER):
        commit(world, 5, claim(joined), key)
    told: list[Mapping[TopicPartition, ErrorCode]] = []
    absent = TopicPartition("u", 9)
    assert world.coordinator.delete_offsets(GROUP, [KEY, OTHER, absent], told.append) == NONE
    assert told == [{KEY: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OTHER: NONE, absent: NONE}]
    assert offsets(world) == {KEY: 5}
    assert world.coordinator.delete_offsets("other", [KEY], told.append) == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_other_protocol_types_are_deleted_when_the_group_is_empty():
    world = World()
    (joined,) = world.stable(1, protocol_type="connect")
    assert world.coordinator.delete_offsets(GROUP, [KEY], lambda codes: None) == ErrorCode.NON_EMPTY_GROUP
    world.leave(joined.member_id)
    assert world.coordinator.delete_offsets(GROUP, [KEY], lambda codes: None) == NONE


def test_positions_go_with_their_topic():
    world = World()
    commit(world, 5)
    commit(world, 6, key=OTHER)
    commit_in_transaction(world, 7)
    world.coordinator.forget_topic("t")
    mark(world, commit=True)
    for _ in range(2):
        assert offsets(world) == {OTHER: 6}
        world.move()


def test_positions_of_kafkas_first_format_are_read():
    world = World()
    key = LegacyOffsetCommitKey(group=GROUP, topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=5, metadata="", commit_timestamp=START_MS)
    world.log.append(Batch(-1, [GroupRecord(key, value)]))
    world.move()
    assert offsets(world) == {KEY: 5}
