"""What a filter needs: which offsets may hold matching records, since when, and which columns. Pure.

Arrow itself answers whether a filter may be true for rows of which something is guaranteed, as it does for the row
groups of a Parquet file: a `FileSystemDataset` has a guarantee for each of its files, and `get_fragments` leaves out
those that cannot match. Here a file stands for a range of offsets. So every filter that Arrow simplifies is understood,
whoever wrote it, and one that it does not understand leaves out nothing.

The filter is applied to the records again, so a range may be too long, never too short. Must not fetch anything. Start
at `matching_ranges`, `earliest_timestamp_us` and `needed_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Final

from kafkaraw.ranges.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_PIECES: Final = 16
"""Into so many pieces a range is cut at a time."""
_PIECE_MIN: Final = 4_096
"""Ranges of so few offsets are not cut: they are read in one Fetch."""
_TRIMMED_MAX: Final = 1_000
"""More ranges are not trimmed: each step asks Arrow about all of them."""
_TIMESTAMP_MAX_US: Final = 1 << 62
_HINTS_MAX: Final = 50
_PLACE: Final = "FieldPath("
"""In the text of an expression, a column by its place: `pc.field(2)`."""
_OF_RANGES: Final = ("topic", "partition", "offset")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def matching_ranges(ranges: Iterable[OffsetRange], filter: pc.Expression, schema: pa.Schema) -> list[OffsetRange]:
    """Return the ranges, or parts of them, whose records may match.

    Args:
        ranges: of different partitions.
        filter: over columns of `schema`.
        schema: the columns of the data set.
    """
    found = [each for each, may in _judged(list(ranges), filter, schema) if may]
    if not any(_uses(name, filter, schema) for name in _OF_RANGES):  # the usual filters: every offset is like the next
        return found
    done: list[OffsetRange] = []
    while found:
        judged = _judged([piece for each in found for piece in _pieces(each)], filter, schema)
        found = []
        for whole in _grouped(judged):
            kept = _joined([each for each, may in whole if may])
            # Where nothing was left out, smaller pieces would match as well.
            is_final = len(whole) == 1 or all(may for _, may in whole)
            for each in kept:
                (done if is_final or each.size <= _PIECE_MIN else found).append(each)
    done.sort(key=lambda each: (each.topic, each.partition, each.start))
    return _trimmed(done, filter, schema) if len(done) <= _TRIMMED_MAX else done


def _uses(name: str, filter: pc.Expression, schema: pa.Schema) -> bool:
    return _has_places(filter) or not _works_without(schema, [name], [], filter)


def _trimmed(ranges: Sequence[OffsetRange], filter: pc.Expression, schema: pa.Schema) -> list[OffsetRange]:
    """Return the ranges without offsets at their starts, then without those at their ends, that cannot match."""
    found = list(ranges)
    for side in ("start", "end"):
        # Each range may match as a whole: find the shortest part of it, at the other side, that may, by halving.
        least, most = [0] * len(found), [each.size for each in found]
        sizes = [1] * len(found)  # mostly the first offset may match, and nothing is trimmed
        while any(high - low > 1 for low, high in zip(least, most, strict=True)):
            parts = [_part(each, size, side) for each, size in zip(found, sizes, strict=True)]
            for index, (_, may) in enumerate(_judged(parts, filter, schema)):
                # Parts of length `least` have no match, those of length `most` may have one.
                (most if may else least)[index] = sizes[index]
            sizes = [(low + high) // 2 for low, high in zip(least, most, strict=True)]
        found = [_part(each, each.size - low, _OTHER[side]) for each, low in zip(found, least, strict=True)]
    return found


_OTHER: Final = {"start": "end", "end": "start"}


def _part(whole: OffsetRange, size: int, side: str) -> OffsetRange:
    """Return so many offsets at one side of a range."""
    if side == "start":
        return replace(whole, end=min(whole.start + size, whole.end))
    return replace(whole, start=max(whole.end - size, whole.start))


def _pieces(whole: OffsetRange) -> list[OffsetRange]:
    step = max(_PIECE_MIN, -(-whole.size // _PIECES))
    return [
        replace(whole, start=start, end=min(start + step, whole.end)) for start in range(whole.start, whole.end, step)
    ]


def _grouped(judged: Sequence[tuple[OffsetRange, bool]]) -> list[list[tuple[OffsetRange, bool]]]:
    """Return the pieces of each range: neighbours that adjoin."""
    groups: list[list[tuple[OffsetRange, bool]]] = []
    for piece, may in judged:
        before = groups[-1][-1][0] if groups else None
        if before is not None and (before.topic_partition, before.end) == (piece.topic_partition, piece.start):
            groups[-1].append((piece, may))
        else:
            groups.append([(piece, may)])
    return groups


def _joined(pieces: Iterable[OffsetRange]) -> list[OffsetRange]:
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.start:
            joined[-1] = replace(joined[-1], end=piece.end)
        else:
            joined.append(piece)
    return joined


def _judged(ranges: Sequence[OffsetRange], filter: pc.Expression, schema: pa.Schema) -> list[tuple[OffsetRange, bool]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    topic, partition, offset = pc.field("topic"), pc.field("partition"), pc.field("offset")
    guarantees = [
        (topic == each.topic)
        & (partition == pa.scalar(each.partition, pa.int32()))
        & (offset >= each.start)
        & (offset < each.end)
        for each in ranges
    ]
    return list(zip(ranges, may_match(guarantees, filter, schema), strict=True))


def may_match(guarantees: Sequence[pc.Expression], filter: pc.Expression, schema: pa.Schema) -> list[bool]:
    """Return for each guarantee whether the filter may be true for a row for which the guarantee holds."""
    import pyarrow.dataset as ds
    from pyarrow import fs

    if not guarantees:
        return []
    stand_ins = ds.FileSystemDataset.from_paths(
        [str(index) for index in range(len(guarantees))],
        schema=schema,
        format=ds.IpcFileFormat(),
        filesystem=fs.LocalFileSystem(),
        partitions=list(guarantees),
    )
    kept = {int(each.path) for each in stand_ins.get_fragments(filter=filter)}
    return [index in kept for index in range(len(guarantees))]


def earliest_timestamp_us(filter: pc.Expression, schema: pa.Schema) -> int | None:
    """Return the time before which no record matches, in microseconds since 1970; None if there is no such time.

    There is no latest time to the same effect: timestamps of producers are not in order, so that a record of any time
    may stand behind one that is newer.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _uses("timestamp", filter, schema):
        return None
    timestamp = pc.field("timestamp")
    kind = schema.field("timestamp").type

    def may_be_until(times_us: Sequence[int]) -> list[bool]:
        return may_match([timestamp <= pa.scalar(each, pa.int64()).cast(kind) for each in times_us], filter, schema)

    if any(may_match([timestamp.is_null(), timestamp <= pa.scalar(0, pa.int64()).cast(kind)], filter, schema)):
        return None
    return _first(may_be_until, 0, _TIMESTAMP_MAX_US, _times_in(str(filter)))


def _times_in(text: str) -> list[int]:
    """Return the times that a text of an expression has, in microseconds, and those beside them.

    They are hints, which need fewer questions: Arrow is asked about each of them.
    """
    found = set()
    for each in _TIME.findall(text)[:_HINTS_MAX]:
        try:
            time = datetime.fromisoformat(each).replace(tzinfo=UTC)
        except ValueError:
            continue
        micros = (time - _EPOCH) // timedelta(microseconds=1)
        found |= {micros - 1, micros, micros + 1}
    return sorted(found)


def _first(hold: Callable[[Sequence[int]], list[bool]], low: int, high: int, hints: Sequence[int]) -> int:
    """Return the least number that holds, at most `high`: `low` does not, and all above one that holds do.

    Args:
        hold: returns for some numbers whether they hold.
        low: a number that does not.
        high: the number that is returned if none below it holds.
        hints: numbers that are asked first.
    """
    asked: Sequence[int] = [each for each in hints if low < each < high]
    while high - low > 1:
        step = -(-(high - low) // _PIECES)  # of each call most is the same, whatever it asks
        asked = asked or range(low + step, high, step)
        held = hold(asked)
        low, high = max([low, *compress(asked, map(not_, held))]), min([high, *compress(asked, held)])
        asked = ()
    return high


def needed_columns(
    schema: pa.Schema, columns: Sequence[str] | Mapping[str, pc.Expression] | None, filter: pc.Expression | None
) -> list[str]:
    """Return the columns of the schema that a projection and a filter use, in the order of the schema.

    Raises:
        pyarrow.ArrowInvalid: they use a column that the schema does not have.
    """
    if columns is None:
        return list(schema.names)
    _bind(schema, columns, filter)
    named = [filter, *(columns.values() if isinstance(columns, dict) else ())]
    if any(each is not None and _has_places(each) for each in named):
        return list(schema.names)
    plain = set(columns) if not isinstance(columns, dict) else set()
    others = [name for name in schema.names if name not in plain]
    # Mostly a filter uses what is returned, so nothing else is needed.
    if not others or _works_without(schema, others, columns, filter):
        return [name for name in schema.names if name in plain]
    return [name for name in schema.names if name in plain or not _works_without(schema, [name], columns, filter)]


def _has_places(expression: pc.Expression) -> bool:
    """Return whether columns may be named by their places, which are others if a column is left out."""
    return _PLACE in str(expression)


def _works_without(
    schema: pa.Schema,
    names: Sequence[str],
    columns: Sequence[str] | Mapping[str, pc.Expression],
    filter: pc.Expression | None,
) -> bool:
    import pyarrow as pa

    try:
        _bind(pa.schema([field for field in schema if field.name not in names]), columns, filter)
    except (pa.ArrowInvalid, pa.ArrowKeyError, KeyError):
        return False
    return True


def _bind(
    schema: pa.Schema, columns: Sequence[str] | Mapping[str, pc.Expression], filter: pc.Expression | None
) -> None:
    import pyarrow.dataset as ds

    chosen = dict(columns) if isinstance(columns, dict) else list(columns)
    ds.dataset(schema.empty_table()).scanner(columns=chosen, filter=filter)
