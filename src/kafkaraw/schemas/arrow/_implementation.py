"""The implementation of decoding and encoding in use: the compiled modules, or plain Python.

As `records/_implementation`: the files decide, KAFKARAW_IMPL=python chooses the plain ones. A compiled module runs
programs by the numbers of their operations, without any check of Python's: one that was built from other sources would
take one operation for another, and end the process. So its numbers are compared before it is used. Start at `module`.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from types import ModuleType
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.records import IMPLEMENTATION
from kafkaraw.schemas.arrow.columns import Kind
from kafkaraw.schemas.arrow.encode_program import EncodeFault, EncodeOp, Presence
from kafkaraw.schemas.arrow.program import Fault, Op

_NUMBERS: Final[dict[str, tuple[str, object]]] = {
    "decoding": (
        "NUMBERS",
        {
            "Kind": {each.name: each.value for each in Kind},
            "first and last": (min(Op), max(Op), min(Fault), max(Fault)),
        },
    ),
    "encoding": ("LAST", (max(EncodeOp), max(EncodeFault), max(Presence))),
}
"""The constant of a compiled module with the numbers of C, and the same numbers of Python. New ones come last."""


def module(name: str, implementation: str, folder: str) -> ModuleType:
    """Return a module of this package.

    Args:
        name: "decoding" or "encoding".
        implementation: "native" or "python"; "native" applies where the compiled file exists.
        folder: folder of this package.

    Raises:
        ConfigError: the compiled module was built from other sources.
    """
    package = __name__.rpartition(".")[0]
    finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES))
    if implementation == "native" and finder.find_spec(f"_{name}") is not None:
        compiled = import_module(f"{package}._{name}")
        check(compiled, name)
        return compiled
    return import_module(f"{package}.plain_{name}")


def check(compiled: ModuleType, name: str) -> None:
    """Compare the numbers of a compiled module with those of Python.

    Raises:
        ConfigError: they differ.
    """
    constant, expected = _NUMBERS[name]
    if getattr(compiled, constant, None) != expected:
        raise ConfigError(
            f"the compiled module {compiled.__name__} was built from other sources than these: build it again "
            "(`python setup.py build_ext --inplace`, or install the package again), or set KAFKARAW_IMPL=python"
        )


decoding: Final = module("decoding", IMPLEMENTATION, os.path.dirname(__file__))
"""The module with `scan`, `prepare` and `Decoder`."""
encoding: Final = module("encoding", IMPLEMENTATION, os.path.dirname(__file__))
"""The module with `encode`."""
