"""What is measured, and how much faster we must be, and aim to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.report import Goal

START: Final = "start of a query"
"""The row whose goal is a time, whatever the other connector takes."""


LOG_DIRS: Final = "read log directories"
"""All columns, from the files of a broker; only this connector has it."""
OF_THEIR_BROKER: Final = "read through the broker of the directories"
"""What it is compared with; measured with it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One job.

    Attributes:
        name: what to call it.
        goal: of our rate divided by theirs, or of our time divided by theirs; with a unit of time, of our time.
        against: which connector we are held against.
    """

    name: str
    goal: Goal
    against: str = "spark-sql-kafka-0-10"


ROWS: Final = {
    row.name: row
    for row in (
        Row("read, all columns", Goal(2.2, 3)),
        Row(LOG_DIRS, Goal(1.3, 2), against="kafkaraw, through the broker"),
        Row("read, value only", Goal(4, 6)),
        Row("read to Parquet", Goal(1.5, 2)),
        Row("copy key and value", Goal(1.5, 2.5)),
        Row("stream, available now", Goal(1.5, 2.5)),
        Row("trickle, 4 partitions", Goal(0.45, 0.3, less_is_better=True)),
        Row("trickle, 32 partitions", Goal(0.45, 0.25, less_is_better=True)),
        Row(START, Goal(1.6, 1.2, less_is_better=True, unit=" s")),
        Row("copy, exactly once", Goal(0.8, 0.9), against="kafkaraw at least once"),
    )
}
TRICKLES: Final = {"trickle, 4 partitions": 4, "trickle, 32 partitions": 32}
"""Rows whose topic is written to while they run -> its partitions."""
EXACTLY_ONCE: Final = "copy, exactly once"
