"""The implementation of the hot path in use: the compiled modules, or plain Python.

Each module is imported when one of its names is first used: a producer does not load the reader, nor a consumer the
open batches.

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
    "_cython_shared",  # code of Cython that the others import
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

if TYPE_CHECKING:
    from kafkaraw.records._fallback.batch_table import BatchTable as BatchTable
    from kafkaraw.records._fallback.batch_table import SendFastPath as SendFastPath
    from kafkaraw.records._fallback.batch_table import TopicBatches as TopicBatches
    from kafkaraw.records._fallback.builder import BatchBuilder as BatchBuilder
    from kafkaraw.records._fallback.builder import as_bytes as as_bytes
    from kafkaraw.records._fallback.builder import encode_headers as encode_headers
    from kafkaraw.records._fallback.dumping import render_records as render_records
    from kafkaraw.records._fallback.reader import fill as fill
    from kafkaraw.records._fallback.reader import fill_batches as fill_batches
    from kafkaraw.records._fallback.reader import read_acquired as read_acquired
    from kafkaraw.records._fallback.reader import read_batches as read_batches
    from kafkaraw.records._fallback.reader import read_records as read_records
    from kafkaraw.records._fallback.reader import read_values as read_values
    from kafkaraw.records._fallback.rows import Rows as Rows
    from kafkaraw.records._fallback.ticket import Outcome as Outcome
    from kafkaraw.records._fallback.ticket import Ticket as Ticket
    from kafkaraw.records.record import Record as Record

_MODULES: Final = (  # compiled, plain, names
    ("_batch_table", "_fallback.batch_table", ("BatchTable", "SendFastPath", "TopicBatches")),
    ("_builder", "_fallback.builder", ("BatchBuilder", "as_bytes", "encode_headers")),
    ("_dumping", "_fallback.dumping", ("render_records",)),
    ("_filling", "_fallback.reader", ("fill", "fill_batches")),
    ("_reader", "_fallback.reader", ("read_acquired", "read_batches", "read_records", "read_values")),
    ("_reader", "record", ("Record",)),
    ("_rows", "_fallback.rows", ("Rows",)),
    ("_ticket", "_fallback.ticket", ("Outcome", "Ticket")),
)
_HOMES: Final = {
    name: compiled if IMPLEMENTATION == "native" else plain for compiled, plain, names in _MODULES for name in names
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"kafkaraw.records.{home}"), name)
    globals()[name] = value
    return value


def make_record(*fields: Any) -> Record:  # noqa: ANN401  # checked where they are made
    """Make a record from its fields; copies and pickles name this function, so they work with both implementations."""
    from kafkaraw.records._implementation import Record  # as `__getattr__` returns it

    return Record(*fields)
