"""What befalls a cluster while queries read from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.records import TopicPartition
from tests.spark.kafka import Kafka
from tests.spark.kill_case import KillCase
from tests.spark.kill_plan import FRESH, MOVED, REMADE, RETENTION, Plan

_OUTAGE_S = 30.0


def befall(kafka: Kafka, cluster: EmbeddedBroker | EmbeddedCluster, plan: Plan, case: KillCase) -> None:
    """What befalls a query's topics."""
    if plan.mishap == REMADE:
        kafka.remake_topic(case.source, plan.partitions)
        for partition in range(plan.partitions):
            kafka.produce(case.source, FRESH[partition :: plan.partitions], partition)
    elif plan.mishap == RETENTION:
        partitions = [TopicPartition(case.source, number) for number in range(plan.partitions)]
        kafka.admin.delete_records(dict.fromkeys(partitions, plan.first_left))
    elif plan.mishap == MOVED:
        assert isinstance(cluster, EmbeddedCluster)
        move_leaders(cluster, kafka)


def move_leaders(cluster: EmbeddedCluster, kafka: Kafka) -> None:
    """Every partition of every topic, those of Kafka itself included, to the next node."""
    for name, topic in kafka.admin.describe_topics([each.name for each in kafka.admin.list_topics()]).items():
        for partition in topic.partitions:
            cluster.move_leader(name, partition.partition, (partition.leader_id + 1) % len(cluster.node_ids))


@contextmanager
def outage(cluster: EmbeddedCluster) -> Iterator[None]:
    """No node runs for half a minute from now on, while what is inside goes on."""
    for node_id in cluster.nodes:
        cluster.kill_node(node_id)
    over = threading.Event()

    def end() -> None:
        for node_id in cluster.node_ids:
            cluster.start_node(node_id)
        cluster.wait_until_in_sync()
        over.set()

    timer = threading.Timer(_OUTAGE_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.join()
    assert over.is_set(), "the nodes have not come back"
