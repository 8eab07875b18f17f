"""The table of the send path: what is compared, in which number, and by which factor it must and should be better.

A row compares one way to send with our client with one or more ways with others, of which the best counts. Each is
a name in `WORKS` of `ours.py` or `others.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from bench.report import Goal


class Judged(Enum):
    """By which number of a measurement a row is judged."""

    RATE = "records/s"
    CPU = "CPU µs per record"
    LATENCY = "p50 µs"
    IDLE = "% of a core"
    MEMORY = "MB above buffer_memory's 32"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        ours: what our client does.
        others: what it is held against; the best of them.
        goal: of the factor; for LATENCY of how many times their time it takes; without `others` of the number.
        share: of the run's records, because some clients take long and large records are many bytes.
        settings: what differs from the run's settings, by name in `bench.settings.Settings`.
        plain_python: whether our client runs without the compiled modules.
    """

    name: str
    ours: str
    others: tuple[str, ...]
    judged: Judged
    goal: Goal
    share: float = 1.0
    settings: Mapping[str, object] = field(default_factory=dict)
    plain_python: bool = False


LZ4 = {"compression": "lz4"}
KB_1 = {"value_bytes": 1000}
KB_10 = {"value_bytes": 10_000}

ROWS = {
    row.name: row
    for row in (
        Row("send", "send", ("produce",), Judged.RATE, Goal(4, 6)),
        Row("send, lz4", "send", ("produce",), Judged.RATE, Goal(2.5, 3.5), settings=LZ4),
        Row("send keyed", "send-keyed", ("produce-keyed",), Judged.RATE, Goal(4, 6)),
        Row("tickets", "tickets", ("on-delivery",), Judged.RATE, Goal(6, 9)),
        Row("tickets, lz4", "tickets", ("on-delivery",), Judged.RATE, Goal(4, 6), settings=LZ4),
        Row("send, 1 KB", "send", ("produce",), Judged.CPU, Goal(2, 3), 0.2, KB_1),
        Row("send, 10 KB", "send", ("produce",), Judged.CPU, Goal(1, 1.5), 0.02, KB_10),
        Row("send_arrow", "arrow", ("produce",), Judged.RATE, Goal(8, 12)),
        Row("send_arrow, lz4", "arrow", ("produce",), Judged.RATE, Goal(4, 5), settings=LZ4),
        Row("send_arrow keyed", "arrow-keyed", ("produce-keyed",), Judged.RATE, Goal(8, 12)),
        Row("send_arrow, 1 KB", "arrow", ("produce",), Judged.CPU, Goal(3, 4), 0.2, KB_1),
        Row("send_arrow, 10 KB", "arrow", ("produce",), Judged.CPU, Goal(1, 1.5), 0.02, KB_10),
        Row("await send", "async-send", ("aio-producer", "aiokafka"), Judged.RATE, Goal(10, 20), 0.05),
        Row("plain Python", "send", ("produce",), Judged.RATE, Goal(0.7, 1), 0.2, plain_python=True),
        Row(
            "one send and flush",
            "flush-each",
            ("their-flush-each",),
            Judged.LATENCY,
            Goal(2, 1.5, less_is_better=True),
            0.002,
        ),
        Row(
            "one send and flush, async",
            "async-flush-each",
            ("their-flush-each",),
            Judged.LATENCY,
            Goal(1.2, 1.1, less_is_better=True),
            0.002,
        ),
        Row("idle", "idle", (), Judged.IDLE, Goal(0.5, 0.1, less_is_better=True, unit="%"), 0.0),
        Row(
            "dead broker, endless sends",
            "endless",
            (),
            Judged.MEMORY,
            Goal(16, 4, less_is_better=True, unit=" MB"),
            0.0,
        ),
    )
}
