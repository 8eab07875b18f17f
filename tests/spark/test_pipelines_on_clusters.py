"""`kafkaraw pipelines submit` on a standalone cluster whose workers have Spark and Java only.

Client mode runs as a user runs it. Spark's standalone clusters have no cluster mode for Python, and there is no YARN
here: the job of cluster mode runs as YARN's application master runs it, in a folder with the unpacked archives, by the
Python of the archive.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from kafkaraw.spark.launch.executables import spark_home
from kafkaraw.spark.launch.executor_python import shared_path
from kafkaraw.spark.launch.submitting import Submission, plan
from tests.spark.kafka import Kafka
from tests.spark.standalone import (
    StandaloneCluster,
    conf_options,
    executor_settings,
    submit_environment,
    worker_environment,
)

NUMBERS = 200
SPECIFICATION = """\
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaraw.kafka.bootstrap.servers: ${{env:SERVERS}}
  spark.sql.shuffle.partitions: "1"
"""
DEFINITIONS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from kafkaraw import pipelines as kp

spark = SparkSession.active()


@dp.table
@kp.expect_or_drop("n is even", "n % 2 = 0")
def even():
    return kp.topic("{source}", value="json", schema="n LONG").select("n")


@kp.to_topic("{target}")
def copies():
    return spark.readStream.table("even")
"""


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    """The input, whose values are numbers as JSON, and the output."""
    source, target = kafka.new_topic(2), kafka.new_topic()
    for n in range(NUMBERS):
        kafka.producer.send(source, b'{"n": %d}' % n, partition=n % 2)
    kafka.producer.flush()
    return source, target


@pytest.fixture
def folder(tmp_path: Path, topics: tuple[str, str]) -> Path:
    """A pipeline with a table and a topic; its storage is outside of its folder, as cluster mode needs."""
    place = tmp_path / "pipeline"
    (place / "transformations").mkdir(parents=True)
    (place / "transformations/orders.py").write_text(DEFINITIONS.format(source=topics[0], target=topics[1]))
    (place / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=tmp_path / "storage"))
    return place


def check(kafka: Kafka, target: str, storage: Path) -> None:
    """Table and topic have each even number once."""
    expected = list(range(0, NUMBERS, 2))
    table = ds.dataset(sorted((storage / "tables/even").glob("*.parquet"))).to_table()
    assert sorted(table.column("n").to_pylist()) == expected
    assert sorted(json.loads(record.value or b"")["n"] for record in kafka.records(target)) == expected


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_client_mode_runs_a_pipeline_on_workers_without_packages(kafka, topics, folder, archive, workers, tmp_path):
    """The specification takes a value from a file, by `--secret`."""
    (tmp_path / "servers").write_text(f"{kafka.servers}\n")
    options = ["--master", workers.url, "--archive", str(archive), "--secret", f"SERVERS={tmp_path}/servers"]
    words = [*options, *conf_options(executor_settings()), "--once"]
    done = subprocess.run(
        [sys.executable, "-m", "kafkaraw", "pipelines", "submit", str(folder), *words],
        cwd=tmp_path,
        env=submit_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + workers.executor_logs()[-4000:]
    check(kafka, topics[1], tmp_path / "storage")
    assert len(list((workers.folder).rglob("work/app-*/*/stderr"))) == 2, "the cluster's executors ran it"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_job_of_cluster_mode_runs_by_the_python_of_the_archive(
    kafka, topics, folder, archive, workers, tmp_path, monkeypatch
):
    outcomes: list[subprocess.CompletedProcess[str]] = []

    def run(submission: Submission) -> int:
        outcomes.append(as_application_master(submission, workers, tmp_path / "container"))
        return outcomes[-1].returncode

    monkeypatch.setattr("kafkaraw.spark.launch.submitting.submit", run)
    monkeypatch.setenv("SERVERS", kafka.servers)
    options = ["--master", "yarn", "--deploy-mode", "cluster", "--archive", str(archive), "--secret", "SERVERS"]
    words = [*options, *conf_options(executor_settings()), "--once"]
    result = CliRunner().invoke(main, ["pipelines", "submit", str(folder), *words])
    assert result.exit_code == 0, result.output + "".join(
        each.stdout[-4000:] + each.stderr[-4000:] for each in outcomes
    )
    check(kafka, topics[1], tmp_path / "storage")


def as_application_master(
    submission: Submission, workers: StandaloneCluster, container: Path
) -> subprocess.CompletedProcess[str]:
    """Run the driver of a submission in cluster mode with what YARN gives it: files, environment, and settings."""
    assert submission.archive is not None
    planned = plan(submission, shared_path(submission.archive, "environment"))
    for each in planned.conf["spark.archives"].split(","):
        path, _, name = each.partition("#")
        with tarfile.open(path) as tar:
            tar.extractall(container / name, filter="data")
    prefix = "spark.yarn.appMasterEnv."
    variables = {name.removeprefix(prefix): text for name, text in planned.conf.items() if name.startswith(prefix)}
    conf = {name: text for name, text in planned.conf.items() if not name.startswith(prefix)}
    conf |= {"spark.master": workers.url, "spark.submit.deployMode": "client"}
    job, *arguments = planned.arguments
    words = [shutil.copy(job, container), *(workers.url if word == "yarn" else word for word in arguments)]
    return subprocess.run(
        [str(spark_home() / "bin/spark-submit"), *conf_options(conf), *words],
        cwd=container,
        env=worker_environment(container, **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
