"""A part of the cases of a test in `make test`, other ones with each commit, and all of them in `make soak`.

For cases that differ in data only and take long: the cases of one commit show whether the rule holds at all, the
commits together check each case. Start at `rotating`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.simulation import seeds


def rotating(cases: Iterable[object], count: int) -> list[ParameterSet]:
    """Return parameters of a test: those that are not this commit's are marked as `soak`.

    Args:
        cases: the parameters; a tuple for several arguments.
        count: about how many of them each commit has: each second, each third, and so on.
    """
    found = list(cases)
    of_commit = set(_places(len(found), count))
    return [
        pytest.param(*_values(case), marks=() if place in of_commit else pytest.mark.soak)
        for place, case in enumerate(found)
    ]


def _places(total: int, count: int) -> range:
    """Return the places of this commit's cases; a commit has at least one."""
    step = max(1, -(-total // count))
    return range(seeds.FIRST // 1000 % step, total, step)


def _values(case: object) -> tuple[object, ...]:
    return case if isinstance(case, tuple) else (case,)
