"""Jobs on Spark clusters whose workers have nothing installed: batch, stream, exactly once, and with deaths.

The workers of the standalone cluster run the system's Python, without packages; their executors get an archive of this
environment. Outputs are compared with the input record by record.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.spark.launch.environment import executor_environment
from kafkaraw.spark.launch.executables import spark_home
from kafkaraw.spark.launch.executor_python import linked
from kafkaraw.spark.launch.packing import pack
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.spark.cluster_job import PASSWORD
from tests.spark.connect_python import FetchError, connect_python
from tests.spark.kafka import Kafka
from tests.spark.standalone import (
    EXECUTORS,
    ROOT,
    StandaloneCluster,
    free_port,
    standalone_cluster,
    submit,
    submit_command,
    submit_environment,
)

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
JOB = str(ROOT / "tests/spark/cluster_job.py")
SECRET = "Sesam-8-cluster"
PARTITIONS = 3
NUMBERS = 900
DEADLINE_S = 300.0


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
    events.mkdir()
    folder.mkdir()
    (tmp_path / "password").write_text(f"{SECRET}\n")
    with (
        EmbeddedBroker(properties=properties, users={"ada": SECRET}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, **login) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0, **login) as producer,
    ):
        kafka = Kafka(broker.bootstrap_servers, admin, producer, login)
        source, target = numbered(kafka), kafka.new_topic(2)
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.ui.port": "0"}
        conf |= {"spark.eventLog.compress": "false"}
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        options += ["--secret", f"{PASSWORD}={tmp_path}/password"]
        arguments = (kafka.servers, source, target, str(folder), "300")
        done = submit("local-cluster[2,1,1024]", JOB, *arguments, folder=tmp_path, options=options)
        assert done.returncode == 0, done.stderr[-4000:]
        check(kafka, target, folder)
    shown = {path.name: path.read_text() for path in folder.glob("shown-*.txt")}
    shown |= {path.name: path.read_text() for path in events.rglob("*") if path.is_file()}
    assert "cluster_job.py" in shown["shown-commands.txt"]
    assert any("SparkListenerSQLExecutionStart" in text for text in shown.values())
    assert any(text.startswith("environment/") and "spark.redaction.regex" in text for text in shown.values())
    shown |= {"standard output": done.stdout, "standard error": done.stderr}
    assert [name for name, text in shown.items() if SECRET in text] == []


# -- a standalone cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "environment.tar.gz"
    pack(executor_environment(archive=path.name), path, compression=1)
    return path


@pytest.fixture
def workers(tmp_path) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path / "cluster", {}, {}) as cluster:
        yield cluster


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_job_runs_on_workers_without_packages(kafka, source, archive, workers, tmp_path):
    target, folder = kafka.new_topic(2), tmp_path / "driver"
    folder.mkdir()
    options = ["--archive", str(archive)]
    arguments = (kafka.servers, source, target, str(folder), "300")
    done = submit(workers.url, JOB, *arguments, folder=folder, options=options)
    assert done.returncode == 0, done.stderr[-4000:] + workers.executor_logs()[-4000:]
    check(kafka, target, folder)
    places = json.loads((folder / "executors.json").read_text())
    assert all(str(workers.folder) in text for place in places for text in place), (
        "each task ran in an unpacked archive"
    )
    assert not list(folder.glob(".kafkaraw-environment-*"))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_executor_without_the_packages_is_named_with_the_setting(kafka, source, workers, tmp_path):
    """The name of the Python is valid on driver and workers, but the workers' Python has no packages.

    Spark's own function needs pyarrow before an object of ours is read, so the error of the query names the executor,
    and a note names the settings.
    """
    name = f"python3.{sys.version_info[1]}"
    if shutil.which(name, path="/usr/bin:/bin") is None:
        pytest.skip(f"the system has no {name}")
    options = ["--worker-python", name]
    arguments = (kafka.servers, source, "unused", str(tmp_path), "300")
    done = submit(workers.url, JOB, *arguments, folder=tmp_path, options=options)
    assert done.returncode != 0
    for text in ("(127.0.0.1 executor ", "No module named 'pyarrow'", "kafkaraw spark pack", "spark.archives"):
        assert text in done.stderr, done.stderr[-6000:]


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
    assert done.returncode == 0, done.stderr[-4000:]
    check(kafka, target, shared)


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


# -- Spark Connect

CONNECTED = """
import sys
from pyspark.sql import SparkSession
remote, servers, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}
rows = spark.readStream.format("kafkaraw").options(**kafka, subscribe=source, startingOffsets="earliest").load()
writer = rows.select("value").writeStream.format("kafkaraw").options(**kafka, topic=target, exactlyOnce="true")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
assert query.awaitTermination(200)
print(spark.read.format("kafkaraw").options(**kafka, subscribe=target).load().count())
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_spark_connect_uses_executors_without_packages(kafka, source, archive, workers, tmp_path, monkeypatch):
    """The server is on the driver's machine, the client has Spark only."""
    try:
        python = connect_python()
    except FetchError as error:
        pytest.skip(str(error))
    target, port = kafka.new_topic(2), free_port()
    monkeypatch.chdir(tmp_path)
    with linked(str(archive)) as shared:
        conf = {**EXECUTORS, "spark.archives": shared.archives, "spark.connect.grpc.binding.port": str(port)}
        conf["spark.connect.grpc.binding.address"] = "127.0.0.1"
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        command = [str(spark_home() / "bin/spark-submit"), "--class", SERVER, "--master", workers.url, *words]
        with (tmp_path / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [*command, "spark-internal"],
                env=submit_environment(PYSPARK_PYTHON=shared.python, SPARK_HOME=str(spark_home())),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            wait_for(server, tmp_path / "server.log", lambda: "Spark Connect server started at" in server_log(tmp_path))
            arguments = (f"sc://127.0.0.1:{port}", kafka.servers, source, target, str(tmp_path / "checkpoint"))
            client = [str(python), "-c", CONNECTED, *arguments]
            done = subprocess.run(client, capture_output=True, text=True, timeout=400, check=False)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    assert done.returncode == 0, done.stderr[-3000:] + server_log(tmp_path)[-3000:]
    assert done.stdout.split() == [str(NUMBERS)]
    assert kafka.numbers(target) == list(range(NUMBERS))


def server_log(folder: Path) -> str:
    return (folder / "server.log").read_text(errors="replace")
