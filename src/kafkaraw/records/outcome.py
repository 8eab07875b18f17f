"""`Outcome`: what every ticket of a batch asks of its promise, and the promise's base. The compiled one is as chosen.

Whoever keeps tickets looks at each: an attribute of a compiled class is there at once, where one of a Python class
is looked up. Nothing is decided here.
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
        error: why the batch failed; None when it did not.
        parts: the promises of what it was split into, each with the index of its first record; None when it was not.
    """

    __slots__ = ("error", "parts")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.parts: list[tuple[int, BatchPromise]] | None = None


if TYPE_CHECKING or IMPLEMENTATION == "python":
    Outcome = PlainOutcome
else:
    Outcome = import_module("kafkaraw.records._ticket").Outcome
