"""Groups with members go from one protocol to the other: members keep what they have, and nobody is lost on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.broker.configs.group_settings import Limits, MigrationPolicy
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.broker.groups.classic_consumer import ClassicConsumer
from tests.broker.groups.test_consumer import Member
from tests.broker.groups.world import GROUP, REBALANCE_MS, SESSION_MS, START_MS, World, topic_id
from tests.examples import examples

NONE = ErrorCode.NONE
PARTITIONS = 4
EVERY = {TopicPartition("t", number) for number in range(PARTITIONS)}


def world(**limits: Any) -> World:
    made = World(Limits(**{"assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0, **limits}))
    made.has_topic("t", PARTITIONS)
    return made


def group(around: World) -> ClassicGroup | ConsumerGroup:
    found = around.coordinator.group(GROUP)
    assert found is not None
    return found


def owned(member: ClassicConsumer | Member) -> set[TopicPartition]:
    if isinstance(member, ClassicConsumer):
        return member.owned
    return {TopicPartition("t", number) for numbers in member.owned.values() for number in numbers}


def settle(*members: ClassicConsumer | Member) -> None:
    """Everybody goes on until all partitions are shared out evenly, and each belongs to one."""
    around = members[0].world
    for _ in range(60):
        for member in members:
            member.step() if isinstance(member, ClassicConsumer) else member.beat()
        around.pass_ms(100)
        parts = [owned(member) for member in members]
        even = max(map(len, parts)) - min(map(len, parts)) <= 1 and sum(map(len, parts)) == len(EVERY)
        calm = all(member.settled for member in members if isinstance(member, ClassicConsumer))
        if even and calm and set().union(*parts) == EVERY and group(around).state_label == "Stable":
            return
    raise AssertionError([owned(member) for member in members])


def classic(around: World, count: int = 2) -> list[ClassicConsumer]:
    made = [ClassicConsumer(around) for _ in range(count)]
    settle(*made)
    return made


def test_a_group_goes_up_with_its_first_new_member_and_down_with_its_last():
    around = world()
    a, b = classic(around)
    before = a.owned
    new = Member(around, "new")
    assert new.join().error_code == NONE
    assert isinstance(group(around), ConsumerGroup)
    assert a.owned == before, "nobody has to give up everything"
    settle(a, b, new)
    new.ask(member_epoch=-1)
    assert isinstance(group(around), ClassicGroup)
    settle(a, b)


def test_one_after_the_other_changes_to_the_new_protocol_and_back():
    around = world()
    members: list[ClassicConsumer | Member] = [*classic(around, 3)]
    for number in range(3):
        old = members[number]
        assert isinstance(old, ClassicConsumer)
        old.leave()
        members[number] = joined = Member(around, f"m{number}")
        joined.join()
        settle(*members)
    assert {member.classic for member in group(around).members.values()} == {None}  # type: ignore[union-attr]
    for number in range(3):
        old_new = members[number]
        assert isinstance(old_new, Member)
        old_new.ask(member_epoch=-1)
        members[number] = ClassicConsumer(around)
        settle(*members)
    assert isinstance(group(around), ClassicGroup)


def test_what_was_moved_is_so_after_a_change_of_leader():
    around = world()
    a, b = classic(around)
    new = Member(around, "new")
    new.join()
    around.move()
    assert isinstance(group(around), ConsumerGroup)
    settle(a, b, new)
    around.move()
    settle(a, b, new)
    new.ask(member_epoch=-1)
    around.move()
    assert isinstance(group(around), ClassicGroup)
    settle(a, b)


def test_a_group_stays_what_it_is_when_the_log_refuses():
    around = world()
    a, b = classic(around)
    around.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert Member(around, "new").join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(group(around), ClassicGroup)
    around.refuse = NONE
    settle(a, b)
    new = Member(around, "new")
    new.join()
    settle(a, b, new)
    around.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert new.ask(member_epoch=-1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(group(around), ConsumerGroup)
    around.refuse = NONE
    settle(a, b, new)


def test_members_that_wait_in_a_rebalance_must_rejoin():
    around = world()
    a, _ = classic(around)
    waiting = ClassicConsumer(around)
    waiting.step()
    waiting.step()
    assert group(around).state_label == "PreparingRebalance"
    Member(around, "new").join()
    waiting.step()
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    a.step()
    assert a.code == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_interrupted_rebalance_revokes_no_owned_partitions():
    around = world()
    (a,) = classic(around, 1)
    a.join()
    assert group(around).state_label == "CompletingRebalance"
    b = ClassicConsumer(around)
    while group(around).state_label != "PreparingRebalance":  # the assignment that is being made is of no use any more
        b.step()
    new = Member(around, "new")
    new.join()
    assert isinstance(group(around), ConsumerGroup)
    for _ in range(20):
        for member in (a, b, new):
            member.step() if isinstance(member, ClassicConsumer) else member.beat()
            assert a.owned.isdisjoint(b.owned | owned(new)), "until it has given up, others have to wait"
            assert b.owned.isdisjoint(owned(new))
        around.pass_ms(100)
    settle(a, b, new)


def test_the_last_new_member_dies_and_the_group_goes_down():
    around = world(consumer_session_ms=45_000)
    a, b = classic(around)
    new = Member(around, "new")
    new.join()
    settle(a, b, new)
    for _ in range(46):
        around.pass_ms(1_000)
        a.step()
        b.step()
    assert isinstance(group(around), ClassicGroup)
    settle(a, b)


@pytest.mark.parametrize(
    ("policy", "goes_up", "joins", "goes_down"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True, True, True),
        (MigrationPolicy.UPGRADE, True, True, False),
        (MigrationPolicy.DOWNGRADE, False, True, True),
        (MigrationPolicy.DISABLED, False, False, False),
    ],
)
def test_the_policy_says_which_way_groups_may_go(
    policy: MigrationPolicy, goes_up: bool, joins: bool, goes_down: bool
) -> None:
    around = world(migration=policy)
    classic(around, 1)
    answer = Member(around, "new").join()
    assert (answer.error_code == NONE) is goes_up
    if not goes_up:
        assert "because online upgrade is disabled" in (answer.error_message or "")
    around = world(migration=policy)
    new, old = Member(around, "new"), ClassicConsumer(around)
    new.join()
    old.step()
    old.step()
    old.step()
    assert (old.code == NONE) is joins
    new.ask(member_epoch=-1)
    assert isinstance(group(around), ClassicGroup) is goes_down


def test_a_group_too_large_for_the_other_protocol_stays():
    around = world(consumer_size_max=1)
    classic(around, 2)
    assert "exceeds the consumer group maximum size" in (Member(around, "new").join().error_message or "")
    around = world(size_max=1)
    new, a, b = Member(around, "new"), ClassicConsumer(around), ClassicConsumer(around)
    new.join()
    settle(new, a, b)
    new.ask(member_epoch=-1)
    assert isinstance(group(around), ConsumerGroup)
    settle(a, b)


def test_a_classic_member_that_does_not_join_again_in_time_is_out():
    around = world(consumer_session_ms=10 * REBALANCE_MS)
    (a,) = classic(around, 1)
    new = Member(around, "new")
    new.join()
    for _ in range(REBALANCE_MS // 1_000 + 1):
        joined = a._joined
        assert joined is not None
        around.beat(joined)  # it lives, and does not heed what it is told
        around.pass_ms(1_000)
    assert set(group(around).members) == {"new"}


def test_a_classic_member_that_does_not_ask_for_its_part_in_time_is_out():
    around = world(consumer_session_ms=10 * REBALANCE_MS)
    new = Member(around, "new")
    new.join()
    (required,) = around.join(protocols=[("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")])
    settings: dict[str, Any] = {"session_ms": 3 * REBALANCE_MS}
    (joined,) = around.join(required.member_id, protocols=[("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")], **settings)
    assert joined.error_code == NONE
    around.pass_ms(REBALANCE_MS - 1)
    assert set(group(around).members) == {"new", joined.member_id}
    around.pass_ms(2)
    assert set(group(around).members) == {"new"}


def test_a_silent_classic_member_is_out_after_its_own_session():
    around = world(consumer_session_ms=10 * SESSION_MS)
    (a,) = classic(around, 1)
    new = Member(around, "new")
    new.join()
    settle(a, new)
    around.pass_ms(SESSION_MS + 1)
    assert set(group(around).members) == {"new"}


def test_a_static_member_changes_protocol_and_keeps_what_it_has():
    around = world()
    old, other = ClassicConsumer(around, "i"), ClassicConsumer(around)
    settle(old, other)
    kept = old.owned
    new = Member(around, "new", instance_id="i")
    new.join()
    assert owned(new) == kept
    old.step()
    assert old.code == ErrorCode.FENCED_INSTANCE_ID
    settle(new, other)
    back = ClassicConsumer(around, "i")
    back.step()
    assert isinstance(group(around), ClassicGroup), "its name is held by a classic member now"
    back.step()
    back.step()
    assert back.owned == kept
    assert new.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    settle(back, other)


def offsets(number: int) -> Sequence[tuple[TopicPartition, CommittedOffset]]:
    return [(TopicPartition("t", number), CommittedOffset(7, -1, "", START_MS, -1, topic_id("t")))]


def test_a_classic_member_commits_with_its_generation_while_it_has_the_partition():
    around = world()
    (a,) = classic(around, 1)
    name, generation = a.commits_as()
    Member(around, "new").join()
    told: list[ErrorCode] = []
    for epoch, version in ((generation, 8), (generation + 1, 9), (-1, 9)):
        around.coordinator.commit(CommitIdentity(GROUP, epoch, name, None, version), offsets(0), told.append)
    around.coordinator.commit(CommitIdentity(GROUP, generation, "stranger", None, 9), offsets(0), told.append)
    assert told == [NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_empty_group_goes_to_the_protocol_of_the_next_member():
    around = world()
    new = Member(around, "new")
    new.join()
    new.ask(member_epoch=-1)
    (a,) = classic(around, 1)
    assert isinstance(group(around), ClassicGroup)
    around.move()
    settle(a)
    a.leave()
    new = Member(around, "new")
    new.join()
    assert isinstance(group(around), ConsumerGroup)
    around.move()
    settle(new)


def test_a_topic_grows_under_classic_members_that_are_left_alone_in_a_new_group():
    around = world(migration=MigrationPolicy.UPGRADE)
    a, b = classic(around)
    new = Member(around, "new")
    new.join()
    settle(a, b, new)
    new.ask(member_epoch=-1)
    settle(a, b)
    around.has_topic("t", PARTITIONS + 2)
    for _ in range(20):
        a.step()
        b.step()
    assert len(a.owned) == len(b.owned) == (PARTITIONS + 2) // 2


def test_an_unknown_member_id_does_not_replace_an_empty_group():
    around = world()
    new = Member(around, "new")
    new.join()
    new.ask(member_epoch=-1)
    assert around.join("stranger")[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(group(around), ConsumerGroup)


# ---- random histories

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["new", "classic", "go", "go", "go", "go", "leave", "crash", "time", "move", "refuse"]),
        st.integers(0, 3),
    ),
    max_size=50,
)


class History:
    """Members of both protocols, each of whom does what it is told as far as it hears of it."""

    def __init__(self) -> None:
        self.world = world()
        self.members: dict[int, ClassicConsumer | Member] = {}
        self.names = 0

    def step(self, what: str, number: int) -> None:
        member = self.members.get(number)
        if what == "new" and member is None:
            self.names += 1
            joining = Member(self.world, f"m{self.names}")
            if not joining.join().error_code:
                self.members[number] = joining
        elif what == "classic" and member is None:
            self.members[number] = ClassicConsumer(self.world)
        elif what == "time":
            self.world.pass_ms(3_000)
        elif what == "move":
            self.world.move()
        elif what == "refuse":
            self.world.refuse = NONE if self.world.refuse else ErrorCode.NOT_ENOUGH_REPLICAS
        elif member is not None:
            self.live(what, number, member)

    def live(self, what: str, number: int, member: ClassicConsumer | Member) -> None:
        if what == "crash":
            del self.members[number]
        elif isinstance(member, ClassicConsumer):
            if what == "leave":
                member.leave()
                del self.members[number]
            else:
                member.step()
        else:
            answer = member.ask(member_epoch=-1) if what == "leave" else member.beat()
            gone = answer.error_code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )
            if gone or (what == "leave" and not answer.error_code):
                del self.members[number]

    def check(self) -> None:
        found = self.world.coordinator.group(GROUP)
        if isinstance(found, ConsumerGroup):
            held = [
                (topic, number)
                for member in found.members.values()
                for parts in (member.assigned, member.revoking)
                for topic, numbers in parts.items()
                for number in numbers
            ]
            assert len(held) == len(set(held)), "two members have a partition"


@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_members_of_both_protocols_never_share_a_partition_and_settle(steps: list[tuple[str, int]]) -> None:
    history = History()
    for what, number in steps:
        history.step(what, number)
        history.check()
    history.world.refuse = NONE
    history.world.pass_ms(10 * REBALANCE_MS)  # whoever is gone or slow is out
    last = [member for member in history.members.values() if isinstance(member, ClassicConsumer)]
    fresh = ClassicConsumer(history.world)
    settle(fresh, *last)
