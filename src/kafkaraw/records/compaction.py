"""The offset map of log compaction, compiled or in plain Python. Only brokers need it: it is loaded with this module.

`_compaction.py` (compiled) and `_fallback/compaction.py` (plain Python) implement `interface.OffsetMap`;
`core/log/cleaner.py` uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkaraw.records._implementation import IMPLEMENTATION
from kafkaraw.records.interface import Retained

if TYPE_CHECKING or IMPLEMENTATION == "python":
    from kafkaraw.records._fallback.compaction import OffsetMap
else:
    OffsetMap = import_module("kafkaraw.records._compaction").OffsetMap

__all__ = ["OffsetMap", "Retained"]
