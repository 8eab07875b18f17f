"""Any program of filters, unions, joins, views and caches gives over a topic what it gives over a Parquet copy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.spark.programs import (
    PARTITIONS,
    Cache,
    Collect,
    Copy,
    Count,
    Filter,
    Join,
    Load,
    Program,
    StreamJoin,
    Topic,
    Union,
    View,
    programs,
    records,
    run,
)

pytestmark = pytest.mark.timeout(600)  # the first of them starts a session, and streams
ROOT = Path(__file__).parents[2]
QUICK = settings(
    max_examples=3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], print_blob=True
)
SOAK_PROGRAMS = 200

# One load that several branches and results share, with all that may change what it reads.
SHARED = Program(
    (
        Load(),
        Filter(0, "partition = 0"),
        Filter(0, "partition = 1"),
        Union(1, 2),
        Join(0, 3, ("partition", "v"), "left_anti"),
        View(1),
        Cache(2),
        Union(5, 6),
    ),
    (Count(1), Count(0), Collect(3), Collect(4), Collect(7), Collect(0), StreamJoin(3, "offset >= 6")),
)


@pytest.fixture(scope="module")
def topic(kafka) -> str:
    """The topic with the records."""
    name = kafka.new_topic(partitions=PARTITIONS)
    for partition, _, key, value in records():
        kafka.producer.send(name, value.encode(), None if key is None else key.encode(), partition=partition)
    kafka.producer.flush(30)
    return name


@pytest.fixture(scope="module")
def copy(spark, tmp_path_factory) -> Copy:
    return Copy(spark, tmp_path_factory.mktemp("programs"))


@QUICK
@example(program=SHARED)
@given(program=programs(streams=False))
def test_a_program_gives_the_same_over_a_topic_as_over_a_copy(spark, kafka, topic, copy, tmp_path, program):
    assert run(program, Topic(spark, kafka.servers, topic), tmp_path) == run(program, copy, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("session", ["recommended", "plain", "pushdown"])
def test_hundreds_of_programs_give_the_same_in_any_session(kafka, topic, tmp_path, session):
    command = [sys.executable, "-m", "tests.spark.run_programs", session, kafka.servers, topic, str(SOAK_PROGRAMS)]
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environ["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=3 * 3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert f"{SOAK_PROGRAMS} programs" in done.stdout
