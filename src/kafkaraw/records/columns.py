"""Columns that record batches are decoded into, in Arrow's memory layout.

`fill` writes them, `to_arrow_arrays` passes the buffers to pyarrow without copying. Both implementations of `fill`
write the same buffers, so their callers do not depend on the one in use. Start at `Columns`. No wire format here;
pyarrow is imported only when arrays are requested.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaraw.errors import BatchTooLargeError, UsageError
from kafkaraw.records.record import Header

if TYPE_CHECKING:
    import pyarrow

    ArrowArray: TypeAlias = "pyarrow.Array"

COLUMN_NAMES: Final = frozenset(("key", "value", "offset", "timestamp", "timestamp_type", "headers"))

PRESENT: Final = 0x31
"""Mark of a row with a value: the digit 1, so that the marks read as one binary number."""
NULL: Final = 0x30
"""Mark of a null row: the digit 0."""
_PRESENT_MARK: Final = bytes((PRESENT,))
_NULL_MARK: Final = bytes((NULL,))
DATA_SIZE_MAX: Final = 2**31 - 1
TOO_LARGE: Final = "a column has more than the 2 GiB that Arrow's binary type can address; fill fewer rows"


class BinaryColumn:
    """Byte strings or nulls: the bytes in one buffer, and where each row ends in it.

    Attributes:
        data: the bytes of all rows.
        ends: 0, then the end of each row in `data` (int32, Arrow's offsets).
        marks: `PRESENT` or `NULL` for each row.
    """

    __slots__ = ("data", "ends", "marks")

    def __init__(self) -> None:
        self.data: bytearray = bytearray()
        self.ends: array[int] = array("i", (0,))
        self.marks: bytearray = bytearray()

    def extend(self, rows: Sequence[bytes | None]) -> None:
        """Append rows, None for null."""
        rows_count = len(rows)
        if rows_count and rows[0] is None and rows.count(None) == rows_count:
            self.ends.extend(repeat(self.ends[-1], rows_count))
            self.marks += _NULL_MARK * rows_count
            return
        try:  # `join` detects nulls faster than a search for them
            data = b"".join(rows)  # type: ignore[arg-type]
            marks = _PRESENT_MARK * rows_count
        except TypeError:
            marks = bytes([NULL if row is None else PRESENT for row in rows])
            rows = [row or b"" for row in rows]
            data = b"".join(rows)  # type: ignore[arg-type]  # no None is left
        start = self.ends.pop()
        if start + len(data) > DATA_SIZE_MAX:
            self.ends.append(start)
            raise BatchTooLargeError(TOO_LARGE)
        self.ends.extend(accumulate(map(len, rows), initial=start))  # type: ignore[arg-type]
        self.marks += marks
        self.data += data

    def truncate(self, rows: int) -> None:
        """Drop all rows from `rows` on."""
        del self.ends[rows + 1 :]
        del self.marks[rows:]
        del self.data[self.ends[-1] :]

    def to_arrow(self, rows: int, kind: pyarrow.DataType) -> ArrowArray:
        """Return the buffers as an array of `binary` or `string`; the column must not be used afterwards."""
        import pyarrow as pa

        validity, nulls_count = _bitmap(self.marks)
        buffers = [validity, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls_count)


class HeadersColumn:
    """A list of headers for each row, null if the record has none.

    Attributes:
        ends: 0, then for each row the number of headers up to and including it.
        marks: `PRESENT` or `NULL` for each row.
        keys: names of all headers, UTF-8.
        values: values of all headers.
    """

    __slots__ = ("ends", "keys", "marks", "values")

    def __init__(self) -> None:
        self.ends: array[int] = array("i", (0,))
        self.marks: bytearray = bytearray()
        self.keys: BinaryColumn = BinaryColumn()
        self.values: BinaryColumn = BinaryColumn()

    def extend(self, rows: Sequence[Sequence[Header]]) -> None:
        """Append one list of headers per row; an empty one becomes null."""
        flat = [header for row in rows for header in row]
        self.keys.extend([name.encode() for name, _ in flat])
        self.values.extend([value for _, value in flat])
        start = self.ends.pop()
        self.ends.extend(accumulate(map(len, rows), initial=start))
        self.marks += bytes([PRESENT if row else NULL for row in rows])

    def extend_nulls(self, rows_count: int) -> None:
        """Append rows of records without headers."""
        self.ends.extend(repeat(self.ends[-1], rows_count))
        self.marks += _NULL_MARK * rows_count

    def truncate(self, rows: int) -> None:
        """Drop all rows from `rows` on."""
        del self.ends[rows + 1 :]
        del self.marks[rows:]
        self.keys.truncate(self.ends[-1])
        self.values.truncate(self.ends[-1])

    def to_arrow(self, rows: int) -> ArrowArray:
        """Return the buffers as `list<element: struct<key: string, value: binary>>`."""
        import pyarrow as pa

        flat_count = self.ends[-1]
        keys = self.keys.to_arrow(flat_count, pa.string())
        values = self.values.to_arrow(flat_count, pa.binary())
        fields = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
        flat = pa.StructArray.from_arrays([keys, values], fields=fields)
        validity, nulls_count = _bitmap(self.marks)
        kind = pa.list_(pa.field("element", pa.struct(fields)))
        buffers = [validity, pa.py_buffer(self.ends)]
        return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls_count, children=[flat])


class Columns:
    """Growable columns for the records of any number of batches.

    Args:
        wanted: names from `COLUMN_NAMES` to keep; the others cost nothing.
        capacity: expected number of rows; a hint.

    Attributes:
        rows: rows filled so far.
        unit: unit of the timestamps, "ms" or "us"; set by the first `fill`.
        offset, timestamp, timestamp_type, key, value, headers: the buffers, None for columns that are not wanted.
    """

    __slots__ = ("headers", "key", "offset", "rows", "timestamp", "timestamp_type", "unit", "value", "wanted")

    def __init__(self, wanted: frozenset[str] = COLUMN_NAMES, capacity: int = 0) -> None:
        unknown = wanted - COLUMN_NAMES
        if unknown:
            raise UsageError(f"unknown columns {sorted(unknown)}; known are {sorted(COLUMN_NAMES)}")
        self.wanted: frozenset[str] = wanted
        self._reset()

    def _reset(self) -> None:
        wanted = self.wanted
        self.rows: int = 0
        self.unit: str = ""
        self.offset: array[int] | None = array("q") if "offset" in wanted else None
        self.timestamp: array[int] | None = array("q") if "timestamp" in wanted else None
        self.timestamp_type: array[int] | None = array("b") if "timestamp_type" in wanted else None
        self.key: BinaryColumn | None = BinaryColumn() if "key" in wanted else None
        self.value: BinaryColumn | None = BinaryColumn() if "value" in wanted else None
        self.headers: HeadersColumn | None = HeadersColumn() if "headers" in wanted else None

    @property
    def data_size_bytes(self) -> int:
        """The number of bytes of keys, values and headers so far; a column can hold 2 GiB."""
        headers = () if self.headers is None else (self.headers.keys, self.headers.values)
        return sum(len(column.data) for column in (self.key, self.value, *headers) if column is not None)

    def start_at(self, at: int, unit: str) -> None:
        """Prepare for writing from row `at` on: drop later rows, which a failed fill may have left.

        Raises:
            UsageError: `at` leaves a gap, or the unit changes.
        """
        if at > self.rows or at < 0:
            raise UsageError(f"cannot fill from row {at}: there are {self.rows} rows")
        if self.rows and unit != self.unit:
            raise UsageError(f"the timestamps are in {self.unit}, cannot go on in {unit}")
        self.unit = unit
        self.truncate(at)

    def truncate(self, rows: int) -> None:
        """Drop all rows from `rows` on."""
        for numbers in (self.offset, self.timestamp, self.timestamp_type):
            if numbers is not None:
                del numbers[rows:]
        for column in (self.key, self.value, self.headers):
            if column is not None:
                column.truncate(rows)
        self.rows = rows

    def to_arrow_arrays(self, rows: int | None = None) -> dict[str, ArrowArray]:
        """Return the buffers as Arrow arrays, without copying, and start again empty.

        Args:
            rows: number of rows to return; None for all. Later rows are dropped.

        Returns:
            an array for each wanted column: offset int64, timestamp[unit, UTC], timestamp_type int8, key and value
            binary, headers list<element: struct<key: string, value: binary>>.
        """
        import pyarrow as pa

        rows = self.rows if rows is None else rows
        self.truncate(rows)  # a failed fill may have left more
        kinds = {
            "offset": (self.offset, pa.int64()),
            "timestamp": (self.timestamp, pa.timestamp(self.unit or "ms", "UTC")),
            "timestamp_type": (self.timestamp_type, pa.int8()),
        }
        arrays: dict[str, ArrowArray] = {}
        for name, (numbers, kind) in kinds.items():
            if numbers is not None:
                arrays[name] = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)], null_count=0)
        if self.key is not None:
            arrays["key"] = self.key.to_arrow(rows, pa.binary())
        if self.value is not None:
            arrays["value"] = self.value.to_arrow(rows, pa.binary())
        if self.headers is not None:
            arrays["headers"] = self.headers.to_arrow(rows)
        self._reset()  # the arrays own the buffers now
        return arrays


def _bitmap(marks: bytearray) -> tuple[pyarrow.Buffer | None, int]:
    """Convert marks into Arrow's validity bitmap (lowest bit first), None if every row is present.

    Parsing the marks as one binary number does it in C, without numpy.
    """
    import pyarrow as pa

    nulls_count = marks.count(NULL)
    if not nulls_count:
        return None, 0
    number = 0 if nulls_count == len(marks) else int(bytes(marks[::-1]), 2)
    return pa.py_buffer(number.to_bytes((len(marks) + 7) // 8, "little")), nulls_count
