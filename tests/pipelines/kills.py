"""Runs of pipelines that are killed (SIGKILL) at every step, then run to the end; every output must be exact.

python -m tests.pipelines.kills 1-70        # 70 kills of seven pipelines, each of which is killed ten times in a row
python -m tests.pipelines.kills 7,31-33,60  # some of them

Seed N kills at point N of `kill_steps.POINTS`; the seeds beyond them kill after a random time. New records are there
before each run, so that there is something to do.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.pipelines.changes import LIVE
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import StreamingTable
from tests.pipelines import killed_run
from tests.pipelines.kill_steps import FOLDER_VARIABLE, POINT_VARIABLE, POINTS, Kill, passed
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
RECORDS = 24
"""New records before each run."""
RUN_TIMEOUT_S = 300
IN_A_ROW = 10
LONGEST_S = 15.0
KILLED = -9
JVM_DIED = 1
"""Exit code of a driver whose JVM has died."""


@dataclass
class Killed:
    """A pipeline: its folder, its topic, and the values of the topic; None for a record that is no JSON."""

    seed: int
    folder: Path
    topic: str
    values: list[int | None] = field(default_factory=list)

    def send(self, kafka: Kafka, count: int = RECORDS) -> None:
        choose = random.Random(f"{self.seed}/{len(self.values)}")
        sent = []
        for _ in range(count):
            value = choose.randrange(40) if choose.random() > 0.05 else None
            number = len(self.values)
            text = b"{" if value is None else b'{"n": %d, "i": %d}' % (value, number)
            sent.append(kafka.producer.send(self.topic, text, partition=number % 2))
            self.values.append(value)
        for each in sent:
            each.result(30)


def pipeline_of_seed(seed: int, kafka: Kafka, folder: Path) -> Killed:
    return Killed(seed, folder, kafka.new_topic(2))


def kill_of_seed(seed: int) -> Kill:
    choose = random.Random(seed)
    first = choose.choice(("driver", "jvm"))
    if seed > len(POINTS):
        return Kill("", "", 0, first, choose.uniform(0, LONGEST_S))
    step, point, calls = POINTS[seed - 1]
    return Kill(step, point, choose.randint(1, calls), first)


@dataclass(frozen=True)
class Outcome:
    """What became of a kill: whether it happened, and the points that the run had passed."""

    seed: int
    kill: Kill
    happened: bool
    points: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        how = "killed" if self.happened else "NOT KILLED"
        return f"seed {self.seed}: {how} at {self.kill}; {len(self.points)} points passed, {self.seconds:.0f} s"


def run_killed(
    pipelines: Sequence[Killed], kafka: Kafka, folder: Path, seeds: Iterable[int], *, spark: SparkSession | None = None
) -> list[Outcome]:
    """Run pipelines together, kill each run as its seed says, then run them to their end.

    Args:
        pipelines: the pipelines.
        kafka: their brokers.
        folder: for what the killed processes print and count.
        seeds: of the kills.
        spark: the session of the last run; None for a process of its own.

    Raises:
        AssertionError: an output has lost or repeated a row.
    """
    outcomes = []
    for seed in seeds:
        for each in pipelines:
            each.send(kafka)
        chosen = kill_of_seed(seed)
        outcomes.append(_run(pipelines, kafka.servers, folder / str(seed), seed, chosen))
        print(outcomes[-1], flush=True)
    if spark is None:
        last = folder / "last"
        code = _process(pipelines, kafka.servers, last, "")
        assert code == 0, _output(last)
    else:
        assert killed_run.run_all(spark, kafka.servers, [(str(each.folder), each.topic) for each in pipelines]) == 0
    for each in pipelines:
        check(kafka, each)
    return outcomes


def _run(pipelines: Sequence[Killed], servers: str, folder: Path, seed: int, chosen: Kill) -> Outcome:
    started = time.monotonic()
    code = _process(pipelines, servers, folder, chosen.text)
    happened = (folder / "killed").exists()
    ends = {KILLED if happened else 0}
    if happened and chosen.first == "jvm":
        ends.add(
            JVM_DIED
        )  # the driver may end before it is killed: the killing worker dies with the JVM on a busy machine
    assert code in ends, f"seed {seed}, {chosen}: exit code {code}\n{_output(folder)}"
    return Outcome(seed, chosen, happened, passed(folder), time.monotonic() - started)


def _process(pipelines: Sequence[Killed], servers: str, folder: Path, point: str) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "points").mkdir(parents=True)
    places = [text for each in pipelines for text in (str(each.folder), each.topic)]
    hooks = Path(__file__).with_name("killed")
    variables = {
        "PYTHONPATH": os.pathsep.join(map(str, (hooks, ROOT / "src", ROOT))),
        FOLDER_VARIABLE: str(folder),
        POINT_VARIABLE: point,
    }
    with (folder / "output").open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", killed_run.__name__, servers, *places],
            cwd=ROOT,
            env=os.environ | variables,
            stdout=file,
            stderr=file,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    return done.returncode


def _output(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")[-3000:]


def check(kafka: Kafka, pipeline: Killed) -> None:
    """Compare every output with the records of the topic."""
    storage, topic = Storage(pipeline.folder / "storage"), pipeline.topic
    values = [(value, number) for number, value in enumerate(pipeline.values) if value is not None]
    clean = Counter(each for each in values if each[0] % 7)
    table = StreamingTable(storage.table("clean"))
    found = Counter(pair for file in table.files() for pair in _pairs(file))
    assert found == clean, _difference(found, clean)
    read = [json.loads(record.value or b"") for record in kafka.records(f"{topic}-copy")]
    copied = Counter((row["n"], row["i"]) for row in read)
    assert copied == clean, _difference(copied, clean)
    rows = [json.loads(record.value or b"") for record in kafka.records(f"{topic}-counts")]
    assert len({(row["n"], row["count"]) for row in rows}) == len(rows), "a row of the aggregate is there twice"
    last: dict[int, int] = {}
    for row in rows:
        last[row["n"]] = max(row["count"], last.get(row["n"], 0))
    assert last == Counter(value for value, _ in values)
    dead = Counter(
        (int(headers["kafkaraw.partition"]), int(headers["kafkaraw.offset"]))
        for headers in (dict(record.headers) for record in kafka.records(f"{topic}-dead"))
    )
    bad = Counter((number % 2, number // 2) for number, value in enumerate(pipeline.values) if value is None)
    assert dead == bad, f"lost {bad - dead}, repeated {dead - bad}"
    newest = [pair for file in _current(storage, "newest").glob(f"{LIVE}/*.parquet") for pair in _pairs(file)]
    assert sorted(newest) == sorted({value: (value, number) for value, number in values}.values())
    [file] = _current(storage, "total").glob("*.parquet")
    assert pq.read_table(file).column("n").to_pylist() == [sum(value for value, _ in clean)]
    written = {each.name: each.counts().totals.get("kafkaraw.written", {}).get("rows") for each in storage.flows()}
    assert written["clean"] == written[f"{topic}-copy"] == clean.total(), written
    assert written[f"{topic}-counts"] == len(rows), written
    assert written["newest"] == len(values), written
    assert written["dead_letters_of_numbers"] == bad.total(), written


def _pairs(file: Path) -> list[tuple[int, int]]:
    return [(row["n"], row["i"]) for row in pq.ParquetFile(file).read().to_pylist()]


def _current(storage: Storage, table: str) -> Path:
    snapshots = SnapshotTable(storage.table(table))
    version = snapshots.current()
    assert version is not None
    return snapshots.folder(version.number)


def _difference(found: Counter[tuple[int, int]], wanted: Counter[tuple[int, int]]) -> str:
    return f"lost {dict(wanted - found)}, repeated {dict(found - wanted)}"


def main() -> None:
    ranges = [text.partition("-")[::2] for text in sys.argv[1].split(",")]
    seeds = [seed for first, last in ranges for seed in range(int(first), int(last or first) + 1)]
    outcomes = list[Outcome]()
    with (
        EmbeddedBroker(process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer,
        tempfile.TemporaryDirectory() as folder,
    ):
        kafka = Kafka(broker.bootstrap_servers, admin, producer)
        for start in range(0, len(seeds), IN_A_ROW):
            chosen = seeds[start : start + IN_A_ROW]
            pipeline = pipeline_of_seed(chosen[0], kafka, Path(folder, f"pipeline-{chosen[0]}"))
            outcomes += run_killed([pipeline], kafka, Path(folder, "runs"), chosen)
            print(f"seeds {chosen[0]}-{chosen[-1]}: exact", flush=True)
    killed = [each for each in outcomes if each.happened]
    points = {point for each in outcomes for point in each.points}
    print(f"{len(killed)} of {len(outcomes)} runs killed; {len(points)} points passed", flush=True)
    never = {f"{step}, {point}" for step, point, _ in POINTS} - points
    if never:
        print(f"never passed: {', '.join(sorted(never))}", flush=True)


if __name__ == "__main__":
    main()
