"""`rotating`: each commit has a part of the cases, the commits together have all, and a soak has all at once."""

from __future__ import annotations

import pytest

from tests.rotation import rotating
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
