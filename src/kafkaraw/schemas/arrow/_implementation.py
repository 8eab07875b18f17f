"""The implementation of decoding and encoding in use: the compiled modules, or plain Python.

As `records/_implementation`: the files decide, KAFKARAW_IMPL=python chooses the plain ones. Start at `module`.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from types import ModuleType
from typing import Final

from kafkaraw.records import IMPLEMENTATION


def module(name: str, implementation: str, folder: str) -> ModuleType:
    """Return a module of this package.

    Args:
        name: "decoding" or "encoding".
        implementation: "native" or "python"; "native" applies where the compiled file exists.
        folder: folder of this package.
    """
    package = __name__.rpartition(".")[0]
    finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES))
    if implementation == "native" and finder.find_spec(f"_{name}") is not None:
        return import_module(f"{package}._{name}")
    return import_module(f"{package}.plain_{name}")


decoding: Final = module("decoding", IMPLEMENTATION, os.path.dirname(__file__))
"""The module with `scan`, `prepare` and `Decoder`."""
encoding: Final = module("encoding", IMPLEMENTATION, os.path.dirname(__file__))
"""The module with `encode`."""
