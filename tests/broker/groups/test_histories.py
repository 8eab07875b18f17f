"""Random histories of groups: nobody shares a partition, the log tells all there is to know, and it ends well."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.states import ClassicState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupResponse
from tests.broker.groups.test_consumer import Member
from tests.broker.groups.world import GROUP, World
from tests.examples import examples

NAMES = "abcd"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "join", "beat", "beat", "beat", "lost answer", "leave", "crash", "time", "grow", "move", "refuse"]
        ),
        st.sampled_from(NAMES),
    ),
    max_size=60,
)


class ConsumerHistory:
    """Members of the new protocol, of whom each does what it is told as far as it hears of it."""

    def __init__(self, interval_ms: int) -> None:
        self.world = World(Limits(assignment_interval_ms=interval_ms))
        self.world.has_topic("t", 3)
        self.members: dict[str, Member] = {}
        self.names = 0

    def step(self, what: str, name: str) -> None:
        member = self.members.get(name)
        if what == "join" and member is None:
            self.names += 1
            joining = Member(self.world, f"{name}{self.names}")
            if not joining.join().error_code:
                self.members[name] = joining
        elif what == "time":
            self.world.pass_ms(9_000)
        elif what == "grow":
            self.world.has_topic("t", self.world.topics.counts["t"] + 1)
        elif what == "move":
            self.world.move()
        elif what == "refuse":
            self.world.refuse = ErrorCode.NONE if self.world.refuse else ErrorCode.NOT_ENOUGH_REPLICAS
        elif member is not None:
            self.live(what, name, member)

    def live(self, what: str, name: str, member: Member) -> None:
        if what == "beat" and member.beat().error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
        ):
            del self.members[name]
        elif what == "lost answer":
            member.ask()
        elif what == "crash" or (what == "leave" and not member.ask(member_epoch=-1).error_code):
            del self.members[name]

    def group(self) -> ConsumerGroup | None:
        found = self.world.coordinator.group(GROUP)
        assert found is None or isinstance(found, ConsumerGroup)
        return found

    def check(self) -> None:
        group = self.group()
        if group is None:
            return
        owners = Counter(
            (topic, partition)
            for member in group.members.values()
            for parts in (member.assigned, member.revoking)
            for topic, partitions in parts.items()
            for partition in partitions
        )
        assert not owners or max(owners.values()) == 1, owners
        reader = World(self.world.limits, log=list(self.world.log))
        read = reader.coordinator.group(GROUP)
        assert isinstance(read, ConsumerGroup)
        read.topics_version = group.topics_version
        assert read == group


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.sampled_from([0, 1_000]))
def test_partitions_of_a_consumer_group_have_one_owner_and_all_are_owned_in_the_end(steps, interval_ms):
    history = ConsumerHistory(interval_ms)
    for what, name in steps:
        history.step(what, name)
        history.check()
    history.world.refuse = ErrorCode.NONE
    for _ in range(30):
        history.step("time", "a")
        for name in NAMES:
            history.step("join", name)
            history.step("beat", name)
        history.check()
    held = sorted(part for member in history.members.values() for parts in member.owned.values() for part in parts)
    assert held == list(range(history.world.topics.counts["t"]))


CLASSIC_STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "again", "sync", "beat", "leave", "time", "move"]), st.integers(0, 3)),
    max_size=50,
)


@settings(max_examples=examples(60), deadline=None)
@given(CLASSIC_STEPS)
def test_a_classic_group_never_breaks_its_rules_and_ends_empty(steps):
    world = World()
    known: list[JoinGroupResponse] = []
    waiting: list[list[JoinGroupResponse]] = []
    for what, which in steps:
        one = known[which % len(known)] if known else None
        if what == "join":
            waiting.append(world.join(version=3))
        elif what == "time":
            world.pass_ms(3_500)
        elif what == "move":
            world.move()
        elif one is not None:
            if what == "again":
                waiting.append(world.join(one.member_id))
            elif what == "sync":
                world.sync(one, {one.member_id: b"part"} if one.leader == one.member_id else None)
            elif what == "beat":
                world.beat(one)
            else:
                world.leave(one.member_id)
        known.extend(answer for answers in waiting for answer in answers if not answer.error_code)
        waiting = [answers for answers in waiting if not answers]
        group = world.coordinator.group(GROUP)
        if isinstance(group, ClassicGroup):
            assert (group.leader_id is None) == (not group.members)
            assert group.leader_id is None or group.leader_id in group.members
            assert set(group.pending_syncs) <= set(group.members)
            assert not (group.is_empty and group.members)
    world.pass_ms(400_000)
    group = world.coordinator.group(GROUP)
    assert group is None or (isinstance(group, ClassicGroup) and group.state is ClassicState.EMPTY)
    assert all(answers for answers in waiting), "somebody was never answered"
