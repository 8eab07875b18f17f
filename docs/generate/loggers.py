"""The page of the loggers, from the sources: every name that is passed to `logging.getLogger`."""

from __future__ import annotations

import ast
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
_LEVELS: Final = ("critical", "error", "exception", "warning", "info", "debug")


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def loggers() -> dict[str, list[Path]]:
    """The modules that log, by the name of the logger."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in _names_in(path):
            if name.startswith("kafkaraw."):
                found.setdefault(name, []).append(path)
    return dict(sorted(found.items()))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _calls(path: Path) -> tuple[ast.Call, ...]:
    return tuple(
        node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )


def _names_in(path: Path) -> set[str]:
    if "getLogger(" not in path.read_text(encoding="utf-8"):
        return set()
    names = set()
    for call in _calls(path):
        match call:
            case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Name(id="__name__")]):
                parts = ("kafkaraw", *path.relative_to(PACKAGE).with_suffix("").parts)
                names.add(".".join(part for part in parts if part != "__init__"))
            case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str(name))]):
                names.add(name)
            case _:
                pass
    return names


def _lines() -> Iterator[str]:
    yield from (notice("src/kafkaraw"), "", "# Loggers", "", _ABOUT)
    rows = ((code(name), ", ".join(_levels(paths)), _about(name, paths)) for name, paths in loggers().items())
    yield from table(("logger", "levels", "of"), rows)


def _levels(paths: list[Path]) -> list[str]:
    """The levels at which these modules log, the most severe first."""
    used = {
        call.func.attr
        for path in paths
        for call in _calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS
        if isinstance(call.func.value, ast.Name) and call.func.value.id.strip("_").lower() in ("log", "logger")
    }
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
    docstring = ast.get_docstring(_tree(paths[0])) or ""
    return text(" ".join(docstring.split("\n\n")[0].split()))
