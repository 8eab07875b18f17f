"""The benchmark of the broker runs and measures what it says; its numbers are nobody's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.broker import BATCH_RECORDS, PARTITIONS, WORKLOADS, BenchError, Line, produce_frame, pump
from kafkaraw.broker import EmbeddedBroker

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(120)
def test_every_workload_is_measured_on_every_broker(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    with EmbeddedBroker() as other:
        command = [sys.executable, "-m", "bench.broker", "--turns=1", "--megabytes=2"]
        command += [f"--other={other.bootstrap_servers}", f"--output={result}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    assert {(one["workload"], one["broker"]) for one in found} == {
        (workload, broker) for workload in WORKLOADS for broker in ("memory", "files", "bare", "other")
    }
    for one in found:
        assert one["seconds"] > 0 and one["requests"] > 0
        assert one["bytes"] >= (2_000_000 if one["workload"] == "out" else 1)
        assert (one["broker_cpu_seconds"] is None) == (one["broker"] == "other")
    lines = done.stdout.splitlines()
    assert f"batches of {BATCH_RECORDS} records" in lines[0]
    assert len(lines) == 1 + len(found)


def test_refused_records_are_no_measurement() -> None:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as broker:
        line = Line(broker.bootstrap_servers)
        try:
            with pytest.raises(BenchError, match="refused the records: error codes"):
                pump(line, produce_frame("nowhere", 1, PARTITIONS), 1, 1)
        finally:
            line.close()
