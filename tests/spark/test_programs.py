"""Any program of filters, unions, joins, views and caches gives over a topic what it gives over a Parquet copy.

The comparison proves itself: it finds faults of earlier versions, which `faulty_reads` has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from tests.spark.faulty_reads import FAULTS
from tests.spark.needs import needs_filters
from tests.spark.programs import (
    PARTITIONS,
    Cache,
    Collect,
    Copy,
    Count,
    Filter,
    Grow,
    Join,
    Load,
    Program,
    Records,
    StreamJoin,
    Topic,
    Union,
    View,
    outcomes,
    programs,
)

pytestmark = pytest.mark.timeout(600)  # the first of them starts a session, and streams
ROOT = Path(__file__).parents[2]
QUICK = settings(
    max_examples=1, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], print_blob=True
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


# The same DataFrames and a view after the topic has grown, joined with each other and with a stream.
GROWING = Program(
    (Load(), Filter(0, "partition IN (1, 2)"), View(1), Join(0, 2, ("partition", "v"), "left_semi"), Union(3, 1)),
    (Collect(4), Collect(2), Grow(2), Collect(4), Count(2), Collect(2), StreamJoin(1, "offset >= 6")),
)


@pytest.fixture(scope="module")
def content(kafka) -> Records:
    return Records(kafka.producer, kafka.new_topic(partitions=PARTITIONS))


@pytest.fixture(scope="module")
def copy(spark, tmp_path_factory) -> Copy:
    return Copy(spark, tmp_path_factory.mktemp("programs"))


@QUICK
@example(program=SHARED)
@example(program=GROWING)
@given(program=programs(streams=False, growth=True))
def test_a_program_gives_the_same_over_a_topic_as_over_a_copy(spark, kafka, content, copy, tmp_path, program):
    over_topic, over_copy = outcomes(program, Topic(spark, kafka.servers, content), copy, tmp_path)
    assert over_topic == over_copy


_FAULTS = [pytest.param(each, marks=needs_filters if each == "takes_filters" else ()) for each in FAULTS]


@pytest.mark.parametrize("fault", _FAULTS)
def test_the_programs_of_every_run_find_a_fault_of_an_earlier_version(spark, kafka, content, copy, tmp_path, fault):
    whole = {"takes_filters": SHARED, "binds_early": GROWING}[fault]
    program = replace(whole, steps=tuple(step for step in whole.steps if not isinstance(step, StreamJoin)))
    session, format_name = FAULTS[fault](spark)
    over_topic, over_copy = outcomes(program, Topic(session, kafka.servers, content, format_name), copy, tmp_path)
    assert over_topic != over_copy


@pytest.mark.soak
@pytest.mark.parametrize("fault", _FAULTS)
def test_random_programs_find_a_fault_of_an_earlier_version(spark, kafka, content, copy, tmp_path, fault):
    session, format_name = FAULTS[fault](spark)
    topic = Topic(session, kafka.servers, content, format_name)
    growth = fault == "binds_early"  # neither session binds late, and only this fault is to show by growth
    found: list[Program] = []

    @settings(max_examples=SOAK_PROGRAMS, deadline=None, derandomize=True, phases=[Phase.generate])
    @given(program=programs(streams=False, growth=growth))
    def compare(program: Program) -> None:
        if not found:
            over_topic, over_copy = outcomes(program, topic, copy, tmp_path)
            if over_topic != over_copy:
                found.append(program)

    compare()
    assert found, f"{SOAK_PROGRAMS} programs gave the same rows"


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("session", ["recommended", "plain", "pushdown"])
def test_hundreds_of_programs_give_the_same_in_any_session(kafka, tmp_path, session):
    topic = kafka.new_topic(partitions=PARTITIONS)
    command = [sys.executable, "-m", "tests.spark.run_programs", session, kafka.servers, topic, str(SOAK_PROGRAMS)]
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environ["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=3 * 3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert f"{SOAK_PROGRAMS} programs" in done.stdout
