"""`Outcome`: the attributes of a promise that every ticket reads, as its base class, compiled or in plain Python.

Producers that keep tickets look at each of them: an attribute of a compiled class is read at once, one of a Python
class is looked up. Nothing is decided here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkaraw.records.choice import IMPLEMENTATION

if TYPE_CHECKING:
    from kafkaraw.records.promise import BatchPromise


class PlainOutcome:
    """The base in plain Python.

    Attributes:
        error: why the batch failed; None if it did not.
        parts: after a batch split, the promise of each part with the index of its first record; else None.
    """

    __slots__ = ("error", "parts")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.parts: list[tuple[int, BatchPromise]] | None = None


if TYPE_CHECKING or IMPLEMENTATION == "python":
    Outcome = PlainOutcome
else:
    Outcome = import_module("kafkaraw.records._ticket").Outcome
