"""Foreign clients on our cluster while leaders move and nodes stop and die: nothing lost, nothing twice, in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedCluster
from kafkaraw.client.admin import NewTopic
from tests.interop.steered_client import CLIENTS, SECONDS_MAX

BATCH = 25


class Steered:
    """A client in a process of its own: writes to partition 0 of "t", and reads it from the start."""

    def __init__(self, name: str, bootstrap_servers: str) -> None:
        command = [sys.executable, "-m", "tests.interop.steered_client", name, bootstrap_servers]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, values: list[str]) -> None:
        """Send, and return when all is acknowledged."""
        assert self._ask("send", *values) == ["sent"]

    def read(self, count: int) -> list[str]:
        """The next values."""
        return self._ask("read", str(count))

    def _ask(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()

    def __enter__(self) -> Steered:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties={"min.insync.replicas": 2}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1)], timeout=SECONDS_MAX)
        yield cluster


def happenings(cluster: EmbeddedCluster) -> Iterator[str]:
    """One thing after another that befalls the leader."""
    for name in ("move", "stop", "kill"):
        leader = cluster.leader_of("t")
        assert leader is not None
        if name == "move":
            cluster.move_leader("t", 0, next(node for node in cluster.isr_of("t") if node != leader))
        elif name == "stop":
            cluster.stop_node(leader)
        else:
            cluster.kill_node(leader)
        yield name
        if name != "move":
            cluster.start_node(leader)
            cluster.wait_until_in_sync()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_foreign_client_writes_and_reads_through_moves_stops_and_deaths(name: str, cluster: EmbeddedCluster):
    values = [str(number) for number in range(4 * BATCH)]
    with Steered(name, cluster.bootstrap_servers) as client:
        client.send(values[:BATCH])
        assert client.read(BATCH) == values[:BATCH]
        for number, what in enumerate(happenings(cluster), start=1):
            batch = values[number * BATCH : (number + 1) * BATCH]
            client.send(batch)
            assert client.read(BATCH) == batch, what
