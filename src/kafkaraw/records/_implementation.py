"""The hot path as it was chosen: the compiled modules, or plain Python. How it is chosen is in `choice.py`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafkaraw.records.choice import IMPLEMENTATION as IMPLEMENTATION
from kafkaraw.records.choice import choose as choose

if TYPE_CHECKING or IMPLEMENTATION == "python":
    from kafkaraw.records._fallback.builder import BatchBuilder
    from kafkaraw.records._fallback.open_batches import OpenBatches, Sender, Ticket
    from kafkaraw.records._fallback.reader import fill, fill_batches, read_batches, read_records, read_values
    from kafkaraw.records._fallback.rows import Rows
    from kafkaraw.records.record import Record
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
