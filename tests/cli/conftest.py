"""One broker for all tests of a module that move records, and short ways to call the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of a broker; topics have three partitions unless they are made otherwise."""
    with EmbeddedBroker(properties={"num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers
