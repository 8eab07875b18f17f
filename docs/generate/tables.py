"""What all pages of the generated reference share: the notice on top, tables, and texts without formatting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_CODE = re.compile(r"(`[^`]*`)")


def notice(source: str) -> str:
    """The comment at the top of a page.

    Args:
        source: what to change instead of the page.
    """
    return f"<!-- Made by `make docs` from {source}; change that, not this page. -->"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table, with an empty line behind it."""
    columns = list(columns)
    yield row(columns)
    yield row("---" for _ in columns)
    for cells in rows:
        yield row(cells)
    yield ""


def row(cells: Iterable[str]) -> str:
    """One line of a table; a line break within a cell becomes a space."""
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def text(plain: str) -> str:
    """A text in which Markdown formats nothing but code in backticks; a `|` does not end a cell."""
    parts = _CODE.split(plain)
    parts[::2] = [re.sub(r"([<*\[\]]|(?<!\w)_+)", lambda sign: "\\" + sign[1], part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")


def code(value: str) -> str:
    """A value as code; nothing for an empty one."""
    return f"`{value}`".replace("|", "\\|") if value else ""


def sentence(words: str) -> str:
    """Words as a sentence: a capital at the start (unless it begins with code or a name), a full stop at the end."""
    words = words.strip()
    if words[:1].islower() and re.match(r"[a-z]+[ ,:;]", words):
        words = words[0].upper() + words[1:]
    return words if words.endswith((".", "?", ")")) else f"{words}."
