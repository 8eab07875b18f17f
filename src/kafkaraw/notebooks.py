"""HTML of values for notebooks: what `_repr_html_` of topics, groups, lag, batches and frames returns.

Names and contents of records come from strangers. Every text is escaped, characters that would change the direction or
the position of other text are shown by their numbers, and long values are cut. There are no scripts, styles or links.
Must not know any type of this package. Start at `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Final

ROWS_MAX: Final = 20
"""A table shows so many rows, and says how many there are more."""
_TEXT_MAX: Final = 200
"""Characters of a value."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, count: int, caption: str = "") -> str:
    """Return a table of the first rows.

    Args:
        columns: their names.
        rows: values; None is an empty cell.
        count: how many rows there are.
        caption: what the rows are.
    """
    head = "".join(f"<th>{text(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(value)}</td>" for value in row) + "</tr>" for row in islice(rows, ROWS_MAX)
    )
    named = f"<caption>{text(caption)}</caption>" if caption else ""
    more = f"<p>and {count - ROWS_MAX:,} more</p>" if count > ROWS_MAX else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def tables(title: str, *parts: str) -> str:
    """Return a title and tables below it."""
    return f"<div><p><strong>{text(title)}</strong></p>{''.join(parts)}</div>"


def text(value: object) -> str:
    """Return a value as escaped text; bytes that are no UTF-8 and control characters are written by their numbers."""
    return escape(plain(value))


def plain(value: object) -> str:
    """Return a value as text of at most 200 characters, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value[: 4 * _TEXT_MAX])
        shown = data.decode(errors="backslashreplace")
    elif isinstance(value, bool | str):
        shown = str(value)
    elif isinstance(value, int):
        shown = f"{value:,}"
    else:
        shown = str(value)
    shown = "".join(each if each.isprintable() else _escaped(each) for each in shown[: _TEXT_MAX + 1])
    return shown if len(shown) <= _TEXT_MAX else f"{shown[:_TEXT_MAX]}…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
