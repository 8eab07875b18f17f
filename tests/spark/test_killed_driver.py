"""A driver is killed at a step of a micro-batch, or something befalls Kafka then, or both; nothing may be lost.

All cases of a run stop in one driver. What counts as lost is in `kill_plan`. At least once, records may be there twice;
exactly once, they may not.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.spark.faulty import DEATHS, STOPS
from tests.spark.kill_case import TRIGGERS, KillCase
from tests.spark.kill_plan import MISHAPS, OUTAGE, REMADE, RETENTION, Plan, drawn
from tests.spark.killed_driver import driver_at_its_steps
from tests.spark.mishaps import befall, outage
from tests.spark.needs import needs_read_limits
from tests.spark.side_by_side import run_to_their_ends

# As many as `few_at_a_time` lets run side by side.
PLANS = [
    Plan("latest", "processing time", "partitions"),
    Plan("earliest", "available now", "prepared", 1, exactly_once=True),
    Plan("earliest", "processing time", "writing", 1, exactly_once=True, survives=True),
]
# Every start with every trigger and with every step, and what the checkpoint cannot know.
MORE = [
    Plan("earliest", "once", "partitions"),
    Plan("latest", "available now", "latest"),
    Plan("earliest", "processing time", "task", 1, mishap=RETENTION, strict=False),
    Plan("latest", "once", "prepared", exactly_once=True),
    Plan('{"T":{"0":-1}}', "processing time", "sunk"),
    Plan("earliest", "once", "latest"),
    Plan("earliest", "available now", "task"),
    Plan("earliest", "processing time", "task", 1),
    Plan("earliest", "processing time", "sunk", exactly_once=True),
    Plan("earliest", "available now", "prepared"),
    Plan("latest", "available now", "sunk"),
    Plan('{"T":{"0":4}}', "once", "partitions"),
    Plan('{"T":{"0":-2}}', "available now", "task"),
    *(Plan("earliest", "processing time", step, 3, exactly_once=True) for step in STOPS),
    *(Plan("earliest", "processing time", step, 3, exactly_once=True, survives=True) for step in DEATHS),
]
# On Apache Kafka, which nobody here can stop for half a minute.
ON_APACHE_KAFKA = [
    Plan("latest", "available now", "partitions"),
    *(Plan("earliest", "processing time", step, 1, exactly_once=True) for step in STOPS),
    Plan("earliest", "processing time", "writing", 1, exactly_once=True, survives=True),
    Plan("earliest", "processing time", "task", 1, mishap=REMADE),
    Plan("earliest", "processing time", "latest", 1, mishap=REMADE, survives=True, strict=False),
    Plan("earliest", "processing time", "partitions", 1, exactly_once=True, mishap=RETENTION, strict=False),
]
SEEDS = range(50)
AT_ONCE = 10


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a query left behind: which logs of its checkpoint know the micro-batch, an error, and numbers."""

    logs: dict[str, bool]
    error: str
    numbers: list[int]


class Run:
    """Some plans, carried out in one driver, and what came of them."""

    def __init__(self, spark, kafka, cluster, folders, plans) -> None:
        self._spark, self._kafka, self._cluster = spark, kafka, cluster
        self._cases = {plan: self._prepared(plan, str(folders.mktemp("killed"))) for plan in plans}
        self._errors = dict.fromkeys(self._cases, "")

    def _prepared(self, plan: Plan, folder: str) -> KillCase:
        source, target = self._kafka.new_topic(plan.partitions), self._kafka.new_topic()
        for partition in range(plan.partitions):
            self._kafka.produce(source, plan.before[partition :: plan.partitions], partition)
        given = {name: getattr(plan, name) for name in ("trigger", "step", "batch", "exactly_once", "strict")}
        return KillCase(self._kafka.servers, source, target, folder, plan.starting.replace("T", source), **given)

    def outcomes(self) -> dict[Plan, Outcome]:
        killed = [plan for plan in self._cases if not plan.survives]
        with ExitStack() as meanwhile:
            with driver_at_its_steps(list(self._cases.values())) as driver:
                for plan, case in self._cases.items():
                    befall(self._kafka, self._cluster, plan, case)
                if any(plan.mishap == OUTAGE for plan in self._cases):
                    meanwhile.enter_context(outage(self._cluster))
                ends = driver.ends_of([case for plan, case in self._cases.items() if plan.survives])
            self._errors |= {plan: ends[case] for plan, case in self._cases.items() if plan.survives}
            logs = {plan: logs_that_know(case.checkpoint, plan.batch) for plan, case in self._cases.items()}
            self._errors |= self._finish({plan: plan.strict for plan in killed if plan.mishap})
        self._finish_well({plan: False for plan, error in self._errors.items() if error})
        for plan, case in self._cases.items():
            self._kafka.produce(case.source, plan.after)
        self._finish_well({plan: not plan.mishap for plan in self._cases})
        numbers = {plan: self._kafka.numbers(case.target) for plan, case in self._cases.items()}
        return {plan: Outcome(logs[plan], self._errors[plan], numbers[plan]) for plan in self._cases}

    def _finish(self, plans: dict[Plan, bool]) -> dict[Plan, str]:
        """Run queries to the end of their topics, with failOnDataLoss or without; gives what they died of."""
        return run_to_their_ends(plans, lambda plan: self._cases[plan].finish(self._spark, strict=plans[plan]))

    def _finish_well(self, plans: dict[Plan, bool]) -> None:
        errors = {str(plan): error for plan, error in self._finish(plans).items() if error}
        assert errors == {}


def logs_that_know(checkpoint: Path, batch: int) -> dict[str, bool]:
    return {log: (checkpoint / log / str(batch)).exists() for log in ("offsets", "commits")}


def check(plan: Plan, outcome: Outcome) -> None:
    """It was killed at its step, and all records are there; once, if that was asked for."""
    if not plan.survives:
        assert outcome.logs == {"offsets": plan.step != "latest", "commits": False}
    if outcome.error or plan.must_fail:
        assert plan.must_fail is not False, outcome.error
        assert "DataLossError: records are missing: " in outcome.error
        assert "Set the option failOnDataLoss to false to continue without them" in outcome.error
    assert plan.required <= set(outcome.numbers) <= plan.allowed
    if plan.exactly_once:
        assert len(outcome.numbers) == len(set(outcome.numbers))


@pytest.fixture(scope="module")
def outcomes(spark, kafka, broker, tmp_path_factory) -> dict[Plan, Outcome]:
    return Run(spark, kafka, broker, tmp_path_factory, PLANS).outcomes()


@needs_read_limits
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_no_record_is_lost_with_drawn_faults(outcomes, plan):
    check(plan, outcomes[plan])


@needs_read_limits
@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(0, len(MORE), AT_ONCE))
def test_no_record_is_lost_with_a_fault_at_any_step(spark, replicated, cluster, tmp_path_factory, first):
    plans = MORE[first : first + AT_ONCE]
    for plan, outcome in Run(spark, replicated, cluster, tmp_path_factory, plans).outcomes().items():
        check(plan, outcome)


@needs_read_limits
@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_nothing_is_lost_with_fifty_seeds(spark, replicated, cluster, tmp_path_factory, first):
    plans = dict.fromkeys(drawn(seed) for seed in SEEDS[first : first + AT_ONCE])
    for plan, outcome in Run(spark, replicated, cluster, tmp_path_factory, plans).outcomes().items():
        check(plan, outcome)


@needs_read_limits
@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_nothing_is_lost_on_apache_kafka(spark, apache, tmp_path_factory):
    for plan, outcome in Run(spark, apache, None, tmp_path_factory, ON_APACHE_KAFKA).outcomes().items():
        check(plan, outcome)


def test_every_step_and_trigger_is_covered_for_starts_that_are_found_again_and_for_latest():
    plans = PLANS + MORE
    assert {plan.step for plan in plans if plan.starting == "earliest"} == {*STOPS, *DEATHS}
    assert {plan.step for plan in plans if "latest" in plan.starting or "-1" in plan.starting} >= {*STOPS} - {"task"}
    assert {plan.trigger for plan in plans if plan.starting == "earliest"} == {*TRIGGERS}
    assert {plan.trigger for plan in plans if plan.starting == "latest"} == {*TRIGGERS}


def test_the_seeds_cover_every_mishap_with_and_without_a_death_at_many_steps():
    plans = [drawn(seed) for seed in SEEDS]
    for mishap in MISHAPS:
        befallen = [plan for plan in plans if plan.mishap == mishap]
        assert {plan.survives for plan in befallen} == {True, False}
        assert {plan.exactly_once for plan in befallen} == {True, False}
        assert len({plan.step for plan in befallen}) >= 3
    for mishap in (REMADE, RETENTION):
        assert {(plan.survives, plan.strict) for plan in plans if plan.mishap == mishap} == {
            (survives, strict) for survives in (True, False) for strict in (True, False)
        }
    assert {plan.step for plan in plans} == {*STOPS, *DEATHS}
