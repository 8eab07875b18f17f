"""Arrow arrays of decoded columns, without copying. Start at `assemble`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from kafkaraw.schemas.arrow.columns import Column, Type, arrow_type, flattened

if TYPE_CHECKING:
    import pyarrow as pa

    Buffer: TypeAlias = bytes | bytearray | memoryview | array[int] | pa.Buffer
    Taken: TypeAlias = Sequence[tuple[int, int, Sequence[Buffer | None]]]


def assemble(root: Column, taken: Taken) -> pa.Array:
    """Return the array of the root column.

    Args:
        root: the columns.
        taken: rows, nulls and buffers of each column, from `plain_decoding.Decoder.take`.
    """
    return _array(flattened(root), taken, 0)


def _array(flat: Sequence[tuple[Column, int]], taken: Taken, index: int) -> pa.Array:
    import pyarrow as pa

    column, first = flat[index]
    rows, nulls, raw = taken[index]
    if column.type is Type.NULL:
        return pa.nulls(rows)
    buffers = [None if each is None else pa.py_buffer(each) for each in raw]
    children = [_array(flat, taken, first + at) for at in range(len(column.children))]
    return pa.Array.from_buffers(arrow_type(column), rows, buffers, null_count=nulls, children=children)
