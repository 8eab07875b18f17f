"""The brokers that test files of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.apache_kafka import why_missing
from tests.interop.both_brokers import Broker, brokers_alike


@pytest.fixture(scope="session")
def both_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Apache Kafka and the embedded broker, with the same properties."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with brokers_alike(tmp_path_factory.mktemp("both")) as brokers:
        yield brokers
