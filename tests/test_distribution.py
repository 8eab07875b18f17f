"""Tests that share a fixture stay in one process, and one process computes while others wait for JVMs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.distribution import (
    LONG_FILES,
    WAITING_GROUPS,
    WITH_SPARK,
    WITHOUT_JVM,
    Distribution,
    group_of,
    in_starting_order,
    is_last_of_its_group,
)


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/spark/reading/test_planning.py::test_x[a::b]", "spark"),
        ("tests/spark/writing/test_rights.py::test_x", "tests/spark/writing/test_rights.py"),
        ("tests/demo/test_pipeline.py::test_x", "spark"),
        ("tests/pipelines/test_command_run.py::test_x", "pipelines"),
        ("tests/demo/test_flights.py::test_x", "demo"),
        ("tests/interop/test_groups.py::test_x", "interop"),
        ("tests/interop/test_acls.py::test_x", "interop/test_acls.py"),
        ("tests/interop/test_connectors.py::test_x", "interop/test_connectors.py"),
        ("tests/docs/test_pipelines.py::test_x", "pipelines"),
        ("tests/docs/test_schemas.py::test_x", "spark"),
        ("tests/simulation/test_scenarios.py::test_x[7]", "tests/simulation/test_scenarios.py::test_x[7]"),
        ("tests/client/sending/test_close.py::test_x", "tests/client/sending/test_close.py"),
        ("tests/test_errors.py::test_x", "tests/test_errors.py"),
    ],
)
def test_a_group_is_a_slow_folder_or_a_file_or_one_simulation(nodeid: str, group: str):
    assert group_of(nodeid) == group


class Worker:
    """Keeps the places of the tests that it was sent."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.places: list[int] = []

    def send_runtest_some(self, places: list[int]) -> None:
        self.places += places

    def shutdown(self) -> None:
        self.shutting_down = True


TESTS = [
    *(f"tests/{folder}/test_a.py::test_{number}" for folder in ("spark", "interop", "demo") for number in range(4)),
    *(f"tests/core/test_{name}.py::test_{number}" for name in "abc" for number in range(4)),
]


@pytest.fixture
def workers(pytestconfig: pytest.Config) -> tuple[Distribution, list[Worker]]:
    config = SimpleNamespace(
        getvalue=lambda name: ["3*popen"], option=SimpleNamespace(loadscopereorder=False), hook=pytestconfig.hook
    )
    distribution, workers = Distribution(config), [Worker(f"gw{number}") for number in range(3)]
    for worker in workers:
        distribution.add_node(worker)
    for worker in workers:
        distribution.add_node_collection(worker, TESTS)
    distribution.schedule()
    return distribution, workers


def groups_of(worker: Worker) -> list[str]:
    return list(dict.fromkeys(group_of(TESTS[place]) for place in worker.places))


def test_one_process_computes_while_the_others_wait(workers):
    distribution, (first, second, third) = workers
    assert [groups_of(worker) for worker in (first, second, third)] == [
        ["spark"],
        ["interop"],
        ["tests/core/test_a.py"],
    ]
    for place in third.places[:2]:
        distribution.mark_test_complete(third, place)
    assert groups_of(third) == ["tests/core/test_a.py", "tests/core/test_b.py"]
    for place in list(first.places):
        distribution.mark_test_complete(first, place)
    assert groups_of(first)[:2] == ["spark", "demo"]


def test_every_test_is_sent_once(workers):
    distribution, processes = workers
    done: list[int] = []
    while not distribution.tests_finished:
        for worker in processes:
            for place in [place for place in worker.places if place not in done]:
                distribution.mark_test_complete(worker, place)
                done.append(place)
    assert sorted(done) == list(range(len(TESTS)))
    assert all(worker.shutting_down for worker in processes)
    assert not distribution.has_pending


def test_waiting_groups_start_first_and_simulations_last():
    groups = [
        "tests/simulation/test_scenarios.py::test_x[7]",
        "tests/core/test_a.py",
        "demo",
        "tests/fuzz/test_live.py",
        "spark",
        "pipelines",
    ]
    rank = in_starting_order(groups)
    assert sorted(groups, key=rank.__getitem__) == list(reversed([*groups[:2], groups[3], groups[2], *groups[4:]]))


def test_files_that_use_the_session_of_another_group_come_after_its_tests():
    assert is_last_of_its_group("tests/demo/test_pipeline.py::test_x")
    assert not is_last_of_its_group("tests/pipelines/test_runs.py::test_x")


def test_each_named_folder_and_file_exists(request: pytest.FixtureRequest):
    root = request.path.parent
    assert [
        name for name in (*WAITING_GROUPS, *WITH_SPARK, *WITHOUT_JVM, *LONG_FILES) if not (root / name).exists()
    ] == []


def test_tests_with_a_shared_spark_session_are_in_a_group_with_one(request: pytest.FixtureRequest):
    """Of those that are collected: a run of all tests checks all of them."""
    with_spark = [item.nodeid for item in request.session.items if "spark" in getattr(item, "fixturenames", ())]
    assert [nodeid for nodeid in with_spark if group_of(nodeid) not in ("spark", "pipelines")] == []
