"""The driver is killed at each step of a micro-batch; the query is then run again, and must have lost nothing.

All cases stop in one driver, which is killed once. What counts as lost: for a start at "latest", whatever came after
the query had written its start down, which is when it logs the offsets of batch 0. At least once, records may be there
twice; exactly once, they may not.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from tests.spark.faulty import DEATHS, STOPS
from tests.spark.kill_case import TRIGGERS, KillCase
from tests.spark.killed_driver import kill_when_all_have_stopped
from tests.spark.side_by_side import few_at_a_time


@dataclasses.dataclass(frozen=True)
class Plan:
    """What dies, and where; topics come later. Beyond batch 0 there are ten records per batch, in two partitions."""

    starting: str
    trigger: str
    step: str
    batch: int = 0
    exactly_once: bool = False

    def __str__(self) -> str:
        how = "exactly once" if self.exactly_once else "at least once"
        return f"{self.starting} | {self.trigger} | {self.step} | {self.batch} | {how}"

    @property
    def before(self) -> range:
        return range(10 * self.batch + 10)

    @property
    def expected(self) -> range:
        if self.batch:
            return range(10 * self.batch + 20)
        if self.starting in ("earliest", '{"T":{"0":-2}}'):
            return range(20)
        if self.starting == '{"T":{"0":4}}':
            return range(4, 20)
        # Nothing was written down yet: the query starts at its restart.
        return range(20 if self.step == "latest" else 10, 20)


PLANS = [
    Plan("earliest", "once", "partitions"),
    Plan("latest", "available now", "latest"),
    Plan("latest", "processing time", "partitions"),
    Plan("earliest", "available now", "prepared", 1, exactly_once=True),
    Plan("earliest", "processing time", "writing", 1, exactly_once=True),
    Plan("earliest", "processing time", "task", 1),
]
# Every start with every trigger and with every step.
MORE = [
    Plan("latest", "once", "prepared", exactly_once=True),
    Plan('{"T":{"0":-1}}', "processing time", "sunk"),
    Plan("earliest", "once", "latest"),
    Plan("earliest", "available now", "task"),
    Plan("earliest", "processing time", "sunk", exactly_once=True),
    Plan("earliest", "available now", "prepared"),
    Plan("latest", "available now", "sunk"),
    Plan('{"T":{"0":4}}', "once", "partitions"),
    Plan('{"T":{"0":-2}}', "available now", "task"),
    *(Plan("earliest", "processing time", step, 3, exactly_once=True) for step in (*STOPS, *DEATHS)),
]


@dataclasses.dataclass(frozen=True)
class Killed:
    """A query that was killed, and which logs of its checkpoint know the micro-batch."""

    case: KillCase
    left_behind: dict[str, bool]
    numbers: list[int]


def run_all(spark, kafka, plans, folders) -> dict[Plan, Killed]:
    cases = {plan: prepared(kafka, plan, str(folders.mktemp("killed"))) for plan in plans}
    kill_when_all_have_stopped(list(cases.values()))
    left = {plan: what_is_left(case.checkpoint, plan.batch) for plan, case in cases.items()}
    for plan, case in cases.items():
        kafka.produce(case.source, [number + 10 * plan.batch for number in range(10, 20)])
    for some in few_at_a_time(cases.values()):
        queries = [case.finish(spark) for case in some]
        for query in queries:
            assert query.awaitTermination(100)
    return {plan: Killed(case, left[plan], kafka.numbers(case.target)) for plan, case in cases.items()}


def prepared(kafka, plan: Plan, folder: str) -> KillCase:
    partitions = 2 if plan.batch else 1
    source, target = kafka.new_topic(partitions), kafka.new_topic()
    for partition in range(partitions):
        kafka.produce(source, plan.before[partition::partitions], partition)
    given = dataclasses.asdict(plan) | {"starting": plan.starting.replace("T", source)}
    return KillCase(kafka.servers, source, target, folder, **given)


def what_is_left(checkpoint: Path, batch: int) -> dict[str, bool]:
    """Which of its two logs knows a batch."""
    return {log: (checkpoint / log / str(batch)).exists() for log in ("offsets", "commits")}


def check(plan: Plan, killed: Killed) -> None:
    """It was killed at its step, and all records are there; once, if that was asked for."""
    survived = plan.step in DEATHS
    assert killed.left_behind == {"offsets": plan.step != "latest", "commits": survived}
    found = killed.numbers if plan.exactly_once else sorted(set(killed.numbers))
    assert found == list(plan.expected)


@pytest.fixture(scope="module")
def killed(spark, kafka, tmp_path_factory) -> dict[Plan, Killed]:
    return run_all(spark, kafka, PLANS, tmp_path_factory)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_nothing_is_lost_when_the_driver_or_a_worker_is_killed(killed, plan):
    check(plan, killed[plan])


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_nothing_is_lost_whatever_is_killed_when(spark, kafka, tmp_path_factory):
    for plan, killed in run_all(spark, kafka, MORE, tmp_path_factory).items():
        check(plan, killed)


def drawn(seed: int) -> Plan:
    """A death in one of the first four micro-batches."""
    rng = random.Random(seed)
    step, batch = rng.choice((*STOPS, *DEATHS)), rng.randrange(4)
    endless = batch == 0 or step in DEATHS  # what is there may be read before a worker's death is over
    trigger = "processing time" if endless else rng.choice(("processing time", "available now"))
    return Plan("earliest", trigger, step, batch, rng.random() < 0.5)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, 50, 5))
def test_nothing_is_lost_in_fifty_deaths(spark, kafka, tmp_path_factory, first):
    plans = dict.fromkeys(drawn(seed) for seed in range(first, first + 5))
    for plan, killed in run_all(spark, kafka, plans, tmp_path_factory).items():
        check(plan, killed)


def test_every_step_and_trigger_is_covered_for_starts_that_are_found_again_and_for_latest():
    plans = PLANS + MORE
    assert {plan.step for plan in plans if plan.starting == "earliest"} == {*STOPS, *DEATHS}
    assert {plan.step for plan in plans if "latest" in plan.starting or "-1" in plan.starting} >= {*STOPS} - {"task"}
    assert {plan.trigger for plan in plans if plan.starting == "earliest"} == {*TRIGGERS}
    assert {plan.trigger for plan in plans if plan.starting == "latest"} == {*TRIGGERS}
