"""Which implementation of the hot path runs: the compiled modules, or plain Python.

The choice is made once, at import, by looking for the compiled files. Never by trying to import them: the sources of
the compiled modules import fine without a compiler and run several times slower, which nobody would notice. The
environment variable KAFKARAW_IMPL=python|native overrules it. Start at `choose`.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError

_VARIABLE: Final = "KAFKARAW_IMPL"
_COMPILED_MODULES: Final = ("_builder", "_ticket", "_open_batches", "_reader", "_filling", "_rows")


def choose(setting: str, folder: Path) -> str:
    """Decide between "native" and "python".

    Args:
        setting: value of KAFKARAW_IMPL; empty lets the files decide.
        folder: where the compiled modules would be.

    Raises:
        ConfigError: an unknown setting, or "native" without the compiled files.
    """
    if setting not in ("", "native", "python"):
        raise ConfigError(f"{_VARIABLE}={setting} is unknown; it can be python or native")
    if setting == "python":
        return "python"
    finder = FileFinder(str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    missing = [name for name in _COMPILED_MODULES if finder.find_spec(name) is None]
    if not missing:
        return "native"
    if setting == "native":
        raise ConfigError(
            f"{_VARIABLE}=native, but the compiled modules {', '.join(missing)} are not there; "
            "install with a C compiler present, or unset the variable to run in plain Python"
        )
    return "python"


IMPLEMENTATION: Final = choose(os.environ.get(_VARIABLE, ""), Path(__file__).parent)
"""What runs: "native" or "python"."""

if TYPE_CHECKING or IMPLEMENTATION == "python":
    from kafkaraw.records._fallback import (
        BatchBuilder,
        OpenBatches,
        Record,
        Rows,
        Sender,
        Ticket,
        fill,
        fill_batches,
        read_batches,
        read_records,
        read_values,
    )
else:
    _builder = import_module("kafkaraw.records._builder")
    _open_batches = import_module("kafkaraw.records._open_batches")
    _reader = import_module("kafkaraw.records._reader")
    Rows = import_module("kafkaraw.records._rows").Rows
    BatchBuilder = _builder.BatchBuilder
    OpenBatches, Sender = _open_batches.OpenBatches, _open_batches.Sender
    Ticket = import_module("kafkaraw.records._ticket").Ticket
    _filling = import_module("kafkaraw.records._filling")
    Record, fill, fill_batches = _reader.Record, _filling.fill, _filling.fill_batches
    read_batches, read_records, read_values = _reader.read_batches, _reader.read_records, _reader.read_values


def make_record(*fields: Any) -> Record:  # noqa: ANN401  # checked where they are made
    """Make a record from its fields; copies and pickles name this, and so fit whatever runs."""
    return Record(*fields)


__all__ = [
    "IMPLEMENTATION",
    "BatchBuilder",
    "OpenBatches",
    "Record",
    "Rows",
    "Sender",
    "Ticket",
    "choose",
    "fill",
    "fill_batches",
    "make_record",
    "read_batches",
    "read_records",
    "read_values",
]
