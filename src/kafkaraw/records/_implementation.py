"""The implementation of the hot path in use: the compiled modules, or plain Python.

What producers use besides is in `_sending`, so that consumers and brokers do not load it.

The choice is made once, at import, by looking for the compiled files, never by trying to import them: without a
compiler, the sources of the compiled modules import without an error, but run several times slower. The environment
variable KAFKARAW_IMPL=python|native overrides the choice. Start at `choose`; `reuses_values` decides on one
optimization of the compiled form.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError

_VARIABLE: Final = "KAFKARAW_IMPL"
_REUSE_VARIABLE: Final = "KAFKARAW_REUSE_VALUES"
_REUSING_VERSIONS: Final = ((3, 11), (3, 12), (3, 13))
_COMPILED_MODULES: Final = (
    "_builder",
    "_ticket",
    "_batch_table",
    "_reader",
    "_filling",
    "_rows",
    "_dumping",
    "_compaction",
)


def choose(setting: str, folder: str | os.PathLike[str]) -> str:
    """Decide between "native" and "python".

    Args:
        setting: value of KAFKARAW_IMPL; if it is empty, the files decide.
        folder: folder of the compiled modules.

    Raises:
        ConfigError: an unknown setting, or "native" without the compiled files.
    """
    if setting not in ("", "native", "python"):
        raise ConfigError(f"{_VARIABLE}={setting} is unknown; it can be python or native")
    if setting == "python":
        return "python"
    finder = FileFinder(os.fspath(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    missing = [name for name in _COMPILED_MODULES if finder.find_spec(name) is None]
    if not missing:
        return "native"
    if setting == "native":
        raise ConfigError(
            f"{_VARIABLE}=native, but the compiled modules {', '.join(missing)} are not there; "
            "install with a C compiler present, or unset the variable to run in plain Python"
        )
    return "python"


IMPLEMENTATION: Final = choose(os.environ.get(_VARIABLE, ""), os.path.dirname(__file__))
"""The implementation in use: "native" or "python"."""


def reuses_values(setting: str, python: str, version: tuple[int, ...], flags: str) -> bool:
    """Decide whether the compiled reader writes into the `bytes` of a value again that only the reader refers to.

    It looks at a reference count and changes an immutable object, so it depends on the internals of CPython, and is
    done only on the versions on which `tests/records/test_records.py` was run. On others each value is a new object.

    Args:
        setting: value of KAFKARAW_REUSE_VALUES; 0 switches it off, and nothing can switch it on.
        python: name of the interpreter, from `sys.implementation`.
        version: its version.
        flags: `sys.abiflags`; a build without the GIL has a "t", and counts references in another way.

    Raises:
        ConfigError: an unknown setting.
    """
    if setting not in ("", "0", "1"):
        raise ConfigError(f"{_REUSE_VARIABLE}={setting} is unknown; it can be 0 or 1")
    return setting != "0" and python == "cpython" and version[:2] in _REUSING_VERSIONS and "t" not in flags


REUSES_VALUES: Final = reuses_values(
    os.environ.get(_REUSE_VARIABLE, ""),
    sys.implementation.name,
    tuple(sys.version_info[:2]),
    getattr(sys, "abiflags", ""),  # not on Windows
)
"""Whether the compiled reader writes into values again."""

if TYPE_CHECKING or IMPLEMENTATION == "python":
    from kafkaraw.records._fallback.builder import BatchBuilder, as_bytes, encode_headers
    from kafkaraw.records._fallback.reader import fill, fill_batches, read_batches, read_records, read_values
    from kafkaraw.records.record import Record
else:
    _builder = import_module("kafkaraw.records._builder")
    _reader = import_module("kafkaraw.records._reader")
    _filling = import_module("kafkaraw.records._filling")
    BatchBuilder, as_bytes, encode_headers = _builder.BatchBuilder, _builder.as_bytes, _builder.encode_headers
    Record, fill, fill_batches = _reader.Record, _filling.fill, _filling.fill_batches
    read_batches, read_records, read_values = _reader.read_batches, _reader.read_records, _reader.read_values


def make_record(*fields: Any) -> Record:  # noqa: ANN401  # checked where they are made
    """Make a record from its fields; copies and pickles name this function, so they work with both implementations."""
    return Record(*fields)


__all__ = [
    "IMPLEMENTATION",
    "BatchBuilder",
    "Record",
    "as_bytes",
    "choose",
    "encode_headers",
    "fill",
    "fill_batches",
    "make_record",
    "read_batches",
    "read_records",
    "read_values",
]
