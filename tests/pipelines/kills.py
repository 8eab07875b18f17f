"""Runs of pipelines that are killed (SIGKILL) at seeded steps, then run to the end; every output must be exact.

python -m tests.pipelines.kills 1-50     # 50 pipelines, ten at a time in one run; each ten are killed twice
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import StreamingTable
from tests.pipelines import killed_run
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
RECORDS = 120
STEPS = 60
"""About as many steps as the run of one pipeline with an empty storage has."""
RUN_TIMEOUT_S = 1_500
TOGETHER = 10


@dataclass(frozen=True)
class Killed:
    """One pipeline: its folder, its topic, and the values of the topic; None for a record that is no JSON."""

    seed: int
    folder: Path
    topic: str
    values: list[int | None]


def pipeline_of_seed(seed: int, kafka: Kafka, folder: Path) -> Killed:
    choose = random.Random(seed)
    topic = kafka.new_topic(2)
    values = [choose.randrange(40) if choose.random() > 0.05 else None for _ in range(RECORDS)]
    sent = [
        kafka.producer.send(topic, b"{" if value is None else b'{"n": %d}' % value, partition=number % 2)
        for number, value in enumerate(values)
    ]
    for each in sent:
        each.result(30)
    return Killed(seed, folder, topic, values)


def run_killed(
    pipelines: Sequence[Killed], kafka: Kafka, output: Path, *, kills: int, spark: SparkSession | None = None
) -> int:
    """Run pipelines together until they are killed some times, and then to their end; returns the number of kills.

    Args:
        pipelines: the pipelines.
        kafka: their brokers.
        output: the file for what the killed processes print.
        kills: how often they are killed.
        spark: the session of the last run; None for a process of its own.

    Raises:
        AssertionError: an output has lost or repeated a row.
    """
    choose, killed = random.Random(pipelines[0].seed), 0
    for number in range(kills):
        step = choose.randrange(1, STEPS * len(pipelines) // (number + 1))
        delay = choose.choice((0.0, 0.0, choose.random()))
        code = _run(pipelines, kafka.servers, output, step, delay, choose.choice(("driver", "jvm")))
        assert code in (0, -9), output.read_text()[-3000:]
        killed += code != 0
    if spark is None:
        assert _run(pipelines, kafka.servers, output, 0, 0.0, "driver") == 0, output.read_text()[-3000:]
    else:
        assert killed_run.run_all(spark, kafka.servers, [(str(each.folder), each.topic) for each in pipelines]) == 0
    for each in pipelines:
        check(kafka, each)
    return killed


def _run(pipelines: Sequence[Killed], servers: str, output: Path, step: int, delay: float, first: str) -> int:
    places = [text for each in pipelines for text in (str(each.folder), each.topic)]
    command = [sys.executable, "-m", killed_run.__name__, servers, str(step), str(delay), first, *places]
    with output.open("ab") as file:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            stdout=file,
            stderr=file,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    return done.returncode


def check(kafka: Kafka, pipeline: Killed) -> None:
    """Compare every output with the records of the topic."""
    storage, topic = Storage(pipeline.folder / "storage"), pipeline.topic
    values = [value for value in pipeline.values if value is not None]
    clean = Counter(value for value in values if value % 7)
    table = StreamingTable(storage.table("clean"))
    found = Counter(value for file in table.files() for value in pq.read_table(file).column("n").to_pylist())
    assert found == clean, _difference(found, clean)
    copied = Counter(json.loads(record.value or b"")["n"] for record in kafka.records(f"{topic}-copy"))
    assert copied == clean, _difference(copied, clean)
    rows = [json.loads(record.value or b"") for record in kafka.records(f"{topic}-counts")]
    assert len({(row["n"], row["count"]) for row in rows}) == len(rows), "a row of the aggregate is there twice"
    last: dict[int, int] = {}
    for row in rows:
        last[row["n"]] = max(row["count"], last.get(row["n"], 0))
    assert last == Counter(values)
    dead = Counter(
        (int(headers["kafkaraw.partition"]), int(headers["kafkaraw.offset"]))
        for headers in (dict(record.headers) for record in kafka.records(f"{topic}-dead"))
    )
    bad = Counter((number % 2, number // 2) for number, value in enumerate(pipeline.values) if value is None)
    assert dead == bad, f"lost {bad - dead}, repeated {dead - bad}"
    total = SnapshotTable(storage.table("total"))
    version = total.current()
    assert version is not None
    [file] = total.folder(version.number).glob("*.parquet")
    assert pq.read_table(file).column("n").to_pylist() == [sum(clean.elements())]
    written = {each.name: each.counts().totals.get("kafkaraw.written", {}).get("rows") for each in storage.flows()}
    assert written["clean"] == written[f"{topic}-copy"] == clean.total(), written
    assert written[f"{topic}-counts"] == len(rows), written
    assert written["dead_letters_of_numbers"] == bad.total(), written


def _difference(found: Counter[int], wanted: Counter[int]) -> str:
    return f"lost {dict(wanted - found)}, repeated {dict(found - wanted)}"


def main() -> None:
    first, _, last = sys.argv[1].partition("-")
    seeds = range(int(first), int(last or first) + 1)
    with (
        EmbeddedBroker(process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer,
        tempfile.TemporaryDirectory() as folder,
    ):
        kafka = Kafka(broker.bootstrap_servers, admin, producer)
        for start in range(0, len(seeds), TOGETHER):
            began = time.monotonic()
            chosen = [pipeline_of_seed(seed, kafka, Path(folder, str(seed))) for seed in seeds[start:][:TOGETHER]]
            killed = run_killed(chosen, kafka, Path(folder, "output"), kills=2)
            took = time.monotonic() - began
            print(f"seeds {chosen[0].seed}-{chosen[-1].seed}: killed {killed} times, exact, {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
