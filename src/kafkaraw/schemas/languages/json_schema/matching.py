"""The largest matching of two sets: how many parts of two combinations fit each other one to one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


def matching_size(edges: Sequence[Sequence[int]], columns: int) -> dict[int, int]:
    """Return a matching of the most rows to columns, by the algorithm of Hopcroft and Karp.

    Args:
        edges: the columns that each row can be matched with.
        columns: how many columns there are.
    """
    row_of: list[int | None] = [None] * columns
    column_of: list[int | None] = [None] * len(edges)
    while True:
        levels = _levels(edges, row_of, column_of)
        if levels is None:
            return {row: column for row, column in enumerate(column_of) if column is not None}
        for row in range(len(edges)):
            if column_of[row] is None:
                _augment(row, edges, levels, row_of, column_of)


def _levels(
    edges: Sequence[Sequence[int]], row_of: Sequence[int | None], column_of: Sequence[int | None]
) -> list[int] | None:
    """Return how far each row is from an unmatched one; None if no path leads from there to an unmatched column."""
    levels = [-1] * len(edges)
    waiting = deque(row for row, column in enumerate(column_of) if column is None)
    for row in waiting:
        levels[row] = 0
    found = False
    while waiting:
        row = waiting.popleft()
        for column in edges[row]:
            other = row_of[column]
            if other is None:
                found = True
            elif levels[other] < 0:
                levels[other] = levels[row] + 1
                waiting.append(other)
    return levels if found else None


def _augment(
    start: int,
    edges: Sequence[Sequence[int]],
    levels: list[int],
    row_of: list[int | None],
    column_of: list[int | None],
) -> None:
    """Follow one path of growing levels to an unmatched column, if there is one, and exchange its edges."""
    path: list[int] = []  # the columns chosen so far
    rows = [start]
    iterators = [iter(edges[start])]
    while iterators:
        row = rows[-1]
        column = next(iterators[-1], None)
        if column is None:
            levels[row] = -1
            iterators.pop()
            rows.pop()
            if path:
                path.pop()
            continue
        other = row_of[column]
        if other is None:
            for matched, chosen in zip(rows, [*path, column], strict=True):
                row_of[chosen] = matched
                column_of[matched] = chosen
            return
        if levels[other] == levels[row] + 1:
            path.append(column)
            rows.append(other)
            iterators.append(iter(edges[other]))
