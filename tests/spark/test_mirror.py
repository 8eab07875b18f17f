"""A mirror whose tasks run on Spark: in turn with one process, with kills, and on executors without packages.

The source and the target are brokers in processes of their own. Copies are compared record by record.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkaraw import Admin
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import UnknownTopicError
from kafkaraw.mirror.copy_session import FlowPart
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import MirrorSettings, read_mirror_settings
from kafkaraw.mirror.shares import Share, ShareReport
from kafkaraw.spark import mirroring
from kafkaraw.spark.mirroring import SparkTasks
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.mirror.copies import FEW_PARTITIONS, compared, fill
from tests.spark.standalone import StandaloneCluster, conf_options, executor_settings, submit_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
DEADLINE_S = 240.0
COMMAND = [sys.executable, "-m", "kafkaraw", "mirror", "run"]


class Clusters(NamedTuple):
    """Bootstrap servers of both clusters, and the configuration of a mirror between them."""

    source: str
    target: str
    file: Path

    @property
    def settings(self) -> MirrorSettings:
        return read_mirror_settings(self.file)

    def is_equal(self) -> bool:
        """Whether the copy has each record once, in order; it may be behind, but must not differ in another way."""
        try:
            reports = compared(self.source, self.target, ("orders", "a.orders"))
        except UnknownTopicError:
            return False
        assert all({kind.name for kind in report.counts} <= {"BEHIND"} for report in reports), reports
        return all(report.is_equal and not report.counts for report in reports)

    def fill(self, numbers: range) -> None:
        fill(self.source, "orders", numbers, partitions=PARTITIONS)

    def wait_until_equal(self, check: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self.is_equal():
            check()
            assert time.monotonic() < deadline, "the copy does not become complete"
            time.sleep(0.2)


def mirror_file(folder: Path, source: str, target: str) -> Path:
    """Write the configuration of a mirror of `orders` between clusters with these bootstrap servers."""
    file = folder / "mirror.properties"
    file.write_text(
        "clusters = a, b\n"
        f"a.bootstrap.servers = {source}\n"
        f"b.bootstrap.servers = {target}\n"
        "a->b.enabled = true\na->b.topics = orders\nheartbeats.replication.enabled = false\n"
        "refresh.topics.interval.seconds = 1\ncommit.interval.ms = 100\n"
    )
    return file


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Clusters]:
    properties = {**KEEP_RECORDS, **FEW_PARTITIONS}
    with (
        EmbeddedBroker(process=True, properties=properties) as source,
        EmbeddedBroker(process=True, properties=properties) as target,
    ):
        with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", PARTITIONS)])
        file = mirror_file(tmp_path, source.bootstrap_servers, target.bootstrap_servers)
        yield Clusters(source.bootstrap_servers, target.bootstrap_servers, file)


async def mirror(clusters: Clusters, tasks: SparkTasks | None) -> tuple[MirrorRun, float]:
    """Run a mirror until the copy is complete; returns it, and the number of records in its metrics."""
    settings = clusters.settings
    run = MirrorRun(settings.flow(None), settings.topology, runner=tasks, round_s=1.0)
    running = asyncio.create_task(run.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not await asyncio.to_thread(clusters.is_equal):
                if running.done():
                    await running
                await asyncio.sleep(0.1)
    finally:
        run.stop()
        await running
    assert run.flow is not None
    return run, sum(metrics["record-count"] for metrics in run.flow.metrics().values())


def test_tasks_of_spark_and_one_process_continue_each_other(spark: SparkSession, clusters: Clusters) -> None:
    for step, count in enumerate((2, None, 3)):
        clusters.fill(range(300 * step, 300 * step + 300))
        tasks = None if count is None else SparkTasks(spark, "a->b", count)
        run, counted = asyncio.run(mirror(clusters, tasks))
        assert counted == 300
        mapping = run.offsets.mappings
        assert [mapping[of].source_end for of in sorted(mapping)] == [100 * (step + 1)] * PARTITIONS
    assert clusters.is_equal()


def test_a_second_attempt_of_a_task_copies_nothing(monkeypatch: pytest.MonkeyPatch, clusters: Clusters) -> None:
    class SecondAttempt:
        @staticmethod
        def get() -> SecondAttempt:
            return SecondAttempt()

        def attemptNumber(self) -> int:
            return 1

    monkeypatch.setattr(mirroring, "TaskContext", SecondAttempt)
    share = Share(clusters.settings.flow(None).copy, (), FlowPart("run", None), 1.0)
    [report] = mirroring._Task([share])(0, [])
    assert isinstance(report, ShareReport)
    assert report.problem is not None
    assert report.problem.passes
    assert "Spark runs it again" in report.problem.text
    assert not report.copied


# -- commands, clusters and kills


def start(clusters: Clusters, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the command; its output goes to a log in the folder."""
    folder.mkdir(exist_ok=True)
    with (folder / "mirror.log").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, str(clusters.file), *options],
            cwd=folder,
            env=submit_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def running(process: subprocess.Popen[bytes], folder: Path) -> Callable[[], None]:
    def check() -> None:
        assert process.poll() is None, (folder / "mirror.log").read_text()[-4000:]

    return check


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """End a command; SIGKILL ends its driver and the JVM, too."""
    if number is signal.SIGKILL:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    return process.wait(120)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_command_continues_after_each_kill_of_its_driver(clusters: Clusters, tmp_path: Path) -> None:
    """Executors of a killed driver may live on for a moment: they have transactions open, and are fenced."""
    ways = [["--master", "local[2]"], [], ["--master", "local[3]", "--tasks", "3"]]
    for step, way in enumerate([*ways, *ways]):
        options = [*way, *(["--round-seconds", "2"] if way else [])]
        process = start(clusters, tmp_path / "run", *options)
        try:
            clusters.fill(range(3000 * step, 3000 * step + 3000))
            clusters.wait_until_equal(running(process, tmp_path / "run"))
            clusters.fill(range(10**6 + 3000 * step, 10**6 + 3000 * step + 3000))
        finally:
            end(process, signal.SIGKILL)
    process = start(clusters, tmp_path / "run", "--master", "local[2]", "--round-seconds", "2")
    try:
        clusters.wait_until_equal(running(process, tmp_path / "run"))
    finally:
        code = end(process, signal.SIGTERM)
    assert code == 0, (tmp_path / "run/mirror.log").read_text()[-4000:]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_killed_worker_and_a_killed_driver_lose_and_repeat_nothing(
    clusters: Clusters, archive: Path, workers: StandaloneCluster, tmp_path: Path
) -> None:
    """The workers have Spark and Java only. One is killed with its executor, then the driver; one process goes on."""
    options = ["--master", workers.url, "--archive", str(archive), *conf_options(executor_settings())]
    options += ["--round-seconds", "2", "--tasks", "2"]
    driver = start(clusters, tmp_path / "driver", *options)
    try:
        clusters.fill(range(3000))
        clusters.wait_until_equal(running(driver, tmp_path / "driver"))
        clusters.fill(range(3000, 6000))
        workers.kill_worker(0)
        clusters.fill(range(6000, 9000))
        clusters.wait_until_equal(running(driver, tmp_path / "driver"))
        clusters.fill(range(9000, 12000))
    finally:
        end(driver, signal.SIGKILL)
    log = (tmp_path / "driver/mirror.log").read_text()
    assert re.search(r"a->b.*(task \d \(orders-\d.*on executor|the job failed)", log), log[-4000:]
    one = start(clusters, tmp_path / "one")
    try:
        clusters.fill(range(12000, 15000))
        clusters.wait_until_equal(running(one, tmp_path / "one"))
    finally:
        code = end(one, signal.SIGTERM)
    assert code == 0
