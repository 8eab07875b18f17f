"""Workers keep their connections from task to task, for as long as they are used, and share none with a forked one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker
from tests.footprint import IS_LINUX, ConnectionCount
from tests.spark.few_tasks import micro_batch, prepare, sockets

pytestmark = pytest.mark.skipif(not IS_LINUX, reason="connections are counted in Linux's /proc")

ROOT = Path(__file__).parents[2]
STRICT = ["-W", "error", "-W", "ignore:This process .* is multi-threaded:DeprecationWarning"]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(process=True) as broker:
        prepare(broker.bootstrap_servers)
        yield broker.bootstrap_servers


@pytest.fixture
def count(servers) -> ConnectionCount:
    return ConnectionCount(int(servers.rpartition(":")[2]))


def test_a_micro_batch_makes_no_connections_after_the_first(servers, count):
    micro_batch(servers, 0)
    connections = count.look()
    for number in range(1, 6):
        micro_batch(servers, number)
    assert count.look() == connections


def test_connections_that_are_not_used_are_closed_and_made_again_when_needed(servers, count):
    before = sockets()
    idle = {"kafka.connections.max.idle.ms": "300"}
    micro_batch(servers, 0, "idle", **idle)
    opened, connections = sockets() - before, count.look()
    assert opened
    deadline_s = time.monotonic() + 60
    while sockets() & opened:
        assert time.monotonic() < deadline_s, "connections stay open"
        time.sleep(0.02)
    micro_batch(servers, 1, "idle", **idle)
    assert count.look() > connections


def test_a_forked_worker_shares_no_connection_with_the_process_it_is_forked_from(servers):
    command = [sys.executable, *STRICT, "-m", "tests.spark.few_tasks", servers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
