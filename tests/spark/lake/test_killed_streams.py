"""A Spark driver is killed while it streams into tables; restarted with its checkpoint, each record is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.kafka import Kafka
from tests.spark.lake import killed_stream
from tests.spark.lake.cloud_stores import FIRST_TIMEOUT_S
from tests.spark.lake.killed_stream import ROWS_PER_BATCH, Stores, checkpoint_in, lake_in
from tests.spark.lake.tables import FORMATS

ROOT = Path(__file__).parents[3]
KILLS = 4
BATCHES_PER_RUN = 3
ROWS = 200 * ROWS_PER_BATCH  # more than a query of small micro-batches writes before it is killed
TIMEOUT_S = 120


@contextmanager
def driver(folder: Path, servers: str, topic: str, stores: Stores, *, ends: bool) -> Iterator[subprocess.Popen[bytes]]:
    given = {"folder": str(folder), "servers": servers, "topic": topic, "ends": ends, "stores": stores}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with open(folder / "driver.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", killed_stream.__name__, json.dumps(given)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def begun(folder: Path) -> int:
    """How many micro-batches have begun, of the query that has fewest."""
    return min(len(list(checkpoint_in(folder, kind).glob("offsets/[0-9]*"))) for kind in FORMATS)


def has_open_batch(folder: Path, kind: str) -> bool:
    """Return whether a micro-batch has begun that Spark does not know to be committed."""
    begun, done = (len(list(checkpoint_in(folder, kind).glob(f"{log}/[0-9]*"))) for log in ("offsets", "commits"))
    return begun > done


def wait_until_begun(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while begun(folder) < count:
        assert process.poll() is None, (folder / "driver.log").read_text()[-3000:]
        assert time.monotonic() < deadline, f"{begun(folder)} micro-batches have begun, not {count}"
        time.sleep(0.002)  # of real processes


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_in_the_tables_once_though_the_driver_is_killed(kafka, tmp_path, seed):
    check_kills(kafka, tmp_path, {}, seed, KILLS)


@pytest.mark.timeout(FIRST_TIMEOUT_S)
@pytest.mark.parametrize("name", ["azure", "google"])
def test_each_record_is_in_an_object_store_once_though_the_driver_is_killed(request, kafka, tmp_path, name):
    store = request.getfixturevalue(name)
    stores = {kind: (f"{store.url}/killed/{kind}", store.settings(kind)) for kind in FORMATS}
    check_kills(kafka, tmp_path, stores, 0, 1)


def check_kills(kafka: Kafka, folder: Path, stores: Stores, seed: int, kills: int) -> None:
    draw = random.Random(seed)
    were_open = 0
    topic = kafka.new_topic(2)
    for partition in range(2):
        kafka.produce(topic, range(partition, ROWS, 2), partition)
    for _ in range(kills):
        with driver(folder, kafka.servers, topic, stores, ends=False) as process:
            wait_until_begun(folder, begun(folder) + BATCHES_PER_RUN, process)
            time.sleep(draw.random() * 0.3)  # so that it is killed at any step of a micro-batch
        were_open += sum(has_open_batch(folder, kind) for kind in FORMATS)
    assert were_open > kills / 2, "the kills came between micro-batches"
    numbers = {kind: len(lake_in(folder, kind, stores).numbers()) for kind in FORMATS}
    assert all(0 < count < ROWS for count in numbers.values()), f"the kills came too late: {numbers}"
    with driver(folder, kafka.servers, topic, stores, ends=True) as process:
        assert process.wait(TIMEOUT_S) == 0, (folder / "driver.log").read_text()[-3000:]
    for kind in FORMATS:
        lake = lake_in(folder, kind, stores)
        assert lake.numbers() == [*range(ROWS)]
        assert len(lake.maintenance().vacuum(0, dry_run=False)) < 100
        assert lake.numbers() == [*range(ROWS)]
