"""Run queries side by side, to save time, but not too many: Spark gives a query's Python process 10 s to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

_FEW = 3


def few_at_a_time(things: Iterable[T]) -> Iterator[list[T]]:
    """The things in lists of a few."""
    remaining = iter(things)
    while some := list(islice(remaining, _FEW)):
        yield some
