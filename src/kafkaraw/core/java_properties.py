"""Reads Java's `.properties` files, which is how Kafka's programs are configured. Text in, pairs out.

Source: the format that java.util.Properties.load documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kafkaraw.light_classes import NamedTuple

_PAIR: Final = re.compile(r"((?:[^\\:=\s]|\\.)*)\s*(?:[:=]\s*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANING: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_java_properties(text: str) -> dict[str, str]:
    """The pairs of a file; the last one counts when a name comes twice."""
    return {pair.name: pair.value for pair in read_java_properties(text)}


class JavaProperty(NamedTuple):
    """A pair of a file.

    Attributes:
        name: before the separator.
        value: behind it.
        line: the number of its first line, from 1.
    """

    name: str
    value: str
    line: int


def read_java_properties(text: str) -> list[JavaProperty]:
    """The pairs of a file in their order, with the places where they stand."""
    pairs = []
    for number, line in _logical_lines(text):
        match = _PAIR.fullmatch(line)
        assert match is not None  # it matches anything
        pairs.append(JavaProperty(_unescaped(match[1]), _unescaped(match[2]), number))
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and their numbers, those that end in a backslash joined with the next one."""
    begun, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        part = line.lstrip(" \t\f")
        if not begun and (not part or part[0] in "#!"):
            continue
        first = first or number
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            begun += part[:-1]
            continue
        yield first, begun + part
        begun, first = "", 0
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _character(found[1]), text)


def _character(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _MEANING.get(escaped, escaped)
