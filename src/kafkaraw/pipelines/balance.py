"""Whether what a pipeline has counted adds up: records in = rows out + dropped + dead letters + left out by functions.

A flow counts while it runs (`judging.py`, and the writers of its target); here the counts are compared, which were made
in different places: rows that were judged with rows that were written, and bad rows that a flow has found with dead
letters that another query has written. Must not count anything itself, nor import `running`. Start at `balance_of`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.dead_letters.flows import NAME_PREFIX
from kafkaraw.pipelines.judging import DatasetCounts, counts, counts_by_path

WRITTEN: Final = "kafkaraw.written"
"""The observation that counts the rows that go into a flow's target."""
ROWS: Final = "rows"
_NUMBERS: Final = (
    *("records", "rows_out", "dropped", "dead_letters", "left_out"),
    *("missing_rows", "missing_letters"),
)
_FILE: Final = "counts.parquet"


class FlowNumbers(Protocol):
    """What is known of a flow."""

    @property
    def flow(self) -> str:
        """Its name."""

    @property
    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """What it has counted since its first run or full refresh, by observation."""

    @property
    def positions(self) -> Mapping[tuple[str, str], int]:
        """Offsets of the next records that it reads, by topic and partition; empty if it has read nothing yet."""


@dataclass(frozen=True, slots=True)
class FlowBalance:
    """The records and rows of one flow that reads topics, since its first run or full refresh.

    Args:
        flow: its name.
        records: that it has read from topics, replayed ones among them.
        rows_out: that have gone to its target.
        dropped: by expectations.
        dead_letters: records and rows that became dead letters in the flow or the views that it reads.
        left_out: by the functions themselves: filters, tombstones, joins, aggregations. Negative if they add rows.
        missing_rows: rows that have passed the expectations of the flow and were not written: 0, unless rows are lost;
            negative if rows were written twice.
        missing_letters: dead letters that the flow has found and that were not written: 0, unless some are lost. Not
            compared as long as the query that writes them is behind the flow.
    """

    flow: str
    records: int
    rows_out: int
    dropped: int
    dead_letters: int
    left_out: int
    missing_rows: int
    missing_letters: int

    @property
    def is_balanced(self) -> bool:
        """Whether nothing is missing, and nothing is there twice."""
        return self.missing_rows == 0 and self.missing_letters == 0

    @property
    def shown(self) -> str:
        """The counts as one line, marked if they do not add up."""
        return str(self) if self.is_balanced else f"NOT BALANCED: {self}"

    def as_json(self) -> dict[str, object]:
        """Return the values for JSON."""
        return {name: getattr(self, name) for name in ("flow", *_NUMBERS)}

    def __str__(self) -> str:
        text = (
            f"{self.flow}: {self.records:,} records = {self.rows_out:,} rows out + {self.dropped:,} dropped + "
            f"{self.dead_letters:,} dead letters + {self.left_out:,} left out by functions"
        )
        if self.missing_rows > 0:
            text += f"; {self.missing_rows:,} judged rows are not written"
        elif self.missing_rows:
            text += f"; {-self.missing_rows:,} rows more are written than were judged"
        return text + (f"; {self.missing_letters:,} dead letters are not written" if self.missing_letters else "")


def imbalance_text(balance: FlowBalance) -> str:
    """Return the error of a flow whose counts do not add up, with what to do."""
    remedy = (
        f"Compute its table again with --full-refresh, or read the records again with `kafkaraw pipelines checkpoint "
        f"rewind {balance.flow}`"
    )
    if not balance.missing_rows:
        remedy = (
            f"Read the records again with `kafkaraw pipelines checkpoint rewind {NAME_PREFIX}NAME --to earliest`; "
            "NAME is the view or flow whose dead letters are missing"
        )
    return f"the counts of a flow do not add up: {balance}. {remedy}"


def balance_of(flows: Iterable[FlowNumbers]) -> tuple[FlowBalance, ...]:
    """Return the balance of each flow that has read topics.

    Args:
        flows: all of a run, those that write dead letters among them.
    """
    known = {each.flow: each for each in flows}
    writers = {name.removeprefix(NAME_PREFIX): each for name, each in known.items() if name.startswith(NAME_PREFIX)}
    found = []
    for name, flow in known.items():
        by_dataset = counts(flow.totals)
        if not name.startswith(NAME_PREFIX) and any(each.records for each in by_dataset.values()):
            found.append(_balance(flow, by_dataset, writers))
    return tuple(found)


def _balance(
    flow: FlowNumbers, by_dataset: Mapping[str, DatasetCounts], writers: Mapping[str, FlowNumbers]
) -> FlowBalance:
    total = sum(by_dataset.values(), DatasetCounts())
    rows_out = _written(flow)
    own = by_dataset.get(flow.flow, DatasetCounts())
    is_judged = any(name.startswith("expectations.") for name in flow.totals) and own.rows > 0
    missing_letters = 0
    for name, found in _found_letters(flow).items():
        writer = writers.get(name)
        if writer is not None and not _is_behind(writer, flow):
            missing_letters += max(found - _written(writer), 0)
    return FlowBalance(
        flow.flow,
        total.records,
        rows_out,
        total.dropped,
        total.dead_letters,
        total.records - rows_out - total.dropped - total.dead_letters,
        own.rows - own.dropped - own.quarantined - rows_out if is_judged else 0,
        missing_letters,
    )


def _found_letters(flow: FlowNumbers) -> dict[str, int]:
    """Return how many dead letters a flow has found, by dataset; once if it has read a view on several paths."""
    found = dict[str, int]()
    for path, each in counts_by_path(flow.totals).items():
        dataset = path.rpartition("/")[2]
        found[dataset] = max(each.dead_letters, found.get(dataset, 0))
    return found


def _written(flow: FlowNumbers) -> int:
    return flow.totals.get(WRITTEN, {}).get(ROWS, 0)


def _is_behind(writer: FlowNumbers, flow: FlowNumbers) -> bool:
    """Return whether a query that writes dead letters may not have read all that a flow has read."""
    return any(writer.positions.get(place, -1) < position for place, position in flow.positions.items())


class CountsTable:
    """The counts of expectations as a Parquet file, for any tool that reads such files.

    Columns: flow, dataset (view or flow with the expectation), expectation, action, rows (that were judged), unmet.

    Args:
        folder: of the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: list[dict[str, object]] | None = None

    def write(self, flows: Iterable[FlowNumbers]) -> None:
        """Replace the file, if something was counted since the last call."""
        rows = [row for flow in flows for row in rows_of(flow)]
        if rows == self._kept or (not rows and self._kept is None):
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = [pa.field(name, pa.string()) for name in ("flow", "dataset", "expectation", "action")]
        schema = pa.schema([*texts, pa.field("rows", pa.int64()), pa.field("unmet", pa.int64())])
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{_FILE}.{os.getpid()}"
        pq.write_table(pa.Table.from_pylist(rows, schema), part)
        part.replace(self._folder / _FILE)
        self._kept = rows


def rows_of(flow: FlowNumbers) -> list[dict[str, object]]:
    """Return the counts of a flow's expectations as rows of `CountsTable`."""
    return [
        {
            "flow": flow.flow,
            "dataset": dataset,
            "expectation": name,
            "action": counted.actions[name],
            "rows": counted.rows,
            "unmet": unmet,
        }
        for dataset, counted in counts(flow.totals).items()
        for name, unmet in counted.unmet.items()
    ]
