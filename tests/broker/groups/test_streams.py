"""Streams groups (KIP-1071): epochs, tasks, delays, timeouts and restarts, on a clock that moves when told to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.configs.streams_settings import StreamsLimits
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.groups.streams import HeartbeatResult
from kafkaraw.broker.groups.streams_assignor import NO_TASKS, SubtopologyTasks, TaskMember, Tasks, assign_tasks
from kafkaraw.broker.groups.streams_group import StreamsGroup
from kafkaraw.broker.groups.streams_topology import StatusCode
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker.groups.world import GROUP, World

CALLER = Caller("c", "/h", 0)
QUICK = StreamsLimits(session_ms=10_000, assignment_interval_ms=0, initial_rebalance_delay_ms=0)
SOURCE = "lines"


def world(**limits: int) -> World:
    """A coordinator, and a topic with 4 partitions."""
    made = World(replace(Limits(), streams=replace(QUICK, **limits)))
    made.has_topic(SOURCE, 4)
    return made


def topology(*changelogs: str) -> Topology:
    """One subtopology, which keeps its state in changelog topics."""
    topics = [TopicInfo(name=name, partitions=0, replication_factor=0, topic_configs=[]) for name in changelogs]
    part = Subtopology(
        subtopology_id="0",
        source_topics=[SOURCE],
        source_topic_regex=[],
        state_changelog_topics=topics,
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return Topology(epoch=0, subtopologies=[part])


class Member:
    """A member that runs the tasks that the coordinator assigns to it; each member has a process of its own."""

    def __init__(self, around: World, name: str, *changelogs: str) -> None:
        self.around, self.name, self.topology = around, name, topology(*changelogs)
        self.epoch = 0
        self.owned: dict[str, list[TaskIds]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self.result: HeartbeatResult | None = None

    def beat(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        first = {"topology": self.topology, "rebalance_timeout_ms": 60_000, "process_id": f"process of {self.name}"}
        request = StreamsGroupHeartbeatRequest(
            **{
                "group_id": GROUP,
                "member_id": self.name,
                "member_epoch": self.epoch,
                "endpoint_information_epoch": 0,
                **self.owned,
                **(first if self.epoch == 0 else {}),
                **fields,
            }
        )
        results: list[HeartbeatResult] = []
        self.around.coordinator.streams_heartbeat(request, CALLER, results.append)
        (self.result,) = results
        answer = self.result.response
        if not answer.error_code:
            self.epoch = answer.member_epoch
            for role in self.owned:
                told = getattr(answer, role)
                self.owned[role] = self.owned[role] if told is None else told
        return answer

    @property
    def active(self) -> set[int]:
        """The partitions of its active tasks."""
        return {partition for tasks in self.owned["active_tasks"] for partition in tasks.partitions}

    @property
    def standby(self) -> set[int]:
        """The partitions of its standby tasks."""
        return {partition for tasks in self.owned["standby_tasks"] for partition in tasks.partitions}


def codes(answer: StreamsGroupHeartbeatResponse) -> set[int]:
    """The statuses of a response."""
    return {status.status_code for status in answer.status or ()}


def group_of(around: World) -> StreamsGroup:
    """The group, as the coordinator has it."""
    group = around.coordinator.group(GROUP)
    assert isinstance(group, StreamsGroup)
    return group


def settle(*members: Member) -> None:
    """Let members send heartbeats until nothing changes."""
    for _ in range(4):
        for member in members:
            member.beat()


def test_one_member_runs_all_tasks():
    member = Member(world(), "a")
    member.beat()
    assert (member.epoch, member.active) == (2, {0, 1, 2, 3})


def test_second_member_gets_tasks_when_the_first_has_revoked_them():
    around = world()
    one, two = Member(around, "a"), Member(around, "b")
    one.beat()
    two.beat()
    assert (one.active, two.active, group_of(around).state_label) == ({0, 1, 2, 3}, set(), "Reconciling")
    one.beat()
    assert len(one.active) == 2
    two.beat()
    assert not two.active, "the first member has not confirmed that it revoked its tasks"
    settle(one, two)
    assert one.active | two.active == {0, 1, 2, 3}
    assert (len(two.active), group_of(around).state_label) == (2, "Stable")


def test_assignment_waits_for_the_initial_rebalance_delay():
    around = world(initial_rebalance_delay_ms=3_000)
    one, two = Member(around, "a"), Member(around, "b")
    assert codes(one.beat()) == {StatusCode.ASSIGNMENT_DELAYED}
    assert codes(two.beat()) == {StatusCode.ASSIGNMENT_DELAYED}
    around.pass_ms(3_000)
    settle(one, two)
    assert (len(one.active), len(two.active)) == (2, 2)


def test_assignments_keep_their_minimum_interval():
    around = world(assignment_interval_ms=1_000)
    one, two = Member(around, "a"), Member(around, "b")
    one.beat()
    assert codes(two.beat()) == {StatusCode.ASSIGNMENT_DELAYED}
    around.pass_ms(1_000)
    assert codes(two.beat()) == set()


def test_missing_changelog_topics_are_to_be_created_and_delay_the_tasks():
    around = world()
    member = Member(around, "a", "changelog")
    assert codes(member.beat()) == {StatusCode.MISSING_INTERNAL_TOPICS}
    assert member.result is not None
    assert [(topic.name, topic.partitions) for topic in member.result.missing] == [("changelog", 4)]
    assert (member.active, group_of(around).state_label) == (set(), "NotReady")
    around.has_topic("changelog", 4)
    assert codes(member.beat()) == set()
    assert member.active == {0, 1, 2, 3}


def test_deleted_source_topic_is_told_and_its_tasks_are_revoked():
    around = world()
    member = Member(around, "a")
    member.beat()
    del around.topics.counts[SOURCE]
    around.topics.version += 1
    assert codes(member.beat()) == {StatusCode.MISSING_SOURCE_TOPICS}
    assert member.active == set()


def test_standby_tasks_are_on_another_process():
    around = world()
    around.has_topic("changelog", 4)
    around.own_settings["streams.num.standby.replicas"] = "1"
    one, two = Member(around, "a", "changelog"), Member(around, "b", "changelog")
    settle(one, two)
    assert (one.active, two.active) == (two.standby, one.standby)
    assert one.active | two.active == {0, 1, 2, 3}


def test_group_config_changes_the_assignment_of_members():
    around = world()
    around.has_topic("changelog", 4)
    one, two = Member(around, "a", "changelog"), Member(around, "b", "changelog")
    settle(one, two)
    assert one.standby == set()
    around.own_settings["streams.num.standby.replicas"] = "1"
    settle(one, two)
    assert one.standby == two.active


def test_member_that_is_silent_for_its_session_timeout_is_fenced():
    around = world()
    one, two = Member(around, "a"), Member(around, "b")
    settle(one, two)
    around.pass_ms(6_000)
    one.beat()
    around.pass_ms(6_000)
    settle(one)
    assert one.active == {0, 1, 2, 3}
    assert two.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_revoke_in_time_is_fenced():
    around = world(session_ms=600_000)
    one, two = Member(around, "a"), Member(around, "b")
    one.beat()
    two.beat()
    one.beat(rebalance_timeout_ms=5_000)
    around.pass_ms(5_000)
    assert set(group_of(around).members) == {"b"}


def test_shutdown_of_the_application_is_told_to_all_members_until_the_group_is_empty():
    around = world()
    one, two = Member(around, "a"), Member(around, "b")
    settle(one, two)
    one.beat(shutdown_application=True)
    assert codes(two.beat()) == {StatusCode.SHUTDOWN_APPLICATION}
    for member in (one, two):
        member.beat(member_epoch=-1, **dict.fromkeys(member.owned))
    again = Member(around, "c")
    assert codes(again.beat()) == set()


def test_state_after_a_move_is_the_state_before():
    around = world()
    around.has_topic("changelog", 4)
    one, two = Member(around, "a", "changelog"), Member(around, "b", "changelog")
    settle(one, two)
    before = group_of(around)
    around.move()
    after = group_of(around)
    assert (after.members, after.target, after.epoch) == (before.members, before.target, before.epoch)
    assert after.topology == before.topology
    assert after.state_label == "Stable"
    settle(one, two)
    assert group_of(around).epoch == before.epoch


def test_heartbeat_whose_records_are_lost_changes_nothing():
    around = world()
    member = Member(around, "a")
    around.refuse = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert member.beat().error_code == ErrorCode.NOT_COORDINATOR
    assert around.coordinator.group(GROUP) is None


def test_deleted_group_leaves_no_records():
    around = world()
    member = Member(around, "a")
    member.beat()
    member.beat(member_epoch=-1, **dict.fromkeys(member.owned))
    answers: list[ErrorCode] = []
    around.coordinator.delete_group(GROUP, answers.append)
    around.move()
    assert (answers, around.coordinator.group(GROUP)) == ([ErrorCode.NONE], None)


@pytest.mark.parametrize("standby_replicas", [0, 1, 2])
@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_tasks_are_spread_evenly_and_stay_where_they_are(members: int, standby_replicas: int):
    parts = {"0": SubtopologyTasks(7, True), "1": SubtopologyTasks(3, False)}
    before = assign_tasks({str(one): TaskMember(f"p{one}") for one in range(members)}, parts, standby_replicas)
    active = [
        (name, partition) for tasks in before.values() for name, each in tasks.active.items() for partition in each
    ]
    assert sorted(active) == [
        *(("0", partition) for partition in range(7)),
        *(("1", partition) for partition in range(3)),
    ]
    sizes = [sum(map(len, tasks.active.values())) for tasks in before.values()]
    assert max(sizes) - min(sizes) <= 1
    copies = [partition for tasks in before.values() for partition in tasks.standby.get("0", ())]
    assert len(copies) == 7 * min(standby_replicas, members - 1)
    assert all(tasks.active.get("0", frozenset()).isdisjoint(tasks.standby.get("0", ())) for tasks in before.values())
    again = {str(one): TaskMember(f"p{one}", before[str(one)]) for one in range(members)}
    assert assign_tasks(again, parts, standby_replicas) == before


def test_task_without_members_is_not_assigned():
    assert assign_tasks({}, {"0": SubtopologyTasks(1, True)}, 1) == {}
    assert Tasks({}, {}, {}) == NO_TASKS
