"""Batches of several partitions as one `pyarrow.RecordBatch`, decoded straight into columns.

Pure work on what was fetched, so that either face runs it on its caller's thread. pyarrow is imported here only when
called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kafkaraw.client.settings import unknown_name
from kafkaraw.errors import ProtocolError, UsageError
from kafkaraw.records import ARROW_COLUMNS, ARROW_DATA_BYTES, Batch, Columns, make_columns_in_huge_pages

if TYPE_CHECKING:
    import pyarrow

ARROW_BYTES: Final = 1 << 20
"""So many bytes of an answer, as they were sent, are decoded at a time: they are still in the processor's cache."""
_CONSTANT = ("topic", "partition")


def check_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """The columns to make, in order; all when None.

    Raises:
        UsageError: an unknown one.
    """
    if columns is None:
        return ARROW_COLUMNS
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise UsageError(f"poll_arrow: columns={columns!r} must be a list of names, as in columns=['key', 'value']")
    wanted = tuple(columns)
    for name in wanted:
        if not isinstance(name, str):
            raise UsageError(f"poll_arrow: column {name!r} must be a name; there are {', '.join(ARROW_COLUMNS)}")
        if name not in ARROW_COLUMNS:
            raise UsageError(f"{unknown_name(name, ARROW_COLUMNS, {}, 'column')}; there are {', '.join(ARROW_COLUMNS)}")
    return wanted


def to_arrow(batches: Sequence[Batch], columns: Iterable[str] | None = None) -> tuple[pyarrow.RecordBatch, list[Batch]]:
    """Decode batches into one RecordBatch, in their order, as far as `ARROW_DATA_BYTES` of decompressed bytes go.

    Args:
        batches: of different partitions.
        columns: see `AsyncConsumer.poll_arrow`.

    Returns:
        the records before the first damaged wire batch, and the batches that are left, in their order.

    Raises:
        UsageError: an unknown column.
        CorruptBatchError: the first wire batch of the first batch is damaged.
        BatchTooLargeError: it has more than `DECOMPRESSED_SIZE_MAX_BYTES` when decompressed.
    """
    import pyarrow as pa

    make_columns_in_huge_pages()
    names = check_columns(columns)
    filled = Columns(frozenset(names) - set(_CONSTANT), sum(batch.records_count for batch in batches))
    ends = [0]
    left: list[Batch] = []
    for index, batch in enumerate(batches):
        room = ARROW_DATA_BYTES - filled.data_size_bytes
        if room <= 0:
            batches, left = batches[:index], list(batches[index:])
            break
        rows, rest = _fill(batch, filled, ends[-1], room, is_first=not index)
        ends.append(rows)
        if rest is not None:
            batches, left = batches[: index + 1], [rest, *batches[index + 1 :]]
            break
    counts = [end - start for start, end in pairwise(ends)]
    arrays = filled.to_arrow_arrays(ends[-1])
    if "topic" in names:
        topics = sorted({batch.topic for batch in batches})
        numbers = [topics.index(batch.topic) for batch in batches]
        arrays["topic"] = pa.DictionaryArray.from_arrays(_runs(numbers, counts), pa.array(topics, pa.string()))
    if "partition" in names:
        arrays["partition"] = _runs([batch.partition for batch in batches], counts)
    return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names)), left


def _fill(batch: Batch, filled: Columns, at: int, room_bytes: int, *, is_first: bool) -> tuple[int, Batch | None]:
    """Append records from row `at` on, up to the first damaged wire batch; returns the rows and what is left.

    Raises:
        ProtocolError: the first wire batch of the first batch is damaged.
    """
    try:
        return batch.fill(filled, at, "ms", data_max_bytes=room_bytes)
    except ProtocolError:  # one of its wire batches is damaged, and the columns have none of them: one by one
        pass
    rows, rest = at, batch
    while True:
        try:
            rows, behind = rest.fill(filled, rows, "ms", data_max_bytes=1)
        except ProtocolError as error:
            if is_first and not rows:
                raise _named(error, batch) from None
            return rows, rest
        if behind is None:
            return rows, None
        rest = behind


def _named(error: ProtocolError, batch: Batch) -> ProtocolError:
    """The error of a batch, which names its partition."""
    name = f"{batch.topic}-{batch.partition}: "
    return error if error.message.startswith(name) else type(error)(name + error.message)


def _runs(numbers: Sequence[int], counts: Sequence[int]) -> pyarrow.Array:
    """Each number as often as its count says."""
    import pyarrow as pa

    parts = [pa.repeat(pa.scalar(number, pa.int32()), count) for number, count in zip(numbers, counts, strict=True)]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int32())
