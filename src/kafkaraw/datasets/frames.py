"""Data sets as lazy frames of Polars.

`polars.scan_pyarrow_dataset` trusts PyArrow with its filters, and PyArrow has other results for null and NaN: `~is_in`
is true for null, and NaN is not larger than a number. Here PyArrow's form of a filter only chooses offsets, and Polars
applies the filter to their records. Must not read anything. Start at `lazy_frame`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    import polars
    import pyarrow.compute as pc

    from kafkaraw.datasets.dataset import KafkaDataset


def lazy_frame(data: KafkaDataset) -> polars.LazyFrame:
    """Return the records of a data set as a lazy frame.

    Raises:
        UsageError: Polars is not installed.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError:
        raise UsageError("to_polars: Polars is not installed: pip install polars") from None

    def read(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        names = list(data.schema.names) if with_columns is None else with_columns
        needed = names if predicate is None else [*dict.fromkeys([*names, *predicate.meta.root_names()])]
        left = n_rows
        filter = None if predicate is None else _arrow_filter(data.schema, predicate)
        for batch in (data if filter is None else data.narrowed(filter)).to_batches(needed):
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(names)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return

    schema = pl.DataFrame(data.schema.empty_table()).schema
    return register_io_source(read, schema=schema)


def _arrow_filter(schema: pa.Schema, predicate: polars.Expr) -> pc.Expression | None:
    """Return the filter of PyArrow that Polars makes of a predicate, as far as offsets concern; None for none."""
    import polars as pl

    asked = _Asked(schema)
    try:
        pl.scan_pyarrow_dataset(asked).filter(predicate).collect()
    except pa.ArrowException:  # of types that PyArrow does not compare; Polars may
        return None
    return asked.filter


class _Asked(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A data set without rows, which keeps the filter that its reader hands over."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.filter: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: object) -> ds.Scanner:
        self.filter = filter
        return ds.Scanner.from_batches(
            pa.RecordBatchReader.from_batches(self._schema, []), columns=columns, filter=filter
        )
