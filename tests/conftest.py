"""What every test shares: the header that says what is being tested, and how tests are spread over processes.

With `-n 2`, tests of one file run in one process, so that its fixtures are made once. Folders whose tests need
something slow (Spark's JVM, Apache Kafka's) stay in one process whole, and start first. Spark's come before the
demo's in a single process, too: Spark takes settings of its workers from the first session of a process.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.interop.apache_kafka import ApacheKafka, why_missing
from tests.simulation import seeds

# Folders that share one process, in the order of starting.
SLOW_FOLDERS = ("spark", "interop", "demo")

# How long an example takes says more about the machine than about the code: pytest-timeout ends what hangs.
hypothesis.settings.register_profile("kafkaraw", deadline=None)
hypothesis.settings.load_profile("kafkaraw")

# The first test that needs Apache Kafka or its client may wait until Maven has fetched them.
FIRST_FETCH_SECONDS = 600


def pytest_report_header(config: pytest.Config) -> list[str]:
    from kafkaraw import __version__
    from kafkaraw.records import IMPLEMENTATION

    return [f"kafkaraw {__version__} on {platform.machine()}, records: {IMPLEMENTATION}", seeds.header()]


def group_of(nodeid: str) -> str:
    """What a test shares its process with: the slow folder that it is in, or its file."""
    path = nodeid.split("::")[0]
    folders = path.split("/")[1:]
    return folders[0] if folders and folders[0] in SLOW_FOLDERS else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand out groups in the order of collection.

    xdist's own `--dist loadgroup` needs node ids that can be written to, which pytest 9.2 has no more.
    """

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    if {"apache_kafka", "java"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.timeout(FIRST_FETCH_SECONDS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {folder: rank for rank, folder in enumerate(SLOW_FOLDERS)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid), len(order)))


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """A real broker to compare with; tests that ask for it are skipped where Java or Maven is missing."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka() as kafka:
        yield kafka
