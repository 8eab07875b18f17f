"""What the docstrings of the package point at exists: modules, files, and the place to start at."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "kafkaraw"
MODULES = sorted(PACKAGE.rglob("*.py"))

_QUOTED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w./]*\w\.(py|pxd|md|toml|xml)")
_MODULE_PATH = re.compile(r"[a-z_]+(/[a-z_0-9]+)+/?")
_NO_PATHS = frozenset({"bin/java", "id/slot"})  # a file of a JAVA_HOME, the key of a record
_START = re.compile(r"[Ss]tart (?:at|with|in)\s+`([^`\n]+)`")


@functools.cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def names(tree: ast.Module) -> set[str]:
    """Every name that a module defines, imports or takes as an attribute."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.alias():
                found.update((node.asname or node.name).split("."))
            case _:
                pass
    return found


def candidates(module: Path, target: str) -> Iterator[Path]:
    """Where a path in a docstring of `module` may be: beside it, in the package, or in the repository."""
    for folder in (module.parent, *module.parent.parents):
        yield folder / target
        yield folder / f"{target.rstrip('/')}.py"
        if folder == ROOT:
            return


def exists(module: Path, target: str) -> bool:
    return any(path.exists() for path in candidates(module, target))


def test_each_file_that_a_docstring_names_exists() -> None:
    missing = [
        (module.relative_to(ROOT), target)
        for module in MODULES
        for docstring in docstrings(parsed(module))
        for target in _QUOTED.findall(docstring)
        if target not in _NO_PATHS
        if (_FILE.fullmatch(target) or _MODULE_PATH.fullmatch(target)) and not exists(module, target)
    ]
    assert not missing


def test_each_place_to_start_at_exists() -> None:
    missing = []
    for module in MODULES:
        for docstring in docstrings(parsed(module)):
            for target in _START.findall(docstring):
                first, *others = target.removesuffix("()").split(".")
                known = first in names(parsed(module)) or exists(module, "/".join([first, *others[:-1]]))
                if not known:
                    missing.append((module.relative_to(ROOT), target))
    assert not missing
