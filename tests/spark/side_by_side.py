"""Run queries side by side, to save time, but not too many: Spark gives a query's Python process 10 s to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

T = TypeVar("T")

_FEW = 3
# Spark gives up on a Python that takes 10 s to start, as on a busy machine: its query is started again, as people do.
_GAVE_UP = "waiting for the Python worker to connect back"
_STARTS = 3
_QUERY_S = 150


def few_at_a_time(things: Iterable[T]) -> Iterator[list[T]]:
    """The things in lists of a few."""
    remaining = iter(things)
    while some := list(islice(remaining, _FEW)):
        yield some


def run_to_their_ends(things: Iterable[T], start: Callable[[T], StreamingQuery]) -> dict[T, str]:
    """Start a query for each thing, and let it read what there is; gives what they died of, or nothing."""
    errors: dict[T, str] = {}
    for some in few_at_a_time(things):
        left = some
        for _ in range(_STARTS):
            queries = {thing: start(thing) for thing in left}
            errors |= {thing: _end_of(query) for thing, query in queries.items()}
            left = [thing for thing in left if _GAVE_UP in errors[thing]]
    return errors


def _end_of(query: StreamingQuery) -> str:
    try:
        assert query.awaitTermination(_QUERY_S)
    except StreamingQueryException as error:
        return str(error)
    finally:
        query.stop()
    return ""
