"""The implementation of decoding in use: the compiled module, or plain Python.

As `records/_implementation`: the files decide, KAFKARAW_IMPL=python chooses the plain one. Start at `module`.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from types import ModuleType
from typing import Final

from kafkaraw.records import IMPLEMENTATION

_COMPILED: Final = "_decoding"


def module(implementation: str, folder: str) -> ModuleType:
    """Return the module that decodes.

    Args:
        implementation: "native" or "python"; "native" applies where the compiled file exists.
        folder: folder of this package.
    """
    package = __name__.rpartition(".")[0]
    finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES))
    if implementation == "native" and finder.find_spec(_COMPILED) is not None:
        return import_module(f"{package}.{_COMPILED}")
    return import_module(f"{package}.plain_decoding")


decoding: Final = module(IMPLEMENTATION, os.path.dirname(__file__))
"""The module with `scan`, `prepare` and `Decoder`."""
