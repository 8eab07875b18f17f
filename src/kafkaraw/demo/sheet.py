"""The balance sheet of the flights demo: do the outputs add up to the inputs? Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One equation of the sheet."""

    left_name: str
    left: int
    right_name: str
    right: int

    @property
    def balanced(self) -> bool:
        """Whether both sides are the same."""
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class BalanceSheet:
    """The counts of one run.

    Attributes:
        sent: records that the replay sent to the flights topic.
        malformed_sent: those of them that it broke on purpose.
        records_in: records that the flights topic holds, read back.
        malformed_in: those of them that are marked as malformed.
        parquet_rows: rows in the table of departures, read back from its Parquet files.
        dead_letters: records in the dead letter topic, read back.
        malformed_dead: those of them that are marked as malformed.
        flights_by_hour: the sum of flights over the last record of each key in delays-by-hour, read back.
    """

    sent: int
    malformed_sent: int
    records_in: int
    malformed_in: int
    parquet_rows: int
    dead_letters: int
    malformed_dead: int
    flights_by_hour: int

    def lines(self) -> list[Line]:
        """The equations that must hold."""
        accounted = self.parquet_rows + self.dead_letters
        return [
            Line("records sent", self.sent, "records in topic flights", self.records_in),
            Line("records in topic flights", self.records_in, "rows in Parquet + dead letters", accounted),
            Line("flights counted by hour", self.flights_by_hour, "rows in Parquet", self.parquet_rows),
            Line("malformed records sent", self.malformed_sent, "marked in topic flights", self.malformed_in),
            Line("malformed records sent", self.malformed_sent, "dead letters", self.dead_letters),
            Line("dead letters", self.dead_letters, "dead letters marked malformed", self.malformed_dead),
        ]

    @property
    def balanced(self) -> bool:
        """Whether every equation holds."""
        return all(line.balanced for line in self.lines())
