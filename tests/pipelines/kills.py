"""Runs of a pipeline that are killed (SIGKILL) at seeded steps, then run to the end; every output must be exact.

python -m tests.pipelines.kills 1-50     # each seed starts a broker, and some JVMs one after the other
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import StreamingTable
from tests.pipelines import killed_run
from tests.spark.kafka import Kafka

ROOT = Path(__file__).parents[2]
RECORDS = 240
STEPS_MAX = 90
"""More steps than the run of an empty storage has."""
RUN_TIMEOUT_S = 300


def run_of_seed(seed: int, kafka: Kafka, folder: Path, *, kills: int) -> int:
    """Run a pipeline until it is killed some times, and then to its end; returns how often it was killed.

    Raises:
        AssertionError: an output has lost or repeated a row.
    """
    choose = random.Random(seed)
    topic = kafka.new_topic(2)
    for name in (f"{topic}-copy", f"{topic}-counts"):
        kafka.admin.create_topics([name])
    values = [choose.randrange(40) for _ in range(RECORDS)]
    for partition in (0, 1):
        kafka.produce(topic, values[partition::2], partition)
    killed = 0
    for _ in range(kills):
        step, delay = choose.randrange(1, STEPS_MAX), choose.choice((0.0, 0.0, choose.random() * 0.5))
        code = _run(folder, kafka.servers, topic, step, delay)
        assert code in (0, -9), (folder / "output").read_text()[-3000:]
        killed += code != 0
    assert _run(folder, kafka.servers, topic, 0, 0.0) == 0, (folder / "output").read_text()[-3000:]
    _check(kafka, folder, topic, values)
    return killed


def _run(folder: Path, servers: str, topic: str, step: int, delay: float) -> int:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", killed_run.__name__, str(folder), servers, topic, str(step), str(delay)]
    with (folder / "output").open("ab") as output:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            stdout=output,
            stderr=output,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    return done.returncode


def _check(kafka: Kafka, folder: Path, topic: str, values: list[int]) -> None:
    storage = Storage(folder / "storage")
    clean = Counter(value for value in values if value % 7)
    table = StreamingTable(storage.table("clean"))
    found = Counter(value for file in table.files() for value in pq.read_table(file).column("n").to_pylist())
    assert found == clean, _difference(found, clean)
    copied = Counter(json.loads(record.value or b"")["n"] for record in kafka.records(f"{topic}-copy"))
    assert copied == clean, _difference(copied, clean)
    rows = [json.loads(record.value or b"") for record in kafka.records(f"{topic}-counts")]
    assert len({(row["n"], row["count"]) for row in rows}) == len(rows), "a row of the aggregate is there twice"
    assert {row["n"]: row["count"] for row in rows} == Counter(values)
    total = SnapshotTable(storage.table("total"))
    version = total.current()
    assert version is not None
    [file] = total.folder(version.number).glob("*.parquet")
    assert pq.read_table(file).column("n").to_pylist() == [sum(clean.elements())]
    written = {each.name: each.counts().totals.get("kafkaraw.written", {}).get("rows") for each in storage.flows()}
    assert written["clean"] == written[f"{topic}-copy"] == clean.total(), written
    assert written[f"{topic}-counts"] == len(rows), written


def _difference(found: Counter[int], wanted: Counter[int]) -> str:
    return f"lost {dict(wanted - found)}, repeated {dict(found - wanted)}"


def main() -> None:
    first, _, last = sys.argv[1].partition("-")
    with (
        EmbeddedBroker(process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer,
    ):
        kafka = Kafka(broker.bootstrap_servers, admin, producer)
        for seed in range(int(first), int(last or first) + 1):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                killed = run_of_seed(seed, kafka, Path(folder, "run"), kills=3)
            print(f"seed {seed}: killed {killed} times, exact, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
