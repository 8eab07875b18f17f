"""One broker and one console for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.console.running import running


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of a broker; topics have three partitions unless they are made otherwise."""
    at_once = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
    with EmbeddedBroker(properties={"num.partitions": 3, **at_once, **KEEP_RECORDS}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def console(servers: str) -> Iterator[httpx.Client]:
    """A client of a console that changes nothing."""
    with running(servers) as client:
        yield client


@pytest.fixture(scope="module")
def writing(servers: str) -> Iterator[httpx.Client]:
    """A client of a console that allows changes."""
    with running(servers, allow_writes=True) as client:
        yield client
