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
    "kafkaraw.testing",
    "kafkaraw.records",
    "kafkaraw.schemas",
    "kafkaraw.spark",
    "kafkaraw.pipelines",
    "kafkaraw.opentelemetry",
    "kafkaraw.metrics",
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
    """The public names of a module: those that it lists, or else those that it defines."""
    if module.__name__ == "kafkaraw":
        return sorted(_declared_for_type_checkers(module))
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
        if value.__module__ == module.__name__
    )


def _declared_for_type_checkers(module: ModuleType) -> Iterator[str]:
    """The names that the package imports lazily: in its sources, they are imported as themselves."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.asname == alias.name and alias.name[0] != "_")


def kind_of(value: object) -> str:
    """What a name is, in one word."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
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
