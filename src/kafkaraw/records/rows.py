"""Rows to send, as columns in Arrow's memory layout, without a dependency on Arrow.

A caller with Arrow data passes its buffers in these classes; `Rows` writes them into batches, and exists twice,
compiled (`_rows.py`) and in plain Python (`_fallback/rows.py`). Nothing is copied or decided here. Start at
`RowColumns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import NamedTuple, dataclass

if TYPE_CHECKING:
    from kafkaraw.records.promise import BatchPromise

UNSOUND: Final = (
    "the buffers of the columns contradict each other; call validate(full=True) on the data to find out where"
)


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """Byte strings or nulls.

    Attributes:
        first: position of the first row in the buffers.
        validity: a bit for each row, lowest first, 1 if there is a value; None if all rows have one.
        ends: where each row begins, and the last one ends, in `data`; int32, or int64 if `wide`.
        wide: whether `ends` is int64.
        data: the bytes.
    """

    first: int
    validity: memoryview | None
    ends: memoryview
    wide: bool
    data: memoryview


@dataclass(frozen=True, slots=True)
class NumbersColumn:
    """Numbers or nulls, int64; `first` and `validity` as in `BytesColumn`."""

    first: int
    validity: memoryview | None
    numbers: memoryview


@dataclass(frozen=True, slots=True)
class HeadersColumn:
    """A list of names (UTF-8) and values for each row, or null; `ends` counts headers."""

    first: int
    validity: memoryview | None
    ends: memoryview
    wide: bool
    names: BytesColumn
    values: BytesColumn


@dataclass(frozen=True, slots=True)
class RowColumns:
    """All columns of some rows; None for a column of nulls.

    Attributes:
        count: number of rows.
        topics: the names of the topics.
        topic: for each row its index in `topics`; None if there is one topic only.
        timestamp: milliseconds; null is the time of sending.
        partition: null lets the partitioner choose.
    """

    count: int
    topics: Sequence[str]
    topic: NumbersColumn | None = None
    key: BytesColumn | None = None
    value: BytesColumn | None = None
    headers: HeadersColumn | None = None
    timestamp: NumbersColumn | None = None
    partition: NumbersColumn | None = None


class Fault(IntEnum):
    """Why a row cannot be sent."""

    LAYOUT = 1
    """The buffers contradict each other."""
    SIZE = 2
    """The record is larger than allowed."""
    TIMESTAMP = 3
    """The timestamp is before 1970, or too large."""
    PARTITION = 4
    """The topic has no such partition."""
    TOPIC = 5
    """The index names no topic."""


class BadRow(NamedTuple):
    """The first row that cannot be sent; `number` is the size, the timestamp, the partition or the topic's number."""

    fault: Fault
    row: int
    number: int


class SentPart(NamedTuple):
    """Rows that were added to one batch, in their order.

    Attributes:
        promise: the promise of the batch.
        first_index: index of the first of them in the batch.
        rows_count: number of rows.
        first_row: the first of the rows.
    """

    promise: BatchPromise
    first_index: int
    rows_count: int
    first_row: int
