"""The page of the loggers, from the sources: every name that is passed to `logging.getLogger`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from docs.generate.tables import code, notice, table, text

PAGE: Final = "loggers.md"
PACKAGE: Final = Path(__file__).parents[2] / "src" / "kafkaraw"
_ABOUT: Final = """\
kafkaraw logs with Python's `logging`, below the logger `kafkaraw`; it adds no handlers and sets no levels. Warnings and
errors say what to do; INFO says what a client or broker does, such as the state of a group; DEBUG says why. Values of
secrets are in no message. [Diagnose problems](../how-to/find-out-why.md) shows how to use them.

```python
import logging

logging.basicConfig(level=logging.INFO)
logging.getLogger("kafkaraw.client.network").setLevel(logging.DEBUG)
```
"""
_LOGGER: Final = re.compile(r"getLogger\((?:__name__|\"([\w.]+)\")\)")
_CALL: Final = re.compile(r"\b_?(?:log|logger|LOG)\.(critical|error|exception|warning|info|debug)\(")
_FIRST_PARAGRAPH: Final = re.compile(r'^"""(.*?)(?:\n\n|""")', re.DOTALL | re.MULTILINE)
_LEVELS: Final = ("critical", "error", "exception", "warning", "info", "debug")


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


@cache
def loggers() -> dict[str, list[Path]]:
    """The modules that log, by the name of the logger."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in _names_in(path):
            if name.startswith("kafkaraw."):
                found.setdefault(name, []).append(path)
    return dict(sorted(found.items()))


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _names_in(path: Path) -> set[str]:
    parts = ("kafkaraw", *path.relative_to(PACKAGE).with_suffix("").parts)
    module = ".".join(part for part in parts if part != "__init__")
    return {name or module for name in _LOGGER.findall(_source(path))}


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw"), "", "# Loggers", "", _ABOUT)
    rows = ((code(name), ", ".join(_levels(paths)), _about(name, paths)) for name, paths in loggers().items())
    yield from table(("logger", "levels", "of"), rows)


def _levels(paths: list[Path]) -> list[str]:
    """The levels at which these modules log, the most severe first."""
    used = {level for path in paths for level in _CALL.findall(_source(path))}
    names = {"exception": "ERROR"}
    return list(dict.fromkeys(names.get(level, level.upper()) for level in _LEVELS if level in used))


_SHARED: Final = {
    "kafkaraw.broker": "The embedded broker: starts and stops, topics, replicas, transactions, log directories.",
    "kafkaraw.broker.groups": "The group coordinator of the embedded broker.",
    "kafkaraw.wire": "Frames, with `KAFKARAW_WIRE_LOG`.",
}
"""Loggers that several modules share."""


def _about(name: str, paths: list[Path]) -> str:
    if name in _SHARED:
        return _SHARED[name]
    first = _FIRST_PARAGRAPH.search(_source(paths[0]))
    return text(" ".join(first[1].split())) if first else ""
