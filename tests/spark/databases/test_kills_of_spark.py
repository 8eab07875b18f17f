"""Spark writes a stream into PostgreSQL while its processes are killed with SIGKILL; rows are compared one by one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.databases.places import Place
from tests.spark.standalone import ROOT, standalone_cluster, submit_command, submit_environment

PARTITIONS = 3
NUMBERS = 1800
ROWS = 30
BATCHES = NUMBERS // ROWS
DRIVERS = 5
DEADLINE_S = 400.0
JOB = str(ROOT / "tests/spark/databases/stream_job.py")


class Job:
    """A stream from a topic into a table.

    Args:
        kafka: where the topic is.
        place: the database.
        folder: for the checkpoint and the drivers' output.
        key: the column of an upsert; empty for inserts.
    """

    def __init__(self, kafka, place: Place, folder: Path, key: str) -> None:
        self._kafka = kafka
        self._folder = folder
        self._key = key
        self.place = place
        self.topic = kafka.new_topic(PARTITIONS)
        for partition in range(PARTITIONS):
            kafka.produce(self.topic, range(partition, NUMBERS, PARTITIONS), partition)

    def arguments(self, *more: str) -> list[str]:
        given = [self._kafka.servers, self.topic, self.place.options.database, self.place.options.table]
        given += [str(self._folder / "checkpoint"), str(ROWS), *more]
        return [*given, "--key", self._key] if self._key else given

    @contextmanager
    def driver(self, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Start a driver; it is killed with its children in the end."""
        with (self._folder / "driver.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=submit_environment(), stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield process
        finally:
            kill_group(process)

    def wait_for(self, driver: subprocess.Popen[bytes], is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not is_true():
            assert driver.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.01)

    def wait_for_end(self, driver: subprocess.Popen[bytes]) -> None:
        assert driver.wait(DEADLINE_S) == 0, self.output()

    def output(self) -> str:
        return (self._folder / "driver.log").read_text(errors="replace")[-4000:]

    def batches(self) -> int:
        """The number of micro-batches that the table has."""
        schema = self.place.options.table.rpartition(".")[0]
        if self.place.query(f"SELECT to_regclass('{schema}.kafkaraw_batches') IS NULL") == [(True,)]:
            return 0
        found = self.place.query(f"SELECT coalesce(max(number), -1) + 1 FROM {schema}.kafkaraw_batches")
        return int(found[0][0])

    def check(self) -> None:
        """Each record is there once, at its place."""
        rows = self.place.rows('partition, "offset", value')
        assert rows == sorted(((n % PARTITIONS, n // PARTITIONS, str(n)) for n in range(NUMBERS)), key=repr)
        assert self.batches() >= BATCHES
        assert self.place.staged() == []


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def python_processes(pid: int) -> list[int]:
    """The Python processes that the JVM below a driver has started, most of them for tasks."""
    found, left = [], [pid]
    while left:
        parent = left.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                left += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
        try:
            command = Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if parent != pid and b"python" in command and b"java" not in command:
            found.append(parent)
    return found


@pytest.fixture
def job(request, kafka, server, tmp_path) -> Job:
    schema = f"killed_{len(request.param)}"
    server[0].query(f"CREATE SCHEMA {schema}")
    return Job(kafka, server[0].named(f"{schema}.t"), tmp_path, request.param)


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("job", ["", "value"], ids=["inserts", "upserts"], indirect=True)
def test_each_row_is_there_once_though_drivers_and_python_workers_are_killed(job):
    """All drivers but the last are killed in the middle, and one of their Python processes before.

    A killed worker's task is tried again. If the process belonged to the driver, the query ends with an error.
    """
    draw = random.Random(job.place.options.table)
    command = [sys.executable, JOB, *job.arguments("--master", "local[2,20]")]
    for number in range(DRIVERS):
        with job.driver(command) as driver:
            goal = job.batches() + draw.randint(1, BATCHES // (3 * DRIVERS))
            job.wait_for(driver, lambda goal=goal: job.batches() >= goal)
            os.kill(draw.choice(python_processes(driver.pid)), signal.SIGKILL)
            goal = job.batches() + draw.randint(1, BATCHES // (3 * DRIVERS))
            job.wait_for(driver, lambda goal=goal, driver=driver: job.batches() >= goal or driver.poll() is not None)
        assert job.batches() < BATCHES, f"driver {number} was killed in the middle"
    with job.driver(command) as driver:
        job.wait_for_end(driver)
    job.check()


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("job", ["partition,offset"], indirect=True)
def test_each_row_is_there_once_though_an_executor_and_then_the_driver_are_killed(job, tmp_path):
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    options = ["--worker-python", sys.executable, "--conf", "spark.cores.max=2"]
    with standalone_cluster(tmp_path / "cluster", environment, environment) as cluster:
        command = submit_command(cluster.url, JOB, *job.arguments(), options=options)
        with job.driver(command) as driver:
            job.wait_for(driver, lambda: job.batches() >= 5)
            cluster.kill_worker(0)
            before = job.batches()
            job.wait_for(driver, lambda: job.batches() >= before + 5)
        assert job.batches() < BATCHES, "the driver was killed in the middle"
        with job.driver(command) as driver:
            job.wait_for_end(driver)
    job.check()
