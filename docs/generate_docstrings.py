"""Writes the docstrings of the blocking clients' methods into their sources, from those of the asyncio clients.

    python -m docs.generate_docstrings

A method is documented where it is implemented, in the asyncio client. The blocking client has a copy in its source,
because editors and documentation tools read sources and do not run code. A test compares the sources with what this
script writes. Write a docstring in the asyncio client, then run this again.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parents[1] / "src" / "kafkaraw"

FACES: Final = {
    ("client/blocking/admin.py", "Admin"): ("client/admin/client.py", "AsyncAdmin"),
    ("client/blocking/consumer.py", "Consumer"): ("client/consumer.py", "AsyncConsumer"),
    ("client/blocking/share_consumer.py", "ShareConsumer"): ("client/share_consumer.py", "AsyncShareConsumer"),
    ("client/blocking/producer.py", "Producer"): ("client/producer.py", "AsyncProducer"),
    ("records/_batch_table.py", "SendFastPath"): ("client/producer.py", "AsyncProducer"),  # the base of `Producer`
    ("records/_fallback/batch_table.py", "SendFastPath"): ("client/producer.py", "AsyncProducer"),
    ("schemas/blocking.py", "Registry"): ("schemas/client.py", "AsyncRegistry"),
}
"""File and class of each blocking client, and of the asyncio client that documents it."""

_Method = ast.FunctionDef | ast.AsyncFunctionDef


def documented(blocking: str, face: str, asynchronous: str, source_class: str) -> str:
    """Return the source of a blocking client with the docstrings of the asyncio client.

    Args:
        blocking: source of the blocking client.
        face: its class.
        asynchronous: source of the asyncio client.
        source_class: its class.
    """
    texts = _docstrings(asynchronous, source_class)
    lines = blocking.splitlines(keepends=True)
    for method in reversed(_methods(blocking, face)):  # from the end, so that line numbers stay valid
        if method.name in texts:
            first, last = _place_of_docstring(method, lines)
            lines[first:last] = texts[method.name]
    return "".join(lines)


def sources() -> dict[Path, str]:
    """Return each file with the source that it should have."""
    return {
        _SOURCES / file: documented(
            (_SOURCES / file).read_text(), face, (_SOURCES / source_file).read_text(), source_class
        )
        for (file, face), (source_file, source_class) in FACES.items()
    }


def _docstrings(source: str, name: str) -> dict[str, list[str]]:
    """Return the lines of the docstring of each method, as they are in the source."""
    lines = source.splitlines(keepends=True)
    return {
        method.name: lines[method.body[0].lineno - 1 : method.body[0].end_lineno]
        for method in _methods(source, name)
        if ast.get_docstring(method) is not None
    }


def _methods(source: str, name: str) -> list[_Method]:
    """Return the public methods of a class, in the order of the source."""
    found = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    return [node for node in found.body if isinstance(node, _Method) and not node.name.startswith("_")]


def _place_of_docstring(method: _Method, lines: list[str]) -> tuple[int, int]:
    """Return the lines, from 0, that a docstring takes: no lines if the method has none yet."""
    first = method.body[0]
    start = first.lineno - 1
    if ast.get_docstring(method) is not None:
        return start, first.end_lineno or first.lineno
    while lines[start - 1].lstrip().startswith("#"):  # a comment on the first statement
        start -= 1
    return start, start


if __name__ == "__main__":
    for path, source in sources().items():
        path.write_text(source)
