"""`TopicScanner`: what `KafkaDataset.scanner` returns, in place of a scanner of PyArrow.

PyArrow's scanner keeps up to 1 GiB of batches for a reader that is slower than the scan, and has no setting for less.
This one reads ahead what `scan.py` allows. The threads of the scan apply filter and projection, with PyArrow's own
code. Must not decide what to read. Start at `TopicScanner.to_batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from kafkaraw.datasets.scan import Scan, scanned

if TYPE_CHECKING:
    import pyarrow.compute as pc

Columns = Sequence[str] | Mapping[str, "pc.Expression"] | None


class TopicScanner:
    """A scan with a filter and a projection. Each call of a method that returns records reads them again.

    DuckDB and PyArrow take it where they take a `pyarrow.dataset.Scanner`: as a stream of Arrow.

    Args:
        scan: what is read.
        columns: names, or expressions by the name of the result; None is all columns.
        filter: over the columns of the scan.
        read: reads a scan.
    """

    def __init__(
        self,
        scan: Scan,
        columns: Columns,
        filter: pc.Expression | None,
        read: Callable[[Scan], Generator[pa.RecordBatch]] = scanned,
    ) -> None:
        self._columns = dict(columns) if isinstance(columns, Mapping) else None if columns is None else list(columns)
        self._filter = filter
        self._read = read
        is_plain = filter is None and (self._columns is None or self._columns == scan.schema.names)
        self._scan: Scan = scan if is_plain else replace(scan, finish=self._finished)
        self.dataset_schema: pa.Schema = scan.schema
        """The columns that are read."""
        self.projected_schema: pa.Schema = self._applied(scan.schema.empty_table()).projected_schema
        """The columns that are returned."""

    def to_batches(self) -> Generator[pa.RecordBatch]:
        """Return the records while they come; closing the iterator ends the scan."""
        return self._read(self._scan)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the records as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the records as a stream of Arrow's C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return the records."""
        return pa.Table.from_batches(self.to_batches(), schema=self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first `num_rows` records; the scan threads stop when these have been read."""
        found: list[pa.RecordBatch] = []
        left = num_rows
        with closing(self.to_batches()) as batches:
            while left > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, schema=self.projected_schema)

    def take(self, indices: pa.Array | Sequence[int]) -> pa.Table:
        """Return the records at some places of the scan."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return the number of records."""
        return sum(batch.num_rows for batch in self.to_batches())

    def _finished(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return what filter and projection leave of a batch."""
        return (each for each in self._applied(batch).to_batches() if each.num_rows)

    def _applied(self, records: pa.RecordBatch | pa.Table) -> ds.Scanner:
        # Without threads of PyArrow's: several batches are worked on at a time.
        return ds.InMemoryDataset(records, schema=records.schema).scanner(
            columns=self._columns, filter=self._filter, use_threads=False
        )
