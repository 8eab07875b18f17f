"""Conversations about groups that go from one protocol to the other while they have members; see `group_questions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw.core.group.consumer_protocol import MemberSubscription, encode_assignment, encode_subscription
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.sync_group import SyncGroupRequestAssignment
from kafkaraw.records import TopicPartition
from tests.interop.group_questions import TOPIC, Table
from tests.interop.raw_client import RawClient

KEEP: Final = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def joins(table: Table, member_id: str = "", *owned: TopicPartition, generation: int = -1, **fields: Any) -> Any:
    """A JoinGroup of a member that says what it has."""
    said = encode_subscription(
        MemberSubscription((TOPIC,), owned, generation_id=None if generation < 0 else generation)
    )
    protocols = [JoinGroupRequestProtocol(name=name, metadata=said) for name in ("range", "cooperative-sticky")]
    return table.join(member_id, **{"protocols": protocols, **fields})


def alone(table: Table, client: RawClient, **fields: Any) -> Any:
    """A classic group of one member, which has both partitions."""
    request: JoinGroupRequest = joins(table, **fields)
    if "group_instance_id" not in fields:
        request = joins(table, client.ask(request, 9).member_id)
    joined = client.ask(request, 9)
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=encode_assignment([P0, P1]))]
    client.ask(table.sync(joined, assignments=given, **fields), 5)
    return joined


def sees(table: Table, client: RawClient) -> Iterator[Any]:
    """The group, as an administrator sees it."""
    asked = [table.group_id]
    yield client.ask(ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=True), 1)
    yield client.ask(DescribeGroupsRequest(groups=asked, include_authorized_operations=True), 6)


def up_and_down(table: Table) -> Iterator[Any]:
    """A member of the new protocol joins a classic group, takes half of it, and leaves."""
    one, two = table.client(), table.client()
    first = alone(table, one)
    a = first.member_id
    yield from sees(table, one)
    yield two.ask(table.consumer(member_id="b"), 1)
    yield from sees(table, one)
    yield one.ask(table.sync(first, assignments=[]), 5)
    yield one.ask(table.beat(first), 4)
    yield one.ask(table.commit(9, generation_id_or_member_epoch=first.generation_id, member_id=a), 9)
    yield one.ask(table.commit(9, generation_id_or_member_epoch=first.generation_id + 1, member_id=a), 9)
    yield one.ask(table.commit(8, generation_id_or_member_epoch=first.generation_id, member_id=a), 8)
    yield one.ask(table.fetch(member_id=a, member_epoch=7), 9)
    again = one.ask(joins(table, a, P0, P1, generation=first.generation_id), 9)
    yield again
    yield one.ask(table.sync(again, assignments=[]), 5)
    yield one.ask(table.beat(again), 4)
    yield from sees(table, one)
    (kept,) = {P0, P1} - {P1}
    given_up = one.ask(joins(table, a, kept, generation=again.generation_id), 9)
    yield given_up
    yield one.ask(table.sync(given_up, assignments=[]), 5)
    yield one.ask(table.beat(given_up), 4)
    yield one.ask(table.beat(first), 4)
    yield two.ask(table.consumer(member_id="b", member_epoch=given_up.generation_id, **KEEP), 1)
    yield from sees(table, one)
    yield one.ask(ListGroupsRequest(types_filter=["consumer"], states_filter=["Stable"]), 5)
    yield one.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
    yield two.ask(table.consumer(member_id="b", member_epoch=-1, **KEEP), 1)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield one.ask(table.beat(given_up), 4)
    yield one.ask(table.sync(given_up, assignments=[]), 5)
    last = one.ask(joins(table, a, kept, generation=given_up.generation_id), 9)
    yield last
    yield one.ask(table.sync(last), 5)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=a)]), 5)


def classic_among_consumers(table: Table) -> Iterator[Any]:
    """A classic member comes to a group of the new protocol; what is refused to it."""
    one, two = table.client(), table.client()
    yield two.ask(table.consumer(member_id="b"), 1)
    for fields in (
        {"protocol_type": "connect"},
        {"protocols": []},
        {"member_id": "stranger", "group_instance_id": "nobody"},
        {"session_timeout_ms": 1},
    ):
        yield one.ask(joins(table, **fields), 9)
    required = one.ask(joins(table), 9)
    yield required
    joined = one.ask(joins(table, required.member_id), 9)
    yield joined
    yield one.ask(joins(table, protocols=[JoinGroupRequestProtocol(name="mine", metadata=b"")]), 9)
    for fields in (
        {"generation_id": 99},
        {"member_id": "stranger"},
        {"member_id": "b"},
        {"group_instance_id": "nobody"},
        {"protocol_name": "other"},
        {"protocol_type": "other"},
        {},
    ):
        yield one.ask(table.sync(joined, **{"assignments": [], **fields}), 5)
    for fields in (
        {"generation_id": 99},
        {"member_id": "stranger"},
        {"member_id": "b"},
        {"group_instance_id": "nobody"},
    ):
        yield one.ask(table.beat(joined, **fields), 4)
    yield two.ask(table.consumer(member_id="b", member_epoch=3, **{**KEEP, "topic_partitions": table.owns()}), 1)
    yield from sees(table, one)
    yield one.ask(table.beat(joined), 4)
    back = one.ask(joins(table, required.member_id), 9)
    yield back
    yield one.ask(table.sync(back, assignments=[]), 5)
    for leaving in (
        MemberIdentity(member_id="stranger"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id="b", group_instance_id="nobody"),
        MemberIdentity(member_id=required.member_id),
        MemberIdentity(member_id="b"),
    ):
        yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[leaving]), 5)
        yield from sees(table, one)


def static_up_and_down(table: Table) -> Iterator[Any]:
    """A static member changes to the new protocol and back; its place stays its own."""
    one, two = table.client(), table.client()
    first = alone(table, one, group_instance_id="i")
    yield first
    yield two.ask(table.consumer(member_id="b", instance_id="i"), 1)
    yield one.ask(table.beat(first, group_instance_id="i"), 4)
    yield one.ask(joins(table, first.member_id, group_instance_id="i"), 9)
    yield from sees(table, one)
    yield two.ask(table.consumer(member_id="c", instance_id="i"), 1)
    back = one.ask(joins(table, group_instance_id="i"), 9)
    yield back
    yield one.ask(table.sync(back, assignments=[], group_instance_id="i"), 5)
    yield two.ask(table.consumer(member_id="b", instance_id="i", member_epoch=back.generation_id, **KEEP), 1)
    yield from sees(table, one)
    leaving = [MemberIdentity(member_id="", group_instance_id="i")]
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=leaving), 5)
    yield from sees(table, one)


def removed_by_an_administrator(table: Table) -> Iterator[Any]:
    """Members of the new protocol are removed by LeaveGroup, by id and by static name."""
    one = table.client()
    yield one.ask(table.consumer(), 1)
    yield one.ask(table.consumer(member_id="s", instance_id="i"), 1)
    for leaving in (
        [MemberIdentity(member_id="x", group_instance_id="i"), MemberIdentity(member_id="", group_instance_id="i")],
        [MemberIdentity(member_id="a"), MemberIdentity(member_id="nobody")],
    ):
        yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=leaving), 5)
        yield from sees(table, one)
    yield one.ask(table.consumer(member_epoch=3, **KEEP), 1)


def empty_groups(table: Table) -> Iterator[Any]:
    """A group without members goes to whichever protocol the next member speaks, and keeps its positions."""
    one = table.client()
    yield one.ask(table.consumer(), 1)
    yield one.ask(table.commit(9, generation_id_or_member_epoch=2, member_id="a"), 9)
    yield one.ask(table.consumer(member_epoch=-1, **KEEP), 1)
    joined = alone(table, one)
    yield joined
    yield from sees(table, one)
    yield one.ask(table.fetch(), 9)
    leaving = [MemberIdentity(member_id=joined.member_id)]
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=leaving), 5)
    yield one.ask(table.consumer(), 1)
    yield from sees(table, one)
    yield one.ask(table.fetch(), 9)


def not_of_consumers(table: Table) -> Iterator[Any]:
    """Classic groups that cannot go up: no consumers', with an assignor's own bytes, with bytes that make no sense."""
    one, two = table.client(), table.client()
    connect = table.join(protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="x", metadata=b"y")])
    joined = one.ask(table.join(one.ask(connect, 9).member_id, protocol_type="connect", protocols=connect.protocols), 9)
    yield two.ask(table.consumer(member_id="b"), 1)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=joined.member_id)]), 5)
    for assignment in (encode_assignment([P0], b"mine"), b"\0", b"\0\0\0"):
        joined = one.ask(joins(table, one.ask(joins(table), 9).member_id), 9)
        given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)]
        yield one.ask(table.sync(joined, assignments=given), 5)
        yield two.ask(table.consumer(member_id="b"), 1)
        yield one.ask(table.beat(joined), 4)
        leaving = [MemberIdentity(member_id=joined.member_id)]
        yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=leaving), 5)


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    talk.__name__: talk
    for talk in (
        up_and_down,
        classic_among_consumers,
        static_up_and_down,
        removed_by_an_administrator,
        empty_groups,
        not_of_consumers,
    )
}
"""By name."""
