"""Kafka's own tools for leaders, replicas, features and the quorum, on an embedded cluster; one JVM runs them all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, ConfigResource, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedCluster
from tests.interop.java_tools import SharedTools, shared_tools, why_no_java_client

TOOLS = "org.apache.kafka.tools"
WAIT_S = 30.0


@pytest.fixture(scope="module")
def tools() -> SharedTools:
    missing = why_no_java_client()
    if missing is not None:
        pytest.skip(missing)
    return shared_tools()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


def test_kafka_reassign_partitions_moves_replicas_and_verifies_it(
    cluster: EmbeddedCluster, admin: Admin, tools: SharedTools, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("moved", assignments={0: [0], 1: [1]})])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("moved", b"v", partition=0).result(WAIT_S)
    moves = [{"topic": "moved", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "any"]}]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    options = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
    command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    assert "Successfully started partition reassignment for moved-0" in tools.run(command, *options, "--execute")
    deadline = time.monotonic() + WAIT_S
    while "moved-0 is completed" not in (said := tools.run(command, *options, "--verify")):
        assert time.monotonic() < deadline, said
    (first, second) = admin.describe_topics(["moved"])["moved"].partitions
    assert (first.replica_nodes, first.leader_id, second.replica_nodes) == ((2, 1), 2, (1,))
    listed = tools.run(command, "--bootstrap-server", cluster.bootstrap_servers, "--list")
    assert "No partition reassignments found." in listed


def test_kafka_leader_election_elects_the_preferred_leader(
    cluster: EmbeddedCluster, admin: Admin, tools: SharedTools
) -> None:
    admin.create_topics([NewTopic("led", assignments={0: [0, 1]})])
    cluster.wait_until_in_sync()
    cluster.move_leader("led", 0, 1)
    options = ("--bootstrap-server", cluster.bootstrap_servers, "--election-type", "preferred")
    of_partition = ("--topic", "led", "--partition", "0")
    said = tools.run(f"{TOOLS}.LeaderElectionCommand", *options, *of_partition)
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in said
    assert cluster.leader_of("led", 0) == 0
    said = tools.run(f"{TOOLS}.LeaderElectionCommand", *options, *of_partition)
    assert "Valid replica already elected for partitions led-0" in said


def test_kafka_metadata_quorum_describes_the_nodes(cluster: EmbeddedCluster, admin: Admin, tools: SharedTools) -> None:
    options = ("--bootstrap-server", cluster.bootstrap_servers, "describe")
    status = tools.run(f"{TOOLS}.MetadataQuorumCommand", *options, "--status")
    assert f"LeaderId:               {admin.describe_metadata_quorum().leader_id}" in status
    assert len(tools.run(f"{TOOLS}.MetadataQuorumCommand", *options, "--replication").splitlines()) == 4


def test_kafka_features_describes_levels(cluster: EmbeddedCluster, tools: SharedTools) -> None:
    said = tools.run(f"{TOOLS}.FeatureCommand", "--bootstrap-server", cluster.bootstrap_servers, "describe")
    assert "transaction.version" in said
    assert "FinalizedVersionLevel: 2" in said


def test_kafka_client_metrics_lists_subscriptions(cluster: EmbeddedCluster, admin: Admin, tools: SharedTools) -> None:
    admin.alter_configs({ConfigResource.client_metrics("of-producers"): {"interval.ms": "5000"}})
    said = tools.run(f"{TOOLS}.ClientMetricsCommand", "--bootstrap-server", cluster.bootstrap_servers, "--list")
    assert "of-producers" in said


def test_kafka_cluster_unregisters_a_stopped_node(cluster: EmbeddedCluster, admin: Admin, tools: SharedTools) -> None:
    cluster.kill_node(2)
    options = ("unregister", "--bootstrap-server", cluster.bootstrap_servers, "--id")
    assert "Broker 2 is no longer registered." in tools.run(f"{TOOLS}.ClusterTool", *options, "2")
    assert [voter.replica_id for voter in admin.describe_metadata_quorum().voters] == [0, 1]
    assert TopicPartition("moved", 0) not in admin.list_partition_reassignments()
