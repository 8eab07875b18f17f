"""The pytest plugin: brokers as fixtures. Found by pytest through the entry point `kafkaraw`.

pytest imports this module at the start of every run, of users who never touch Kafka too: so nothing of kafkaraw is
imported here until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkaraw.broker import EmbeddedBroker, Faults


@pytest.fixture
def kafka_broker_factory() -> Iterator[Callable[..., EmbeddedBroker]]:
    """A function that starts a broker with the arguments of `EmbeddedBroker`; all end with the test.

    def test_four_partitions(kafka_broker_factory):
        broker = kafka_broker_factory(properties={"num.partitions": 4})
    """
    from kafkaraw.broker import EmbeddedBroker

    with ExitStack() as stack:
        yield lambda *args, **settings: stack.enter_context(EmbeddedBroker(*args, **settings))


@pytest.fixture
def kafka_broker(kafka_broker_factory: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """A fresh broker of this test's own: in memory, in this process, on a free port."""
    return kafka_broker_factory()


@pytest.fixture(scope="session")
def kafka_broker_session() -> Iterator[EmbeddedBroker]:
    """One broker for all tests of this process; each needs topics of its own. Set no faults on it."""
    from kafkaraw.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def faults(kafka_broker: EmbeddedBroker) -> Iterator[Faults]:
    """What is to go wrong on `kafka_broker`; what is still held is let go at the end of the test."""
    yield kafka_broker.faults
    kafka_broker.faults.clear()
