"""Reads Java's `.properties` files, which is how Kafka's programs are configured. Text in, pairs out.

Source: the format that java.util.Properties.load documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PAIR: Final = re.compile(r"((?:[^\\:=\s]|\\.)*)\s*(?:[:=]\s*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANING: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_java_properties(text: str) -> dict[str, str]:
    """The pairs of a file; the last one counts when a name comes twice."""
    pairs = {}
    for line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        assert match is not None  # it matches anything
        pairs[_unescaped(match[1])] = _unescaped(match[2])
    return pairs


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, those that end in a backslash joined with the next one."""
    begun = ""
    for line in re.split(r"\r\n|\r|\n", text):
        part = line.lstrip(" \t\f")
        if not begun and (not part or part[0] in "#!"):
            continue
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            begun += part[:-1]
            continue
        yield begun + part
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _character(found[1]), text)


def _character(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _MEANING.get(escaped, escaped)
