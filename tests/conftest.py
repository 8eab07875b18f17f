"""What every test shares: the header that says what is being tested, and how tests are spread over processes.

Tests of one file run in one process, so that its fixtures are made once. Tests that need something slow to start
(Spark's JVM, Apache Kafka's) form one group each, which is also one process, and those groups start first. Spark's come
before the demo's also in a single process: Spark takes settings of its workers from the first session of a process.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache_kafka import ApacheKafka, why_missing

TESTS = Path(__file__).parent

# Folder of tests, or fixture they ask for -> the group that shares one process. The order is that of starting.
SLOW_GROUPS = {"spark": "spark", "interop": "interop", "apache_kafka": "interop", "demo": "demo"}
GROUP_ORDER = {group: rank for rank, group in enumerate(dict.fromkeys(SLOW_GROUPS.values()))}

# The first test that needs Apache Kafka or its client may wait until Maven has fetched them.
FIRST_FETCH_SECONDS = 600


def pytest_report_header(config: pytest.Config) -> list[str]:
    from kafkaraw import __version__
    from kafkaraw.records import IMPLEMENTATION

    return [f"kafkaraw {__version__} on {platform.machine()}, records: {IMPLEMENTATION}"]


def _group_of(item: pytest.Item) -> str:
    places = item.path.relative_to(TESTS).parts[:1] if item.path.is_relative_to(TESTS) else ()
    for name in (*places, *getattr(item, "fixturenames", ())):
        if name in SLOW_GROUPS:
            return SLOW_GROUPS[name]
    return str(item.path)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.xdist_group(_group_of(item)))
    if {"apache_kafka", "java"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.timeout(FIRST_FETCH_SECONDS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: GROUP_ORDER.get(_group_of(item), len(GROUP_ORDER)))


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """A real broker to compare with; tests that ask for it are skipped where Java or Maven is missing."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka() as kafka:
        yield kafka
