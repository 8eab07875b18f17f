"""The pytest plugin: brokers and taps as fixtures. Found by pytest through the entry point `kafkaraw`.

pytest imports this module at the start of every run, also for users who do not use Kafka. So nothing of kafkaraw is
imported here until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from kafkaraw.broker import EmbeddedBroker, EmbeddedCluster, Faults
    from kafkaraw.inspect import Tap
    from kafkaraw.schemas import EmbeddedRegistry

KEEP_RECORDS: Final = {"log.retention.ms": -1}
"""Properties of a broker that lives longer than a test.

Tests write records with timestamps of years ago. Retention of a week would delete them in its first run, 30 seconds
after the start of the broker: in the middle of any test.
"""


@pytest.fixture
def kafka_broker_factory() -> Iterator[Callable[..., EmbeddedBroker]]:
    """Return a function that starts a broker with the arguments of `EmbeddedBroker`; all end with the test.

    def test_four_partitions(kafka_broker_factory):
        broker = kafka_broker_factory(properties={"num.partitions": 4})
    """
    from kafkaraw.broker import EmbeddedBroker

    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(EmbeddedBroker(*args, **settings))


@pytest.fixture
def kafka_broker(kafka_broker_factory: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """A new broker for this test alone: in memory, in this process, on a free port."""
    return kafka_broker_factory()


@pytest.fixture(scope="session")
def kafka_broker_session() -> Iterator[EmbeddedBroker]:
    """One broker for all tests of this process, which keeps records of any age; each test needs its own topics.

    Set no faults on it.
    """
    from kafkaraw.broker import EmbeddedBroker

    with EmbeddedBroker(properties=KEEP_RECORDS) as broker:
        yield broker


@pytest.fixture
def kafka_cluster_factory() -> Iterator[Callable[..., EmbeddedCluster]]:
    """Return a function that starts a cluster with the arguments of `EmbeddedCluster`; all end with the test.

    def test_five_nodes(kafka_cluster_factory):
        cluster = kafka_cluster_factory(nodes=5)
    """
    from kafkaraw.broker import EmbeddedCluster

    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(EmbeddedCluster(*args, **settings))


@pytest.fixture
def kafka_cluster(kafka_cluster_factory: Callable[..., EmbeddedCluster]) -> EmbeddedCluster:
    """Three new brokers for this test alone: in memory, in this process, on free ports."""
    return kafka_cluster_factory()


@pytest.fixture(scope="session")
def kafka_cluster_session() -> Iterator[EmbeddedCluster]:
    """One cluster for all tests of this process, which keeps records of any age; each test needs its own topics.

    Stop none of its nodes.
    """
    from kafkaraw.broker import EmbeddedCluster

    with EmbeddedCluster(properties=KEEP_RECORDS) as cluster:
        yield cluster


@pytest.fixture
def schema_registry(request: pytest.FixtureRequest) -> Iterator[EmbeddedRegistry]:
    """A new schema registry for this test alone: in this process, on a free port.

    Its schemas are in the topic `_schemas` of `kafka_broker` or `kafka_cluster` if the test uses one of them, else in
    memory. `schema_registry.url` is for clients. Needs `pip install kafkaraw[registry]`.

    def test_registers(kafka_broker, schema_registry):
        registry = Registry(schema_registry.url)
    """
    from kafkaraw.schemas import EmbeddedRegistry

    names = [name for name in ("kafka_broker", "kafka_cluster") if name in request.fixturenames]
    servers = request.getfixturevalue(names[0]).bootstrap_servers if names else None
    with EmbeddedRegistry(servers) as registry:
        yield registry


@pytest.fixture
def kafka_tap_factory() -> Iterator[Callable[..., Tap]]:
    """Return a function that starts a tap with the arguments of `Tap`, in front of any cluster; all end with the test.

    def test_a_leader_that_moves(kafka_tap_factory):
        tap = kafka_tap_factory("staging.example:9092")
        tap.faults.on("Produce").answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    """
    from kafkaraw.inspect import Tap

    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(Tap(*args, **settings))


@pytest.fixture
def kafka_tap(request: pytest.FixtureRequest, kafka_tap_factory: Callable[..., Tap]) -> Tap:
    """A tap in front of `kafka_cluster`, if the test uses it, else of `kafka_broker`.

    Clients connect to `kafka_tap.bootstrap_servers`; `kafka_tap.record()` keeps what they say.
    """
    name = "kafka_cluster" if "kafka_cluster" in request.fixturenames else "kafka_broker"
    return kafka_tap_factory(request.getfixturevalue(name).bootstrap_servers)


@pytest.fixture
def kafka_faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    """Faults of `kafka_cluster`, if the test uses it, else of `kafka_broker`; they end with the test."""
    name = "kafka_cluster" if "kafka_cluster" in request.fixturenames else "kafka_broker"
    plan: Faults = request.getfixturevalue(name).faults
    yield plan
    plan.clear()
