"""Conversations about groups, to be had with two brokers: each is a function that asks, and gives what it was told.

What differs between two brokers by nature (ids that are made up) is named the same in `told`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkaraw import Admin, ConfigResource, Consumer, NewTopic
from kafkaraw.broker.groups.records import GroupRecord, decode_record
from kafkaraw.errors import BrokerError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkaraw.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.groups.world import subscription
from tests.interop.raw_client import RawClient

TOPIC: Final = "questions"
OFFSETS_TOPIC: Final = "__consumer_offsets"
READY_SECONDS: Final = 30
_MADE_UP: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|^[A-Za-z0-9_-]{22}$")
# What each broker chooses for itself: times, and a hash that only has to change when the topics do.
_OF_ITS_OWN: Final = {"throttle_time_ms", "metadata_hash", "commit_timestamp", "current_state_timestamp"} | {
    "assignment_timestamp"
}
_GROUP_NAMES: Final = ("group", "group_id")
_NOT_READY: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class Table:
    """Several connections to one broker, and the topic that questions are about.

    Args:
        bootstrap_servers: of the broker.
        group_id: of the group.
    """

    def __init__(self, bootstrap_servers: str, group_id: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.group_id = group_id
        self.clients: list[RawClient] = []
        # It is there from the conversation before, perhaps.
        with Admin(bootstrap_servers=bootstrap_servers) as admin, contextlib.suppress(BrokerError):
            admin.create_topics([NewTopic(TOPIC, 2)])
        first = self.client()
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        self.topic_id = Uuid(first.ask(asked, 12).topics[0].topic_id)
        deadline = time.monotonic() + READY_SECONDS
        while self._is_unready(first):
            assert time.monotonic() < deadline, "the coordinator is not ready"
            time.sleep(0.1)

    def _is_unready(self, client: RawClient) -> bool:
        found = client.ask(FindCoordinatorRequest(coordinator_keys=[self.group_id]), 4).coordinators[0]
        fetched = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id)]), 8)
        return bool({found.error_code, fetched.groups[0].error_code} & _NOT_READY)

    def client(self) -> RawClient:
        """One more connection."""
        client = RawClient(self.bootstrap_servers)
        self.clients.append(client)
        return client

    def close(self) -> None:
        """Close the connections."""
        for client in self.clients:
            client.close()

    def told(self, answer: Any) -> Any:
        """An answer, with made-up ids named."""
        if dataclasses.is_dataclass(answer):
            return {
                field.name: self.told(getattr(answer, field.name))
                for field in dataclasses.fields(answer)
                if field.name not in _OF_ITS_OWN
            }
        if isinstance(answer, tuple):
            return tuple(map(self.told, answer))
        if isinstance(answer, list):
            parts = [self.told(one) for one in answer]
            return sorted(parts, key=repr)
        if isinstance(answer, str):
            return _MADE_UP.sub("ID", answer)
        if isinstance(answer, bytes | memoryview):
            raw = bytes(answer)
            return "topic" if raw == self.topic_id else "zero" if raw == ZERO_UUID else raw
        return answer

    # ---- requests

    def join(self, member_id: str = "", **fields: Any) -> JoinGroupRequest:
        return JoinGroupRequest(
            **{
                "group_id": self.group_id,
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": member_id,
                "protocol_type": "consumer",
                "protocols": [
                    JoinGroupRequestProtocol(name=name, metadata=subscription(TOPIC)) for name in ("range", "sticky")
                ],
                **fields,
            }
        )

    def sync(self, joined: Any, **fields: Any) -> SyncGroupRequest:
        return SyncGroupRequest(
            **{
                "group_id": self.group_id,
                "generation_id": joined.generation_id,
                "member_id": joined.member_id,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"part")],
                **fields,
            }
        )

    def beat(self, joined: Any, **fields: Any) -> HeartbeatRequest:
        return HeartbeatRequest(
            **{
                "group_id": self.group_id,
                "generation_id": joined.generation_id,
                "member_id": joined.member_id,
                **fields,
            }
        )

    def commit(self, version: int, *, partition: int = 0, topic: str = TOPIC, **fields: Any) -> OffsetCommitRequest:
        parts = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata="m")]
        wanted = self.topic_id if topic == TOPIC else Uuid(b"x" * 16)
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=wanted if version > 9 else ZERO_UUID, partitions=parts)]
        return OffsetCommitRequest(group_id=self.group_id, topics=topics, **fields)

    def fetch(self, *, everything: bool = False, **fields: Any) -> OffsetFetchRequest:
        topics = [OffsetFetchRequestTopics(name=TOPIC, topic_id=self.topic_id, partition_indexes=[0, 1, 5])]
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=None if everything else topics, **fields)
        return OffsetFetchRequest(groups=[group])

    def consumer(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group_id,
                "member_id": "a",
                "member_epoch": 0,
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": [TOPIC],
                "topic_partitions": [],
                **fields,
            }
        )

    def owns(self, *partitions: int) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topic_id, partitions=list(partitions))]


def joining(table: Table) -> Iterator[Any]:
    """What a classic group refuses, and how it takes somebody in."""
    one = table.client()
    for fields in (
        {"group_id": ""},
        {"session_timeout_ms": 1},
        {"member_id": "stranger"},
        {"protocol_type": ""},
        {"protocols": []},
    ):
        for version in (4, 9):
            yield one.ask(table.join(**fields), version)
    required = one.ask(table.join(), 9)
    yield required
    yield one.ask(table.beat(required), 4)
    joined = one.ask(table.join(required.member_id), 9)
    yield joined
    yield one.ask(table.commit(9, generation_id_or_member_epoch=1, member_id=joined.member_id), 9)
    for fields in (
        {"generation_id": 9},
        {"member_id": "stranger"},
        {"group_instance_id": "nobody"},
        {"protocol_name": "other"},
        {"protocol_type": "other"},
        {"protocol_name": None},
        {"group_id": ""},
        {"group_id": "no such group"},
    ):
        yield one.ask(table.sync(joined, **fields), 5)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield one.ask(table.sync(joined), 5)
    yield one.ask(table.sync(joined, protocol_name=None, protocol_type=None), 3)
    yield one.ask(table.join(protocol_type="connect"), 9)
    yield one.ask(table.join(protocols=[JoinGroupRequestProtocol(name="mine", metadata=b"")]), 9)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id, "no such group"]), 6)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id, "no such group"]), 5)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=joined.member_id)]), 5)


def living(table: Table) -> Iterator[Any]:
    """Heartbeats, commits and leaving of a member of a classic group."""
    one = table.client()
    required = one.ask(table.join(), 9)
    joined = one.ask(table.join(required.member_id), 9)
    one.ask(table.sync(joined), 5)
    for fields in (
        {},
        {"generation_id": 9},
        {"member_id": "stranger"},
        {"group_instance_id": "nobody"},
        {"group_id": ""},
        {"group_id": "no such group"},
    ):
        yield one.ask(table.beat(joined, **fields), 4)
    who = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    for version in range(2, 11):
        yield one.ask(table.commit(version, **who), version)
    for version in (8, 9, 10):
        yield one.ask(table.commit(version), version)
        yield one.ask(table.commit(version, **{**who, "generation_id_or_member_epoch": 9}), version)
        yield one.ask(table.commit(version, **{**who, "member_id": "stranger"}), version)
        yield one.ask(table.commit(version, partition=9, **who), version)
        yield one.ask(table.commit(version, topic="no such topic", **who), version)
    for version in (8, 9, 10):
        yield one.ask(table.fetch(), version)
        yield one.ask(table.fetch(everything=True), version)
    yield one.ask(table.fetch(member_id="stranger", member_epoch=3), 9)
    yield one.ask(DeleteGroupsRequest(groups_names=[table.group_id, "no such group"]), 2)
    yield from _offset_deletes(table, one)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id="stranger")]), 5)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, member_id="stranger"), 2)
    yield one.ask(LeaveGroupRequest(group_id="", member_id="stranger"), 2)
    yield one.ask(LeaveGroupRequest(group_id="no such group", members=[MemberIdentity(member_id="stranger")]), 5)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, member_id=joined.member_id), 2)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield one.ask(table.commit(9, **who), 9)
    yield one.ask(table.commit(9), 9)
    yield from _offset_deletes(table, one)
    yield one.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
    yield one.ask(table.fetch(), 9)
    yield one.ask(table.commit(8, **who), 8)
    yield one.ask(table.commit(9, **who), 9)


def _offset_deletes(table: Table, one: RawClient) -> Iterator[Any]:
    parts = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1, 9)]
    for group_id in (table.group_id, "no such group", ""):
        topics = [OffsetDeleteRequestTopic(name=name, partitions=parts) for name in (TOPIC, "no such topic")]
        yield one.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)


def two_members(table: Table) -> Iterator[Any]:
    """A rebalance with a second member, who leaves again."""
    one, two = table.client(), table.client()
    first = one.ask(table.join(one.ask(table.join(), 9).member_id), 9)
    one.ask(table.sync(first), 5)
    joining_second = table.join(two.ask(table.join(), 9).member_id)
    yield one.ask(table.beat(first), 4)
    two.send(joining_second, 9)
    deadline = time.monotonic() + READY_SECONDS
    while not one.ask(table.beat(first), 4).error_code:
        assert time.monotonic() < deadline
    yield one.ask(table.beat(first), 4)
    yield one.ask(table.sync(first), 5)
    yield one.ask(table.commit(9, generation_id_or_member_epoch=1, member_id=first.member_id), 9)
    again = one.ask(table.join(first.member_id), 9)
    second = two.receive(joining_second, 9)
    yield again
    yield second
    two.send(table.sync(second, assignments=[]), 5)
    yield one.ask(table.sync(again), 5)
    yield two.receive(table.sync(second), 5)
    yield one.ask(ListGroupsRequest(states_filter=["stable"], types_filter=["Classic"]), 5)
    yield two.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=second.member_id)]), 5)
    yield one.ask(table.beat(again), 4)
    yield one.ask(table.join(first.member_id), 9)
    yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=[MemberIdentity(member_id=first.member_id)]), 5)


def static_member(table: Table) -> Iterator[Any]:
    """A static member that comes back, and is removed by its name."""
    one = table.client()
    joined = one.ask(table.join(group_instance_id="i"), 9)
    yield joined
    yield one.ask(table.sync(joined, group_instance_id="i"), 5)
    again = one.ask(table.join(group_instance_id="i"), 9)
    yield again
    yield one.ask(table.join(group_instance_id="i"), 8)
    yield one.ask(table.beat(joined, group_instance_id="i"), 4)
    yield one.ask(table.join(joined.member_id, group_instance_id="i"), 9)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    for instance_id in ("nobody", "i"):
        leaving = [MemberIdentity(member_id="", group_instance_id=instance_id)]
        yield one.ask(LeaveGroupRequest(group_id=table.group_id, members=leaving), 5)


def consumer_group(table: Table) -> Iterator[Any]:
    """A group of the new protocol, with what it refuses."""
    one = table.client()
    for fields in (
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": table.owns(0)},
        {"subscribed_topic_names": None},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"server_assignor": "mine"},
        {"member_epoch": 1},
        {"member_epoch": -1},
    ):
        yield one.ask(table.consumer(**fields), 1)
    yield one.ask(table.consumer(), 1)
    yield one.ask(ConsumerGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=False), 1)
    keep = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
    yield one.ask(table.consumer(member_epoch=2, **keep), 1)
    yield one.ask(table.consumer(member_epoch=7, **keep), 1)
    yield one.ask(table.consumer(member_id="stranger", member_epoch=2, **keep), 1)
    yield one.ask(table.consumer(member_id="b"), 1)
    yield one.ask(table.consumer(member_epoch=2, **{**keep, "topic_partitions": table.owns(0, 1)}), 1)
    yield one.ask(ConsumerGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=False), 1)
    yield one.ask(table.consumer(member_epoch=2, **{**keep, "topic_partitions": table.owns()}), 1)
    yield one.ask(table.consumer(member_id="b", member_epoch=3, **keep), 1)
    yield one.ask(table.consumer(member_epoch=2, **keep), 1)
    for version in (8, 9, 10):
        who = {"generation_id_or_member_epoch": 3, "member_id": "a"}
        yield one.ask(table.commit(version, **who), version)
        yield one.ask(table.commit(version, **{**who, "generation_id_or_member_epoch": 4}), version)
        yield one.ask(table.commit(version, **{**who, "member_id": "stranger"}), version)
        yield one.ask(table.commit(version), version)
    yield one.ask(table.fetch(member_id="a", member_epoch=3), 9)
    yield one.ask(table.fetch(member_id="a", member_epoch=2), 9)
    yield one.ask(table.fetch(member_id="stranger", member_epoch=3), 9)
    yield one.ask(DescribeGroupsRequest(groups=[table.group_id]), 6)
    yield one.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)
    yield one.ask(table.consumer(member_id="b", member_epoch=-1, **keep), 1)
    yield one.ask(table.consumer(member_epoch=-1, **keep), 1)
    yield one.ask(ConsumerGroupDescribeRequest(group_ids=[table.group_id, "x"], include_authorized_operations=False), 1)
    yield one.ask(DeleteGroupsRequest(groups_names=[table.group_id]), 2)


def reads_nothing(table: Table) -> Iterator[Any]:
    """The first member of a group of the new protocol reads no topic, then one that there is not, then one."""
    one = table.client()
    yield one.ask(table.consumer(subscribed_topic_names=[]), 1)
    keep = {"rebalance_timeout_ms": -1, "topic_partitions": None}
    for epoch, names in ((1, ["no such topic"]), (2, [TOPIC]), (3, [])):
        yield one.ask(table.consumer(member_epoch=epoch, subscribed_topic_names=names, **keep), 1)
        yield one.ask(ConsumerGroupDescribeRequest(group_ids=[table.group_id], include_authorized_operations=False), 1)
    yield one.ask(table.consumer(member_epoch=-1, **keep), 1)


def settings_of_its_own(table: Table) -> Iterator[Any]:
    """The heartbeat interval of one group is changed while it lives, and taken back."""
    one, group = table.client(), ConfigResource.group(table.group_id)
    keep = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
    before = one.ask(table.consumer(), 1).heartbeat_interval_ms
    with Admin(bootstrap_servers=table.bootstrap_servers) as admin:
        for value, expected in (("450", 450), (None, before)):
            admin.alter_configs({group: {"consumer.heartbeat.interval.ms": value}})
            deadline = time.monotonic() + READY_SECONDS  # brokers learn of it after the controller's answer
            while (told := one.ask(table.consumer(member_epoch=2, **keep), 1)).heartbeat_interval_ms != expected:
                assert time.monotonic() < deadline, told
            yield told
            found = admin.describe_configs([group], names=["consumer.heartbeat.interval.ms"])[group]
            yield [(entry.name, entry.value, entry.source.name) for entry in found.values()]
        for value in ("99", "x", "600000"):
            try:
                admin.alter_configs({group: {"consumer.heartbeat.interval.ms": value}})
            except BrokerError as error:
                yield error.name, error.message


def static_consumer(table: Table) -> Iterator[Any]:
    """A static member of a group of the new protocol."""
    one = table.client()
    keep = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None, "instance_id": "i"}
    yield one.ask(table.consumer(instance_id="i"), 1)
    yield one.ask(table.consumer(instance_id="i", member_id="b"), 1)
    yield one.ask(table.consumer(member_id="b", member_epoch=2, **keep), 1)
    yield one.ask(table.consumer(member_epoch=2, **{**keep, "instance_id": "nobody"}), 1)
    yield one.ask(table.consumer(member_epoch=-2, **keep), 1)
    yield one.ask(table.consumer(instance_id="i", member_id="b"), 1)
    yield one.ask(table.consumer(member_epoch=2, **keep), 1)
    yield one.ask(table.consumer(member_id="b", member_epoch=-1, **keep), 1)


CONVERSATIONS: Final[dict[str, Callable[[Table], Iterator[Any]]]] = {
    talk.__name__: talk
    for talk in (
        joining,
        living,
        two_members,
        static_member,
        consumer_group,
        reads_nothing,
        settings_of_its_own,
        static_consumer,
    )
}
"""By name."""


def have(talk: Callable[[Table], Iterator[Any]], bootstrap_servers: str, group_id: str) -> list[Any]:
    """Have a conversation; gives everything that was told."""
    with contextlib.closing(Table(bootstrap_servers, group_id)) as table:
        return [table.told(answer) for answer in talk(table)]


def written(bootstrap_servers: str, group_id: str) -> list[str]:
    """The records about a group in `__consumer_offsets`, with made-up ids named; sorted, for some come in any order."""
    with contextlib.closing(Table(bootstrap_servers, group_id)) as table:
        with Consumer(bootstrap_servers=bootstrap_servers) as consumer:
            partitions = consumer.partitions_for(OFFSETS_TOPIC)
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            ends, found = consumer.end_offsets(partitions), list[GroupRecord]()
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                for batch in consumer.poll(READY_SECONDS).values():
                    records = (decode_record(bytes(each.key or b""), each.value) for each in batch)
                    found += [record for record in records if record is not None]
        own = [record for record in found if group_id in (getattr(record.key, name, "") for name in _GROUP_NAMES)]
        return sorted(f"{type(record.key).__name__} {json.dumps(table.told(record), default=repr)}" for record in own)
