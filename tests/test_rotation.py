"""Each commit has a part of the cases and of the slow tests, the commits together have all, a soak has all at once."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.rotation import SLOW_FILES, SLOW_SHARE, leave_slow_tests_to_other_commits, rotating
from tests.simulation import seeds


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


def test_consecutive_commits_have_each_slow_test_once(monkeypatch: pytest.MonkeyPatch):
    names = [f"tests/{SLOW_FILES[-1]}::test_{number}" for number in range(5)]
    names += [
        f"tests/{SLOW_FILES[0]}::test_one",
        "tests/spark/launch/test_x.py::test_two",
        "tests/core/test_y.py::test",
    ]
    seen: list[set[str]] = []
    for commit in range(SLOW_SHARE):
        monkeypatch.setattr(seeds, "FIRST", (1_000_000 + commit) * 1000)
        items = [*map(Item, names), Item(f"tests/{SLOW_FILES[-1]}::test_long", "soak")]
        leave_slow_tests_to_other_commits(items, "tests/")  # type: ignore[arg-type]
        seen.append({item.nodeid for item in items if "soak" not in item.marks})
    assert set.union(*seen) == set(names)
    assert all(one & other == {"tests/core/test_y.py::test"} for one, other in combinations(seen, 2))
