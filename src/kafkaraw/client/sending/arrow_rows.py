"""Arrow tables as rows to send: which columns there may be, where their buffers lie, and one ticket for all rows.

Types that hold the same bytes in another layout (views, dictionaries, fixed sizes) are cast to the plain one, with one
copy; binary and string columns are not copied. `ArrowSending` does what needs no waiting, so that both faces run it on
the caller's thread, and each waits in its own way in between. pyarrow is imported only when called. Start at `rows_of`
and `ArrowSending`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.client.arguments import topic_of
from kafkaraw.client.settings import unknown_name
from kafkaraw.errors import RecordTooLargeError, UsageError, copy_to_raise
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import (
    UNSOUND,
    AppendStatus,
    BadRow,
    BatchPromise,
    BytesColumn,
    Fault,
    HeadersColumn,
    NumbersColumn,
    OpenBatches,
    RowColumns,
    Rows,
    SentPart,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.client.sending.waiting import PromiseWaiter

COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition", "topic")

_BYTES: Final = "binary or string (large, view, fixed-size, or a dictionary of them)"
_EXPECTED: Final[Mapping[str, str]] = {
    "key": f"{_BYTES}; serialize what is something else",
    "value": f"{_BYTES}; serialize what is something else",
    "headers": "list<struct<key: string, value: binary>> or map<string, binary>",
    "timestamp": "timestamp of any unit, or integers: milliseconds since 1970 UTC",
    "partition": "integers",
    "topic": "string, or a dictionary of strings",
}


def rows_of(data: object, topic: str | None) -> Iterator[RowColumns]:
    """Return the rows of Arrow data, by record batch.

    Args:
        data: a `pyarrow.Table` or `RecordBatch`, or an object with the Arrow PyCapsule interface.
        topic: where all of them go; None when there is a column `topic`.

    Raises:
        UsageError: no Arrow data; a column that is missing, unknown, or of another type.
    """
    table = _table_of(data)
    _check_names(table.column_names, topic)
    columns = {name: _plain(name, table.column(name)) for name in table.column_names}
    import pyarrow as pa

    plain = pa.table({name: column for name, column in columns.items() if not pa.types.is_null(column.type)})
    if not plain.num_columns:  # columns of nulls only, of which a table would forget the length
        return iter([RowColumns(table.num_rows, (topic,))] if table.num_rows and topic is not None else [])
    return (_rows_of_batch(batch, topic) for batch in plain.to_batches() if batch.num_rows)


def _table_of(data: object) -> pa.Table:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return pa.table(data)
    raise UsageError(
        f"send_arrow takes a pyarrow.Table or RecordBatch, or what has __arrow_c_stream__, not {type(data).__name__}"
    )


def _check_names(names: list[str], topic: str | None) -> None:
    for name in names:
        if name not in COLUMNS:
            raise UsageError(f"{unknown_name(name, COLUMNS, {}, 'column')}; columns to send are {', '.join(COLUMNS)}")
        if names.count(name) > 1:
            raise UsageError(f"there are {names.count(name)} columns {name!r}")
    if "key" not in names and "value" not in names:
        raise UsageError(f"there is neither a column 'value' nor 'key', only {', '.join(map(repr, names)) or 'none'}")
    if topic is None and "topic" not in names:
        raise UsageError("give a topic, or a column 'topic'")
    if topic is not None and "topic" in names:
        raise UsageError(f"topic={topic!r} and a column 'topic': give one of them")


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast a column to the layout that `records` reads: bytes, int64, dictionary of strings, or lists of headers."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute

        column = pyarrow.compute.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type) and name != "topic":
        return column
    try:
        made = _MAKERS[name](column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(f"column {name!r} of type {column.type}: {error}") from error
    if made is None:
        raise UsageError(f"column {name!r} has type {column.type}; expected: {_EXPECTED[name]}")
    return made


def _bytes_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa

    kinds = pa.types
    kind = column.type
    if kinds.is_binary(kind) or kinds.is_string(kind) or kinds.is_large_binary(kind) or kinds.is_large_string(kind):
        return column
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return column.cast(pa.large_string() if kinds.is_string_view(kind) else pa.large_binary())
    return None


def _timestamps_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        import pyarrow.compute as pc

        milliseconds = pa.timestamp("ms", column.type.tz)
        plain = column.cast(milliseconds, safe=False).cast(pa.int64())
        if (pc.min(plain).as_py() or 0) > 0:
            return plain
        # Before 1970, casting would round up: towards 0.
        return pc.floor_temporal(column, unit="millisecond").cast(milliseconds, safe=False).cast(pa.int64())
    return _integers_plain(column)


def _integers_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa

    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else None


def _topics_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        if not pa.types.is_string_view(column.type):
            return None
        column = column.cast(pa.large_string())
    if column.null_count:
        raise UsageError(f"column 'topic': row {column.is_null().index(True).as_py()} is null; every row needs a topic")
    return column.dictionary_encode()


def _headers_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Accept lists of structs, and maps, of names and values in plain layout; the order of the fields is free."""
    import pyarrow as pa

    kinds = pa.types
    kind = column.type
    if kinds.is_map(kind):
        names, values = kind.key_type, kind.item_type
    elif (kinds.is_list(kind) or kinds.is_large_list(kind)) and kinds.is_struct(kind.value_type):
        fields = {field.name: field.type for field in kind.value_type}
        if fields.keys() != {"key", "value"}:
            return None
        names, values = fields["key"], fields["value"]
    else:
        return None
    text = kinds.is_string(names) or kinds.is_large_string(names)
    if not text or not (kinds.is_null(values) or _is_plain(values)):
        return None
    return column


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    kinds = pa.types
    return bool(
        kinds.is_binary(kind) or kinds.is_string(kind) or kinds.is_large_binary(kind) or kinds.is_large_string(kind)
    )


_MAKERS: Final[Mapping[str, Callable[[pa.ChunkedArray], pa.ChunkedArray | None]]] = {
    "key": _bytes_plain,
    "value": _bytes_plain,
    "headers": _headers_plain,
    "timestamp": _timestamps_plain,
    "partition": _integers_plain,
    "topic": _topics_plain,
}


# -- from arrays to buffers


def _rows_of_batch(batch: pa.RecordBatch, topic: str | None) -> RowColumns:
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    topics = arrays.pop("topic", None)
    key, value, headers = arrays.get("key"), arrays.get("value"), arrays.get("headers")
    timestamp, partition = arrays.get("timestamp"), arrays.get("partition")
    names: tuple[str, ...] = (topic or "",) if topics is None else tuple(topics.dictionary.to_pylist())
    return RowColumns(
        batch.num_rows,
        names,
        topic=None if topics is None else _numbers_column(topics.indices.cast("int64")),
        key=None if key is None else _bytes_column(key),
        value=None if value is None else _bytes_column(value),
        headers=None if headers is None else _headers_column(headers),
        timestamp=None if timestamp is None else _numbers_column(timestamp),
        partition=None if partition is None else _numbers_column(partition),
    )


def _view(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")


def _bytes_column(array: pa.Array) -> BytesColumn:
    import pyarrow as pa

    if pa.types.is_null(array.type):
        array = array.cast(pa.binary())
    validity, ends, data = array.buffers()
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    nulls = _view(validity) if array.null_count else None
    return BytesColumn(array.offset, nulls, _view(ends) or _NO_ENDS, wide, _view(data) or memoryview(b""))


_NO_ENDS: Final = memoryview(bytes(8))
"""Of an array without rows: Arrow allows that it has no buffer."""


def _numbers_column(array: pa.Array) -> NumbersColumn:
    validity, numbers = array.buffers()
    return NumbersColumn(array.offset, _view(validity) if array.null_count else None, _view(numbers) or memoryview(b""))


def _headers_column(array: pa.Array) -> HeadersColumn:
    import pyarrow as pa

    validity, ends = array.buffers()[:2]
    if pa.types.is_map(array.type):
        names, values = array.keys, array.items
    else:
        structs = array.values
        if structs.null_count:
            raise UsageError("column 'headers': a header is null; give it a key, and null as its value")
        names, values = structs.field("key"), structs.field("value")
    if names.null_count:
        raise UsageError("column 'headers': a header's key is null; it must be text")
    return HeadersColumn(
        array.offset,
        _view(validity) if array.null_count else None,
        _view(ends) or _NO_ENDS,
        pa.types.is_large_list(array.type),
        _bytes_column(names),
        _bytes_column(values),
    )


# -- sending them


class SentRows(NamedTuple):
    """Rows that were written together: to one partition, one after the other.

    Attributes:
        topic: where they are.
        partition: where they are.
        offset: of the first of them; -1 when the broker did not say (acks=0).
        rows_count: how many they are.
        first_row: which row the first of them is; the others follow it in the data, but maybe not at once. -1 for what
            follows where a batch was split because it was too large.
    """

    topic: str
    partition: int
    offset: int
    rows_count: int
    first_row: int


class ArrowTicket:
    """The outcome of rows that were sent together; as `Ticket`, for all of them.

    Attributes:
        rows_count: how many rows were sent.
    """

    __slots__ = ("_parts", "_promises", "_waiter", "rows_count")

    def __init__(self, waiter: PromiseWaiter) -> None:
        self.rows_count: int = 0
        self._waiter = waiter
        self._parts: list[SentPart] = []
        self._promises: dict[BatchPromise, int] = {}  # to its last part

    def add(self, parts: Sequence[SentPart], first_row: int) -> None:
        """Add rows that are in open batches; for `ArrowSending`."""
        for promise, first_index, rows_count, row in parts:
            self.rows_count += rows_count
            at = self._promises.get(promise)
            before = None if at is None else self._parts[at]
            if at is not None and before is not None and before.first_index + before.rows_count == first_index:
                self._parts[at] = SentPart(
                    promise, before.first_index, before.rows_count + rows_count, before.first_row
                )
            else:
                self._promises[promise] = len(self._parts)
                self._parts.append(SentPart(promise, first_index, rows_count, first_row + row))

    @property
    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(promise.done for promise in self._promises)

    def result(self, timeout: float | None = None) -> list[SentRows]:
        """Wait for the outcome of every row.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout decides.

        Returns:
            the offsets of the rows, in the order in which they were sent.

        Raises:
            KafkaTimeoutError: some rows have no outcome yet; they may still be delivered.
            KafkaError: some rows failed; `written()` has the others.
        """
        self._waiter.wait_all([promise for promise in self._promises if not promise.done], timeout)
        return self._outcome()

    def written(self) -> list[SentRows]:
        """Return the offsets of the rows that the broker has acknowledged so far."""
        return [where for part in self._parts for where in _where(part)]

    def exception(self) -> BaseException | None:
        """Return the error of the first rows that failed, a copy for each call; None if none have failed so far."""
        first: BaseException | None = None
        for promise in self._promises:
            if promise.error is not None:
                first = first or promise.error
        if first is None:
            return None
        for part in self._parts:
            for promise, index, count in part.promise.pieces_of(part.first_index, part.rows_count):
                if promise.error is not None:
                    promise.note_seen(range(index, index + count))
        return copy_to_raise(first)

    def add_done_callback(self, callback: Callable[[ArrowTicket], None]) -> None:
        """Call `callback(ticket)` once the outcome of every row is known; at once when it is."""

        def tell() -> None:
            self.exception()  # the caller knows it now: `flush` need not report it
            callback(self)

        self._waiter.call_after_all(list(self._promises), tell)

    def __await__(self) -> Generator[object, object, list[SentRows]]:
        for promise in self._promises:
            if not promise.done:
                yield from self._waiter.awaitable(promise).__await__()
        return self._outcome()

    def _outcome(self) -> list[SentRows]:
        error = self.exception()
        if error is not None:
            raise error
        return self.written()

    def __repr__(self) -> str:
        state = "done" if self.done else "pending"
        return f"ArrowTicket({self.rows_count} rows in {len(self._promises)} batches, {state})"


def _where(part: SentPart) -> Iterator[SentRows]:
    """Yield the offsets of the rows of a part that are written; in pieces, if its batch was split."""
    row = part.first_row
    for promise, index, count in part.promise.pieces_of(part.first_index, part.rows_count):
        if promise.done and promise.error is None:
            offset = promise.base_offset + index if promise.base_offset >= 0 else -1
            yield SentRows(promise.topic, promise.partition, offset, count, row)
        row = -1


class ArrowSending:
    """One call of `send_arrow`.

    Args:
        data: Arrow data; see `rows_of`.
        topic: where it goes; None when there is a column `topic`.
        open_batches: take the rows.
        waiter: how the ticket waits.

    Attributes:
        ticket: for all rows.
        topics: every topic that is named.

    Raises:
        UsageError: see `rows_of`.
    """

    def __init__(self, data: object, topic: str | None, open_batches: OpenBatches, waiter: PromiseWaiter) -> None:
        self.ticket: ArrowTicket = ArrowTicket(waiter)
        self._open = open_batches
        if topic is not None:
            topic_of(topic, "send_arrow")
        self._columns = list(rows_of(data, topic))
        self._rows = [Rows(columns) for columns in self._columns]
        self.topics: list[str] = list(dict.fromkeys(name for columns in self._columns for name in columns.topics))
        self._at = 0
        self._row = 0
        self._first_row = 0

    def check(self, partition_counts: dict[str, int], size_max: int) -> None:
        """Refuse all rows if one of them cannot be sent.

        Args:
            partition_counts: by topic.
            size_max: the most bytes of one record.

        Raises:
            RecordTooLargeError: a row is larger than `size_max`.
            UsageError: a row has a partition that its topic does not have, or a time before 1970.
        """
        first_row = 0
        for columns, rows in zip(self._columns, self._rows, strict=True):
            bad = rows.check([partition_counts[name] for name in columns.topics], size_max)
            if bad is not None:
                raise _row_error(bad, first_row, columns, partition_counts, size_max)
            first_row += rows.count

    def go_on(self) -> AppendStatus | None:
        """Append rows until the caller has to act: returns the status, or None when all rows are appended."""
        if self._at == len(self._rows):
            return None
        rows = self._rows[self._at]
        status, self._row, parts = rows.append_to(self._open, self._row)
        self.ticket.add(parts, self._first_row)
        if self._row == rows.count:
            self._first_row += rows.count
            self._at += 1
            self._row = 0
        return status


def _row_error(
    bad: BadRow, first_row: int, columns: RowColumns, partition_counts: dict[str, int], size_max: int
) -> UsageError | RecordTooLargeError:
    row = first_row + bad.row
    match bad.fault:
        case Fault.SIZE:
            return RecordTooLargeError(
                f"row {row} takes {bad.number} bytes uncompressed, and {size_max} are the most (max_request_size, "
                f"buffer_memory); raise them (the topic's max.message.bytes counts, too) or send less in one row"
            )
        case Fault.PARTITION:
            counts = {name: partition_counts[name] for name in columns.topics}
            known = ", ".join(f"{name!r} has partitions 0 to {count - 1}" for name, count in counts.items())
            return UsageError(f"column 'partition': row {row} has {bad.number}; {known}")
        case Fault.TIMESTAMP:
            return UsageError(
                f"column 'timestamp': row {row} has {bad.number}, which is not a number of milliseconds since 1970"
            )
        case _:
            return UsageError(UNSOUND)
