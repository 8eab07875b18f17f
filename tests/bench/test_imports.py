from __future__ import annotations

from bench.imports import CASES, EMPTY, Case, Measurement, measure, medians, modules_of, show
from bench.report import Goal

GOAL = Goal(100, 50, less_is_better=True, unit=" ms")


def test_medians_are_above_those_of_an_empty_interpreter() -> None:
    measurements = [Measurement(EMPTY.name, "", cpu, 20) for cpu in (10, 11, 99)]
    measurements += [Measurement("Producer", "kafkaraw", cpu, 50) for cpu in (60, 61, 500)]
    assert medians(measurements, "cpu_ms") == {(EMPTY.name, ""): 0, ("Producer", "kafkaraw"): 50}
    assert medians(measurements, "wall_ms")["Producer", "kafkaraw"] == 30


def test_a_must_is_missed_by_its_cpu_time() -> None:
    case = Case("Producer", "kafkaraw", "pass", GOAL)
    for cpu_ms, met in ((100, True), (101, False)):
        measurements = [Measurement(EMPTY.name, "", 0, 0), Measurement("Producer", "kafkaraw", cpu_ms, 1)]
        assert show([EMPTY, case], measurements, {EMPTY: 30, case: 90})[1] is met


def test_a_process_is_measured_and_its_modules_are_counted() -> None:
    measured = measure(EMPTY)
    assert measured.cpu_ms > 0
    assert measured.wall_ms > 0
    assert modules_of("import difflib") > modules_of(EMPTY.code)


def test_each_of_our_imports_has_a_goal() -> None:
    assert all((case.client == "kafkaraw") == (case.goal is not None) for case in CASES)
