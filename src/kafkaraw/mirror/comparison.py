"""`PartitionComparison`: compare the records of a partition with those of its copy, in order. Pure; needs pyarrow.

Theory of operation. Offsets of a copy differ from those of the source, so records are compared by key, value, headers
and timestamp, in their order. As long as both sides are equal, Arrow compares whole columns, at the speed of memory.
Where they differ, rows are fingerprinted in a window that doubles until both sides continue with the same record: what
was passed over on the source is missing in the copy, what was passed over on the copy is unexpected, or repeated if the
source had it just before. Records that are missing in one place and unexpected in another one were moved.

Must not read topics: `verification.py` adds batches and asks which side needs more. Start at
`PartitionComparison.compare`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import blake2b
from typing import Final

import pyarrow as pa

from kafkaraw.light_classes import dataclass

WINDOW_FIRST: Final = 64
WINDOW_MAX: Final = 65_536
"""Rows of each side in which the next common record is looked for."""
HISTORY_MAX: Final = 100_000
"""Equal rows that a repeated record is looked for in."""
KEPT_MAX: Final = 100_000
"""Differing rows whose offsets are kept; further ones are counted."""
COLUMNS: Final = ("key", "value", "headers", "timestamp")
"""What records are compared by."""
_OFFSET: Final = "offset"


class Side(Enum):
    """Which topic a record is of."""

    SOURCE = "source"
    TARGET = "target"


class DifferenceKind(Enum):
    """How records differ; a value ends the sentence "the record ..."."""

    MISSING = "is in the source only"
    CHANGED = "has other contents in the target"
    REPEATED = "is in the target again"
    UNEXPECTED = "is in the target only"
    MOVED = "is at another place in the target"
    BEHIND = "is behind the end of the target"


@dataclass(frozen=True, slots=True)
class Difference:
    """Consecutive records that differ in the same way.

    Attributes:
        kind: see `DifferenceKind`.
        count: number of records.
        source_offsets: the first and the last one in the source; None if they are in the target only.
        target_offsets: the first and the last one in the target; None if they are in the source only.
        columns: those that differ, of changed records.
    """

    kind: DifferenceKind
    count: int
    source_offsets: tuple[int, int] | None
    target_offsets: tuple[int, int] | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that differs; ordinals count the rows of its side, so that consecutive ones are recognised."""

    kind: DifferenceKind
    ordinal: int
    source_offset: int | None
    target_offset: int | None
    fingerprint: bytes
    columns: tuple[str, ...] = ()


class PartitionComparison:
    """The comparison of one partition with its copy.

    Args:
        columns: what records are compared by, of `COLUMNS`.

    Attributes:
        equal_count: number of records that are in both at the same place.
        last_equal: offsets of the last equal record, in source and target; None before the first.
    """

    def __init__(self, columns: Sequence[str] = COLUMNS) -> None:
        self.equal_count: int = 0
        self._counts: Counter[DifferenceKind] = Counter()
        self.last_equal: tuple[int, int] | None = None
        self._columns = tuple(columns)
        self._sides = {side: _Rows(self._columns) for side in Side}
        self._history = _History(self._columns)
        self._window = WINDOW_FIRST
        self._needed = 1
        self._kept: list[_Row] = []

    def add(self, side: Side, batch: pa.RecordBatch) -> None:
        """Add the next rows of a side: "offset", and the columns that are compared."""
        self._sides[side].add(batch)

    def end(self, side: Side) -> None:
        """Say that a side has no more rows."""
        self._sides[side].ended = True

    def wants(self) -> list[Side]:
        """Return the sides that need more rows; none when the comparison is over."""
        return [side for side, rows in self._sides.items() if not rows.ended and rows.count < self._needed]

    @property
    def is_over(self) -> bool:
        """Whether all rows of both sides were compared."""
        return all(rows.ended and not rows.count for rows in self._sides.values())

    def compare(self) -> None:
        """Compare as many rows as both sides have."""
        source, target = self._sides[Side.SOURCE], self._sides[Side.TARGET]
        while source.count and target.count:
            if not self._take_equal(source, target) and not self._resolve(source, target):
                return
        self._needed = 1
        if source.ended and not source.count and target.count:
            self._pass_over_target(target.count)
        elif target.ended and not target.count and source.count:
            self._pass_over_source(source.count, DifferenceKind.BEHIND)

    def differences(self) -> list[Difference]:
        """Return the differences so far in the order of their places, records that have moved as such.

        A record behind the end of the target is missing if the target has it at another place, too.
        """
        return list(_runs(_with_moved(self._kept)))

    def counts(self) -> dict[DifferenceKind, int]:
        """Return the number of records of each kind of difference; kinds without any are left out."""
        counts = Counter(self._counts)
        counts -= Counter(row.kind for row in self._kept)
        counts += Counter(row.kind for row in _with_moved(self._kept))
        return dict(counts)

    # -- equal rows

    def _take_equal(self, source: _Rows, target: _Rows) -> bool:
        """Pass over rows that are equal on both sides; return whether there was one."""
        ours, theirs = source.head(), target.head()
        length = min(ours.num_rows, theirs.num_rows)
        ours, theirs = ours.slice(0, length), theirs.slice(0, length)
        equal = _equal_length(ours, theirs, self._columns)
        if not equal:
            return False
        offsets = ours.column(_OFFSET)[equal - 1].as_py(), theirs.column(_OFFSET)[equal - 1].as_py()
        self.last_equal = offsets
        self.equal_count += equal
        self._history.add(ours.slice(0, equal))
        source.drop(equal)
        target.drop(equal)
        self._window, self._needed = WINDOW_FIRST, 1
        return True

    # -- differing rows

    def _resolve(self, source: _Rows, target: _Rows) -> bool:
        """Find where both sides continue with the same record; return whether rows were passed over."""
        while True:
            found = _nearest(source.fingerprints(self._window), target.fingerprints(self._window))
            if found is not None:
                self._pass_over(*found)
                return True
            if any(rows.count < self._window and not rows.ended for rows in (source, target)):
                self._needed = self._window
                return False
            if self._window >= WINDOW_MAX or self._window >= max(source.count, target.count):
                self._pass_over(min(self._window, source.count), min(self._window, target.count))
                return True
            self._window *= 2

    def _pass_over(self, of_source: int, of_target: int) -> None:
        source, target = self._sides[Side.SOURCE], self._sides[Side.TARGET]
        if of_source == of_target and source.keys(of_source) == target.keys(of_target):
            self._pass_over_changed(of_source)
            return
        self._pass_over_source(of_source, DifferenceKind.MISSING)
        self._pass_over_target(of_target)

    def _pass_over_changed(self, count: int) -> None:
        source, target = self._sides[Side.SOURCE], self._sides[Side.TARGET]
        for ours, theirs in zip(source.rows(count), target.rows(count), strict=True):
            columns = tuple(
                name for name, one, other in zip(self._columns, ours.values, theirs.values, strict=True) if one != other
            )
            self._keep(DifferenceKind.CHANGED, ours.ordinal, ours.offset, theirs.offset, b"", columns)
        source.drop(count)
        target.drop(count)

    def _pass_over_source(self, count: int, kind: DifferenceKind) -> None:
        source = self._sides[Side.SOURCE]
        for row in source.rows(count):
            self._keep(kind, row.ordinal, row.offset, None, row.fingerprint)
        source.drop(count)

    def _pass_over_target(self, count: int) -> None:
        target = self._sides[Side.TARGET]
        if count:
            known = self._history.fingerprints()
            for row in target.rows(count):
                kind = DifferenceKind.REPEATED if row.fingerprint in known else DifferenceKind.UNEXPECTED
                self._keep(kind, row.ordinal, None, row.offset, row.fingerprint)
        target.drop(count)

    def _keep(
        self,
        kind: DifferenceKind,
        ordinal: int,
        source_offset: int | None,
        target_offset: int | None,
        fingerprint: bytes,
        columns: tuple[str, ...] = (),
    ) -> None:
        self._counts[kind] += 1
        if len(self._kept) < KEPT_MAX:
            self._kept.append(_Row(kind, ordinal, source_offset, target_offset, fingerprint, columns))


@dataclass(frozen=True, slots=True)
class _Record:
    ordinal: int
    offset: int
    values: tuple[object, ...]
    fingerprint: bytes


class _Rows:
    """The rows of a side that were not compared yet."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.count = 0
        self.ended = False
        self._columns = columns
        self._batches: deque[pa.RecordBatch] = deque()
        self._passed = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self.count += batch.num_rows

    def head(self) -> pa.RecordBatch:
        return self._batches[0]

    def drop(self, count: int) -> None:
        self.count -= count
        self._passed += count
        while count:
            head = self._batches.popleft()
            if head.num_rows > count:
                self._batches.appendleft(head.slice(count))
                return
            count -= head.num_rows

    def rows(self, count: int) -> Iterator[_Record]:
        """Return the first rows, at most `count`."""
        ordinal = self._passed
        for part in self._first(count):
            offsets = part.column(_OFFSET).to_pylist()
            for offset, values in zip(offsets, _values(part, self._columns), strict=True):
                yield _Record(ordinal, offset, values, _fingerprint(values))
                ordinal += 1

    def fingerprints(self, count: int) -> list[bytes]:
        return [fingerprint for part in self._first(count) for fingerprint in _fingerprints(part, self._columns)]

    def keys(self, count: int) -> list[object]:
        if "key" not in self._columns:
            return []
        return [key for part in self._first(count) for key in part.column("key").to_pylist()]

    def _first(self, count: int) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if not count:
                return
            part = batch.slice(0, count)
            count -= part.num_rows
            yield part


class _History:
    """The rows that were equal last: a repeated record is one of them."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._count = 0
        self._batches: deque[tuple[pa.RecordBatch, list[bytes]]] = deque()

    def add(self, rows: pa.RecordBatch) -> None:
        self._batches.append((rows, []))
        self._count += rows.num_rows
        while self._count - self._batches[0][0].num_rows >= HISTORY_MAX:
            self._count -= self._batches.popleft()[0].num_rows

    def fingerprints(self) -> set[bytes]:
        for rows, known in self._batches:
            if not known:
                known.extend(_fingerprints(rows, self._columns))
        return {fingerprint for _, known in self._batches for fingerprint in known}


def _values(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
    def of(name: str) -> list[object]:
        column = rows.column(name)
        found: list[object] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
        return found

    return zip(*(of(name) for name in columns), strict=True)


def _fingerprints(rows: pa.RecordBatch, columns: Sequence[str]) -> list[bytes]:
    return [_fingerprint(values) for values in _values(rows, columns)]


def _fingerprint(values: tuple[object, ...]) -> bytes:
    return blake2b(repr(values).encode(), digest_size=16).digest()


def _equal_length(ours: pa.RecordBatch, theirs: pa.RecordBatch, columns: Sequence[str]) -> int:
    """Return how many rows are equal from the first one on; both have the same number of rows."""

    def are_equal(begin: int, end: int) -> bool:
        return all(
            ours.column(name).slice(begin, end - begin).equals(theirs.column(name).slice(begin, end - begin))
            for name in columns
        )

    if are_equal(0, ours.num_rows):
        return int(ours.num_rows)
    equal, differing = 0, ours.num_rows  # the first `equal` rows are equal, among the first `differing` one is not
    while differing - equal > 1:
        middle = (equal + differing) // 2
        if are_equal(equal, middle):
            equal = middle
        else:
            differing = middle
    return equal


def _nearest(ours: Sequence[bytes], theirs: Sequence[bytes]) -> tuple[int, int] | None:
    """Return the places of a common record with the fewest rows before it on both sides together."""
    places: dict[bytes, int] = {}
    for place, fingerprint in enumerate(theirs):
        places.setdefault(fingerprint, place)
    best: tuple[int, int] | None = None
    for place, fingerprint in enumerate(ours):
        if best is not None and place > sum(best):
            break
        other = places.get(fingerprint)
        if other is not None and (best is None or place + other < sum(best)):
            best = place, other
    return best


def _with_moved(rows: Iterable[_Row]) -> list[_Row]:
    """Return the rows; a missing one and an unexpected one with the same contents are one that has moved."""
    rows = list(rows)
    lost = (DifferenceKind.MISSING, DifferenceKind.BEHIND)
    missing = Counter(row.fingerprint for row in rows if row.kind in lost)
    unexpected: dict[bytes, deque[int | None]] = {}
    for row in rows:
        if row.kind is DifferenceKind.UNEXPECTED and missing[row.fingerprint]:
            missing[row.fingerprint] -= 1
            unexpected.setdefault(row.fingerprint, deque()).append(row.target_offset)
    moved = {fingerprint: len(offsets) for fingerprint, offsets in unexpected.items()}
    found: list[_Row] = []
    for row in rows:
        if row.kind in lost and unexpected.get(row.fingerprint):
            target_offset = unexpected[row.fingerprint].popleft()
            found.append(replace(row, kind=DifferenceKind.MOVED, target_offset=target_offset))
        elif row.kind is DifferenceKind.UNEXPECTED and moved.get(row.fingerprint):
            moved[row.fingerprint] -= 1
        else:
            found.append(row)
    return found


def _runs(rows: Iterable[_Row]) -> Iterator[Difference]:
    """Join consecutive rows of one kind."""
    run: list[_Row] = []
    for row in rows:
        if run and not _continues(run[-1], row):
            yield _joined(run)
            run = []
        run.append(row)
    if run:
        yield _joined(run)


def _continues(before: _Row, row: _Row) -> bool:
    return (row.kind, row.ordinal, row.columns) == (before.kind, before.ordinal + 1, before.columns)


def _joined(run: Sequence[_Row]) -> Difference:
    first, last = run[0], run[-1]
    source = (
        None if first.source_offset is None or last.source_offset is None else (first.source_offset, last.source_offset)
    )
    target = (
        None if first.target_offset is None or last.target_offset is None else (first.target_offset, last.target_offset)
    )
    return Difference(first.kind, len(run), source, target, first.columns)
