"""What befalls the checkpoint and the decisions topic of a query that writes exactly once, and its cluster."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkaraw import Producer
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.broker.transactions import coordinator, states
from kafkaraw.client.admin import ConfigResource, NewTopic
from kafkaraw.errors import KafkaError
from kafkaraw.records import TopicPartition
from tests.spark.kafka import Kafka
from tests.spark.kill_case import KillCase
from tests.spark.mishaps import move_leaders
from tests.spark.sink_plan import Mishap

Cluster = EmbeddedBroker | EmbeddedCluster | None
NODE_DOWN_S = 15.0
OTHER_OPEN_MS = 900_000
EPOCHS_MAX = 5
"""So many epochs a producer id has where they are short: a handful of batches uses them up."""


def befall(kafka: Kafka, cluster: Cluster, mishap: Mishap, case: KillCase) -> None:
    """What befalls a query at its step, as far as it is over at once."""
    if mishap is Mishap.DELETED:
        with suppress(KafkaError):  # nothing was decided yet
            kafka.admin.delete_topics([case.decisions])
    elif mishap is Mishap.TRUNCATED:
        _truncate(kafka, case.decisions)
    elif mishap is Mishap.WRONG_POLICY:
        make_compacted(kafka, case)
        set_policy(kafka, case.decisions, "delete")
    elif mishap is Mishap.MOVED:
        assert isinstance(cluster, EmbeddedCluster)
        move_leaders(cluster, kafka)
    elif mishap in (Mishap.RESTORED, Mishap.COPIES):
        shutil.copytree(case.checkpoint, copy_of(case))


def copy_of(case: KillCase) -> Path:
    """Where the copy of a checkpoint lies."""
    return Path(case.folder, "copy", "checkpoint")


def restore(case: KillCase) -> None:
    """Put the copy of the checkpoint in its place."""
    shutil.rmtree(case.checkpoint)
    shutil.copytree(copy_of(case), case.checkpoint)


def lose_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after the sink's commit, before Spark wrote it down."""
    commits = checkpoint / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def query_id_of(case: KillCase) -> str:
    """The id of the query, which its checkpoint keeps."""
    return str(json.loads((case.checkpoint / "metadata").read_text())["id"])


def make_compacted(kafka: Kafka, case: KillCase) -> None:
    """Make the decisions topic, if there is none yet."""
    with suppress(KafkaError):
        kafka.admin.create_topics([NewTopic(case.decisions, 1, configs={"cleanup.policy": "compact"})])


def set_policy(kafka: Kafka, topic: str, policy: str) -> None:
    """Change whether a topic is compacted."""
    kafka.admin.alter_configs({ConfigResource.topic(topic): {"cleanup.policy": policy}})


def _truncate(kafka: Kafka, topic: str) -> None:
    with suppress(KafkaError):  # nothing was decided yet
        set_policy(kafka, topic, "compact,delete")
        kafka.admin.delete_records({TopicPartition(topic, 0): -1})
        set_policy(kafka, topic, "compact")


@contextmanager
def leader_of_decisions_down(cluster: Cluster, cases: list[KillCase]) -> Iterator[None]:
    """The nodes that lead the decisions topics of some queries are dead for some seconds from now on."""
    assert isinstance(cluster, EmbeddedCluster)
    node_id = cluster.leader_of(cases[0].decisions)
    node_id = cluster.node_ids[0] if node_id is None else node_id
    cluster.kill_node(node_id)
    over = threading.Event()

    def end() -> None:
        cluster.start_node(node_id)
        cluster.wait_until_in_sync()
        over.set()

    timer = threading.Timer(NODE_DOWN_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.join()
    assert over.is_set(), f"node {node_id} has not come back"


@contextmanager
def other_transaction_in_front(kafka: Kafka, cases: list[KillCase]) -> Iterator[None]:
    """A transaction of somebody else is open in the topics of some queries, from before their first record."""
    other = {"transactional_id": f"other-{cases[0].target}", "transaction_timeout_ms": OTHER_OPEN_MS}
    with Producer(bootstrap_servers=kafka.servers, **other) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for case in cases:
            make_compacted(kafka, case)
            producer.send(case.decisions, b"0", b"another query/0", partition=0)
            producer.send(case.target, b"1000000", partition=0)
        producer.flush()
        try:
            yield
        finally:
            producer.abort_transaction()


@contextmanager
def few_epochs() -> Iterator[None]:
    """Brokers of this process use up the epochs of a producer id soon, and give the next one."""
    before = states.EPOCH_MAX
    states.EPOCH_MAX = coordinator.EPOCH_MAX = EPOCHS_MAX  # type: ignore[misc]
    try:
        yield
    finally:
        states.EPOCH_MAX = coordinator.EPOCH_MAX = before  # type: ignore[misc]
