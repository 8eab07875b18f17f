"""Seeds rotate, can be chosen, and a failure says how it is repeated."""

from __future__ import annotations

import pytest

from tests.simulation import seeds


def test_a_run_takes_the_seeds_that_it_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAFKARAW_SEEDS", "7,100-102")
    assert seeds.chosen() == [7, 100, 101, 102]
    assert seeds.every_seed("one broker").args == ("seed", [7, 100, 101, 102])
    assert "7,100-102" in seeds.header()


def test_else_it_takes_the_pinned_ones_and_new_ones_most_of_them_in_a_soak(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KAFKARAW_SEEDS", raising=False)
    monkeypatch.setitem(seeds.PINNED, "one broker", (3, 5))
    _, values = seeds.every_seed("one broker").args
    plain = [value for value in values if isinstance(value, int)]
    soaked = [value.values[0] for value in values if not isinstance(value, int)]
    assert plain == [3, 5, *range(seeds.FIRST, seeds.FIRST + seeds.NORMAL)]
    assert soaked == list(range(seeds.FIRST + seeds.NORMAL, seeds.FIRST + seeds.SOAK))
    assert str(seeds.FIRST) in seeds.header()


def test_the_same_commit_has_the_same_seeds_and_a_failure_names_the_command():
    assert seeds._first_of_commit() == seeds._first_of_commit()
    command = seeds.replay("tests/simulation/test_x.py::test_y[42]", 42)
    assert command == "KAFKARAW_SEEDS=42 .venv/bin/python -m pytest -n 0 'tests/simulation/test_x.py::test_y'"
