"""Reading in plain Python: `read_records`, `read_acquired`, `fill` and more. Start at `_scan`, the loop they share.

The interface and its documentation are in `records/interface.py`; this is its twin for machines without a C compiler.
Varints of one and two bytes are decoded in place: a call per field would cost more than everything else.

A record on the wire: length varint; attributes int8; timestamp delta varint; offset delta varint; key length varint,
key; value length varint, value; headers count varint; for each header name length varint, name, value length varint,
value. All varints zigzag; a negative length is null.

Source: KIP-98; Kafka's DefaultRecord.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Final

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.columns import Columns
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES, batch_too_large, codec_by_id, of_partition
from kafkaraw.records.header import HEADER_SIZE, BatchHeader, parse_header
from kafkaraw.records.interface import AcquiredRecord, TimestampUnit
from kafkaraw.records.record import TIMESTAMP_LOG_APPEND_TIME, Header, Record
from kafkaraw.records.varint import as_int64, read_raw_varint

_RECORD_SIZE_MIN: Final = 7
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_no_headers: Final[Callable[[], list[Header]]] = list
_new_record: Final = partial(tuple.__new__, Record)


class _Scanned(NamedTuple):
    """The fields of the records of one batch, a list each; headers by index, because few records have any."""

    offsets: Sequence[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: dict[int, list[Header]]

    def slice(self, start: int, end: int) -> _Scanned:
        """Keep the records from index `start` up to, but not including, `end`."""
        headers = {index - start: found for index, found in self.headers.items() if start <= index < end}
        lists = (field[start:end] for field in (self.offsets, self.timestamps, self.keys, self.values))
        return _Scanned(*lists, headers)  # type: ignore[arg-type, call-arg]  # each keeps its type

    def headers_of_all(self) -> Iterable[list[Header]]:
        """Yield a list for each record; without end, if no record has headers."""
        if not self.headers:
            return iter(_no_headers, None)
        return [self.headers.get(index) or [] for index in range(len(self.values))]


def read_batches(
    wires: Iterable[tuple[BatchHeader, memoryview]],
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> Iterator[Record]:
    """Yield the records of many wire batches in a range of offsets. See `interface.ReadBatches`."""
    read = partial(read_records, start_offset=start_offset, end_offset=end_offset, size_max_bytes=size_max_bytes)
    return chain.from_iterable(read(wire, header, topic, partition) for header, wire in wires)


def read_records(
    batch: memoryview,
    header: BatchHeader,
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> Iterator[Record]:
    """Yield the records of one wire batch in a range of offsets. See `interface.ReadRecords`."""
    try:
        scanned = _from_offset(_scan(batch, header, size_max_bytes), header, start_offset, end_offset)
    except BatchTooLargeError as error:
        raise of_partition(error, topic, partition) from None
    fields = zip(
        repeat(topic),
        repeat(partition),
        scanned.offsets,
        scanned.timestamps,
        repeat(header.timestamp_type),
        scanned.keys,
        scanned.values,
        scanned.headers_of_all(),
    )
    return map(_new_record, fields)


def read_values(
    batch: memoryview,
    header: BatchHeader,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> list[bytes | None]:
    """Return the values of one wire batch in a range of offsets. See `interface.ReadValues`."""
    return _from_offset(_scan(batch, header, size_max_bytes), header, start_offset, end_offset).values


def read_acquired(
    wires: Iterable[tuple[BatchHeader, memoryview]],
    topic: str,
    partition: int,
    acquired: Sequence[tuple[int, int, int]],
    records: list[AcquiredRecord],
    kind: type[AcquiredRecord],
    *,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> None:
    """Append the records in ranges of offsets, with their delivery counts. See `interface.ReadAcquired`."""
    make = partial(tuple.__new__, kind)
    for header, wire in wires:
        try:
            scanned = _scan(wire, header, size_max_bytes)
        except BatchTooLargeError as error:
            raise of_partition(error, topic, partition) from None
        for first, last, delivery_count in acquired:
            if last < header.base_offset or first > header.last_offset:
                continue
            part = _from_offset(scanned, header, first, last + 1)
            fields = zip(
                repeat(topic),
                repeat(partition),
                part.offsets,
                part.timestamps,
                repeat(header.timestamp_type),
                part.keys,
                part.values,
                part.headers_of_all(),
                repeat(delivery_count),
            )
            records += map(make, fields)


def fill(
    batch: memoryview,
    columns: Columns,
    at: int,
    unit: TimestampUnit,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> int:
    """Append the records of one wire batch to columns; control batches add nothing. See `interface.Fill`.

    Raises:
        CorruptBatchError: the columns keep their first `at` rows.
        BatchTooLargeError: as above.
    """
    header = parse_header(batch)
    columns.start_at(at, unit)
    if header.is_control or not header.records_count:
        return at
    body = decompressed(batch, header, size_max_bytes)
    return _fill(_from_offset(scan_body(body, header), header, start_offset, end_offset), header, columns, at, unit)


def _fill(scanned: _Scanned, header: BatchHeader, columns: Columns, at: int, unit: TimestampUnit) -> int:
    """Append the records of one batch to columns that have `at` rows."""
    rows = len(scanned.values)
    try:
        if columns.offset is not None:
            columns.offset.extend(scanned.offsets)
        if columns.timestamp is not None:
            times = scanned.timestamps if unit == "ms" else [time * 1000 for time in scanned.timestamps]
            columns.timestamp.fromlist(times)
    except OverflowError:
        columns.truncate(at)
        raise _corrupt(header, f"a timestamp does not fit 64 bits in {unit}") from None
    if columns.timestamp_type is not None:
        columns.timestamp_type.extend(array("b", (header.timestamp_type,)) * rows)
    if columns.key is not None:
        columns.key.extend(scanned.keys)
    if columns.value is not None:
        columns.value.extend(scanned.values)
    if columns.headers is not None:
        if scanned.headers:
            columns.headers.extend([scanned.headers.get(index, ()) for index in range(rows)])
        else:
            columns.headers.extend_nulls(rows)
    columns.rows = at + rows
    return columns.rows


def fill_batches(  # noqa: PLR0913 - what, where to, and the limits
    wires: Iterable[tuple[BatchHeader, memoryview]],
    columns: Columns,
    at: int,
    unit: TimestampUnit,
    *,
    check: Callable[[BatchHeader, memoryview], None] | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    data_max_bytes: int | None = None,
) -> int:
    """Append the records of many wire batches to columns. See `interface.FillBatches`.

    Raises:
        CorruptBatchError: the columns keep their first `at` rows.
        BatchTooLargeError: as above.
    """
    columns.start_at(at, unit)
    row = at
    size = 0
    try:
        for header, wire in wires:
            if header.is_control or not header.records_count:
                continue
            if check is not None:
                check(header, wire)
            body = decompressed(wire, header, size_max_bytes)
            scanned = _from_offset(scan_body(body, header), header, start_offset, end_offset)
            row = _fill(scanned, header, columns, row, unit)
            size += len(body)
            if data_max_bytes is not None and size >= data_max_bytes:
                break
    except BaseException:
        columns.truncate(at)
        raise
    return row


def _from_offset(scanned: _Scanned, header: BatchHeader, start_offset: int, end_offset: int | None) -> _Scanned:
    """Keep the records in a range of offsets; mostly that is all of them."""
    if start_offset <= header.base_offset and (end_offset is None or end_offset > header.last_offset):
        return scanned
    start = bisect_left(scanned.offsets, start_offset)
    end = len(scanned.offsets) if end_offset is None else bisect_left(scanned.offsets, end_offset)
    return scanned.slice(start, max(start, end))


def _scan(batch: memoryview, header: BatchHeader, size_max_bytes: int) -> _Scanned:
    """Decompress and decode all records of one batch, or raise CorruptBatchError or BatchTooLargeError."""
    return scan_body(decompressed(batch, header, size_max_bytes), header)


def decompressed(batch: memoryview, header: BatchHeader, size_max_bytes: int) -> bytes:
    try:
        return codec_by_id(header.codec_id).decompress(batch[HEADER_SIZE:], size_max_bytes)
    except BatchTooLargeError:
        raise batch_too_large(header, size_max_bytes) from None


def scan_body(body: bytes, header: BatchHeader) -> _Scanned:
    """Decode all records of one batch, or raise CorruptBatchError."""
    count = header.records_count
    if count * _RECORD_SIZE_MIN > len(body):
        raise _corrupt(header, f"{len(body)} bytes cannot hold {count} records")
    deltas: list[int] = []
    scanned = _Scanned((), [], [], [], {})
    try:
        at = _scan_records(body, header, scanned, deltas)
    except IndexError:
        raise _bad_record(header, scanned) from None
    if at != len(body):
        raise _corrupt(header, f"{len(body) - at} bytes are left behind its {count} records")
    base_offset = header.base_offset
    if header.last_offset_delta == count - 1:  # increasing and within the batch: there can be no gap
        scanned = scanned._replace(offsets=range(base_offset, base_offset + count))
    else:
        scanned = scanned._replace(offsets=[base_offset + delta for delta in deltas])
    if header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
        return scanned._replace(timestamps=[header.max_timestamp] * count)
    return scanned


def _scan_records(body: bytes, header: BatchHeader, scanned: _Scanned, deltas: list[int]) -> int:  # noqa: C901  # calls cost more
    """Append the fields of every record to the lists in `scanned`; return where the last one ends.

    Offset deltas are appended to `deltas` if there are gaps. If the body is too short, this raises IndexError, or a
    record does not end where its length says.
    """
    _, timestamps, keys, values, headers = scanned
    base_timestamp = header.base_timestamp
    last_delta = header.last_offset_delta
    sparse = last_delta != header.records_count - 1
    size = len(body)
    timestamp = base_timestamp
    last_number = 0
    previous = -1
    at = 0
    for index in range(header.records_count):
        number = body[at]
        at += 1
        if number > 127:
            byte = body[at]
            at += 1
            if byte < 128:
                number += (byte << 7) - 128
            else:
                number, at = read_raw_varint(body, at - 2)
        length = number
        end = at + (length >> 1)
        number = body[at + 1]  # after the attributes, which have no meaning yet
        at += 2
        if number > 127:
            byte = body[at]
            at += 1
            if byte < 128:
                number += (byte << 7) - 128
            else:
                number, at = read_raw_varint(body, at - 2)
        if number != last_number:  # many records share their time
            last_number = number
            timestamp = base_timestamp + (-(number >> 1) - 1 if number & 1 else number >> 1)
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                timestamp = as_int64(timestamp)
        timestamps.append(timestamp)
        number = body[at]
        at += 1
        if number > 127:
            byte = body[at]
            at += 1
            if byte < 128:
                number += (byte << 7) - 128
            else:
                number, at = read_raw_varint(body, at - 2)
        delta = number >> 1
        if (number | length) & 1 or not previous < delta <= last_delta or end > size:
            raise _bad_record(header, scanned)
        previous = delta
        if sparse:
            deltas.append(delta)
        number = body[at]
        at += 1
        if number > 127:
            number, at = read_raw_varint(body, at - 1)
        if number & 1:
            keys.append(None)
        else:
            start = at
            at += number >> 1
            keys.append(body[start:at])
        number = body[at]
        at += 1
        if number > 127:
            byte = body[at]
            at += 1
            if byte < 128:
                number += (byte << 7) - 128
            else:
                number, at = read_raw_varint(body, at - 2)
        if number & 1:
            values.append(None)
        else:
            start = at
            at += number >> 1
            values.append(body[start:at])
        if body[at]:
            headers[index], at = _read_headers(body, at, header)
        else:
            at += 1
        if at != end:
            raise _bad_record(header, scanned)
    return at


def _read_headers(body: bytes, at: int, header: BatchHeader) -> tuple[list[Header], int]:
    """Read the headers of one record; each takes at least two bytes, so a hostile count ends with the data."""
    number, at = read_raw_varint(body, at)
    if number & 1:
        raise _corrupt(header, "a record has a negative number of headers")
    headers: list[Header] = []
    for _ in range(number >> 1):
        number, at = read_raw_varint(body, at)
        if number & 1:
            raise _corrupt(header, "a record has a header without a name")
        name_at = at
        at += number >> 1
        # Java replaces invalid UTF-8 as well: a header's name must not stop a reader.
        name = body[name_at:at].decode("utf-8", "replace")
        number, at = read_raw_varint(body, at)
        if number & 1:
            headers.append((name, None))
        else:
            value_at = at
            at += number >> 1
            headers.append((name, body[value_at:at]))
    return headers, at


def _corrupt(header: BatchHeader, reason: str) -> CorruptBatchError:
    return CorruptBatchError(f"batch at offset {header.base_offset}: {reason}")


def _bad_record(header: BatchHeader, scanned: _Scanned) -> CorruptBatchError:
    return _corrupt(
        header, f"record {len(scanned.values)} of {header.records_count} has lengths or offsets that do not fit"
    )
