"""Seeds change with the commit, can be chosen, and a failure names the command that repeats it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.simulation import seeds


def test_a_run_takes_the_seeds_of_kafkaraw_seeds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKARAW_SEEDS", "7,100-102")
    assert seeds.chosen() == [7, 100, 101, 102]
    assert seeds.every_seed("one broker").args == ("seed", [7, 100, 101, 102])
    assert "7,100-102" in seeds.header()


def seeds_by_run(values: Sequence[object]) -> dict[str, list[int]]:
    """The seeds of a quick run, those that a normal one adds, and those that a soak adds."""
    found: dict[str, list[int]] = {"quick": [], "long": [], "soak": []}
    for value in values:
        if isinstance(value, int):
            found["quick"].append(value)
        else:
            found["soak" if "soak" in {mark.name for mark in value.marks} else "long"].append(value.values[0])
    return found


def test_a_run_takes_pinned_and_new_seeds_and_a_soak_takes_most(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KAFKARAW_SEEDS", raising=False)
    monkeypatch.setitem(seeds.PINNED, "one broker", (3, 5))
    monkeypatch.setattr(seeds, "with_soak", True)
    first, quick, normal = seeds.FIRST, seeds.FIRST + seeds.QUICK, seeds.FIRST + seeds.NORMAL - 1
    found = seeds_by_run(seeds.every_seed("one broker").args[1])
    (pinned,) = found["long"]
    assert pinned in (3, 5)
    assert found | {"soak": sorted(found["soak"])} == {
        "quick": [*range(first, quick)],
        "long": [pinned],
        "soak": sorted([8 - pinned, *range(normal, first + seeds.SOAK)]),
    }
    assert str(first) in seeds.header()


def test_a_normal_run_takes_a_new_and_a_pinned_seed_and_other_commits_take_the_others(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("KAFKARAW_SEEDS", raising=False)
    monkeypatch.setitem(seeds.PINNED, "one broker", tuple(range(7)))
    taken: set[int] = set()
    for commit in range(7):
        first = (1_000_000 + commit) * 1000
        monkeypatch.setattr(seeds, "FIRST", first)
        monkeypatch.setattr(seeds, "with_soak", False)
        found = seeds_by_run(seeds.every_seed("one broker").args[1])
        pinned = found["long"]
        assert (found["quick"], len(pinned), found["soak"]) == ([first], 1, [])
        taken.update(pinned)
        monkeypatch.setattr(seeds, "with_soak", True)
        all_seeds = seeds_by_run(seeds.every_seed("one broker").args[1])
        assert {*all_seeds["long"], *all_seeds["soak"]} >= set(range(7))
    assert taken == set(range(7))


def test_seeds_of_a_soak_are_not_collected_without_soak_tests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KAFKARAW_SEEDS", raising=False)
    monkeypatch.setattr(seeds, "with_soak", False)
    assert seeds_by_run(seeds.every_seed("one broker").args[1])["soak"] == []


def test_the_same_commit_has_the_same_seeds_and_a_failure_names_the_command():
    assert seeds._first_of_commit() == seeds._first_of_commit()
    command = seeds.replay("tests/simulation/test_x.py::test_y[42]", 42)
    assert command == "KAFKARAW_SEEDS=42 .venv/bin/python -m pytest -n 0 'tests/simulation/test_x.py::test_y'"
