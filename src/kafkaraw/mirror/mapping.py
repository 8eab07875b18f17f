"""`OffsetMapping`: which offset of a copy an offset of its source is, exactly, for one partition. Pure.

Theory of operation. A copy has the records of its source in their order; offsets differ where one side has offsets
without records for users: markers of transactions, aborted or compacted records. So the mapping is a list of runs:
`length` offsets from `source` on are the offsets from `target` on. A run continues the one before it if both sides have
grown by the same number. Between two runs, neither side has records, so an offset there is translated to the next
record of the other side. That is exact.

Its size is bounded. Runs are in chunks of `CHUNK_RUNS`. When a level has more than `LEVEL_CHUNKS` chunks, the two
oldest of it are thinned to one of the next level, so the mapping is exact for the newest runs and gets coarser with the
age of the offsets. In a gap that thinning has left, an offset is translated to the end of the run before it: records
may be read again, none is skipped. `is_exact` tells both cases apart. Reading both topics in that gap
(`gap_at`, `paired`) makes it exact again.

Chunks are the records of a compacted topic of the target, so a mapping survives restarts, and any program can read it.
Two processes may write them at the same time, so each chunk is true alone, and says up to where it knows everything,
and of which topic: a copy that was deleted and created again has another id, and other offsets.
Must not read or write topics: `offset_service.py` does. Start at `OffsetMapping.add`, `OffsetMapping.translate` and
`of_present_copies`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

CHUNK_RUNS: Final = 256
LEVEL_CHUNKS: Final = 16
"""With one run for each of two transactions a second: exact for half an hour, then at each second transaction, ..."""
_VERSION: Final = 2
"""Of values; those of version 0 do not say up to which offset of the copy a chunk knows everything, and those of
versions 0 and 1 do not have the id of the copy's topic."""
_ID_SIZE: Final = len(ZERO_UUID)
_KEY_VERSION: Final = 0
_UNLIMITED: Final = (1 << 63) - 1


class Run(NamedTuple):
    """Consecutive offsets that are consecutive on both sides.

    Attributes:
        source: the first offset in the source.
        target: the first offset in the copy.
        length: number of offsets.
        is_followed: whether no records are between this run and the next one.
    """

    source: int
    target: int
    length: int
    is_followed: bool = True


class Translation(NamedTuple):
    """An offset on the other side.

    Attributes:
        offset: the position to continue at.
        is_exact: whether it is the position after the same records; otherwise it is before it.
    """

    offset: int
    is_exact: bool


@dataclass(slots=True)
class _Chunk:
    """Closed runs.

    Attributes:
        number: counts up; part of the record's key.
        level: how often it was thinned.
        runs: at most `CHUNK_RUNS`, encoded.
        source, target: first offsets.
    """

    number: int
    level: int
    runs: bytes
    source: int
    target: int


class OffsetMapping:
    """The mapping of one partition.

    Attributes:
        source_end: the offset of the source up to which everything is copied; None before the first batch.
        copy_id: id of the copy's topic; zero if it is not known.
        changed: numbers of chunks that differ from what was last written.
    """

    def __init__(self) -> None:
        self.source_end: int | None = None
        self.copy_id: Uuid = ZERO_UUID
        self.changed: set[int] = set()
        self._chunks: list[_Chunk] = []
        self._open: list[Run] = []
        self._next_number = 0
        self._gap_stop: int | None = None  # where the last gap ends, before batches without records

    @property
    def target_end(self) -> int | None:
        """The offset behind the last copied record; None before the first one."""
        last = self._open[-1] if self._open else None
        return None if last is None else last.target + last.length

    def runs(self) -> list[Run]:
        """Return all runs in order."""
        return [run for chunk in self._chunks for run in _decoded(chunk.runs)] + self._open

    def add(self, batch: CopiedBatch, *, may_repeat: bool = False) -> None:
        """Take note of a copied batch.

        Offsets that were copied before are replaced: with at-least-once delivery, a batch may be copied again.

        Args:
            batch: behind those before it, in the copy.
            may_repeat: offsets of the copy between batches may be those of records that were copied twice. Otherwise
                they are markers of transactions, or aborted records.
        """
        self.note_copy(batch.target_id)
        settled, end = batch.source_offsets, self.source_end
        if end is not None and self.target_end is not None and -1 < batch.target_base_offset < self.target_end:
            self._clear()  # the topic of the target was created anew
            end = None
        if end is not None and settled.start < end:
            self._truncate(settled.start)
            self._open_gap()
        elif settled.start > (end or 0):
            self._open_gap()
            self._gap_stop = settled.start
        if may_repeat and self.target_end is not None and batch.target_base_offset > self.target_end:
            self._open_gap()
        target = batch.target_base_offset
        for run in batch.runs:
            self._append(Run(run.start, target, len(run)))
            target += len(run)
        self.source_end = settled.stop
        self.changed.add(self._next_number)
        self._close_chunks()

    def note_copy(self, copy_id: Uuid) -> None:
        """Begin anew if the next batches are in another topic than those before; `add` does so, too."""
        if not self.is_of(copy_id):
            self._clear()
        if copy_id != ZERO_UUID:
            self.copy_id = copy_id

    def fill_gap(self, source: range, target: range, runs: Iterable[Run]) -> None:
        """Fill a gap between batches, or before the first one, with what both topics have there.

        The mapping may have changed since the gap was read. A run that was behind the gap may be thinned: then more
        than the gap is not known, and what is behind the filled runs is still a gap.

        Args:
            source: offsets of the source that no batch has settled.
            target: offsets of the copy between the records of the batches around them.
            runs: the records in the gap.
        """
        while self._chunks and (not self._open or self._open[0].source >= source.stop):
            self._reopen()
        place = bisect_right(self._open, source.start, key=lambda run: run.source)
        before, after = self._open[:place], self._open[place:]
        last = before[-1] if before else Run(0, 0, 0, is_followed=False)
        is_changed = before and (last.target + last.length != target.start or last.source + last.length > source.start)
        overlaps = after and (after[0].source < source.stop or after[0].target < target.stop)
        if last.is_followed or is_changed or overlaps:
            return  # it was filled, thinned or replaced meanwhile
        known = [*([last._replace(is_followed=True)] if before else []), *runs]
        is_whole = after[0].target == target.stop if after else source.stop == self._gap_stop
        if known and not is_whole:
            known[-1] = known[-1]._replace(is_followed=False)
        self._open = before[:-1]
        for run in (*known, *after):
            self._append(run)
        self.changed.add(self._next_number)
        self._close_chunks()

    def gap_at(self, offset: int, *, back: bool = False) -> tuple[range, range] | None:
        """Return the offsets of source and copy around an offset, of whose records only the ends are known.

        Args:
            offset: a position in the source.
            back: it is one in the copy.

        Returns:
            None if the offset is not in a gap.
        """
        side = 1 if back else 0
        runs, following = self._runs_near(offset, side)
        place = bisect_right(runs, offset, key=lambda run: run[side]) - 1
        after = runs[place + 1] if place + 1 < len(runs) else following
        if place < 0 or after is None or runs[place].is_followed:
            return None
        source, target, length, _ = runs[place]
        if offset < runs[place][side] + length:
            return None
        return range(source + length, after.source), range(target + length, after.target)

    def ends_before(self, offset: int, *, back: bool = False) -> tuple[int, int] | None:
        """Return the offsets of source and copy from which on nothing is known, if an offset is behind them.

        Args:
            offset: a position in the source.
            back: it is one in the copy.

        Returns:
            None if more is known about the offset, or `gap_at` has it.
        """
        if self.source_end is None or self.target_end is None or not self._open[-1].is_followed:
            return None
        ends = self.source_end, self.target_end
        return ends if offset > ends[1 if back else 0] else None

    def is_of(self, copy_id: Uuid) -> bool:
        """Return whether the mapping is about a topic; an id that is not known is no difference."""
        return ZERO_UUID in (self.copy_id, copy_id) or self.copy_id == copy_id

    def translate(self, offset: int) -> Translation | None:
        """Return the position in the copy for a position in the source.

        Returns:
            None if the position is before the first copied record, and the copy has unknown records before it.
        """
        return self._looked_up(offset, 0)

    def translate_back(self, offset: int) -> Translation | None:
        """Return the position in the source for a position in the copy, None as for `translate`."""
        return self._looked_up(offset, 1)

    def _looked_up(self, offset: int, side: int) -> Translation | None:
        """Find the run of an offset; `side` is 0 for offsets of the source, 1 for those of the copy."""
        runs, following = self._runs_near(offset, side)
        place = bisect_right(runs, offset, key=lambda run: run[side]) - 1
        if place < 0:
            first = runs[0] if runs else None
            is_begin = first is not None and side == 0 and first.target == 0
            return Translation(0, is_exact=True) if is_begin else None
        run = runs[place]
        other = run[1 - side]
        if offset < run[side] + run.length:
            return Translation(other + offset - run[side], is_exact=True)
        after = runs[place + 1] if place + 1 < len(runs) else following
        if after is not None:
            is_exact = run.is_followed
            return Translation(after[1 - side] if is_exact else other + run.length, is_exact)
        assert self.source_end is not None
        if not run.is_followed:  # batches without records have followed, after a gap
            return Translation(other + run.length, is_exact=offset == run[side] + run.length)
        if side == 1:  # behind the end of the last run, another batch may be that is not known yet
            return Translation(self.source_end, is_exact=offset <= run.target + run.length)
        return Translation(other + run.length, is_exact=offset <= self.source_end)

    def _runs_near(self, offset: int, side: int) -> tuple[Sequence[Run], Run | None]:
        """Return the runs of the chunk that has an offset, and the first run behind them."""
        first = self._open[0] if self._open else None
        if not self._chunks or (first is not None and first[side] <= offset):
            return self._open, None
        starts = [chunk.target if side else chunk.source for chunk in self._chunks]
        place = max(0, bisect_right(starts, offset) - 1)
        following = first
        if place + 1 < len(self._chunks):
            following = next(_decoded(self._chunks[place + 1].runs))
        return _runs_of(self._chunks[place].runs), following

    # -- changes

    def _append(self, run: Run) -> None:
        last = self._open[-1] if self._open else None
        if last is not None and last.is_followed and run.source - last.source == run.target - last.target:
            self._open[-1] = last._replace(length=run.source - last.source + run.length, is_followed=run.is_followed)
        else:
            self._open.append(run)

    def _open_gap(self) -> None:
        if self._open:
            self._open[-1] = self._open[-1]._replace(is_followed=False)

    def _clear(self) -> None:
        self.changed |= {chunk.number for chunk in self._chunks} | {self._next_number}
        self._chunks, self._open, self.source_end, self._gap_stop = [], [], None, None

    def _truncate(self, source: int) -> None:
        """Forget what is known of offsets from one on; the copy has it again."""
        while self._chunks and (not self._open or self._open[0].source >= source):
            self._reopen()
        kept = [run for run in self._open if run.source < source]
        if kept and kept[-1].source + kept[-1].length > source:
            kept[-1] = kept[-1]._replace(length=source - kept[-1].source)
        self._open = kept

    def _reopen(self) -> None:
        chunk = self._chunks.pop()
        self.changed |= {chunk.number, self._next_number, *(each.number for each in self._chunks[-1:])}
        self._open[:0] = _decoded(chunk.runs)

    def _close_chunks(self) -> None:
        if len(self._open) <= CHUNK_RUNS:
            return
        while len(self._open) > CHUNK_RUNS:
            closed, self._open = self._open[:CHUNK_RUNS], self._open[CHUNK_RUNS:]
            self._chunks.append(_chunk(self._next_number, 0, closed))
            self.changed.add(self._next_number)
            self._next_number += 1
            self.changed.add(self._next_number)
        level = 0
        while sum(chunk.level == level for chunk in self._chunks) > LEVEL_CHUNKS:
            place = next(place for place, chunk in enumerate(self._chunks) if chunk.level == level)
            older, newer = self._chunks[place : place + 2]
            runs = _thinned([*_decoded(older.runs), *_decoded(newer.runs)])
            self._chunks[place : place + 2] = [_chunk(older.number, level + 1, runs)]
            self.changed |= {older.number, newer.number}
            level += 1

    # -- records

    def records(self) -> list[tuple[int, bytes | None]]:
        """Return chunk numbers with the values of their records; None deletes one. All of them count as written.

        A closed chunk knows everything up to where the next one begins. After a crash, or beside a process that was
        suspended, the topic may have one without the other.
        """
        first = self._open[0] if self._open else None
        begins = [(chunk.source, chunk.target) for chunk in self._chunks[1:]]
        begins.append((self.source_end or 0, 0) if first is None else (first.source, first.target))
        chunks = {chunk.number: (chunk, *begin) for chunk, begin in zip(self._chunks, begins, strict=False)}
        found: list[tuple[int, bytes | None]] = []
        for number in sorted(self.changed):
            if number == self._next_number and self.source_end is not None:
                ends = self.source_end, self.target_end or 0
                found.append((number, _value(0, *ends, self.copy_id, _encoded(self._open))))
            elif number in chunks:
                chunk, source_end, target_end = chunks[number]
                found.append((number, _value(chunk.level, source_end, target_end, self.copy_id, chunk.runs)))
            else:
                found.append((number, None))
        self.changed.clear()
        return found

    @classmethod
    def of_records(cls, records: Iterable[tuple[int, bytes]]) -> OffsetMapping:
        """Return the mapping that chunk numbers and values describe.

        Several processes may have written them: one that has taken over, and one that was suspended. Each run of each
        chunk is true. What is between two runs is known only if one process has known both, and the first one up to
        the second one. Of chunks about several copies, those about the copy of the last chunk count.

        Raises:
            ProtocolError: a value is not one of this topic.
        """
        mapping, level = cls(), 0
        known = _Known(0, 0)  # behind the last run
        values = {number: _parsed(value) for number, value in sorted(records)}
        ids = [value.copy_id for value in values.values() if value.copy_id != ZERO_UUID]
        mapping.copy_id = ids[-1] if ids else ZERO_UUID
        for number, (chunk_level, source_end, target_end, copy_id, encoded) in values.items():
            if not mapping.is_of(copy_id):
                mapping.changed.add(number)  # it is deleted
                continue
            before, before_level = mapping._open, level
            last, level = before[-1] if before else None, chunk_level
            runs: list[Run] = []
            for run, run_known in _with_known(list(_decoded(encoded)), _Known(source_end, target_end)):
                left = run if last is None else _behind(last, run)
                if left is not None:
                    if last is not None:
                        is_followed = known.source >= left.source and known.target >= left.target
                        (runs or before)[-1] = last._replace(is_followed=is_followed)
                    runs.append(left)
                    last, known = left, run_known
                elif last is not None and _end(run) == _end(last):  # both chunks know what follows these records
                    known = max(known, run_known)
            mapping.source_end = max(mapping.source_end or 0, source_end)
            if before and not runs:
                mapping.changed.add(number)  # other chunks have all of it: it is deleted
                level = before_level
                continue
            if before:
                mapping._chunks.append(_chunk(mapping._next_number, before_level, before))
            mapping._open, mapping._next_number = runs, number
        if mapping._open:
            is_known = known.source >= (mapping.source_end or 0)
            mapping._open[-1] = mapping._open[-1]._replace(is_followed=is_known)
        return mapping


def of_present_copies(
    mappings: Mapping[TopicPartition, OffsetMapping], copy_of: Callable[[str], str], ids: Mapping[str, Uuid]
) -> dict[TopicPartition, OffsetMapping | None]:
    """Return the mappings that may be used: a copy that was deleted and created again has other offsets.

    Args:
        mappings: by partition of the source.
        copy_of: returns the name of a topic's copy.
        ids: of the topics that the cluster of the copies has now, by name.

    Returns:
        By partition of the source; None for a mapping of a topic that is not there any more.
    """
    present: dict[TopicPartition, OffsetMapping | None] = {}
    for of, mapping in mappings.items():
        copy_id = ids.get(copy_of(of.topic))
        present[of] = mapping if copy_id is not None and mapping.is_of(copy_id) else None
    return present


class Mark(NamedTuple):
    """A record on one side.

    Attributes:
        offset: its offset.
        contents: what must be the same on the other side.
    """

    offset: int
    contents: object


def paired(source: Sequence[Mark], target: Sequence[Mark], *, is_first: bool = False) -> list[Run] | None:
    """Return the runs of records that are the same, one after the other, on both sides.

    Args:
        source: all records of a range of the source.
        target: all records of a range of the copy.
        is_first: both ranges begin with the topics, so the oldest records may be gone on one side.

    Returns:
        None if they are not the same: one side has lost records, by compaction or retention, or has them twice.
    """
    if is_first:
        count = min(len(source), len(target))
        source, target = source[len(source) - count :], target[len(target) - count :]
    if [mark.contents for mark in source] != [mark.contents for mark in target]:
        return None
    runs: list[Run] = []
    for (ours, _), (theirs, _) in zip(source, target, strict=True):
        last = runs[-1] if runs else None
        if last is not None and (ours, theirs) == (last.source + last.length, last.target + last.length):
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(Run(ours, theirs, 1))
    return runs


class _Known(NamedTuple):
    """Offsets up to which no other record is behind a run."""

    source: int
    target: int


def _end(run: Run) -> _Known:
    return _Known(run.source + run.length, run.target + run.length)


def _with_known(runs: list[Run], chunk_end: _Known) -> Iterator[tuple[Run, _Known]]:
    """Yield the runs of a chunk, each one with what is known behind it."""
    for run, following in zip(runs, [*runs[1:], None], strict=False):
        behind = chunk_end if following is None else _Known(following.source, following.target)
        yield run, behind if run.is_followed else _end(run)


def _behind(last: Run, run: Run) -> Run | None:
    """Return the part of a run that is behind another one on both sides; None if there is none."""
    end = _end(last)
    skipped = max(0, end.source - run.source)
    if skipped >= run.length or run.target + skipped < end.target:
        return None
    return Run(run.source + skipped, run.target + skipped, run.length - skipped, run.is_followed)


def _chunk(number: int, level: int, runs: list[Run]) -> _Chunk:
    return _Chunk(number, level, _encoded(runs), runs[0].source, runs[0].target)


def _thinned(runs: list[Run]) -> list[Run]:
    """Keep every second run; in the gaps between them, offsets are not known exactly any more."""
    return [run._replace(is_followed=run.is_followed and place + 1 == len(runs)) for place, run in enumerate(runs[::2])]


# -- the form of a chunk: differences to the run before it, as variable-length numbers


def _encoded(runs: list[Run]) -> bytes:
    data = bytearray()
    source = target = 0
    for run in runs:
        for number in (run.source - source, run.target - target, run.length << 1 | run.is_followed):
            _put(data, number)
        source, target = run.source + run.length, run.target + run.length
    return bytes(data)


@lru_cache(maxsize=64)  # the groups of a topic are translated one after the other
def _runs_of(data: bytes) -> tuple[Run, ...]:
    return tuple(_decoded(data))


def _decoded(data: bytes) -> Iterator[Run]:
    source = target = at = 0
    while at < len(data):
        gap, at = _take(data, at)
        other_gap, at = _take(data, at)
        length, at = _take(data, at)
        source, target = source + gap, target + other_gap
        yield Run(source, target, length >> 1, bool(length & 1))
        source, target = source + (length >> 1), target + (length >> 1)


def _put(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _take(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ProtocolError(f"an offset mapping ends within a number, at byte {at}")


class _Value(NamedTuple):
    """The record of a chunk.

    Attributes:
        level: how often it was thinned.
        source_end, target_end: the offsets up to which it knows everything.
        copy_id: id of the copy's topic; zero if it is not known.
        runs: encoded.
    """

    level: int
    source_end: int
    target_end: int
    copy_id: Uuid
    runs: bytes


def _value(level: int, source_end: int, target_end: int, copy_id: Uuid, runs: bytes) -> bytes:
    data = bytearray((_VERSION,))
    for number in (level, source_end, target_end):
        _put(data, number)
    return bytes(data) + copy_id + runs


def _parsed(value: bytes) -> _Value:
    if not value or value[0] > _VERSION:
        raise ProtocolError(f"an offset mapping has the version {value[:1].hex() or 'none'}, not {_VERSION}")
    level, at = _take(value, 1)
    source_end, at = _take(value, at)
    target_end, copy_id = _UNLIMITED, ZERO_UUID
    if value[0] >= 1:
        target_end, at = _take(value, at)
    if value[0] >= _VERSION:
        copy_id, at = Uuid(value[at : at + _ID_SIZE]), at + _ID_SIZE
        if len(copy_id) < _ID_SIZE:
            raise ProtocolError(f"an offset mapping ends within the id of its copy: {value.hex()}")
    return _Value(level, source_end, target_end, copy_id, value[at:])


def mapping_key(source: TopicPartition, chunk: int) -> bytes:
    """Return the key of a chunk's record."""
    topic = source.topic.encode()
    return struct.pack(f">hh{len(topic)}sii", _KEY_VERSION, len(topic), topic, source.partition, chunk)


def parsed_mapping_key(key: bytes) -> tuple[TopicPartition, int]:
    """Return the partition of the source and the number of the chunk of a key.

    Raises:
        ProtocolError: it is not a key of this topic.
    """
    try:
        version, length = struct.unpack_from(">hh", key)
        topic, partition, chunk = struct.unpack_from(f">{length}sii", key, 4)
        if version != _KEY_VERSION or len(key) != 12 + length:
            raise ProtocolError(f"the key {key.hex()} is not one of an offset mapping")
        return TopicPartition(topic.decode(), partition), chunk
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the key {key.hex()} is not one of an offset mapping") from error
