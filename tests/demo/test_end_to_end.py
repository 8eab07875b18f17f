"""The whole demo, by the command, on a small part of the year."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.demo.readback import read_hours, read_topic
from kafkaraw.demo.topics import Topics

pytest.importorskip("pyspark")

LIMIT = 2_000
DEADLINE_S = 240


def run_demo(temporary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a folder of its own for temporary files: other demos may run on this machine."""
    command = [sys.executable, "-m", "kafkaraw", "demo", "flights", "--limit", str(LIMIT), *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


@pytest.mark.soak  # CI runs the demo as users do, from a wheel: `make try-wheel`
@pytest.mark.timeout(DEADLINE_S)
def test_the_demo_balances_and_keeps_what_it_is_told_to(tmp_path: Path, flights_folder: Path):
    kept = tmp_path / "kept"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run_demo(temporary, "--keep", str(kept))
    assert (done.returncode, done.stderr) == (0, "")
    assert "The sheet balances" in done.stdout
    assert re.search(r"records in topic flights +2,025 += +2,025 +rows in Parquet \+ dead letters", done.stdout)
    assert list(temporary.glob("kafkaraw-*")) == []
    tables = kept / "storage" / "tables"
    assert {path.name for path in (tables / "departures").glob("origin=*")} == {
        "origin=EWR",
        "origin=JFK",
        "origin=LGA",
    }
    assert {path.name for path in tables.iterdir()} == {
        "departures",
        "departures_in_weather",
        "delays_by_manufacturer",
        "delays_by_wind",
    }
    with EmbeddedBroker(data_dir=kept / "broker") as broker:
        hours = read_hours(broker.bootstrap_servers, Topics())
        letters = list(read_topic(broker.bootstrap_servers, "flights.dead-letters"))
        by_hour = list(read_topic(broker.bootstrap_servers, "delays-by-hour"))
    assert sum(hour.flights for hour in hours) == LIMIT
    assert len(letters) == 25
    assert all({"malformed", "kafkaraw.reason"} <= dict(letter.headers).keys() for letter in letters)
    assert {record.key for record in by_hour} == {json.loads(record.value or b"")["id"].encode() for record in by_hour}
