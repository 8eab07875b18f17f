"""Log directories: described on every broker, and replicas moved between those of one broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition, TopicPartitionReplica
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.errors import BrokerError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode

KEY = TopicPartition("t", 0)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("a", "b")]


@pytest.fixture
def admin(paths: list[str]) -> Iterator[Admin]:
    with (
        EmbeddedBroker(data_dir=paths, properties={"log.segment.delete.delay.ms": 0}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("t", 2)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(10):
                producer.send("t", b"x" * 100, partition=0)
        yield admin


def test_directories_are_described_with_their_replicas_and_volumes(admin: Admin, paths: list[str]) -> None:
    first, second = admin.describe_log_dirs()[0]
    assert [first.path, second.path] == paths
    assert (first.error, first.is_cordoned) == (None, False)
    assert first.replicas[KEY].size_bytes > 1000
    assert (first.replicas[KEY].offset_lag, first.replicas[KEY].is_future) == (0, False)
    assert list(second.replicas) == [TopicPartition("t", 1)]
    assert first.total_bytes is not None
    assert first.usable_bytes is not None
    assert 0 < first.usable_bytes < first.total_bytes


def test_a_replica_moves_and_is_read_from_its_new_directory(admin: Admin, paths: list[str]) -> None:
    admin.alter_replica_log_dirs({TopicPartitionReplica("t", 0, 0): paths[1]})
    deadline = time.monotonic() + 10
    while KEY not in admin.describe_log_dirs([0])[0][1].replicas or KEY in admin.describe_log_dirs()[0][0].replicas:
        assert time.monotonic() < deadline
    assert not (Path(paths[0]) / "t-0").exists()
    assert (Path(paths[1]) / "t-0").exists()
    servers = ",".join(f"{one.host}:{one.port}" for one in admin.describe_cluster().brokers)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([KEY])
        assert len(list(consumer.poll(10))) > 0


def test_moves_that_the_broker_refuses_name_the_replica(admin: Admin) -> None:
    with pytest.raises(BrokerError, match="move t-0 on broker 0 to /nope") as raised:
        admin.alter_replica_log_dirs({TopicPartitionReplica("t", 0, 0): "/nope"})
    assert raised.value.code == ErrorCode.LOG_DIR_NOT_FOUND


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda admin: admin.describe_log_dirs([7]), "there is no broker 7; those that run are"),
        (lambda admin: admin.describe_log_dirs("0"), r"as in describe_log_dirs\(\[1, 2\]\)"),
        (lambda admin: admin.alter_replica_log_dirs([("t", 0, 0)]), "give a dict"),
        (lambda admin: admin.alter_replica_log_dirs({("t", 0, 0): "/a"}), "is not a TopicPartitionReplica"),
        (lambda admin: admin.alter_replica_log_dirs({TopicPartitionReplica("t", 0, 9): "/a"}), "there is no broker 9"),
    ],
)
def test_wrong_arguments_are_refused(admin: Admin, call, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        call(admin)


def test_every_broker_of_a_cluster_is_asked(paths: list[str]) -> None:
    with (
        EmbeddedCluster(2, data_dir=paths) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        found = admin.describe_log_dirs()
        assert {node: [one.path for one in directories] for node, directories in found.items()} == {
            node: [f"{path}/node-{node}" for path in paths] for node in (0, 1)
        }
