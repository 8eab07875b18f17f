"""The hot path in plain Python: what runs where no C compiler was at hand.

Written for CPython: short varints come from a table or are decoded in place, bytes are built by `%` and `join`. It has
the same interface as the compiled modules (`records/interface.py`) and passes the same tests. Mechanism only: which
batch to send when is decided in `core`. Start at `open_batches.py` for writing, `reader.py` for
reading.
"""

from __future__ import annotations

from kafkaraw.records._fallback.builder import BatchBuilder
from kafkaraw.records._fallback.open_batches import OpenBatches, Sender, Ticket
from kafkaraw.records._fallback.reader import fill, fill_batches, read_batches, read_records, read_values
from kafkaraw.records._fallback.rows import Rows
from kafkaraw.records.record import Record

__all__ = [
    "BatchBuilder",
    "OpenBatches",
    "Record",
    "Rows",
    "Sender",
    "Ticket",
    "fill",
    "fill_batches",
    "read_batches",
    "read_records",
    "read_values",
]
