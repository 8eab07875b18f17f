"""`kafkaraw log-dirs` against an embedded broker with two log directories."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker
from tests.cli.running import fill, make_topic, run


@pytest.fixture
def two_dirs(tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    paths = str(tmp_path / "a"), str(tmp_path / "b")
    with EmbeddedBroker(data_dir=",".join(paths)) as broker:
        make_topic(broker.bootstrap_servers, "trips", partitions=2)
        fill(broker.bootstrap_servers, "trips", [b"y"] * 4, partition=0)
        yield (broker.bootstrap_servers, *paths)


def rows(servers: str, *arguments: str) -> list[dict[str, object]]:
    found = json.loads(run(servers, "log-dirs describe", "--json", *arguments).stdout)
    assert isinstance(found, list)
    return found


def test_describe_prints_each_replica_and_each_directory(two_dirs: tuple[str, str, str]) -> None:
    servers, first, second = two_dirs
    lines = [line.split() for line in run(servers, "log-dirs describe").stdout.splitlines()]
    assert lines[0] == ["BROKER", "LOG-DIR", "TOPIC", "PARTITION", "SIZE", "LAG", "FUTURE"]
    assert [line[1:4] for line in lines[1:]] == [[first, "trips", "0"], [second, "trips", "1"]]
    assert rows(servers, "--topic", "nope") == []
    directories = rows(servers, "--dirs", "--broker", "0")
    assert [(row["log_dir"], row["replicas"], row["cordoned"]) for row in directories] == [
        (first, 1, False),
        (second, 1, False),
    ]


def test_move_moves_a_replica(two_dirs: tuple[str, str, str]) -> None:
    servers, _, second = two_dirs
    run(servers, "log-dirs move", "--broker", "0", "--to", second, "trips:0")
    deadline = time.monotonic() + 10
    while {row["log_dir"] for row in rows(servers)} != {second}:
        assert time.monotonic() < deadline
    refused = run(servers, "log-dirs move", "--broker", "0", "--to", "/nope", "trips:0,1", code=1)
    assert "move trips-0 on broker 0 to /nope" in refused.output
    assert "not TOPIC:PARTITION" in run(servers, "log-dirs move", "--broker", "0", "--to", "/x", "trips", code=2).output
