"""Rows as columns, made from Python objects: what Arrow would hand over."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkaraw.records import BytesColumn, Header, HeadersColumn, NumbersColumn, RowColumns


@dataclass(frozen=True)
class Row:
    value: bytes | None = b"value"
    key: bytes | None = None
    headers: list[Header] | None = field(default=None)
    timestamp: int | None = None
    partition: int | None = None
    topic: int = 0


def _validity(rows: Sequence[object], first: int) -> memoryview | None:
    if None not in rows:
        return None
    bits = [1] * first + [row is not None for row in rows]
    return memoryview(bytes(sum(bit << at for at, bit in enumerate(bits[i : i + 8])) for i in range(0, len(bits), 8)))


def _ends(sizes: Sequence[int], first: int, wide: bool, lead: int) -> memoryview:
    ends = [0] * first + [lead]
    for size in sizes:
        ends.append(ends[-1] + size)
    return memoryview(struct.pack(f"={len(ends)}{'q' if wide else 'i'}", *ends))


def bytes_column(rows: Sequence[bytes | None], *, first: int = 0, wide: bool = False, lead: int = 0) -> BytesColumn:
    """A column whose rows begin at position `first`, and at byte `lead`, as slices do."""
    data = bytes(lead) + b"".join(row or b"" for row in rows)
    ends = _ends([len(row or b"") for row in rows], first, wide, lead)
    return BytesColumn(first, _validity(rows, first), ends, wide, memoryview(data))


def numbers_column(rows: Sequence[int | None], *, first: int = 0) -> NumbersColumn:
    numbers = [0] * first + [row or 0 for row in rows]
    return NumbersColumn(first, _validity(rows, first), memoryview(struct.pack(f"={len(numbers)}q", *numbers)))


def headers_column(rows: Sequence[list[Header] | None], *, first: int = 0, wide: bool = False) -> HeadersColumn:
    flat = [header for row in rows for header in row or ()]
    return HeadersColumn(
        first,
        _validity(rows, first),
        _ends([len(row or ()) for row in rows], first, wide, 0),
        wide,
        bytes_column([name.encode() for name, _ in flat], wide=wide),
        bytes_column([value for _, value in flat]),
    )


def columns_of(rows: Sequence[Row], topics: Sequence[str] = ("t",), *, seed: int = 0) -> RowColumns:
    """The rows as columns, laid out in one of the ways that Arrow has; columns of nulls are left out or not."""
    rng = random.Random(seed)

    def layout() -> dict[str, object]:
        return {"first": rng.choice((0, 1, 7, 8)), "wide": rng.random() < 0.5}

    def wanted(column: Sequence[object]) -> bool:
        return any(row is not None for row in column) or rng.random() < 0.5

    keys, values = [row.key for row in rows], [row.value for row in rows]
    headers = [row.headers for row in rows]
    timestamps, partitions = [row.timestamp for row in rows], [row.partition for row in rows]
    return RowColumns(
        len(rows),
        tuple(topics),
        topic=numbers_column([row.topic for row in rows], first=3) if len(topics) > 1 else None,
        key=bytes_column(keys, lead=5, **layout()) if wanted(keys) else None,
        value=bytes_column(values, **layout()) if wanted(values) else None,
        headers=headers_column(headers, **layout()) if wanted(headers) else None,
        timestamp=numbers_column(timestamps, first=rng.choice((0, 5))) if wanted(timestamps) else None,
        partition=numbers_column(partitions, first=rng.choice((0, 9))) if wanted(partitions) else None,
    )
