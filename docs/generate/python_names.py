"""The page of the public modules and names of Python, each with the first sentence of its docstring.

The site has a page for each module besides, which mkdocstrings fills (`docs/site/python_api.py`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

from docs.generate.tables import code, notice, sentence, table, text

PAGE: Final = "python-names.md"
MODULES: Final = (
    "kafkaraw",
    "kafkaraw.errors",
    "kafkaraw.broker",
    "kafkaraw.testing.pytest_plugin",
    "kafkaraw.records",
    "kafkaraw.schemas",
    "kafkaraw.spark",
    "kafkaraw.pipelines",
    "kafkaraw.worker",
    "kafkaraw.opentelemetry",
    "kafkaraw.metrics",
    "kafkaraw.monitoring",
    "kafkaraw.protocol",
    "kafkaraw.inspect",
)
_ABOUT: Final = """\
Public are the names of these modules without a leading underscore. The
[compatibility policy](../../CHANGELOG.md#compatibility-policy) says what may change.
"""


def pages() -> dict[str, str]:
    """The page by its file name."""
    return {PAGE: "\n".join(_lines())}


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: those that it lists, or else those that it defines, and imports as themselves."""
    listed = getattr(module, "__all__", None)
    if listed is not None and module.__name__ != "kafkaraw":
        return sorted(listed)
    return sorted({name for name in _in_source(module) if not name.startswith("_")})


def _in_source(module: ModuleType) -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.col_offset:
            yield node.name


def kind_of(value: object) -> str:
    """What a name is, in one word."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    if type(value).__name__.startswith("Fixture"):  # pytest has no public class for it
        return "fixture"
    return "function" if callable(value) else "value"


def _lines() -> Iterator[str]:
    yield from (notice("the docstrings in src/kafkaraw"), "", "# Python: modules and names", "", _ABOUT)
    for name in MODULES:
        module = import_module(name)
        yield from (f"## {name}", "", sentence(text(_first(module))), "")
        rows = ((each, getattr(module, each)) for each in names_of(module))
        columns = ("name", "is a", "for")
        yield from table(columns, ((code(each), kind_of(value), text(_first(value))) for each, value in rows))


def _first(value: object) -> str:
    """The first paragraph of a docstring; nothing for values, whose type has one that is not theirs."""
    if not (inspect.isclass(value) or inspect.ismodule(value) or callable(value)):
        return ""
    docstring = inspect.getdoc(value) or ""
    return "" if docstring.startswith(("Alias for", "NamedTuple")) else " ".join(docstring.split("\n\n")[0].split())
