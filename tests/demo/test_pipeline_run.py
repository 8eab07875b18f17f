"""What the demo does around the pipeline: Ctrl-C while Spark starts, a Spark that does not start, names of topics."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kafkaraw.demo.pipeline_run import DemoFailedError, PipelineRun, check_spark, specification_of
from kafkaraw.demo.topics import Topics
from kafkaraw.errors import UsageError
from tests.interrupting import interrupted_elsewhere

pytest.importorskip("pyspark")

from pyspark.errors import PySparkRuntimeError


def pipeline_in(folder: Path) -> PipelineRun:
    return PipelineRun(specification_of("localhost:1", Topics(), folder / "storage"), folder, "Spark's log: /x")


def test_ctrl_c_ends_the_wait_for_spark_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    go_on = threading.Event()
    monkeypatch.setattr(PipelineRun, "_start", lambda _: go_on.wait(60))
    monkeypatch.setattr(PipelineRun, "_stop", lambda _: None)
    pipeline = pipeline_in(tmp_path)
    pipeline.start()
    with interrupted_elsewhere():
        pipeline.wait_until_started()
    go_on.set()
    pipeline.stop()


def test_a_spark_that_does_not_start_is_one_line_with_the_place_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise PySparkRuntimeError("no Java\n\tat org.apache.spark")

    monkeypatch.setattr("kafkaraw.pipelines.running.driver_session.started_session", fail)
    pipeline = pipeline_in(tmp_path)
    pipeline.start()
    with pytest.raises(DemoFailedError, match=r"^Spark did not start: no Java; Spark's log: /x$"):
        pipeline.wait_until_started()
    pipeline.stop()


def test_all_topics_of_a_run_have_the_prefix(tmp_path: Path):
    settings = specification_of("localhost:1", Topics("mine."), tmp_path).settings
    assert (settings.dead_letter_topic, settings.replay_topic) == ("mine.flights.dead-letters", "mine.flights.replays")
    assert settings.group_prefix == "mine.flights"
    assert settings.spark["flights.topic.prefix"] == "mine."


def test_an_old_spark_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kafkaraw.spark.versions.running", lambda: (4, 1))
    with pytest.raises(UsageError, match=r"pyspark is 4\.1, and pipelines need 4\.2"):
        check_spark()
