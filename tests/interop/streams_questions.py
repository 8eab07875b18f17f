"""Conversations about streams groups (KIP-1071), to be had with two brokers; see `group_questions`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from kafkaraw import Admin, NewTopic
from kafkaraw.errors import BrokerError
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.interop.group_questions import READY_SECONDS, TOPIC, Table
from tests.interop.raw_client import RawClient

MISSING_INTERNAL_TOPICS = 3


def topic(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """An internal topic of a topology."""
    settings = [KeyValue(key=key, value=value) for key, value in sorted(configs.items())]
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=settings)


def part(name: str, *sources: str, **fields: Any) -> Subtopology:
    """A subtopology."""
    return Subtopology(
        **{
            "subtopology_id": name,
            "source_topics": list(sources),
            "source_topic_regex": [],
            "state_changelog_topics": [],
            "repartition_sink_topics": [],
            "repartition_source_topics": [],
            "copartition_groups": [],
            **fields,
        }
    )


def tasks(**partitions: list[int]) -> list[TaskIds]:
    """Tasks of subtopologies."""
    return [TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in partitions.items()]


def joins(group_id: str, /, *parts: Subtopology, epoch: int = 0, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    return StreamsGroupHeartbeatRequest(
        **{
            "group_id": group_id,
            "member_id": "a",
            "member_epoch": 0,
            "endpoint_information_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "topology": Topology(epoch=epoch, subtopologies=list(parts)),
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "p1",
            "client_tags": [],
            **fields,
        }
    )


def beat(group_id: str, epoch: int, member_id: str = "a", **fields: Any) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of a member that has joined."""
    return StreamsGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        **{"endpoint_information_epoch": 0, **fields},
    )


def owns(active: list[TaskIds], standby: list[TaskIds] | None = None) -> dict[str, list[TaskIds]]:
    """What a member reports to run."""
    return {"active_tasks": active, "standby_tasks": standby or [], "warmup_tasks": []}


def told_of(table: Table) -> Iterator[Any]:
    """The configurations of the groups."""
    one = table.clients[0]
    yield one.ask(StreamsGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=True), 0)
    listed = one.ask(ListGroupsRequest(states_filter=[], types_filter=["streams"]), 5)
    yield [group for group in listed.groups if group.group_id == table.group_id]


def settled(table: Table, client: Any, epoch: int, member_id: str = "a", **fields: Any) -> Any:
    """Send heartbeats until the internal topics exist and their change has been noticed; returns the last answer."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        answer = client.ask(beat(table.group_id, epoch, member_id, **fields), 0)
        assert not answer.error_code, answer
        if not any(status.status_code == MISSING_INTERNAL_TOPICS for status in answer.status or ()):
            return answer
        epoch = answer.member_epoch
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def refusals(table: Table) -> Iterator[Any]:
    """What a heartbeat must not say."""
    one, simple = table.client(), part("0", TOPIC)
    for fields in (
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"instance_id": "i"},
        {"instance_id": ""},
        {"rebalance_timeout_ms": -1},
        {"active_tasks": tasks(a=[0])},
        {"active_tasks": None},
        {"standby_tasks": None},
        {"warmup_tasks": tasks(a=[0])},
        {"topology": None},
        {"task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]},
        {"task_end_offsets": []},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"member_epoch": -1},
        {"member_epoch": 3},
        {"member_epoch": 3, "topology": None},
        {"member_epoch": 3, "topology": None, "active_tasks": None},
    ):
        yield one.ask(joins(table.group_id, simple, **fields), 0)
    for bad in (
        part("0", TOPIC, source_topic_regex=["x.*"]),
        part("0", "__consumer_offsets"),
        part("0", "not a name", TOPIC, "so?"),
        part("0", TOPIC, state_changelog_topics=[topic("c", 3)]),
        part("0", TOPIC, repartition_source_topics=[topic("never-fed")]),
        part("0", repartition_sink_topics=["loop"], repartition_source_topics=[topic("loop")]),
        part("0"),
    ):
        yield one.ask(joins(table.group_id, bad), 0)
    yield from told_of(table)


def one_member(table: Table) -> Iterator[Any]:
    """A member of a topology without internal topics, from its first heartbeat to the deletion of its group."""
    one, group_id = table.client(), table.group_id
    simple = part("0", TOPIC)
    yield one.ask(joins(group_id, simple), 0)
    yield from told_of(table)
    answer = one.ask(beat(group_id, 2, **owns(tasks(**{"0": [0, 1]}))), 0)
    yield answer
    yield from told_of(table)
    yield one.ask(beat(group_id, 2), 0)
    for fields in ({"member_epoch": 1}, {"member_epoch": 9}, {"member_id": "stranger"}):
        yield one.ask(beat(group_id, **{"epoch": 2, **_named(fields)}), 0)
    yield one.ask(beat(group_id, 2, **owns(tasks(**{"7": [0]}))), 0)
    yield one.ask(beat(group_id, 2, **owns(tasks(**{"0": [2]}))), 0)
    yield one.ask(beat(group_id, 2, topology=Topology(epoch=0, subtopologies=[])), 0)
    yield one.ask(joins(group_id, part("1", TOPIC)), 0)
    yield one.ask(joins(group_id, simple, epoch=1), 0)
    yield one.ask(ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 1)
    yield one.ask(DescribeGroupsRequest(groups=[group_id]), 6)
    yield one.ask(table.consumer(), 1)
    yield one.ask(table.join(), 9)
    yield one.ask(table.join("someone"), 9)
    for version in (8, 9):
        for epoch in (2, 1, 9, -1):
            yield one.ask(table.commit(version, generation_id_or_member_epoch=epoch, member_id="a"), version)
    yield one.ask(table.commit(9, generation_id_or_member_epoch=2, member_id="stranger"), 9)
    yield one.ask(table.fetch(member_id="a", member_epoch=2), 9)
    yield one.ask(table.fetch(member_id="a", member_epoch=1), 9)
    yield one.ask(table.fetch(member_id="stranger", member_epoch=1), 9)
    yield one.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    yield one.ask(beat(group_id, 2, rack_id="r", client_tags=[KeyValue(key="zone", value="z")]), 0)
    yield from told_of(table)
    yield one.ask(beat(group_id, -1), 0)
    yield one.ask(beat(group_id, -1), 0)
    yield from told_of(table)
    yield one.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    yield from told_of(table)
    yield one.ask(beat(group_id, -1), 0)
    yield one.ask(beat(group_id, 2), 0)


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    return {"epoch" if name == "member_epoch" else name: value for name, value in fields.items()}


def internal_topics(table: Table) -> Iterator[Any]:
    """The broker creates repartition and changelog topics, and assigns their tasks."""
    one, group_id = table.client(), table.group_id
    counted = (
        part("0", TOPIC, repartition_sink_topics=[f"{group_id}-by-word"]),
        part(
            "1",
            repartition_source_topics=[topic(f"{group_id}-by-word", **{"cleanup.policy": "delete"})],
            state_changelog_topics=[topic(f"{group_id}-counts", **{"cleanup.policy": "compact"})],
        ),
    )
    first = one.ask(joins(group_id, *counted), 0)
    yield [status.status_code for status in first.status]
    answer = settled(table, one, first.member_epoch, **owns([]))
    yield answer.active_tasks
    names = [f"{group_id}-by-word", f"{group_id}-counts"]
    with Admin(bootstrap_servers=table.bootstrap_servers) as admin:
        yield sorted((name, len(found.partitions)) for name, found in admin.describe_topics(names).items())
    described = one.ask(StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 0)
    yield described.groups[0].topology
    yield [(member.assignment, member.target_assignment) for member in described.groups[0].members]
    yield one.ask(beat(group_id, -1), 0)


def missing_topics(table: Table) -> Iterator[Any]:
    """Source topics that do not exist, internal ones with other partitions, and topics that do not fit each other."""
    one, group_id = table.client(), table.group_id
    absent = [f"{group_id}-{name}" for name in ("absent", "c", "b", "a")]
    yield one.ask(joins(group_id, part("0", TOPIC, *absent)), 0)
    yield from told_of(table)
    yield one.ask(beat(group_id, 2), 0)
    yield one.ask(beat(group_id, -1), 0)
    yield one.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    three, five = f"{group_id}-three", f"{group_id}-five"
    with Admin(bootstrap_servers=table.bootstrap_servers) as admin, contextlib.suppress(BrokerError):
        admin.create_topics([NewTopic(three, 3), NewTopic(five, 5)])
    _await_topics(table, three, five)
    both = CopartitionGroup(source_topics=[0, 1], source_topic_regex=[], repartition_source_topics=[])
    for parts in (
        [part("0", TOPIC, three, copartition_groups=[both])],
        [part("0", TOPIC, state_changelog_topics=[topic(three)])],
        [
            part("0", TOPIC, repartition_sink_topics=[f"{group_id}-r"]),
            part(
                "1",
                three,
                repartition_source_topics=[topic(f"{group_id}-r", 4)],
                copartition_groups=[
                    CopartitionGroup(source_topics=[0], source_topic_regex=[], repartition_source_topics=[0])
                ],
            ),
        ],
    ):
        yield one.ask(joins(group_id, *parts), 0)
        yield from told_of(table)
        yield one.ask(beat(group_id, -1), 0)
        yield one.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)


def _await_topics(table: Table, *names: str) -> None:
    """Wait until the coordinator knows topics: a heartbeat of another group does not miss them any more."""
    client, deadline = table.client(), time.monotonic() + READY_SECONDS
    while True:
        answer = client.ask(joins(table.group_id, part("0", *names)), 0)
        client.ask(beat(table.group_id, -1), 0)
        client.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
        if not answer.status:
            return
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def two_members(table: Table) -> Iterator[Any]:
    """A second member gets a task that the first one has to revoke; then one asks all to stop."""
    one, two, group_id = table.client(), table.client(), table.group_id
    simple = part("0", TOPIC)
    yield one.ask(joins(group_id, simple, user_endpoint=Endpoint(host="h1", port=1)), 0)
    yield one.ask(beat(group_id, 2, **owns(tasks(**{"0": [0, 1]}))), 0)
    yield two.ask(joins(group_id, simple, member_id="b", process_id="p2"), 0)
    yield from told_of(table)
    revoking = one.ask(beat(group_id, 2, **owns(tasks(**{"0": [0, 1]}))), 0)
    yield revoking
    yield from told_of(table)
    yield two.ask(beat(group_id, 3, "b"), 0)
    kept = revoking.active_tasks
    yield one.ask(beat(group_id, 2, **owns(kept)), 0)
    yield two.ask(beat(group_id, 3, "b", **owns([])), 0)
    yield two.ask(beat(group_id, 3, "b", endpoint_information_epoch=1), 0)
    yield from told_of(table)
    yield two.ask(beat(group_id, 3, "b", shutdown_application=True), 0)
    yield one.ask(beat(group_id, 3), 0)
    yield two.ask(beat(group_id, -1, "b"), 0)
    yield one.ask(beat(group_id, 3), 0)
    yield from told_of(table)
    yield one.ask(beat(group_id, -1, shutdown_application=True), 0)
    yield one.ask(joins(group_id, simple), 0)
    yield one.ask(beat(group_id, -1), 0)


def old_topology(table: Table) -> Iterator[Any]:
    """A member with an older topology stays, with the status STALE_TOPOLOGY; one with a newer topology is refused."""
    one, two, group_id = table.client(), table.client(), table.group_id
    yield one.ask(joins(group_id, part("0", TOPIC), epoch=3), 0)
    yield two.ask(joins(group_id, part("1", TOPIC), epoch=2, member_id="b", process_id="p2"), 0)
    yield two.ask(joins(group_id, part("1", TOPIC), epoch=4, member_id="b", process_id="p2"), 0)
    yield from told_of(table)
    yield one.ask(beat(group_id, -1), 0)


def other_types(table: Table) -> Iterator[Any]:
    """Groups that are not streams groups, and an empty classic group that becomes one."""
    one, group_id = table.client(), table.group_id
    yield one.ask(table.consumer(), 1)
    yield one.ask(joins(group_id, part("0", TOPIC)), 0)
    yield one.ask(beat(group_id, 1), 0)
    yield one.ask(beat(group_id, -1), 0)
    yield from told_of(table)
    yield one.ask(table.consumer(member_epoch=-1), 1)
    yield one.ask(joins(group_id, part("0", TOPIC)), 0)
    yield one.ask(DeleteGroupsRequest(groups_names=[group_id]), 2)
    yield one.ask(table.commit(9), 9)
    yield from told_of(table)
    yield one.ask(joins(group_id, part("0", TOPIC)), 0)
    yield from told_of(table)
    yield one.ask(beat(group_id, -1), 0)
    yield one.ask(table.consumer(), 1)
    yield one.ask(table.join(), 9)
    yield _described_at_last(table, one)


def _described_at_last(table: Table, client: RawClient) -> Any:
    """The classic group, once it has replaced the streams group: Apache Kafka describes what is replicated."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        answer = client.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
        if not answer.groups[0].error_code:
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


CONVERSATIONS = {
    talk.__name__: talk
    for talk in (refusals, one_member, internal_topics, missing_topics, two_members, old_topology, other_types)
}
