"""Offset syncs: MirrorMaker 2's records that pair an offset of a source with one of its copy, and their translation.

MirrorMaker's checkpoint connector and other programs read them from `mm2-offset-syncs.<alias>.internal`, which the
source has by default. This mirror writes them for these programs; its own translations use the exact mapping
(`mapping.py`). `SyncSchedule` decides when a pair is written, as MirrorMaker does. `translated` is what MirrorMaker
makes of syncs, for copies that MirrorMaker has made. Pure. Start at `OffsetSync`.
Source: Kafka's OffsetSync, OffsetSyncWriter, OffsetSyncStore.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence

from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.mapping import Translation
from kafkaraw.records import TopicPartition


class OffsetSync(NamedTuple):
    """A record of the topic of offset syncs.

    Attributes:
        source: the partition of the source.
        upstream_offset: of a record there.
        downstream_offset: of the same record in the copy.
    """

    source: TopicPartition
    upstream_offset: int
    downstream_offset: int

    @property
    def key(self) -> bytes:
        """The key of the record."""
        topic = self.source.topic.encode()
        return struct.pack(f">h{len(topic)}si", len(topic), topic, self.source.partition)

    @property
    def value(self) -> bytes:
        """The value of the record."""
        return struct.pack(">qq", self.upstream_offset, self.downstream_offset)

    @classmethod
    def of_record(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Return the offset sync of a record.

        Raises:
            ProtocolError: it is not one.
        """
        try:
            (length,) = struct.unpack_from(">h", key or b"")
            topic, partition = struct.unpack_from(f">{length}si", key or b"", 2)
            upstream, downstream = struct.unpack_from(">qq", value or b"")
            return cls(TopicPartition(topic.decode(), partition), upstream, downstream)
        except (struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"a record is no offset sync: key {key!r}, value {value!r}") from error


class SyncSchedule:
    """Decides which offset syncs are written: at each change of the difference, and at least every `lag_max` records.

    Of each partition, only the newest pair that is due is kept.

    Args:
        lag_max: MirrorMaker's `offset.lag.max`.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._due: dict[TopicPartition, OffsetSync] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._last: dict[TopicPartition, tuple[OffsetSync, OffsetSync]] = {}  # of the last batch, and the last one due

    def add(self, batch: CopiedBatch) -> None:
        """Take note of a copied batch."""
        if not batch.runs:
            return
        source = batch.source
        sync = OffsetSync(source, batch.runs[-1].stop - 1, batch.target_base_offset + batch.records_count - 1)
        last, due = self._last.get(source, (None, None))
        is_due = last is None or due is None or self._has_stepped(last, batch)
        if is_due or (due is not None and sync.downstream_offset - (due.downstream_offset + 1) >= self._lag_max):
            self._due[source] = due = sync
            self._delayed.pop(source, None)
        else:
            self._delayed[source] = sync
        assert due is not None
        self._last[source] = sync, due

    @staticmethod
    def _has_stepped(last: OffsetSync, batch: CopiedBatch) -> bool:
        skipped = batch.runs[0].start - last.upstream_offset != 1 or len(batch.runs) > 1
        return skipped or batch.target_base_offset <= last.downstream_offset

    def take(self, *, delayed: bool = False) -> list[OffsetSync]:
        """Return the syncs to write now.

        Args:
            delayed: also those of partitions that have grown by less than `lag_max`, for when nothing else happens.
        """
        found = dict(self._due)
        self._due.clear()
        if delayed:
            found |= self._delayed
            for source, sync in self._delayed.items():
                self._last[source] = self._last[source][0], sync
            self._delayed.clear()
        return list(found.values())


def translated(syncs: Sequence[OffsetSync], offset: int) -> Translation | None:
    """Return what MirrorMaker makes of an offset of the source.

    Args:
        syncs: of one partition, in their order in the topic.
        offset: of the source.

    Returns:
        The offset of the nearest sync before it, plus one if it is behind that; None if there is none.
    """
    usable: list[OffsetSync] = []
    for sync in syncs:
        if usable and sync.upstream_offset < usable[-1].upstream_offset:
            usable.clear()  # the source has begun anew
        usable.append(sync)
    place = bisect_right(usable, offset, key=lambda sync: sync.upstream_offset) - 1
    if place < 0:
        return None
    step = 0 if usable[place].upstream_offset == offset else 1
    is_next = offset - usable[place].upstream_offset <= 1
    return Translation(usable[place].downstream_offset + step, is_next)
