"""Rows of a query as records of a topic, and as JSON.

Columns `key`, `value`, `headers`, `partition` and `timestamp` are those of records. Without a column `value`, the value
is a JSON object of the other columns. Must not run queries. Start at `write_rows`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.errors import UnknownTopicError, UsageError

_OF_RECORDS: Final = ("key", "value", "headers", "partition", "timestamp")
_ROWS_PER_SEND: Final = 10_000


def write_rows(
    batches: Iterable[pa.RecordBatch],
    topic: str,
    settings: Mapping[str, Any],
    on_written: Callable[[int], None] | None = None,
) -> int:
    """Write rows to a topic; return how many they are. Records before an error stay in the topic.

    Args:
        batches: the rows.
        topic: its name; it is not created.
        settings: of the producer.
        on_written: called with the number of rows that were handed to the producer since the last call.

    Raises:
        UnknownTopicError: there is no such topic.
        UsageError: a column is no part of a record, or has another type.
        KafkaError: a record cannot be delivered.
    """
    rows = 0
    with Producer(runtime=None, **{**settings, "allow_auto_create_topics": False}) as producer:
        try:
            producer.partitions_for(topic)
        except UnknownTopicError as error:
            raise UnknownTopicError(
                f"{error}; nothing was written: create it first, as with kafkaraw topics create {topic}"
            ) from None
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS_PER_SEND):
                    part = batch.slice(start, _ROWS_PER_SEND)
                    producer.send_arrow(topic, as_records(part))
                    rows += part.num_rows
                    if on_written is not None:
                        on_written(part.num_rows)
            producer.flush()
        except Exception as error:
            error.add_note(f"topic {topic!r}: up to {rows:,} records were written before this error, and stay there")
            raise
    return rows


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as columns of records.

    Raises:
        UsageError: there is a column `value`, and others that are no part of a record.
    """
    columns = {name: batch.column(name) for name in batch.schema.names if name in _OF_RECORDS}
    others = [name for name in batch.schema.names if name not in _OF_RECORDS]
    if "value" in columns and others:
        raise UsageError(
            f"the columns {', '.join(others)} are no part of a record, which has {', '.join(_OF_RECORDS)}; leave them "
            "out, or leave out value: then the value is a JSON object of them"
        )
    if "value" not in columns:
        rows = rows_of(batch.select(others))
        columns["value"] = pa.array([json_text(row).encode() for row in rows], pa.binary())
    for name in ("key", "value"):
        if name in columns and not is_bytes(columns[name].type):
            columns[name] = pa.array([_as_bytes(each) for each in values_of(columns[name])], pa.binary())
    return pa.RecordBatch.from_pydict(columns)


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json_text(value)).encode()


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
    """Return the rows, with Python's values; a time that Python does not have is a text."""
    names = batch.schema.names
    columns = [values_of(batch.column(index)) for index in range(len(names))]
    for row in range(batch.num_rows):
        yield dict(zip(names, (column[row] for column in columns), strict=True))


def values_of(column: pa.Array) -> list[object]:
    """Return the values of a column; a time that Python does not have is a text."""
    try:
        found: list[object] = column.to_pylist()
    except (ValueError, OverflowError):  # a year behind 9999
        found = [_value_of(each) for each in column]
    return found


def _value_of(scalar: pa.Scalar) -> object:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.cast(pa.string()).as_py()) if pa.types.is_temporal(scalar.type) else str(scalar)


def json_text(value: object) -> str:
    """Return a value as JSON: times as ISO 8601, bytes as text, decimals as numbers, NaN and infinity as null."""
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    """Return a value that JSON has."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
