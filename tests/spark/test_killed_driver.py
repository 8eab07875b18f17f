"""The driver is killed in batch 0, at each of its steps; the query is then run again and must have lost nothing.

All cases stop in one driver, which is killed once. What counts as lost: for a start at "latest", whatever came after
the query had written its start down, which is when it logs the offsets of batch 0.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark.kill_case import KillCase
from tests.spark.side_by_side import few_at_a_time
from tests.spark.stalling import STEPS

BEFORE, AFTER = range(10), range(10, 20)

# (start, trigger, step); every start with every trigger, and with every step.
CASES = [
    ("earliest", "once", "latest"),
    ("earliest", "available now", "partitions"),
    ("earliest", "processing time", "task"),
    ("earliest", "once", "written"),
    ("latest", "available now", "latest"),
    ("latest", "processing time", "partitions"),
    ("latest", "once", "task"),
    ("latest", "available now", "written"),
    ('{"T":{"0":4}}', "once", "partitions"),
    ('{"T":{"0":-2}}', "available now", "task"),
    ('{"T":{"0":-1}}', "processing time", "written"),
]


def first_number(starting: str, step: str) -> int:
    """The first number that the restarted query must have copied."""
    if starting in ("earliest", '{"T":{"0":-2}}'):
        return 0
    if starting == '{"T":{"0":4}}':
        return 4
    # Nothing was written down yet: the query starts at its restart.
    return 20 if step == "latest" else 10


@dataclasses.dataclass(frozen=True)
class Killed:
    """A query that was killed, and which logs of its checkpoint know batch 0."""

    case: KillCase
    left_behind: dict[str, bool]


@pytest.fixture(scope="module")
def killed(kafka, tmp_path_factory) -> dict[tuple[str, str, str], Killed]:
    """All cases, stopped in batch 0 and killed; records came before and after."""
    cases = {}
    for starting, trigger, step in CASES:
        source, target = kafka.new_topic(), kafka.new_topic()
        kafka.produce(source, BEFORE)
        folder = str(tmp_path_factory.mktemp("killed"))
        cases[starting, trigger, step] = KillCase(starting.replace("T", source), trigger, step, source, target, folder)
    kill_when_all_have_stopped(kafka.servers, list(cases.values()))
    for case in cases.values():
        kafka.produce(case.source, AFTER)
    return {key: Killed(case, what_is_left(case.checkpoint)) for key, case in cases.items()}


def what_is_left(checkpoint: Path) -> dict[str, bool]:
    """Which of its two logs knows batch 0."""
    return {log: (checkpoint / log / "0").exists() for log in ("offsets", "commits")}


def kill_when_all_have_stopped(servers: str, cases: list[KillCase]) -> None:
    job = json.dumps({"servers": servers, "cases": [dataclasses.asdict(case) for case in cases]})
    root = Path(__file__).parents[2]
    environ = os.environ | {"PYTHONPATH": str(root)}
    log = Path(cases[0].folder, "driver.log")
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.killed_driver", job],
            cwd=root,
            env=environ,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 200
        while missing := [case for case in cases if not case.reached.exists()]:
            assert driver.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{missing} did not get there\n{log.read_text()[-3000:]}"
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_every_step_is_covered_for_starts_that_are_found_again_and_for_latest():
    assert {step for starting, _, step in CASES if starting == "earliest"} == set(STEPS)
    assert {step for starting, _, step in CASES if starting == "latest"} == set(STEPS)


@pytest.fixture(scope="module")
def finished(spark, kafka, killed) -> dict[tuple[str, str, str], list[int]]:
    """What each query has copied when it is run again, all of them side by side."""
    for some in few_at_a_time(killed.values()):
        queries = [each.case.finish(spark, kafka.servers) for each in some]
        for query in queries:
            assert query.awaitTermination(100)
    return {key: kafka.numbers(each.case.target) for key, each in killed.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=" | ".join)
def test_each_query_was_killed_at_its_step(killed, case):
    """From its planning on, batch 0 is in the log; killed before its end, it is not among the committed."""
    assert killed[case].left_behind == {"offsets": case[2] != "latest", "commits": False}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=" | ".join)
def test_nothing_is_lost_when_the_driver_is_killed_in_batch_0(finished, case):
    assert sorted(set(finished[case])) == list(range(first_number(case[0], case[2]), 20))
