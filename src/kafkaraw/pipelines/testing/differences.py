"""Compares rows with expected rows, in any order, and shows the differences as a table.

Of each expected row, only the columns that it names are compared. Values are compared by meaning: a time may be given
as text, a decimal as a number, a row as a mapping. Needs no Spark. Start at `compare`.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from kafkaraw.light_classes import dataclass

Values = Mapping[str, Any]

SHOWN_AT_MOST: Final = 20
_WIDTH: Final = 160
_DIGITS: Final = 12  # significant digits of floats


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not as expected.

    Args:
        expected: the expected row; None for an unexpected row.
        got: the row that is most similar to it; None if no row is left.
    """

    expected: Values | None
    got: Values | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Args:
        name: of the dataset.
        columns: that were compared.
        equal: number of rows that are as expected.
        differences: all other rows.
    """

    name: str
    columns: tuple[str, ...]
    equal: int
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        """Whether all rows are as expected."""
        return not self.differences

    def __str__(self) -> str:
        """The differences as a table."""
        missing = sum(each.got is None for each in self.differences)
        unexpected = sum(each.expected is None for each in self.differences)
        changed = len(self.differences) - missing - unexpected
        head = (
            f"{self.name}: {self.equal} rows as expected, "
            f"{missing} missing, {unexpected} unexpected, {changed} different"
        )
        return head if self else f"{head}\n{_table(self.columns, self.differences)}"


def compare(name: str, expected: Iterable[Values], got: Iterable[Values]) -> Comparison:
    """Compare rows with expected rows, in any order.

    Args:
        name: of the dataset, for the table.
        expected: the rows; a column that a row does not name may have any value.
        got: the rows that are there.
    """
    wanted, there = [dict(each) for each in expected], [dict(each) for each in got]
    columns = tuple(dict.fromkeys(column for row in wanted for column in row))
    if not columns:  # no row is expected: show those that are there whole
        columns = tuple(dict.fromkeys(column for row in there for column in row))
    kept = [{column: row.get(column, _ABSENT) for column in columns} for row in there]
    matched = (
        _matched(wanted, kept) if any(len(row) < len(columns) for row in wanted) else _counted(wanted, kept, columns)
    )
    missing = [row for number, row in enumerate(wanted) if number not in matched]
    taken = set(matched.values())
    unexpected = [row for number, row in enumerate(kept) if number not in taken]
    return Comparison(name, columns, len(matched), tuple(_paired(missing, unexpected)))


def _counted(wanted: Sequence[Values], there: Sequence[Values], columns: Sequence[str]) -> dict[int, int]:
    """Match rows that all name the same columns: places of expected rows to places of rows that are there."""
    places = defaultdict[Any, list[int]](list)
    for number, row in enumerate(there):
        places[_key(row, columns)].append(number)
    found = {}
    for number, row in enumerate(wanted):
        left = places.get(_key(row, columns))
        if left:
            found[number] = left.pop(0)
    return found


def _matched(wanted: Sequence[Values], there: Sequence[Values]) -> dict[int, int]:
    """Match as many rows as possible, since a row may be as several expected rows say (Kuhn's algorithm)."""
    keys = [{column: normal(value) for column, value in row.items()} for row in there]
    fits = [
        [number for number, row in enumerate(keys) if all(row[column] == value for column, value in said.items())]
        for said in ({column: normal(value) for column, value in row.items()} for row in wanted)
    ]
    owners: dict[int, int] = {}

    def give(row: int, seen: set[int]) -> bool:
        for place in fits[row]:
            if place not in seen:
                seen.add(place)
                if place not in owners or give(owners[place], seen):
                    owners[place] = row
                    return True
        return False

    for row in range(len(wanted)):
        give(row, set())
    return {row: place for place, row in owners.items()}


class _Absent:
    """The value of a column that the rows do not have."""

    def __repr__(self) -> str:
        return "(no such column)"


_ABSENT: Final = _Absent()


def _paired(missing: Iterable[Values], unexpected: Iterable[Values]) -> list[Difference]:
    """Put each missing row beside the unexpected row with which it has most columns in common."""
    left = list(unexpected)
    found = []
    for row in missing:
        best = max(left, key=lambda each: _alike(row, each), default=None)
        if best is not None and _alike(row, best) > 0:
            left.remove(best)
            found.append(Difference(row, best))
        else:
            found.append(Difference(row, None))
    return found + [Difference(None, row) for row in left]


def _alike(said: Values, row: Values) -> int:
    return sum(normal(value) == normal(row[column]) for column, value in said.items())


def _key(row: Values, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(normal(row.get(column)) for column in columns)


def normal(value: Any) -> Any:  # noqa: ANN401 -- any value of a row
    """Return a hashable value that is equal for values of the same meaning."""
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, (int, float, Decimal)):
        return _number(value)
    if isinstance(value, datetime):
        return ("time", value.astimezone(UTC))
    if isinstance(value, date):
        return ("date", value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ("bytes", bytes(value))
    if isinstance(value, Mapping):
        return ("map", frozenset((str(name), normal(each)) for name, each in value.items()))
    if hasattr(value, "asDict"):  # a Row of Spark
        return normal(value.asDict())
    if isinstance(value, (list, tuple)):
        return ("list", tuple(normal(each) for each in value))
    return ("other", repr(value))


def _number(value: float | Decimal) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        if not math.isfinite(value):
            return ("number", repr(value))
        value = Decimal(f"{value:.{_DIGITS}g}")  # sums differ in the last digits with the order of their rows
    exact = Decimal(value)
    return ("number", int(exact) if exact == exact.to_integral_value() else float(f"{exact:.{_DIGITS}g}"))


def _text(value: str) -> Any:  # noqa: ANN401
    """A text that has the form of a time is that time, since YAML and JSON have no other way to name one."""
    if len(value) >= 16 and value[4:5] == "-" and value[10:11] in "T ":
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return ("text", value)
        return ("time", (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC))
    return ("text", value)


def _table(columns: Sequence[str], differences: Sequence[Difference]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", *columns):
        table.add_column(Text(column), overflow="fold")
    for each in differences[:SHOWN_AT_MOST]:
        table.add_row(*(Text(cell) for cell in _cells(each, columns)))
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]
    if len(differences) > SHOWN_AT_MOST:
        lines.append(f"... and {len(differences) - SHOWN_AT_MOST} more")
    return "\n".join(lines)


def _cells(difference: Difference, columns: Sequence[str]) -> list[str]:
    expected, got = difference.expected, difference.got
    if expected is None or got is None:
        row = expected or got or {}
        word = "missing" if got is None else "unexpected"
        return [word, *(_shown(row[column]) if column in row else "" for column in columns)]
    cells = ["different"]
    for column in columns:
        there = got[column]
        same = column not in expected or normal(expected[column]) == normal(there)
        cells.append(_shown(there) if same else f"{_shown(expected[column])} expected, got {_shown(there)}")
    return cells


def _shown(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").removesuffix(".000000")
    if isinstance(value, (bytes, bytearray)):
        return repr(bytes(value))
    return str(value)
