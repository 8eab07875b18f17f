"""Spark Declarative Pipelines through `kafkaraw pipelines`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaraw.cli import main
from kafkaraw.errors import ConfigError
from kafkaraw.spark import versions
from kafkaraw.spark.launch import declarative
from tests.spark.connect_python import FetchError, connect_python
from tests.spark.needs import needs_pipelines

ROOT = Path(__file__).parents[3]
SPEC = """
name: numbers
storage: file://{folder}/storage
libraries:
  - glob:
      include: definitions/**
"""
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
kafka = {{"kafka.bootstrap.servers": "{servers}"}}

@dp.table
def numbers():
    rows = spark.readStream.format("kafkaraw").options(**kafka, subscribe="{source}", startingOffsets="earliest").load()
    return rows.selectExpr("CAST(value AS STRING) AS value")

dp.create_sink("out", "kafkaraw", {{**kafka, "topic": "{target}"}})

@dp.append_flow(target="out")
def copy():
    return spark.readStream.table("numbers").where("{condition}")
"""


@needs_pipelines
def test_a_package_that_is_missing_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(declarative, "_NEEDED", ("no_such_package", "no_such.package"))
    with pytest.raises(ConfigError, match=r"\(no_such_package, no_such.package\): pip install \"kafkaraw\[pipelines\]"):
        declarative.run_pipelines(["run"], {})


def test_a_spark_without_pipelines_is_named(monkeypatch):
    without = replace(versions.features(), pipelines=False)
    monkeypatch.setattr(declarative, "features", lambda: without)
    with pytest.raises(ConfigError, match=r"Pipelines need Spark 4\.2 or newer, this is"):
        declarative.run_pipelines(["run"], {})


@pytest.mark.parametrize(
    ("given", "arguments", "conf"),
    [
        ("run", ["run"], {}),
        ("run --refresh a,b --full-refresh c", ["run", "--refresh=a,b", "--full-refresh=c"], {}),
        ("run --full-refresh-all --conf a=b=c", ["run", "--full-refresh-all"], {"a": "b=c"}),
        ("dry-run --conf x=", ["dry-run"], {"x": ""}),
    ],
)
def test_options_are_handed_over_to_sparks_own_command(monkeypatch, given, arguments, conf):
    seen = []
    monkeypatch.setattr(declarative, "run_pipelines", lambda *given: seen.append(given))
    assert CliRunner().invoke(main, ["pipelines", *given.split(), "--master", "local[2]"]).exit_code == 0
    assert seen == [(arguments, conf, "local[2]")]


def test_a_setting_without_a_value_is_refused():
    result = CliRunner().invoke(main, ["pipelines", "run", "--conf", "x"])
    assert (result.exit_code, "'x' must be NAME=VALUE" in result.output) == (2, True)


@needs_pipelines
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_pipeline_from_topic_to_topic_ends_with_exit_code_0_as_often_as_it_runs(kafka, tmp_path):
    try:
        python = connect_python()
    except FetchError as error:
        pytest.skip(str(error))
    source, target = kafka.new_topic(), kafka.new_topic()
    (tmp_path / "definitions").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))

    def run(condition: str) -> subprocess.CompletedProcess[str]:
        given = {"servers": kafka.servers, "source": source, "target": target, "condition": condition}
        (tmp_path / "definitions" / "numbers.py").write_text(DEFINITIONS.format(**given))
        command = [str(python), "-m", "kafkaraw", "pipelines", "run", "--master", "local[2]"]
        environ = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=250)

    for last in (10, 20):
        kafka.produce(source, range(last - 10, last))
        done = run("true")
        assert done.returncode == 0, done.stdout + done.stderr
        assert kafka.numbers(target) == list(range(last))
    failed = run("no_such_column > 1")
    assert failed.returncode == 1
    assert "failures that precede this log" in failed.stderr
