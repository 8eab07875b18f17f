"""Our Admin's operations on partitions, transactions and replicas, on Apache Kafka and on our own broker alike."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw import (
    AclOperation,
    Admin,
    BrokerError,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    FeatureUpdate,
    NewTopic,
    OffsetAndTimestamp,
    OffsetSpec,
    Producer,
    RaftVoterEndpoint,
    TopicPartition,
    TopicPartitionReplica,
    UpgradeType,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from tests.docs.test_java_admin import rows
from tests.interop.apache_kafka import fetch_jars, why_missing

WAIT_S = 30.0


@pytest.fixture(scope="module")
def our_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
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


def code_of(error: BaseException) -> int:
    assert isinstance(error, BrokerError)
    return error.code


def test_offsets_of_every_spec(servers: str, admin: Admin, topic: str) -> None:
    filled, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    day_ms = int(time.time() * 1000) - 86_400_000
    with Producer(bootstrap_servers=servers) as producer:
        for delta_ms in (1000, 3000, 2000):
            producer.send(topic, b"v", partition=0, timestamp_ms=day_ms + delta_ms).result(WAIT_S)

    def offset_at(place: OffsetSpec | int, partition: TopicPartition = filled) -> OffsetAndTimestamp | None:
        return admin.list_offsets({partition: place})[partition]

    assert offset_at(OffsetSpec.EARLIEST) == (0, -1, 0)
    assert offset_at(OffsetSpec.EARLIEST_LOCAL) == (0, -1, 0)
    assert offset_at(OffsetSpec.LATEST) == (3, -1, 0)
    assert offset_at(OffsetSpec.MAX_TIMESTAMP) == (1, day_ms + 3000, 0)
    assert offset_at(OffsetSpec.LATEST_TIERED) is None
    assert offset_at(day_ms + 1500) == (1, day_ms + 3000, 0)
    assert offset_at(day_ms + 4000) is None
    assert offset_at(OffsetSpec.MAX_TIMESTAMP, empty) is None
    assert admin.list_offsets({filled: OffsetSpec.LATEST, empty: OffsetSpec.LATEST}) == {
        filled: (3, -1, 0),
        empty: (0, -1, 0),
    }


def test_list_offsets_names_each_partition_that_failed(admin: Admin, topic: str) -> None:
    there, not_there, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition("none", 0)
    with pytest.raises(BrokerError, match="LATEST in none-0") as refused:
        admin.list_offsets({there: OffsetSpec.LATEST, not_there: 0, nowhere: OffsetSpec.LATEST})
    assert {key: code_of(error) for key, error in refused.value.failures.items()} == {
        not_there: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_open_transaction_is_seen_by_every_operation(servers: str, admin: Admin, topic: str) -> None:
    first, started_ms = TopicPartition(topic, 0), time.time() * 1000
    with Producer(bootstrap_servers=servers, transactional_id=topic, transaction_timeout_ms=50_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0).result(WAIT_S)

        (state,) = admin.describe_producers([first])[first]
        described = admin.describe_transactions([topic])[topic]
        assert (described.state, described.timeout_ms, described.partitions) == ("Ongoing", 50_000, {first})
        assert (described.producer_id, described.producer_epoch) == (state.producer_id, state.producer_epoch)
        assert described.start_time_ms is not None
        assert abs(described.start_time_ms - started_ms) < WAIT_S * 1000
        assert described.coordinator in {node.node_id for node in admin.describe_cluster().brokers}
        assert (state.last_sequence, state.coordinator_epoch, state.transaction_start_offset) == (0, None, 0)

        def listed(**filters: object) -> list[str]:
            return [one.transactional_id for one in admin.list_transactions(**filters)]  # type: ignore[arg-type]

        assert topic in listed(states=["Ongoing"], producer_ids=[state.producer_id])
        assert listed(producer_ids=[state.producer_id + 1_000_000]) == []
        assert topic in listed(longer_than_ms=0)
        assert topic not in listed(longer_than_ms=60_000)
        assert listed(pattern=f"{topic[:-2]}..") == [topic]
        assert listed(pattern=topic[:-1]) == []
        committed = admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")
        assert committed[first] == (0, -1, 0)
        producer.commit_transaction()
    deadline = time.monotonic() + WAIT_S
    while True:  # markers follow the answer
        (state,) = admin.describe_producers([first])[first]
        if state.transaction_start_offset is None:
            break
        assert time.monotonic() < deadline
    assert (state.coordinator_epoch, admin.describe_transactions([topic])[topic].start_time_ms is None) == (0, False)


def test_describe_transactions_names_an_id_that_does_not_exist(admin: Admin) -> None:
    with pytest.raises(BrokerError) as refused:
        admin.describe_transactions(["never-used"])
    assert code_of(refused.value) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_abort_transaction_ends_it_in_one_partition(servers: str, admin: Admin, topic: str) -> None:
    both = [TopicPartition(topic, number) for number in range(2)]
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(2):
            producer.send(topic, b"1", partition=number).result(WAIT_S)
        states = {key: found[0] for key, found in admin.describe_producers(both).items()}
        admin.abort_transaction(both[0], states[both[0]])
        after = {key: found[0].transaction_start_offset for key, found in admin.describe_producers(both).items()}
        assert after == {both[0]: None, both[1]: 0}
        admin.fence_producers([topic])


def test_topics_are_described_by_id_with_permissions(admin: Admin, topic: str) -> None:
    by_name = admin.describe_topics([topic], authorized_operations=True)[topic]
    by_id = admin.describe_topics([by_name.topic_id], authorized_operations=True)[by_name.topic_id]
    assert by_id == by_name
    assert {AclOperation.READ, AclOperation.DELETE} <= (by_id.authorized_operations or set())
    assert admin.describe_topics([topic])[topic].authorized_operations is None
    unknown = Uuid(bytes(15) + b"\x07")
    with pytest.raises(BrokerError) as refused:
        admin.describe_topics([by_name.topic_id, unknown])
    assert {key: code_of(error) for key, error in refused.value.failures.items()} == {
        unknown: ErrorCode.UNKNOWN_TOPIC_ID
    }


def test_replica_log_dirs_are_those_of_the_broker(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().brokers
    here, nowhere = TopicPartitionReplica(topic, 0, node.node_id), TopicPartitionReplica("none", 0, node.node_id)
    deadline = time.monotonic() + WAIT_S
    found = admin.describe_replica_log_dirs([here, nowhere])
    while found[here].path is None:  # Apache Kafka makes the log after the topic
        assert time.monotonic() < deadline
        found = admin.describe_replica_log_dirs([here, nowhere])
    (directory,) = admin.describe_log_dirs()[node.node_id]
    assert (found[here].path, found[here].offset_lag, found[here].future_path) == (directory.path, 0, None)
    assert found[nowhere].path is None


@pytest.mark.skipif(shutil.which("javap") is None, reason="needs javap, which is part of a JDK")
def test_the_table_of_java_admin_has_every_method_of_its_class() -> None:
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    command = ["javap", "-cp", f"{fetch_jars()}/*", "org.apache.kafka.clients.admin.Admin"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert set(re.findall(r" (\w+)\(", shown)) == rows().keys()


def test_config_resources_are_listed_by_kind(admin: Admin, topic: str) -> None:
    subscription = ConfigResource.client_metrics(topic)
    admin.alter_configs({subscription: {"interval.ms": "5000", "metrics": "org.apache.kafka.producer."}})
    (node,) = admin.describe_cluster().brokers
    deadline = time.monotonic() + WAIT_S
    while subscription not in (found := admin.list_config_resources()):  # brokers of Apache Kafka learn of it later
        assert time.monotonic() < deadline
    assert {subscription, ConfigResource.topic(topic), ConfigResource.broker(node.node_id)} <= {*found}
    assert subscription in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])
    assert {one.kind for one in admin.list_config_resources([ConfigResourceType.TOPIC])} == {ConfigResourceType.TOPIC}
    admin.alter_configs({subscription: {"interval.ms": None, "metrics": None}})


def test_leaders_that_need_no_election_are_told_apart_from_failures(admin: Admin, topic: str) -> None:
    there, not_there = TopicPartition(topic, 0), TopicPartition(topic, 9)
    for kind in ElectionType:
        assert admin.elect_leaders(kind, [there]) == {there: False}
        with pytest.raises(BrokerError, match=f"elect a leader of {topic}-9") as refused:
            admin.elect_leaders(kind, [there, not_there])
        assert {key: code_of(error) for key, error in refused.value.failures.items()} == {
            not_there: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert admin.elect_leaders(kind) == {}


def test_reassignments_that_cannot_be_done_are_refused(admin: Admin, topic: str) -> None:
    (node,) = admin.describe_cluster().brokers
    first, second, not_there = (TopicPartition(topic, number) for number in (0, 1, 9))
    admin.alter_partition_reassignments({first: [node.node_id]})
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([first, not_there]) == {}

    def codes(moves: dict[TopicPartition, list[int] | None], **options: bool) -> dict[object, tuple[int, str]]:
        with pytest.raises(BrokerError) as refused:
            admin.alter_partition_reassignments(moves, **options)
        return {key: (code_of(error), str(error).partition(": ")[2]) for key, error in refused.value.failures.items()}

    assert {key: code for key, (code, _) in codes({first: None, second: [node.node_id], not_there: [0]}).items()} == {
        first: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        not_there: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for brokers in ([], [node.node_id, node.node_id], [node.node_id, 77], [-3]):
        assert [code for code, _ in codes({first: brokers}).values()] == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_the_metadata_quorum_has_a_leader(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    (voter,) = quorum.voters
    assert voter.replica_id == quorum.leader_id
    assert quorum.leader_epoch >= 0
    assert 0 <= quorum.high_watermark <= voter.log_end_offset
    assert set(quorum.endpoints) == {quorum.leader_id}


def test_raft_voters_of_a_static_quorum_stay(admin: Admin) -> None:
    directory = Uuid(bytes(15) + b"\x07")
    with pytest.raises(BrokerError) as refused:
        admin.add_raft_voter(7, directory, [RaftVoterEndpoint("CONTROLLER", "localhost", 9093)])
    assert code_of(refused.value) == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(BrokerError) as refused:
        admin.remove_raft_voter(7, directory)
    assert code_of(refused.value) == ErrorCode.UNSUPPORTED_VERSION
    for call in (
        lambda: admin.add_raft_voter(7, directory, [], cluster_id="another"),
        lambda: admin.remove_raft_voter(7, directory, cluster_id="another"),
    ):
        with pytest.raises(BrokerError) as refused:
            call()
        assert code_of(refused.value) == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_features_are_described_and_validated(admin: Admin) -> None:
    features = admin.describe_features()
    level = features.finalized["transaction.version"]
    assert level == (2, 2)
    assert features.supported["transaction.version"] == (0, 2)
    assert features.finalized_epoch is not None
    admin.update_features({"transaction.version": 2}, validate_only=True)
    downgrade = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
    admin.update_features({"transaction.version": downgrade}, validate_only=True)
    for updates in ({"transaction.version": 1}, {"transaction.version": 3}, {"no.such.feature": 1}):
        with pytest.raises(BrokerError) as refused:
            admin.update_features(updates, validate_only=True)
        assert code_of(refused.value) == ErrorCode.INVALID_UPDATE_VERSION, updates
    assert admin.describe_features().finalized["transaction.version"] == (2, 2)


def test_a_broker_that_is_not_registered_cannot_be_removed(admin: Admin) -> None:
    with pytest.raises(BrokerError) as refused:
        admin.unregister_broker(77)
    assert code_of(refused.value) == ErrorCode.BROKER_ID_NOT_REGISTERED
