"""Reassignments of partitions between three nodes: what Admin sees is the same on Apache Kafka and on our cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from kafkaraw import Admin, BrokerError, Consumer, ElectionType, Producer, TopicPartition
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.client.admin import NewTopic
from tests.interop.apache_kafka import SINGLE_NODE, SOON_BACK, ApacheKafka, why_missing
from tests.waiting import wait_until

WAIT_S = 60.0
NODES = (1, 2, 3)
KEY = TopicPartition("moving", 0)
OTHER = TopicPartition("moving", 1)
OF_THE_CONTROLLER = ("process.roles", "node.id", "controller.listener.names", "listener.security.protocol.map")


@dataclass(frozen=True)
class Nodes:
    """A cluster whose nodes are stopped and started.

    Attributes:
        servers: the address of node 1, which is not stopped.
        stop, start: take the id of a node.
    """

    servers: str
    stop: Callable[[int], object]
    start: Callable[[int], object]


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[Nodes]]:
    """Apache Kafka with three nodes, and our cluster of three nodes."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ExitStack() as stack:
        first = stack.enter_context(ApacheKafka(properties=SOON_BACK))
        others = [
            stack.enter_context(ApacheKafka(properties=SOON_BACK, joins=first, node_id=node)) for node in NODES[1:]
        ]
        of_kafka = dict(zip(NODES, [first, *others], strict=True))
        properties = {
            name: value
            for name, value in (SINGLE_NODE | SOON_BACK).items()
            if name not in OF_THE_CONTROLLER and not name.startswith("share.")
        }
        ours = stack.enter_context(EmbeddedCluster(node_ids=list(NODES), properties=properties))
        yield [
            Nodes(first.bootstrap_servers, lambda node: of_kafka[node].stop(), lambda node: of_kafka[node].start()),
            Nodes(ours.address_of(1), ours.stop_node, ours.start_node),
        ]


def until(is_so: Callable[[], bool]) -> None:
    assert wait_until(is_so, WAIT_S)


def placement(admin: Admin, key: TopicPartition) -> tuple[tuple[int, ...], set[int], int]:
    """Return the replicas in their order, those in sync, and the leader of a partition."""
    partition = next(
        one for one in admin.describe_topics([key.topic])[key.topic].partitions if one.partition == key.partition
    )
    return tuple(partition.replica_nodes), set(partition.isr_nodes), partition.leader_id


def holders(admin: Admin) -> dict[int, set[TopicPartition]]:
    """Return the partitions of the topic that each node has in its directories."""
    return {
        node: {key for directory in directories for key in directory.replicas if key.topic == KEY.topic}
        for node, directories in admin.describe_log_dirs().items()
    }


def values(servers: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([KEY])
        end = consumer.end_offsets([KEY])[KEY]
        found: list[bytes | None] = []
        while len(found) < end:
            found += [record.value for batch in consumer.poll(5).values() for record in batch]
    return found


def refusal(admin: Admin, moves: dict[TopicPartition, list[int] | None], **options: bool) -> list[tuple[str, int]]:
    """Return the partitions whose moves are refused, with the error codes."""
    with pytest.raises(BrokerError) as refused:
        admin.alter_partition_reassignments(moves, **options)
    return [(str(key), getattr(error, "code", 0)) for key, error in refused.value.failures.items()]


def moves_of(nodes: Nodes) -> list[object]:
    """Move partitions, cancel moves and change them, and return what Admin says at each point."""
    said: list[object] = []
    with Admin(bootstrap_servers=nodes.servers) as admin:
        until(lambda: len(admin.describe_cluster().brokers) == len(NODES))
        admin.create_topics([NewTopic(KEY.topic, assignments={0: [1], 1: [2]})])
        with Producer(bootstrap_servers=nodes.servers) as producer:
            for number in range(1000):
                producer.send(KEY.topic, b"%d" % number, partition=0)

        def settled(key: TopicPartition, replicas: tuple[int, ...]) -> None:
            until(
                lambda: (
                    not admin.list_partition_reassignments() and placement(admin, key)[:2] == (replicas, set(replicas))
                )
            )
            said.append((replicas, placement(admin, key)[2] in replicas))

        admin.alter_partition_reassignments({KEY: [2, 1]})
        settled(KEY, (2, 1))
        admin.elect_leaders(ElectionType.PREFERRED, [KEY])
        until(lambda: placement(admin, KEY)[2] == 2)
        admin.alter_partition_reassignments({KEY: [1], OTHER: [1, 2]})
        settled(KEY, (1,))
        settled(OTHER, (1, 2))
        said.append(values(nodes.servers) == [b"%d" % number for number in range(1000)])
        until(lambda: holders(admin) == {1: {KEY, OTHER}, 2: {OTHER}, 3: set()})
        nodes.stop(3)
        until(lambda: len(admin.describe_cluster().brokers) == len(NODES) - 1)
        admin.alter_partition_reassignments({KEY: [3], OTHER: [2, 3]})
        said.append(in_progress(admin))
        said.append(refusal(admin, {KEY: [3, 2]}, allow_replication_factor_change=False))
        admin.alter_partition_reassignments({KEY: [2, 3]})  # another target while it moves: only 2 is awaited
        # Apache Kafka's brokers learn of it after the controller.
        until(lambda: KEY not in admin.list_partition_reassignments() and placement(admin, KEY)[0] == (2, 3))
        said.append(placement(admin, KEY))
        admin.alter_partition_reassignments({OTHER: None})
        settled(OTHER, (2, 1))
        admin.alter_partition_reassignments({KEY: [1]})
        settled(KEY, (1,))
        said.append(refusal(admin, {KEY: None}))
        said.append(refusal(admin, {KEY: [1, 4], OTHER: []}))
        admin.alter_partition_reassignments({KEY: [3]})
        said.append(in_progress(admin))
        nodes.start(3)
        settled(KEY, (3,))
        until(lambda: holders(admin) == {1: {OTHER}, 2: {OTHER}, 3: {KEY}})
        said.append(values(nodes.servers) == [b"%d" % number for number in range(1000)])
    return said


def in_progress(admin: Admin) -> list[object]:
    """Return the moves, and where the partitions are meanwhile."""
    moves = admin.list_partition_reassignments()
    for key, move in moves.items():  # Apache Kafka's brokers learn of it after the controller
        until(lambda key=key, move=move: placement(admin, key)[0] == move.replicas)
    return [(str(key), move, placement(admin, key)) for key, move in sorted(moves.items(), key=str)]


@pytest.mark.soak  # four brokers, three of them with a JVM
@pytest.mark.timeout(300)
def test_partitions_move_between_nodes_as_in_apache_kafka(clusters: list[Nodes]) -> None:
    of_kafka, ours = (moves_of(nodes) for nodes in clusters)
    assert ours == of_kafka
