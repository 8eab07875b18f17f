"""What is measured, and how much faster we must be, and aim to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """One job.

    Attributes:
        name: what to call it.
        must: our rate divided by theirs, or our time by theirs, that has to be reached.
        aim: what we aim at.
        by_time: times of micro-batches are compared, less is better.
        against: which connector we are held against.
    """

    name: str
    must: float
    aim: float
    by_time: bool = False
    against: str = "kafka"

    def is_met(self, factor: float, goal: float) -> bool:
        """Whether a factor reaches a goal."""
        return factor <= goal if self.by_time else factor >= goal


ROWS: Final = {
    row.name: row
    for row in (
        Row("read, all columns", 2.2, 3),
        Row("read, value only", 4, 6),
        Row("read to Parquet", 1.5, 2),
        Row("copy key and value", 1.5, 2.5),
        Row("stream, available now", 1.5, 2.5),
        Row("trickle, 4 partitions", 0.45, 0.3, by_time=True),
        Row("trickle, 32 partitions", 0.45, 0.25, by_time=True),
        Row("copy, exactly once", 0.8, 0.9, against="kafkaraw at least once"),
    )
}
TRICKLES: Final = {"trickle, 4 partitions": 4, "trickle, 32 partitions": 32}
"""Rows whose topic is written to while they run -> its partitions."""
EXACTLY_ONCE: Final = "copy, exactly once"
