"""Records of ranges as Arrow batches: fetched batches in, columns of a chosen schema out.

A schema is a selection of Kafka's columns: only those are decoded. Must not fetch anything. Start at `RowCollector` and
`BatchAssembler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkaraw.records import ARROW_DATA_BYTES, Batch, Columns

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE: Final = ("topic", "partition")

# Column -> its name in kafkaraw.records.Columns, for those that differ from record to record.
_DECODED = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp_type": "timestamp_type",
    "timestampType": "timestamp_type",  # its name in Spark
    "headers": "headers",
}

# If a constant column is too short, a new one is built with at least this many rows.
_CONSTANT_ROWS_MIN = 16_384


# Large enough for the cost per batch not to matter, small enough to keep both sides busy and memory low.
_ROWS_PER_BATCH: Final = 10_000
_ROWS_PER_BATCH_MAX: Final = 20_000


Counts: TypeAlias = Sequence[tuple[str, int, int]]
"""Topic, partition and number of rows of each stretch of rows that come from one partition."""


class Typing(Protocol):
    """Decodes columns with schemas; see `typed_columns.TypedColumns`."""

    @property
    def wanted(self) -> frozenset[str]:
        """Columns of `kafkaraw.records.Columns` that it needs."""
        ...

    def decode(self, raw: Mapping[str, pa.Array], counts: Counts) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns with those that are typed, and the rows that are left out."""
        ...


def decoded_columns(schema: pa.Schema) -> frozenset[str]:
    """Return which columns must be decoded for the schema, by the names of `kafkaraw.records.Columns`."""
    return frozenset(_DECODED[name] for name in schema.names if name in _DECODED)


class BatchAssembler:
    """Makes Arrow batches of decoded columns; topic and partition of a single partition are built once and shared.

    Args:
        schema: the schema that Spark expects.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._constants: dict[str, tuple[str | int, pa.Array]] = {}

    def assemble(self, decoded: Mapping[str, pa.Array], counts: Counts) -> pa.RecordBatch:
        """Return a batch.

        Args:
            decoded: the result of `Columns.to_arrow_arrays`.
            counts: where the rows come from.
        """
        import pyarrow as pa

        arrays = [
            self._place(column, counts)
            if column.name in _PLACE
            else _typed(decoded[_DECODED.get(column.name, column.name)], column)
            for column in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _place(self, column: pa.Field, counts: Counts) -> pa.Array:
        import pyarrow as pa

        index = _PLACE.index(column.name)
        if len(counts) == 1:
            return self._constant(column, counts[0][index], counts[0][2])
        values = chain.from_iterable(repeat(each[index], each[2]) for each in counts)
        return pa.array(values, column.type, size=sum(rows for _, _, rows in counts))

    def _constant(self, column: pa.Field, value: str | int, rows: int) -> pa.Array:
        import pyarrow as pa

        known, built = self._constants.get(column.name, (None, None))
        if built is None or known != value or len(built) < rows:
            length = max(rows, _CONSTANT_ROWS_MIN) if known == value else rows
            built = pa.repeat(pa.scalar(value, column.type), length)
            self._constants[column.name] = value, built
        return built.slice(0, rows)


class RowCollector:
    """Decodes records into Arrow batches of about 10,000 rows, which may be of several partitions.

    Args:
        schema: the schema that Spark expects.
        typing: decodes columns with schemas; None if all are bytes.
        data_max_bytes: of keys, values and headers in a batch, unless a single batch of the producer has more.

    Attributes:
        position: offset from which on `add` decodes at the moment; after an error, that of the batch that raised it.
    """

    def __init__(self, schema: pa.Schema, typing: Typing | None = None, data_max_bytes: int = ARROW_DATA_BYTES) -> None:
        self._data_max_bytes = data_max_bytes
        self._wanted = decoded_columns(schema) | (typing.wanted if typing is not None else frozenset())
        self._columns: Columns | None = None
        self._typing = typing
        self._assembler = BatchAssembler(schema)
        self._rows = 0
        self._counts: list[tuple[str, int, int]] = []  # see `Counts`
        self.position: int = 0

    def add(self, batch: Batch, end_offset: int) -> Iterator[pa.RecordBatch]:
        """Decode records before an offset; yield the Arrow batches that are full.

        Raises:
            CorruptBatchError: damaged data.
            BatchTooLargeError: a wire batch is too large when decompressed.
        """
        if self._columns is None:
            self._columns = Columns(self._wanted, _ROWS_PER_BATCH)
        columns = self._columns
        left: Batch | None = batch
        while left is not None:
            self.position = left.start_offset
            before, room = self._rows, self._data_max_bytes - columns.data_size_bytes
            self._rows, left = left.fill(columns, before, "us", end_offset=end_offset, data_max_bytes=room)
            if self._rows > before:
                self._counts.append((batch.topic, batch.partition, self._rows - before))
            if left is not None or self._rows >= _ROWS_PER_BATCH or columns.data_size_bytes >= self._data_max_bytes:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left."""
        if self._rows:
            whole = self._assembled()
            self._rows, self._counts = 0, []
            # A Fetch of small, well compressed records may hold very many.
            for start in range(0, whole.num_rows, _ROWS_PER_BATCH_MAX):
                yield whole.slice(start, _ROWS_PER_BATCH_MAX)

    def _assembled(self) -> pa.RecordBatch:
        assert self._columns is not None
        arrays: Mapping[str, pa.Array] = self._columns.to_arrow_arrays(self._rows)
        counts = _joined(self._counts)
        left_out: list[int] = []
        if self._typing is not None:
            arrays, left_out = self._typing.decode(arrays, counts)
        whole = self._assembler.assemble(arrays, counts)
        return _without(whole, left_out) if left_out else whole


def _joined(counts: Counts) -> list[tuple[str, int, int]]:
    """Join neighbouring stretches of the same partition."""
    joined: list[tuple[str, int, int]] = []
    for topic, partition, rows in counts:
        if joined and joined[-1][:2] == (topic, partition):
            joined[-1] = (topic, partition, joined[-1][2] + rows)
        else:
            joined.append((topic, partition, rows))
    return joined


def _without(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    left_out = set(rows)
    return batch.filter(pa.array(row not in left_out for row in range(batch.num_rows)))


def _typed(array: pa.Array, column: pa.Field) -> pa.Array:
    import pyarrow as pa

    if array.type == column.type:
        return array
    return _as_map(array, column.type) if pa.types.is_map(column.type) else array.cast(column.type)


def _as_map(lists: pa.ListArray, kind: pa.MapType) -> pa.MapArray:
    """Return the headers of each row by name. If a name repeats, the last one is used, as by Java's `lastHeader`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, headers = pc.list_parent_indices(lists), lists.flatten()
    counts = pc.fill_null(lists.value_lengths(), 0).to_pylist()
    numbered = pa.table([rows, headers.field(0), pa.array(range(len(rows)))], names=["row", "name", "number"])
    last = numbered.group_by(["row", "name"]).aggregate([("number", "max")])["number_max"]
    if len(last) < len(rows):
        kept = last.take(pc.sort_indices(last)).combine_chunks()
        headers = headers.take(kept)
        kept_of = Counter(rows.take(kept).to_pylist())
        counts = [kept_of[row] for row in range(len(lists))]
    starts = pa.array(accumulate(counts, initial=0), pa.int32())
    pairs = pa.StructArray.from_arrays([headers.field(0), headers.field(1)], fields=[kind.key_field, kind.item_field])
    validity = None if lists.null_count == 0 else lists.is_valid().buffers()[1]
    return pa.Array.from_buffers(kind, len(lists), [validity, starts.buffers()[1]], children=[pairs])
