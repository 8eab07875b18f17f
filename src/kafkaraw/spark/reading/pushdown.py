"""What the filters of a query leave of a batch read: fewer partitions, later starts, earlier ends. Pure.

`divide` says which filters are done with here, and which Spark has to apply to the rows that come; `narrow` cuts the
work down. What is done with here is exact. A filter that is left to Spark may cut the work down as well, as long as no
row is lost that it would have let through.

For timestamps that is the lower bound only: Kafka finds the first record at or after a time, and producers may write
earlier times behind it, so that no offset is known after which all are later.

Must not ask a broker: a `Lookup` does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.positions import Lookup
from kafkaraw.spark.reading.planning import OffsetRange

_Comparison = EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | In

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP = "topic", "partition", "offset", "timestamp"
# What a value must be for the column to be compared with it. None is none of them: SQL's logic of nulls is Spark's.
_TYPES: Final[dict[str, type]] = {_TOPIC: str, _PARTITION: int, _OFFSET: int, _TIMESTAMP: datetime}

_HOLDS: Final[dict[type[Filter], Callable[[object, object], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,  # type: ignore[dict-item]  # of values of one type, which `_values` has seen to
    GreaterThanOrEqual: operator.ge,  # type: ignore[dict-item]
    LessThan: operator.lt,  # type: ignore[dict-item]
    LessThanOrEqual: operator.le,  # type: ignore[dict-item]
    In: lambda value, values: value in values,  # type: ignore[operator]
}
# The first whole number that fits, after the filter's least value; the first that fits no longer, after its greatest.
_LOW: Final[dict[type[Filter], int]] = {EqualTo: 0, EqualNullSafe: 0, In: 0, GreaterThanOrEqual: 0, GreaterThan: 1}
_HIGH: Final[dict[type[Filter], int]] = {EqualTo: 1, EqualNullSafe: 1, In: 1, LessThanOrEqual: 1, LessThan: 0}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def divide(filters: Iterable[Filter]) -> tuple[list[Filter], list[Filter]]:
    """The filters that `narrow` can use, and those that Spark must apply; some are both."""
    used: list[Filter] = []
    left: list[Filter] = []
    for each in filters:
        if _comparison(each) is not None:
            used.append(each)
        if not _is_exact(each):
            left.append(each)
    return used, left


def narrow(ranges: Iterable[OffsetRange], filters: Sequence[Filter], lookup: Lookup) -> list[OffsetRange]:
    """What has to be read for rows that fit the filters.

    Args:
        ranges: what there is to read.
        filters: those that `divide` found to be of use.
        lookup: asked for the offsets of timestamps.
    """
    by_column: dict[str, list[tuple[_Comparison, bool]]] = {name: [] for name in _TYPES}
    for each in filters:
        found = _comparison(each)
        if found is not None:
            by_column[found[0].attribute[0]].append(found)
    kept = [
        each for each in ranges if _fits(each.topic, by_column[_TOPIC]) and _fits(each.partition, by_column[_PARTITION])
    ]
    within = [_cut(each, [comparison for comparison, _ in by_column[_OFFSET]]) for each in kept]
    within = [each for each in within if each.size]
    times_ms = [low for comparison, _ in by_column[_TIMESTAMP] if (low := _earliest_ms(comparison)) is not None]
    return _from(max(times_ms), within, lookup) if times_ms and max(times_ms) > 0 and within else within


def _comparison(given: Filter) -> tuple[_Comparison, bool] | None:
    """A filter that can be used, and whether it must hold or not; None for one that cannot."""
    wanted = not isinstance(given, Not)
    inner = given.child if isinstance(given, Not) else given
    if not isinstance(inner, _Comparison) or len(inner.attribute) != 1:
        return None
    column = inner.attribute[0]
    if column not in _TYPES or not all(_is_of(_TYPES[column], value) for value in _values(inner)):
        return None
    if not wanted and column in (_OFFSET, _TIMESTAMP):  # what is left is no range
        return None
    return inner, wanted


def _is_of(kind: type, value: object) -> bool:
    if isinstance(value, datetime):
        return kind is datetime and value.tzinfo is not None
    return isinstance(value, kind) and not isinstance(value, bool)


def _values(comparison: _Comparison) -> Sequence[object]:
    return list(comparison.value) if isinstance(comparison, In) else [comparison.value]


def _is_exact(given: Filter) -> bool:
    """Whether no row that is read fails it, once the work is narrowed."""
    if isinstance(given, IsNotNull):
        return len(given.attribute) == 1 and given.attribute[0] in _TYPES  # Kafka has them for every record
    found = _comparison(given)
    if found is None:
        return False
    column = found[0].attribute[0]
    return column in (_TOPIC, _PARTITION) or (column == _OFFSET and not isinstance(found[0], In))


def _fits(value: object, comparisons: list[tuple[_Comparison, bool]]) -> bool:
    return all(_HOLDS[type(each)](value, each.value) == wanted for each, wanted in comparisons)


def _cut(work: OffsetRange, comparisons: list[_Comparison]) -> OffsetRange:
    """The part of the range between the bounds; from the first to the last value of a list."""
    start, end = work.start, work.end
    for each in comparisons:
        values = [int(str(value)) for value in _values(each)]
        if type(each) in _LOW:
            start = max(start, min(values, default=end) + _LOW[type(each)])
        if type(each) in _HIGH:
            end = min(end, max(values, default=start) + _HIGH[type(each)])
    return replace(work, start=start, end=end)


def _earliest_ms(comparison: _Comparison) -> int | None:
    """The first millisecond since 1970 that fits; Kafka's times have no finer parts, Spark's do."""
    times = [value - _EPOCH for value in _values(comparison) if isinstance(value, datetime)]
    if type(comparison) not in _LOW or not times:
        return None
    whole, rest = divmod(min(times), _MS)
    return whole + 1 if rest or isinstance(comparison, GreaterThan) else whole


def _from(time_ms: int, ranges: list[OffsetRange], lookup: Lookup) -> list[OffsetRange]:
    partitions = sorted({each.topic_partition for each in ranges})
    found = lookup.at_timestamps(dict.fromkeys(partitions, time_ms))

    def later(work: OffsetRange, first: int | None) -> OffsetRange:
        return replace(work, start=work.end if first is None else max(work.start, first))

    cut = [later(each, found[TopicPartition(each.topic, each.partition)]) for each in ranges]
    return [each for each in cut if each.size]
