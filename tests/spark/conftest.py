"""One broker in a process of its own and one Spark session, made once for all tests that ask for them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster
from kafkaraw.spark import session
from kafkaraw.spark.reading import task as reading
from kafkaraw.spark.reading import typed_columns
from kafkaraw.spark.worker import ClientPool
from kafkaraw.spark.writing import dead_letters, decisions, exactly_once
from kafkaraw.spark.writing import task as writing
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.spark.kafka import Kafka
from tests.spark.standalone import StandaloneCluster, executor_archive, standalone_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(process=True, properties=KEEP_RECORDS) as embedded:
        yield embedded


@pytest.fixture(scope="session")
def kafka(broker) -> Iterator[Kafka]:
    yield from _clients_of(broker.bootstrap_servers)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[EmbeddedCluster]:
    """Three brokers in this process, which can be killed and told to lead."""
    with EmbeddedCluster(3, data_dir=tmp_path_factory.mktemp("nodes"), properties=KEEP_RECORDS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def replicated(cluster) -> Iterator[Kafka]:
    yield from _clients_of(cluster.bootstrap_servers)


@pytest.fixture(scope="module")
def apache(apache_kafka) -> Iterator[Kafka]:
    yield from _clients_of(apache_kafka.bootstrap_servers)


def _clients_of(servers: str) -> Iterator[Kafka]:
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        yield Kafka(servers, admin, producer)


@pytest.fixture(scope="session")
def spark(tmp_path_factory) -> Iterator[SparkSession]:
    conf = {"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    spark = session("kafkaraw tests", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def archive() -> Path:
    """The environment of executors that have nothing installed."""
    return executor_archive()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A standalone cluster with two workers of one core each, which have Spark and Java only."""
    with standalone_cluster(tmp_path / "cluster", {}, {}) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def what_tasks_keep_is_closed() -> Iterator[None]:
    """Tasks that a test runs in its own process keep their clients, which would look for brokers that are gone."""
    yield
    for module in (dead_letters, decisions, exactly_once, reading, typed_columns, writing):
        for value in vars(module).values():
            if isinstance(value, ClientPool):
                value.close()


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
