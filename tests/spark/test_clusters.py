"""Jobs on Spark clusters whose workers have nothing installed: batch, stream, exactly once, and with deaths.

The workers of the standalone cluster run the system's Python, without packages; their executors get an archive of this
environment. Outputs are compared with the input record by record.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.spark.cluster_job import PASSWORD
from tests.spark.kafka import Kafka
from tests.spark.standalone import (
    ROOT,
    conf_options,
    events_of,
    submit,
    submit_command,
    submit_environment,
)

JOB = str(ROOT / "tests/spark/cluster_job.py")
SECRET = "Sesam-8-cluster"
PARTITIONS = 3
NUMBERS = 540
DEADLINE_S = 300.0
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}


@pytest.fixture
def source(kafka: Kafka) -> str:
    return numbered(kafka)


def numbered(kafka: Kafka) -> str:
    """A topic whose partitions have every third number each."""
    topic = kafka.new_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(topic, range(partition, NUMBERS, PARTITIONS), partition)
    return topic


def check(kafka: Kafka, target: str, folder: Path) -> None:
    """The batch has read each record at its place, and the stream has copied each of them once."""
    expected = sorted([n % PARTITIONS, n // PARTITIONS, str(n)] for n in range(NUMBERS))
    assert json.loads((folder / "read.json").read_text()) == expected
    assert kafka.numbers(target) == list(range(NUMBERS))


def event_log(folder: Path) -> dict[str, str]:
    """Settings of a job that writes its events to a folder, as text."""
    folder.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@pytest.mark.timeout(300)
def test_job_runs_on_two_executors_on_this_machine_and_nothing_shows_its_secret(tmp_path):
    """The pages of Spark, its event log, what the job prints, and the command lines of all processes."""
    properties = {**KEEP_RECORDS, "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "ada",
        "sasl_password": SECRET,
    }
    events, folder = tmp_path / "events", tmp_path / "driver"
    folder.mkdir()
    (tmp_path / "password").write_text(f"{SECRET}\n")
    with (
        EmbeddedBroker(properties=properties, users={"ada": SECRET}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, **login) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0, **login) as producer,
    ):
        kafka = Kafka(broker.bootstrap_servers, admin, producer, login)
        source, target = numbered(kafka), kafka.new_topic(2)
        # All executors are there before the first task.
        conf = event_log(events) | {"spark.ui.port": "0", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
        options = [*conf_options(conf), "--secret", f"{PASSWORD}={tmp_path}/password"]
        arguments = (kafka.servers, source, target, str(folder), str(NUMBERS))
        done = submit("local-cluster[2,1,1024]", JOB, *arguments, folder=tmp_path, options=options)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        check(kafka, target, folder)
    ended = [event for event in events_of(events) if event["Event"] == "SparkListenerTaskEnd"]
    assert {event["Task Info"]["Executor ID"] for event in ended} == {"0", "1"}
    shown = {path.name: path.read_text() for path in folder.glob("shown-*.txt")}
    shown |= {path.name: path.read_text() for path in events.rglob("*") if path.is_file()}
    assert "cluster_job.py" in shown["shown-commands.txt"]
    assert any("SparkListenerSQLExecutionStart" in text for text in shown.values())
    assert any(text.startswith("environment/") and "spark.redaction.regex" in text for text in shown.values())
    shown |= {"standard output": done.stdout, "standard error": done.stderr}
    assert [name for name, text in shown.items() if SECRET in text] == []


# -- a standalone cluster


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_job_runs_on_workers_without_packages(kafka, source, archive, workers, tmp_path):
    target, folder = kafka.new_topic(2), tmp_path / "driver"
    folder.mkdir()
    options = ["--archive", str(archive)]
    arguments = (kafka.servers, source, target, str(folder), "180")
    done = submit(workers.url, JOB, *arguments, folder=folder, options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + workers.executor_logs()[-4000:]
    check(kafka, target, folder)
    places = json.loads((folder / "executors.json").read_text())
    assert all(str(workers.folder) in text for place in places for text in place), (
        "each task ran in an unpacked archive"
    )
    assert not list(folder.glob(".kafkaraw-environment-*"))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_job_runs_by_an_archive_that_was_unpacked_beforehand_as_in_an_image(kafka, source, archive, workers, tmp_path):
    """An image for Kubernetes has the unpacked archive, at the same path for driver and executors."""
    target, folder, image = kafka.new_topic(2), tmp_path / "driver", tmp_path / "opt/kafkaraw"
    folder.mkdir()
    with tarfile.open(archive) as tar:
        tar.extractall(image, filter="data")
    options = ["--worker-python", str(image / "bin/python")]
    arguments = (kafka.servers, source, target, str(folder), str(NUMBERS))
    done = submit(workers.url, JOB, *arguments, folder=folder, options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + workers.executor_logs()[-4000:]
    check(kafka, target, folder)
    places = json.loads((folder / "executors.json").read_text())
    assert all(str(image) in text for place in places for text in place)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_nothing_is_lost_or_twice_if_a_worker_and_then_the_driver_are_killed(kafka, source, archive, workers, tmp_path):
    """The driver is started again in another folder, as on another machine, with its checkpoint in a shared one."""
    target, shared = kafka.new_topic(2), tmp_path / "shared"
    shared.mkdir()
    options = ["--archive", str(archive), "--conf", "spark.cores.max=2"]
    arguments = (kafka.servers, source, target, str(shared), "30")
    first = tmp_path / "first"
    first.mkdir()
    log = (tmp_path / "driver.log").open("wb")
    driver = subprocess.Popen(
        submit_command(workers.url, JOB, *arguments, options=options),
        cwd=first,
        env=submit_environment(),
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        wait_for(driver, tmp_path / "driver.log", lambda: committed(shared) >= 3)
        workers.kill_worker(0)
        before = committed(shared)
        wait_for(driver, tmp_path / "driver.log", lambda: committed(shared) >= before + 3)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        log.close()
    assert committed(shared) < NUMBERS // 30 - 1, "the driver was killed in the middle"
    second = tmp_path / "second"
    second.mkdir()
    done = submit(workers.url, JOB, *arguments, folder=second, options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    check(kafka, target, shared)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_twice_while_executors_come_and_go(kafka, source, archive, workers, tmp_path):
    """Spark removes an executor that has no task for a second, and the next micro-batch starts new ones."""
    target, folder, events = kafka.new_topic(2), tmp_path / "driver", tmp_path / "events"
    folder.mkdir()
    options = ["--archive", str(archive), *conf_options(DYNAMIC_ALLOCATION | event_log(events))]
    arguments = (kafka.servers, source, target, str(folder), str(NUMBERS // 3), "6")
    done = submit(workers.url, JOB, *arguments, folder=folder, options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + workers.executor_logs()[-4000:]
    check(kafka, target, folder)
    names = [event["Event"].removeprefix("SparkListener") for event in events_of(events)]
    assert names.count("ExecutorAdded") >= 3
    assert names.count("ExecutorRemoved") >= 2


def committed(folder: Path) -> int:
    """The number of micro-batches that the checkpoint notes as committed."""
    commits = folder / "checkpoint/commits"
    return max([-1, *(int(path.name) for path in commits.glob("[0-9]*"))]) + 1 if commits.exists() else 0


def wait_for(driver: subprocess.Popen[bytes], log: Path, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert driver.poll() is None, log.read_text(errors="replace")[-4000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
        time.sleep(0.05)
