"""The commands of the page about Spark clusters: packing, a standalone cluster, a job, a pipeline, Spark Connect.

The daemons run in an environment without packages. Every other command runs in one shell session each, in order. What
needs Kubernetes, YARN or a platform cannot run here.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkaraw import NewTopic
from kafkaraw.spark.launch.executables import spark_home
from tests.spark.conftest import archive, broker, kafka, what_tasks_keep_is_closed, workers  # noqa: F401  # fixtures
from tests.spark.connect_python import FetchError, connect_python
from tests.spark.standalone import (
    UNUSED_PACKAGES,
    conf_options,
    executor_settings,
    free_port,
    submit_environment,
    worker_environment,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-on-a-spark-cluster.md"
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n+)?```(\w+)\n(.*?)```", re.DOTALL)
DEADLINE_S = 120.0
COUNT = """
rows = spark.read.format("kafkaraw").option("kafka.bootstrap.servers", "{}").option("subscribe", "flights").load()
assert rows.count() == 50
spark.stop()
"""
COPY = """
import sys
from pyspark.sql import SparkSession
remote, servers, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}
rows = spark.readStream.format("kafkaraw").options(**kafka, subscribe="connected", startingOffsets="earliest").load()
writer = rows.select("value").writeStream.format("kafkaraw").options(**kafka, topic="copied", exactlyOnce="true")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
assert query.awaitTermination(200)
spark.stop()
"""
"""A stream by a client of Spark Connect; the page shows a batch read."""


def blocks(heading: str, until: str) -> list[tuple[str, str]]:
    """The blocks of a part of the page, as (language, text)."""
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index(f"## {heading}\n") : text.index(f"## {until}\n")]
    return [(found[2], found[3]) for found in BLOCK.finditer(section) if found[1] is None]


def commands(found: list[tuple[str, str]]) -> list[str]:
    """The commands of console blocks, with continued lines joined."""
    texts = [text.replace("\\\n", " ") for kind, text in found if kind == "console"]
    return [line.removeprefix("$ ") for text in texts for line in text.splitlines()]


def test_page_packs_starts_master_and_worker_and_submits_a_job():
    standalone = blocks("Pack the environment", "Settings and secrets")
    words = [command.split() for command in commands(standalone)]
    assert words[0][:3] == ["kafkaraw", "spark", "pack"]
    assert words[-1][:3] == ["kafkaraw", "spark", "submit"]
    assert sum("spark-class" in word for command in words for word in command) == 2
    for heading, until in (("Pack the environment", "Settings and secrets"), ("Spark Connect", "Racks")):
        for kind, text in blocks(heading, until):
            if kind == "python":
                compile(text, "page", "exec")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_commands_of_the_standalone_part_copy_a_topic_and_run_a_pipeline(tmp_path, kafka):  # noqa: F811
    kafka.admin.create_topics([NewTopic("flights", 1), NewTopic("flights-copy", 1), NewTopic("shop.orders", 1)])
    kafka.produce("flights", range(50))
    port = free_port()
    conf = conf_options(executor_settings() | {"spark.sql.shuffle.partitions": "1"})
    places = {
        "localhost:9092": kafka.servers,
        "localhost:7077": f"127.0.0.1:{port}",
        "--host localhost --port 7077": f"--host 127.0.0.1 --port {port} --webui-port {free_port()}",
        "/shared/checkpoint": str(tmp_path / "checkpoint"),
        "-o environment.tar.gz": shlex.join(
            ["-o", "environment.tar.gz", *(word for name in UNUSED_PACKAGES for word in ("--without", name))]
        ),
        "kafkaraw ": f"{shlex.quote(sys.executable)} -m kafkaraw ",
        "--archive": shlex.join([*conf, "--archive"]),
    }
    standalone = blocks("Pack the environment", "Settings and secrets")
    job, notebook = (text for kind, text in standalone if kind == "python")
    (tmp_path / "job.py").write_text(job)
    (tmp_path / "notebook.py").write_text(replaced(notebook, places) + COUNT.format(kafka.servers))
    with ExitStack() as stack:
        for command in commands(standalone):
            used = replaced(command, places)
            if "spark-class" in command:
                stack.callback(started(tmp_path, used, len(list(tmp_path.iterdir()))))
            elif "kafkaraw" in command:
                run(tmp_path, used, submit_environment())
        assert kafka.numbers("flights-copy") == list(range(50))
        run(tmp_path, f"{shlex.quote(sys.executable)} notebook.py", submit_environment())
        make, submit = commands(blocks("Pipelines", "Kubernetes"))
        run(tmp_path, replaced(make, places), submit_environment())
        for line in (tmp_path / "shop/sample-orders.jsonl").read_bytes().splitlines():
            kafka.producer.send("shop.orders", line).result(30)
        run(tmp_path, replaced(submit, places), submit_environment())
        assert [record.key for record in kafka.records("shop.revenue")], "the revenue of the first hour at least"


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_commands_of_the_connect_part_serve_a_client_without_kafkaraw(
    tmp_path,
    kafka,  # noqa: F811
    archive,  # noqa: F811
    workers,  # noqa: F811
):
    """The server has Spark, Java and the archive; the workers have no packages."""
    try:
        python = connect_python()
    except FetchError as error:
        pytest.skip(str(error))
    kafka.admin.create_topics([NewTopic("connected", 2), NewTopic("copied", 1)])
    flights = kafka.new_topic()
    kafka.produce(flights, range(7))
    for partition in range(2):
        kafka.produce("connected", range(partition, 60, 2), partition)
    port, logs = free_port(), tmp_path / "logs"
    binding = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    places = {
        "localhost:9092": kafka.servers,
        "spark://localhost:7077": workers.url,
        "localhost:15002": f"127.0.0.1:{port}",
        '"flights"': f'"{flights}"',
        "/opt/kafkaraw": str(tmp_path / "opt/kafkaraw"),
        "start-connect-server.sh": shlex.join(
            ["start-connect-server.sh", *conf_options(executor_settings() | binding)]
        ),
    }
    (tmp_path / "environment.tar.gz").symlink_to(archive)
    # The server is a driver: it needs more memory than the master and the workers of the tests.
    folders = {"SPARK_LOG_DIR": str(logs), "SPARK_PID_DIR": str(tmp_path), "SPARK_DAEMON_MEMORY": "1g"}
    environment = worker_environment(tmp_path, **folders, SPARK_SUBMIT_OPTS=os.environ.get("SPARK_SUBMIT_OPTS", ""))
    connect = blocks("Spark Connect", "Racks")
    [client] = [text for kind, text in connect if kind == "python"]
    try:
        for command in commands(connect):
            run(tmp_path, replaced(command, places), environment)
        wait_for_text("Spark Connect server started at", logs)
        counted = client_of(python, replaced(client, places))
        copied = client_of(python, COPY, f"sc://127.0.0.1:{port}", kafka.servers, str(tmp_path / "checkpoint"))
    finally:
        run(tmp_path, "$SPARK_HOME/sbin/stop-connect-server.sh", environment)
    text = log_of(logs)
    assert (counted.returncode, counted.stdout) == (0, "7\n"), counted.stderr[-3000:] + text[-3000:]
    assert copied.returncode == 0, copied.stderr[-3000:] + text[-3000:]
    assert kafka.numbers("copied") == list(range(60))


def replaced(text: str, places: dict[str, str]) -> str:
    for shown, used in places.items():
        text = text.replace(shown, used)
    return text


def client_of(python: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, timeout=400, check=False)


def log_of(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.glob("*.out"))


def wait_for_text(text: str, folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while text not in (log := log_of(folder)):
        assert time.monotonic() < deadline, log[-4000:]
        time.sleep(0.1)


def run(folder: Path, command: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])


def started(folder: Path, command: str, number: int):
    """Start a daemon of the page; return what stops it."""
    place = folder / f"daemon-{number}"
    place.mkdir()
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=place,
            env=worker_environment(place, SPARK_HOME=str(spark_home())),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def stop() -> None:
        os.killpg(process.pid, 9)
        process.wait()

    return stop
