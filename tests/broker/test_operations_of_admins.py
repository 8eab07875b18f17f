"""Elections, reassignments, registrations, features and the quorum of an embedded cluster, used by administrators."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkaraw import (
    Admin,
    BrokerError,
    Consumer,
    ElectionType,
    FeatureUpdate,
    NewTopic,
    PartitionReassignment,
    Producer,
    TopicPartition,
    UpgradeType,
)
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.broker.features import FEATURES_FILE
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode

P0 = TopicPartition("t", 0)


def test_preferred_leader_is_elected_once_it_is_in_sync():
    with EmbeddedCluster(3) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignments={0: [1, 2, 0]})])
        cluster.kill_node(1)
        assert cluster.leader_of("t", 0) == 2
        with pytest.raises(BrokerError) as refused:
            admin.elect_leaders(ElectionType.PREFERRED, [P0])
        assert refused.value.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        cluster.start_node(1)
        cluster.wait_until_in_sync()
        assert admin.elect_leaders(ElectionType.PREFERRED) == {P0: True}
        assert cluster.leader_of("t", 0) == 1
        assert admin.elect_leaders(ElectionType.PREFERRED, [P0]) == {P0: False}


def test_unclean_election_gives_a_partition_without_leader_one():
    with EmbeddedCluster(2) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignments={0: [1, 0]})])
        cluster.kill_node(0)
        assert cluster.isr_of("t", 0) == [1]
        cluster.kill_node(1)
        cluster.start_node(0)
        assert cluster.leader_of("t", 0) is None
        assert admin.elect_leaders(ElectionType.UNCLEAN) == {P0: True}
        assert (cluster.leader_of("t", 0), cluster.isr_of("t", 0)) == (0, [0])


def test_quorum_shows_nodes_that_do_not_run_and_unregistered_ones_leave_it():
    with EmbeddedCluster(3) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert {voter.replica_id: voter.log_end_offset >= 0 for voter in admin.describe_metadata_quorum().voters} == {
            0: True,
            1: True,
            2: True,
        }
        cluster.kill_node(2)
        quorum = admin.describe_metadata_quorum()
        assert {voter.replica_id: voter.last_fetch_ms is None for voter in quorum.voters} == {
            0: False,
            1: False,
            2: True,
        }
        assert set(quorum.endpoints) == {0, 1}
        admin.unregister_broker(2)
        assert [voter.replica_id for voter in admin.describe_metadata_quorum().voters] == [0, 1]
        with pytest.raises(BrokerError, match="Broker ID 2 is not currently registered"):
            admin.unregister_broker(2)
        cluster.start_node(2)
        assert [voter.replica_id for voter in admin.describe_metadata_quorum().voters] == [0, 1, 2]


def test_level_of_a_feature_outlives_a_restart(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        epoch = admin.describe_features().finalized_epoch
        admin.update_features({"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)})
        features = admin.describe_features()
        assert features.finalized == {"share.version": (1, 1), "streams.version": (1, 1), "transaction.version": (1, 1)}
        assert epoch is not None and features.finalized_epoch == epoch + 1
    with EmbeddedBroker(data_dir=tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.describe_features() == features
    (tmp_path / FEATURES_FILE).write_text("{}")
    with pytest.raises(ConfigError, match=FEATURES_FILE), EmbeddedBroker(data_dir=tmp_path):
        pass


def send(producer: Producer, values: range) -> None:
    for ticket in [producer.send("t", b"%d" % value, partition=0) for value in values]:
        ticket.result(30)


def values_in(servers: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([P0])
        (end,) = consumer.end_offsets([P0]).values()
        found: list[bytes | None] = []
        while len(found) < end:
            found += [record.value for batch in consumer.poll(5).values() for record in batch]
        return found


def wait_for_moves(admin: Admin) -> None:
    deadline = time.monotonic() + 30
    while moves := admin.list_partition_reassignments():
        assert time.monotonic() < deadline, moves


def replicas_by_node(admin: Admin) -> dict[int, set[TopicPartition]]:
    return {
        node: {key for directory in directories for key in directory.replicas if key.topic == "t"}
        for node, directories in admin.describe_log_dirs().items()
    }


def test_replicas_move_with_their_records_while_a_producer_sends():
    with EmbeddedCluster(4) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignments={0: [0, 1]})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            send(producer, range(500))
            admin.alter_partition_reassignments({P0: [2, 3]})
            send(producer, range(500, 1000))
            wait_for_moves(admin)
            send(producer, range(1000, 1500))
        (partition,) = admin.describe_topics(["t"])["t"].partitions
        assert (partition.replica_nodes, set(partition.isr_nodes)) == ((2, 3), {2, 3})
        assert replicas_by_node(admin) == {0: set(), 1: set(), 2: {P0}, 3: {P0}}
        assert values_in(cluster.bootstrap_servers) == [b"%d" % value for value in range(1500)]
        cluster.kill_node(cluster.leader_of("t", 0) or 0)
        assert values_in(cluster.bootstrap_servers) == [b"%d" % value for value in range(1500)]


def test_reassignment_waits_for_new_replicas_and_can_be_cancelled():
    with EmbeddedCluster(3) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignments={0: [0, 1]})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            send(producer, range(10))
        cluster.pause_replication(2)
        admin.alter_partition_reassignments({P0: [2, 1]})
        expected = PartitionReassignment((2, 1, 0), adding_replicas=(2,), removing_replicas=(0,))
        assert admin.list_partition_reassignments([P0]) == {P0: expected}
        admin.alter_partition_reassignments({P0: None})
        assert admin.list_partition_reassignments() == {}
        assert replicas_by_node(admin) == {0: {P0}, 1: {P0}, 2: set()}
        with pytest.raises(BrokerError) as refused:
            admin.alter_partition_reassignments({P0: [0, 1, 2]}, allow_replication_factor_change=False)
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        admin.alter_partition_reassignments({P0: [1, 2]})
        cluster.resume_replication(2)
        wait_for_moves(admin)
        assert replicas_by_node(admin) == {0: set(), 1: {P0}, 2: {P0}}
        admin.alter_partition_reassignments({P0: [2]})
        assert admin.list_partition_reassignments() == {}
        assert (cluster.leader_of("t", 0), cluster.isr_of("t", 0)) == (2, [2])
        assert values_in(cluster.bootstrap_servers) == [b"%d" % value for value in range(10)]


def test_reassignment_goes_on_after_a_restart(tmp_path: Path):
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignments={0: [0]})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            send(producer, range(10))
        cluster.pause_replication(2)
        admin.alter_partition_reassignments({P0: [2]})
        assert list(admin.list_partition_reassignments()) == [P0]
    with EmbeddedCluster(3, data_dir=tmp_path) as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        wait_for_moves(admin)
        assert replicas_by_node(admin) == {0: set(), 1: set(), 2: {P0}}
        assert values_in(cluster.bootstrap_servers) == [b"%d" % value for value in range(10)]
