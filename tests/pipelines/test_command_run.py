"""`kafkaraw pipelines run` and `status` as processes: output, endpoints, signals, and what a second run does."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kafkaraw.cli.pipelines_run import status
from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.reports import Bars, Reports
from kafkaraw.pipelines.running.runner import RunOptions, run
from kafkaraw.pipelines.specification import read_specification
from tests.spark.kafka import Kafka

TIMEOUT_S = 120.0
SPECIFICATION = """\
name: orders
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaraw.kafka.bootstrap.servers: {servers}
  kafkaraw.trigger.interval: 100 milliseconds
  spark.sql.shuffle.partitions: "1"
"""
DEFINITIONS = """\
from pyspark import pipelines as dp
from kafkaraw import pipelines as kp


@dp.table
@kp.expect_or_drop("n is even", "n % 2 = 0")
def even():
    return kp.topic("{topic}", value="json", schema="n LONG").select("n", "_record")
"""


def pipelines(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kafkaraw", "pipelines", *arguments]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def committed(kafka, group: str) -> int:
    return sum(each.offset for each in kafka.admin.list_group_offsets([group])[group].values())


def run_in_a_terminal(*arguments: str) -> tuple[int, str]:
    terminal, side = pty.openpty()
    process = subprocess.Popen(pipelines(*arguments), stdin=side, stdout=side, stderr=side, close_fds=True)
    os.close(side)
    shown = bytearray()

    def read() -> None:
        try:
            while data := os.read(terminal, 65_536):
                shown.extend(data)
        except OSError:  # the other end is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(TIMEOUT_S)
    reader.join(TIMEOUT_S)
    os.close(terminal)
    return code, shown.decode()


def orders(write: Callable[..., Path], kafka: Kafka, topic: str) -> Path:
    """The folder of a pipeline that reads a topic."""
    files = {"transformations/a.py": DEFINITIONS.format(topic=topic)}
    return write(files, SPECIFICATION.format(servers=kafka.servers))


@contextmanager
def running(folder: Path, shown: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A run as a process, and the address of its endpoints, once its status shows a text."""
    command = pipelines("run", str(folder), "--port", "0", "--master", "local[1]")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stderr is not None
        url = json.loads(process.stdout.readline())["http"]
        wait_for(lambda: process.poll() is not None or shown in _status(url))
        assert process.poll() is None, process.stderr.read()
        yield process, url
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


@pytest.mark.timeout(400)
def test_a_run_shows_its_state_ends_at_sigterm_and_is_continued_by_the_next_one(spark, kafka, write):
    topic = kafka.new_topic()
    send = lambda numbers: [kafka.producer.send(topic, b'{"n": %d}' % n).result(30) for n in numbers]  # noqa: E731
    send(range(4))
    folder = orders(write, kafka, topic)
    with running(folder, '"rows_written": 2') as (process, url):
        assert get(f"{url}/healthz") == "ok\n"
        assert 'kafkaraw_pipeline_rows_written_total{pipeline="orders",flow="even"} 2\n' in get(f"{url}/metrics")
        wait_for(lambda: committed(kafka, "orders.even") == 4)  # what kafka-consumer-groups shows
        # The query of dead letters reads the topic, too.
        wait_for(lambda: sum(flow["rows_read"] for flow in json.loads(get(f"{url}/status"))["flows"]) == 8)
        shown = CliRunner().invoke(status, [str(folder)])
        assert (shown.exit_code, shown.output.splitlines()[0].startswith("orders: running")) == (0, True), shown.output
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143, errors
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["state"], last["rows_written"]) == ("finished", "stopped", 2)

    send(range(4, 8))
    shown = io.StringIO()
    report, specification = Bars(shown), read_specification(folder)
    with report:
        reports = Reports(report, folder / "storage" / "status.json", None)
        summary = run(load_pipeline(specification, spark), spark, RunOptions(once=True), reporter=reports)
    report.finished(summary)
    assert "completed after" in shown.getvalue()
    assert [(each.rows_read, each.rows_written) for each in summary.status.flows if each.flow == "even"] == [(4, 2)]
    assert committed(kafka, "orders.even") == 8
    found = ds.dataset(sorted((folder / "storage/tables/even").glob("*.parquet"))).to_table()
    assert sorted(found.column("n").to_pylist()) == [0, 2, 4, 6]
    shown = CliRunner().invoke(status, [str(folder), "--json"])
    values = json.loads(shown.output)
    assert (values["state"], values["flows"][0]["totals"]["kafkaraw.written"]) == ("completed", {"rows": 4})


def full_pipe() -> tuple[int, int]:
    """A pipe that takes no further byte."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    return reader, writer


def rows_of(folder: Path) -> list[int]:
    files = sorted((folder / "storage/tables/even").glob("*.parquet"))
    return sorted(ds.dataset(files).to_table().column("n").to_pylist()) if files else []


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_ctrl_c_ends_a_run_with_130_even_if_nobody_reads_its_output(kafka, write):
    topic = kafka.new_topic()
    kafka.producer.send(topic, b'{"n": 2}').result(30)
    folder = write(
        {"transformations/a.py": DEFINITIONS.format(topic=topic)}, SPECIFICATION.format(servers=kafka.servers)
    )
    reader, writer = full_pipe()
    command = pipelines("run", str(folder), "--master", "local[1]")
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: process.poll() is not None or rows_of(folder) == [2])
        kafka.producer.send(topic, b'{"n": 4}').result(30)
        wait_for(lambda: process.poll() is not None or rows_of(folder) == [2, 4])
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        os.close(reader)
        os.close(writer)
    assert (process.returncode, errors) == (130, b"")


SLOW = """\
import time
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp


@F.udf("long")
def slow(n):
    Path("{mark}").touch()
    time.sleep(300)
    return n


@dp.table
def even():
    return kp.topic("{topic}", value="json", schema="n LONG").select(slow("n").alias("n"))
"""


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_second_signal_ends_a_run_at_once(kafka, write, tmp_path):
    topic, mark = kafka.new_topic(), tmp_path / "mark"
    kafka.producer.send(topic, b'{"n": 2}').result(30)
    folder = write(
        {"transformations/a.py": SLOW.format(topic=topic, mark=mark)}, SPECIFICATION.format(servers=kafka.servers)
    )
    command = pipelines("run", str(folder), "--master", "local[1]")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: process.poll() is not None or mark.exists())
        process.send_signal(signal.SIGINT)
        time.sleep(2)
        assert process.poll() is None, "it waits for the micro-batch"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, b"")  # the message is in the log


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_reader_that_closes_the_pipe_ends_a_run_without_a_message(kafka, write):
    topic = kafka.new_topic()
    kafka.producer.send(topic, b'{"n": 2}').result(30)
    folder = write(
        {"transformations/a.py": DEFINITIONS.format(topic=topic)}, SPECIFICATION.format(servers=kafka.servers)
    )
    command = pipelines("run", str(folder), "--master", "local[1]")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert json.loads(process.stdout.readline())["event"] == "started"
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 141
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.stderr.close()


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_terminal_shows_bars(kafka, write):
    topic = kafka.new_topic()
    kafka.producer.send(topic, b'{"n": 2}').result(30)
    folder = orders(write, kafka, topic)
    code, bars = run_in_a_terminal("run", str(folder), "--once", "--master", "local[1]")
    assert (code, "completed after" in bars, "2 rows read, 1 written" in bars) == (0, True, True), bars


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_the_end_of_spark_s_jvm_is_named_with_what_to_do(kafka, write):
    topic = kafka.new_topic()
    folder = orders(write, kafka, topic)
    with running(folder, '"state": "running"') as (process, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        [jvm] = [int(each) for each in children if Path(f"/proc/{each}/comm").read_text() == "java\n"]
        os.kill(jvm, signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert errors.startswith(
        b"Error: Spark's JVM ended with exit code 143, and with it all flows. Run the pipeline again"
    )


def _status(url: str) -> str:
    try:
        return get(f"{url}/status")
    except OSError:
        return ""


def test_status_of_a_pipeline_that_has_not_run_says_how_to_start_it(write):
    folder = write({"transformations/a.py": ""})
    with pytest.raises(ConfigError, match=r"'sales' has not run yet.*kafkaraw pipelines run"):
        CliRunner().invoke(status, [str(folder)], catch_exceptions=False)
    assert not (Path(folder) / "storage").exists()
