"""`EmbeddedCluster`: several real listeners in one process, as users have them."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.broker.configs.arguments import cluster_configs
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition

TIMEOUT = 20.0


def create(cluster: EmbeddedCluster, name: str = "t", partitions: int = 1, **configs: str) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, configs=given)], timeout=TIMEOUT)


def read(cluster: EmbeddedCluster, count: int, topic: str = "t") -> list[bytes | None]:
    """The first `count` values of partition 0."""
    found: list[bytes | None] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            batches = consumer.poll(TIMEOUT)
            assert batches, f"only {len(found)} of {count} records"
            found += [record.value for batch in batches.values() for record in batch]
    return found


def test_leaders_are_spread_and_every_node_holds_a_replica():
    with EmbeddedCluster() as cluster:
        create(cluster, partitions=6)
        assert sorted(cluster.leader_of("t", index) or 0 for index in range(6)) == [0, 0, 1, 1, 2, 2]
        assert sorted(cluster.isr_of("t", 5)) == cluster.nodes == cluster.node_ids == [0, 1, 2]
        addresses = [cluster.address_of(node) for node in cluster.nodes]
        assert cluster.bootstrap_servers == ",".join(addresses)


def test_our_client_loses_nothing_and_keeps_the_order_while_nodes_come_and_go():
    with EmbeddedCluster() as cluster:
        create(cluster)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            sent = 0

            def send(count: int) -> list[object]:
                nonlocal sent
                tickets = [producer.send("t", b"%d" % number, partition=0) for number in range(sent, sent + count)]
                sent += count
                return [ticket.result(TIMEOUT).offset for ticket in tickets]

            send(20)
            for happening in (cluster.kill_node, cluster.stop_node):
                node = cluster.leader_of("t")
                assert node is not None
                happening(node)
                send(20)
                cluster.start_node(node)
                cluster.wait_until_in_sync()
                cluster.move_leader("t", 0, node)
                assert send(20) == list(range(sent - 20, sent))
        assert read(cluster, sent) == [b"%d" % number for number in range(sent)]


def test_topics_and_records_outlive_the_cluster_in_its_data_directory(tmp_path: Path):
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        create(cluster)
        cluster.add_node()
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("t", b"kept", partition=0).result(TIMEOUT)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [f"node-{node}" for node in range(4)]
    assert (tmp_path / "node-1" / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    with EmbeddedCluster(data_dir=tmp_path) as cluster:
        assert cluster.nodes == [0, 1, 2, 3]
        assert read(cluster, 1) == [b"kept"]


def test_a_data_directory_serves_one_cluster_at_a_time_and_only_its_own_nodes(tmp_path: Path):
    with (
        EmbeddedCluster(data_dir=tmp_path / "one"),
        pytest.raises(ConfigError, match="in use by another broker"),
        EmbeddedCluster(data_dir=tmp_path / "one"),
    ):
        pytest.fail("two clusters on one directory")
    with EmbeddedCluster(data_dir=tmp_path / "two"):
        pass
    (tmp_path / "one" / "node-1" / "meta.properties").write_text(
        (tmp_path / "two" / "node-1" / "meta.properties").read_text()
    )
    with (
        pytest.raises(ConfigError, match="node-1 belongs to cluster"),
        EmbeddedCluster(data_dir=tmp_path / "one"),
    ):
        pytest.fail("a foreign node was taken in")
    with EmbeddedCluster(data_dir=tmp_path / "two"):
        pass  # what failed to start has let go of everything


def test_ports_are_counted_up_from_the_first():
    config_of = cluster_configs(range(3), None, port=9092)
    assert [str(config_of(node).listeners[0]) for node in range(4)] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in (9092, 9093, 9094, 9095)
    ]
    with pytest.raises(ConfigError, match="there is no port for node 2"):
        cluster_configs(range(3), {"listeners": "PLAINTEXT://127.0.0.1:65534"}, port=None)(2)


def test_racks_are_given_to_nodes_in_order_and_replicas_are_spread_over_them():
    with EmbeddedCluster(nodes=4, racks=["a", "a", "b", "b"], properties={"default.replication.factor": 2}) as cluster:
        create(cluster, partitions=4)
        for index in range(4):
            assert {node // 2 for node in cluster.isr_of("t", index)} == {0, 1}


def test_a_fault_of_one_node_leaves_the_others_alone():
    with EmbeddedCluster() as cluster:
        create(cluster, partitions=3)
        fault = cluster.faults.on("Produce", node=1).answer(ErrorCode.KAFKA_STORAGE_ERROR)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for partition in range(3):
                leader = cluster.leader_of("t", partition)
                if leader != 1:
                    producer.send("t", b"x", partition=partition).result(TIMEOUT)
                    assert not fault.consumed
            of_node = next(partition for partition in range(3) if cluster.leader_of("t", partition) == 1)
            producer.send("t", b"x", partition=of_node).result(TIMEOUT)
        assert fault.consumed


@pytest.mark.parametrize("name", ["node.id", "broker.rack", "log.dirs"])
def test_what_is_each_nodes_own_cannot_be_given_for_all(name: str):
    with pytest.raises(ConfigError, match=f"{name} is each node's own"):
        EmbeddedCluster(properties={name: "1"})


def test_a_wrong_property_or_number_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        EmbeddedCluster(properties={"num.partition": 1})
    with pytest.raises(ConfigError, match="at least one node"):
        EmbeddedCluster(nodes=0)


def test_it_can_be_asked_only_while_it_runs():
    cluster = EmbeddedCluster()
    with pytest.raises(UsageError, match="not running"):
        _ = cluster.bootstrap_servers
    with cluster:
        with pytest.raises(UsageError, match="running already"):
            cluster.start()
        cluster.stop_node(2)
        with pytest.raises(UsageError, match=r"node 2 does not run; those that do are \[0, 1\]"):
            cluster.address_of(2)
        with pytest.raises(UsageError, match="no partition t-0"):
            cluster.leader_of("t")
    cluster.stop()


def test_it_works_in_async_with():
    async def life() -> int:
        async with EmbeddedCluster() as cluster:
            return len(cluster.nodes)

    assert asyncio.run(life()) == 3


def test_users_log_in_on_every_node_with_one_password():
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    with EmbeddedCluster(users={"ada": "opensesame"}) as cluster:
        settings = {**login, "sasl_username": "ada", "sasl_password": "opensesame"}
        with Admin(bootstrap_servers=cluster.bootstrap_servers, **settings) as admin:
            admin.create_topics([NewTopic("t", 3)], timeout=TIMEOUT)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, **settings) as producer:
            for partition in range(3):  # each led by another node
                producer.send("t", b"x", partition=partition).result(TIMEOUT)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_do_nothing_to_its_parents_cluster():
    with EmbeddedCluster() as cluster:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                cluster.kill_node(0)
            except UsageError:
                cluster.stop()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert cluster.nodes == [0, 1, 2]
        create(cluster)


def test_the_port_of_a_node_that_is_down_refuses_connections_and_is_kept_for_it():
    with EmbeddedCluster() as cluster:
        address = cluster.address_of(1)
        host, _, port = address.partition(":")
        for end in (cluster.kill_node, cluster.stop_node):
            end(1)
            with socket.socket() as client, pytest.raises(ConnectionRefusedError):
                client.connect((host, int(port)))
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((host, int(port)))
            cluster.start_node(1)
            assert cluster.address_of(1) == address


def test_node_ids_and_ports_are_those_that_are_given():
    with EmbeddedCluster(node_ids=[1, 2, 5], racks=["a", "b", "c"]) as cluster:
        assert cluster.nodes == cluster.node_ids == [1, 2, 5]
        create(cluster, partitions=3)
        assert sorted(cluster.isr_of("t")) == [1, 2, 5]
        cluster.kill_node(1)
        cluster.start_node(1)
        cluster.wait_until_in_sync()
        assert cluster.add_node() == 6


def test_ports_follow_a_list_or_a_range_with_a_step():
    stepped = cluster_configs((1, 2, 5), None, ports=range(19092, 19392, 100))
    assert [stepped(node).listeners[0].port for node in (1, 2, 5, 6)] == [19092, 19192, 19292, 19392]
    listed = cluster_configs((1, 2), None, ports=[7000, 6000])
    assert [listed(node).listeners[0].port for node in (1, 2, 3)] == [7000, 6000, 0]
    counted = cluster_configs((4, 2), None, port=9092)
    assert [counted(node).listeners[0].port for node in (4, 2, 5)] == [9092, 9093, 9094]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"node_ids": []}, "node_ids: a cluster has at least one node"),
        ({"node_ids": [1, 1]}, r"node_ids: each is a number of its own, from 0 on, not \[1, 1\]"),
        ({"node_ids": [-1]}, "node_ids: each is a number of its own"),
        ({"nodes": 2, "node_ids": [1]}, "node_ids: 1 ids are given for 2 nodes"),
        ({"nodes": 0}, "a cluster has at least one node, not 0"),
        ({"ports": [9092]}, "ports: 1 are given for 3 nodes"),
        ({"ports": [1, 1, 2]}, "ports: each node needs one of its own"),
        ({"ports": [1, 2, 3], "port": 9092}, "ports: give either ports or port, not both"),
        ({"ports": [1, 2, 3], "properties": {"listeners": "PLAINTEXT://:1"}}, "either ports or listeners"),
    ],
)
def test_node_ids_and_ports_that_contradict_each_other_are_refused(arguments: dict[str, Any], why: str):
    with pytest.raises(ConfigError, match=why):
        EmbeddedCluster(**arguments)


def test_a_node_of_the_data_directory_that_is_not_named_is_refused(tmp_path: Path):
    with EmbeddedCluster(node_ids=[1, 2, 3], data_dir=tmp_path):
        pass
    with (
        pytest.raises(ConfigError, match="node 1 belongs to the cluster in the data directory, too: name it"),
        EmbeddedCluster(node_ids=[2, 3], data_dir=tmp_path),
    ):
        pytest.fail("a node was left out")
