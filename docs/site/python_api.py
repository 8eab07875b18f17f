"""The pages of the site about the public modules, which mkdocstrings fills from docstrings.

One page for each client, and one for each module with its other names. They exist only on the site: a code host would
show the instructions for mkdocstrings. Start at `pages`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final

from docs.generate.python_names import MODULES, kind_of, names_of

_FOLDER: Final = "docs/reference/python"
_CLIENTS: Final = ("Producer", "AsyncProducer", "Consumer", "AsyncConsumer", "Admin", "AsyncAdmin")
_ERRORS: Final = "kafkaraw.errors"


def pages() -> dict[str, str]:
    """The text of each page by its path, as if it lay in the repository."""
    found = {f"{_FOLDER}/{name}.md": "\n".join(_page(name, "kafkaraw", [name])) for name in _CLIENTS}
    for module in MODULES:
        names = [name for name in names_of(import_module(module)) if not _has_other_page(module, name)]
        if names:
            found[f"{_FOLDER}/{module}.md"] = "\n".join(_page(module, module, names))
    return found


def _has_other_page(module: str, name: str) -> bool:
    """Whether a name of `kafkaraw` is on the page of a client or of the errors."""
    if module == _ERRORS:
        return False
    value = getattr(import_module(module), name)
    is_error = kind_of(value) == "exception" and value.__module__ == _ERRORS
    return is_error or (module == "kafkaraw" and name in _CLIENTS)


def _page(title: str, module: str, names: Iterable[str]) -> Iterator[str]:
    yield from (f"# {title}", "")
    if title == module:
        yield from (inspect.cleandoc(import_module(module).__doc__ or "").split("\n\n")[0], "")
    else:
        yield from (f"`from {module} import {title}` · [settings](../client-settings.md)", "")
    for name in names:
        if name in _CLIENTS:
            yield from _class(getattr(import_module(module), name))
        else:
            yield from (f"::: {_path(module, name)}", "")


def _class(kind: type) -> Iterator[str]:
    """A class and its methods one by one: mkdocstrings leaves out `Producer.send`, whose class is chosen at import."""
    yield from (
        f"::: {kind.__module__}.{kind.__qualname__}",
        "    options: {members: false, inherited_members: false, show_bases: false}",
        "",
    )
    methods: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        for name, value in vars(base).items():
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if not name.startswith("_") and callable(function):
                methods[name] = f"{_source(function.__module__)}.{function.__qualname__}"
    for path in methods.values():
        yield from (f"::: {path}", "    options: {heading_level: 3}", "")


def _path(module: str, name: str) -> str:
    """Where a name is defined: mkdocstrings reads the sources, and does not follow imports that happen on first use."""
    value = getattr(import_module(module), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{_source(value.__module__)}.{value.__qualname__}"
    return f"{module}.{name}"


def _source(module: str) -> str:
    """The module whose source is plain Python, for a compiled one: it has the same docstrings."""
    return re.sub(r"^kafkaraw\.records\._(?!fallback)(?=[a-z])", "kafkaraw.records._fallback.", module)
