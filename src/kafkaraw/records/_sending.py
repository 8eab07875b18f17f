"""The producers' part of the implementation of the hot path that `_implementation` chose."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkaraw.records._implementation import IMPLEMENTATION

if TYPE_CHECKING or IMPLEMENTATION == "python":
    from kafkaraw.records._fallback.batch_table import BatchTable, SendFastPath, TopicBatches
    from kafkaraw.records._fallback.ticket import Outcome, Ticket
else:
    _ticket = import_module("kafkaraw.records._ticket")
    _batch_table = import_module("kafkaraw.records._batch_table")
    Outcome, Ticket = _ticket.Outcome, _ticket.Ticket
    BatchTable, SendFastPath = _batch_table.BatchTable, _batch_table.SendFastPath
    TopicBatches = _batch_table.TopicBatches

__all__ = ["BatchTable", "Outcome", "SendFastPath", "Ticket", "TopicBatches"]
