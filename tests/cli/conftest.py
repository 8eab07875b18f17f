"""One broker for all tests of a module that move records, and short ways to call the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of a broker; topics have three partitions unless they are made otherwise."""
    at_once = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
    with EmbeddedBroker(properties={"num.partitions": 3, **at_once, **KEEP_RECORDS}) as broker:
        yield broker.bootstrap_servers
