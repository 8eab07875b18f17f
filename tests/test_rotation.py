"""Each commit has a part of the cases and of the slow tests, the commits together have all, a soak has all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rotation import (
    REPEATED,
    REPEATED_SHARE,
    SCENARIO_SHARE,
    SCENARIOS,
    SLOW_FILES,
    SLOW_SHARE,
    leave_slow_tests_to_other_commits,
    rotating,
)
from tests.simulation import seeds

TESTS = Path(__file__).parent
COMMITS = 120
"""So many commits together have each fifteenth of something, and each eighth."""


def of_commit(cases: list[str], count: int) -> list[object]:
    return [case.values[0] for case in rotating(cases, count) if not case.marks]


@pytest.mark.parametrize(("total", "count"), [(1, 1), (2, 1), (7, 2), (7, 7), (8, 3), (83, 28)])
def test_commits_have_about_this_many_cases_and_together_all(monkeypatch: pytest.MonkeyPatch, total: int, count: int):
    cases = [f"case {number}" for number in range(total)]
    seen: set[object] = set()
    for commit in range(total):
        monkeypatch.setattr(seeds, "FIRST", (1_000_000 + commit) * 1000)
        found = of_commit(cases, count)
        assert 1 <= len(found) <= count
        seen.update(found)
    assert seen == set(cases)


def test_other_cases_are_those_of_a_soak():
    cases = rotating([("a", 1), ("b", 2), ("c", 3)], 1)
    assert [case.values for case in cases] == [("a", 1), ("b", 2), ("c", 3)]
    assert [len(case.marks) for case in cases].count(1) == 2


class Item:
    """A test as pytest collects it."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, list(marks)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


def runs(monkeypatch: pytest.MonkeyPatch, names: Sequence[str]) -> list[set[str]]:
    """The tests that each of many commits has."""
    found: list[set[str]] = []
    for commit in range(COMMITS):
        monkeypatch.setattr(seeds, "FIRST", (1_000_000 + commit) * 1000)
        items = [Item(f"tests/{name}") for name in names]
        leave_slow_tests_to_other_commits(items, "tests/")  # type: ignore[arg-type]
        found.append({item.nodeid.removeprefix("tests/") for item in items if not item.marks})
    return found


def test_each_commit_has_an_eighth_of_the_slow_tests(monkeypatch: pytest.MonkeyPatch):
    files = [file for file in SLOW_FILES if "." not in file]
    names = [f"{file}/test_x.py::test_{number}" for number in range(SLOW_SHARE) for file in files]
    found = runs(monkeypatch, names)
    assert {len(run) for run in found} == {len(names) // SLOW_SHARE}
    assert set.union(*found) == set(names)


def test_each_commit_has_all_tests_of_a_fifteenth_of_the_scenarios(monkeypatch: pytest.MonkeyPatch):
    names = [each if "::" in each else f"{each}::test_{number}" for each in SCENARIOS for number in "ab"]
    found = runs(monkeypatch, names)
    for run in found:
        counts = Counter(name.partition("::")[0] for name in run)
        assert len(SCENARIOS) // SCENARIO_SHARE <= len(counts) <= -(-len(SCENARIOS) // SCENARIO_SHARE)
        assert all(counts[name.partition("::")[0]] == 2 for name in run if name not in SCENARIOS)
    assert set.union(*found) == set(names)


def test_each_commit_has_cases_of_each_test(monkeypatch: pytest.MonkeyPatch):
    counts = {f"{REPEATED[0]}::test_{count}": count for count in (1, 2, 3, 10)}
    names = [f"{name}[{number}]" for name, count in counts.items() for number in range(count)]
    found = runs(monkeypatch, names)
    for run in found:
        for name, count in counts.items():
            cases = sum(each.startswith(f"{name}[") for each in run)
            assert max(1, count // REPEATED_SHARE) <= cases <= -(-count // REPEATED_SHARE)
    assert set.union(*found) == set(names)


def test_what_is_in_no_list_is_in_each_commit_and_what_is_left_to_a_soak_in_none():
    items = [Item("tests/core/test_y.py::test"), Item(f"tests/{SCENARIOS[0]}::test_long", "soak")]
    leave_slow_tests_to_other_commits(items, "tests/")  # type: ignore[arg-type]
    assert [item.marks for item in items] == [[], ["soak"]]


def test_all_that_the_lists_name_exists():
    for each in (*SCENARIOS, *SLOW_FILES, *REPEATED):
        path, _, test = each.partition("::")
        assert (TESTS / path).exists(), each
        assert not test or f"def {test}(" in (TESTS / path).read_text(), each
