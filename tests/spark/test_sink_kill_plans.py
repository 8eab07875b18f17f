"""Drivers and tasks of exactly-once queries die, go on as zombies, and find their checkpoint or their topics changed.

Each row must be committed once, or the sink must refuse to go on, with what is committed there once. What may happen is
in `sink_plan`, how it is done in `sink_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import pytest

from tests.spark.sink_mishaps import few_epochs
from tests.spark.sink_plan import OF_EMBEDDED_CLUSTERS, STEPS, Mishap, SinkPlan, drawn
from tests.spark.sink_run import SinkOutcome, SinkRun, problem_of

# As many as `few_at_a_time` lets run side by side.
PLANS = [
    SinkPlan("looked", Mishap.ZOMBIE_SUNK),
    SinkPlan("ended", Mishap.LOST_COMMIT, 0, 1),
    SinkPlan("decided", Mishap.RESTORED),
]
SEEDS = range(50)
APACHE_SEEDS = range(10)
AT_ONCE = 10


@pytest.fixture(scope="module")
def outcomes(spark, kafka, broker, tmp_path_factory) -> dict[SinkPlan, SinkOutcome]:
    folders = [tmp_path_factory.mktemp("sink") for _ in PLANS]
    return SinkRun(spark, kafka, broker, folders, PLANS).outcomes()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_rows_are_committed_once_or_refused(outcomes, plan):
    assert problem_of(plan, outcomes[plan]) == ""


def assert_all_hold(outcomes: dict[SinkPlan, SinkOutcome], seeds: Sequence[int]) -> None:
    """Every plan; a failure names those that do not, and what they left behind."""
    problems = {str(plan): problem_of(plan, outcome) for plan, outcome in outcomes.items()}
    failed = [f"{plan}:\n{problem}" for plan, problem in problems.items() if problem]
    assert not failed, f"of seeds {list(seeds)}:\n" + "\n\n".join(failed)


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_rows_are_committed_once_or_refused_with_fifty_seeds(spark, replicated, cluster, tmp_path_factory, first):
    seeds = SEEDS[first : first + AT_ONCE]
    plans = list(dict.fromkeys(drawn(seed) for seed in seeds))
    folders = [tmp_path_factory.mktemp("sink") for _ in plans]
    with few_epochs() if first // AT_ONCE % 2 else nullcontext():
        assert_all_hold(SinkRun(spark, replicated, cluster, folders, plans).outcomes(), seeds)


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_rows_are_committed_once_or_refused_on_apache_kafka(spark, apache, tmp_path_factory):
    plans = list(dict.fromkeys(drawn(seed, embedded=False) for seed in APACHE_SEEDS))
    folders = [tmp_path_factory.mktemp("sink") for _ in plans]
    assert_all_hold(SinkRun(spark, apache, None, folders, plans).outcomes(), APACHE_SEEDS)


def test_the_seeds_cover_every_mishap_at_several_steps_and_batches():
    plans = [drawn(seed) for seed in SEEDS]
    assert {plan.mishap for plan in plans} == {*Mishap}
    assert {plan.step for plan in plans} == {*STEPS}
    assert {plan.batch for plan in plans} == {0, 1, 2}
    assert {plan.count for plan in plans if plan.step == "ended"} == {1, 2}
    assert {plan.survives for plan in plans} == {True, False}
    assert {plan.late for plan in plans if plan.mishap is Mishap.COPIES} == {True, False}
    refused = {plan.mishap for plan in plans if plan.must_refuse}
    assert refused >= {Mishap.RESTORED, Mishap.DELETED, Mishap.TRUNCATED, Mishap.WRONG_POLICY, Mishap.FEWER}


def test_the_seeds_for_apache_kafka_leave_out_what_the_tests_cannot_do_to_it():
    plans = [drawn(seed, embedded=False) for seed in APACHE_SEEDS]
    assert {plan.mishap for plan in plans}.isdisjoint(OF_EMBEDDED_CLUSTERS)
    assert len({plan.mishap for plan in plans}) >= 8
