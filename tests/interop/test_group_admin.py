"""Our Admin's operations on groups, on Apache Kafka and on our own broker alike; Java's tool must see the same."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw import (
    AclOperation,
    Admin,
    BrokerError,
    Consumer,
    GroupDescription,
    GroupState,
    GroupType,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol.error_codes import ErrorCode

WAIT_S = 30.0
QUICK = {"group.initial.rebalance.delay.ms": "0"}
CLASSIC: dict[str, object] = {"heartbeat_interval_ms": 200, "partition_assignment_strategy": "range"}
MODERN: dict[str, object] = {"group_protocol": "consumer"}


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=QUICK) as broker:
        yield broker


@pytest.fixture(params=["Apache Kafka", "embedded broker"])
def servers(request: pytest.FixtureRequest) -> str:
    fixture = "apache_kafka" if request.param == "Apache Kafka" else "our_broker"
    found: str = request.getfixturevalue(fixture).bootstrap_servers
    return found


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"admin-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, partitions=2, replication_factor=1)])
    return name


def settled(admin: Admin, consumer: Consumer, group: str) -> GroupDescription:
    """The group, once its only member has everything and said so."""
    deadline = time.monotonic() + WAIT_S
    while True:
        consumer.poll(0.1)
        if len(consumer.assignment()) == 2:
            described = admin.describe_groups([group], authorized_operations=True)[group]
            if described.state is GroupState.STABLE and len(described.members[0].assignment) == 2:
                return described
        assert time.monotonic() < deadline, "the member has not got its partitions"


@pytest.mark.parametrize("settings", [CLASSIC, MODERN], ids=["classic", "KIP-848"])
def test_a_group_from_its_first_member_to_its_end(
    settings: dict[str, object], servers: str, admin: Admin, topic: str
) -> None:
    settings = {**settings, "enable_auto_commit": False}
    group, partitions = topic, [TopicPartition(topic, number) for number in range(2)]
    modern = settings.get("group_protocol") == "consumer"
    kind = GroupType.CONSUMER if modern else GroupType.CLASSIC
    with Consumer(bootstrap_servers=servers, group_id=group, client_id="reader", **settings) as consumer:
        consumer.subscribe([topic])
        described = settled(admin, consumer, group)
        (only,) = described.members
        assert (described.group_type, described.protocol_type) == (kind, "consumer")
        assert (only.client_id, only.host, only.protocol) == ("reader", "/127.0.0.1", kind)
        assert (only.subscribed_topics, list(only.assignment)) == ((topic,), partitions)
        assert described.assignor == ("uniform" if modern else "range")
        assert {AclOperation.READ, AclOperation.DELETE} <= (described.authorized_operations or set())
        listed = {one.group_id: one for one in admin.list_groups(types=[kind], states=[GroupState.STABLE])}
        assert (listed[group].group_type, listed[group].state) == (kind, GroupState.STABLE)
        consumer.commit({partitions[0]: OffsetAndMetadata(0, "here")})
        with pytest.raises(BrokerError) as refused:
            admin.delete_groups([group])
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(BrokerError) as refused:
            admin.alter_group_offsets(group, {partitions[0]: 1})
        assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(BrokerError) as refused:
            admin.delete_group_offsets(group, partitions)
        assert {getattr(error, "code", None) for error in refused.value.failures.values()} == {
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        }
        consumer.unsubscribe()
    admin.alter_group_offsets(group, {partitions[1]: 1})
    positions = admin.list_group_offsets([group], require_stable=True)[group]
    assert {key: (found.offset, found.metadata) for key, found in positions.items()} == {
        partitions[0]: (0, "here"),
        partitions[1]: (1, ""),
    }
    admin.delete_group_offsets(group, partitions[:1])
    assert set(admin.list_group_offsets([group])[group]) == {partitions[1]}
    admin.delete_groups([group])
    with pytest.raises(BrokerError) as refused:
        admin.describe_groups([group])
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("settings", [CLASSIC, MODERN], ids=["classic", "KIP-848"])
def test_a_static_member_is_removed(settings: dict[str, object], servers: str, admin: Admin, topic: str) -> None:
    with Consumer(bootstrap_servers=servers, group_id=topic, group_instance_id="one", **settings) as consumer:
        consumer.subscribe([topic])
        settled(admin, consumer, topic)
    assert [member.group_instance_id for member in admin.describe_groups([topic])[topic].members] == ["one"]
    with pytest.raises(BrokerError) as refused:
        admin.remove_members(topic, ["one", "two"], reason="scaled down")
    assert {name: getattr(error, "code", None) for name, error in refused.value.failures.items()} == {
        "two": ErrorCode.UNKNOWN_MEMBER_ID
    }
    assert admin.describe_groups([topic])[topic].members == ()


def test_failures_have_the_same_codes_on_both_brokers(admin: Admin, topic: str) -> None:
    absent = f"absent-{topic}"
    with pytest.raises(BrokerError) as refused:
        admin.describe_groups([absent, f"{absent}-too"])
    assert len(refused.value.failures) == 2
    with pytest.raises(BrokerError) as refused:
        admin.delete_groups([absent])
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(BrokerError) as refused:
        admin.delete_group_offsets(absent, [TopicPartition(topic, 0)])
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(BrokerError) as refused:
        admin.alter_group_offsets(absent, {TopicPartition(topic, 7): 0})
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(BrokerError) as refused:
        admin.remove_members(absent, ["one"])
    assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert admin.list_group_offsets([absent]) == {absent: {}}
