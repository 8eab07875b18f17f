"""How many examples Hypothesis draws for a test: a third in `make test`, all in `make soak`."""

from __future__ import annotations

from tests.simulation import seeds

DEFAULT = 100
"""The number of examples in a soak for tests that name none: Hypothesis's own."""


def examples(count: int) -> int:
    """Return the number of examples of this run.

    Args:
        count: the number in a soak, or if tests are not selected by `-m "not soak"`.
    """
    return count if seeds.with_soak else -(-count // 3)
