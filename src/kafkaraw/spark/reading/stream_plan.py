"""The decisions of a streaming query's driver: where to start, and where the next micro-batch ends. Pure.

Theory of operation. Spark's driver keeps one `StreamPlan` for the life of a query and calls `latest(start)` for each
batch; the answer goes into the checkpoint before any task runs. Six rules shape this module:

1. The start of batch 0 is not in the checkpoint. If the driver crashes between writing the offsets of batch 0 and
   committing it, the restarted query calls `initial()` again and then reads from there to the *logged* end. If the
   start was "latest", all records that arrived in between would be lost. So where a start is "latest", batch 0 is
   empty: its end is its start, and from then on the start is in the checkpoint.
   With Trigger.Once there is no second batch, so an empty one would read nothing at all. In that case, only the
   partitions that start at "latest" stay at their start; the others are read.
2. Spark calls `initial()` twice for batch 0. It must return the same offsets both times, so the plan keeps them.
3. Spark compares offsets as text: if there are no new records, `latest` returns exactly the start that it was given.
4. `minOffsetsPerTrigger` works the same way: `latest` reports too few records as none, until enough time has passed.
5. A topic that was deleted and created again has another id, even if its offsets look the same. The checkpoint has no
   field for ids, so the plan knows them only while it lives. If such a loss is to be ignored, one batch ends at the
   first offset of the new topic, before its start, and so reads nothing of it; then the checkpoint holds the offset at
   which the new topic begins.
6. A partition whose offset leaves the checkpoint counts as new when it returns, and is read from its start. So brokers
   are asked by name about a topic that the query has read before it counts as deleted (`OffsetLookup.expect`). If that
   loss is to be ignored, the offsets of a topic that this plan has seen stay in the checkpoint for another minute: if
   the same topic returns, as its id shows, the query continues at its offsets; another topic is case 5.

This module must not wait, retry or talk to a broker: `OffsetLookup` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from kafkaraw.protocol import Uuid
from kafkaraw.ranges.planning import OffsetRange, prorate, ranges_between
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.offsets import OffsetForms, OffsetJson, PartitionOffsets
from kafkaraw.spark.options.positions import Lookup, Position, Resolved

_log = logging.getLogger(__name__)

_MISSING_KEPT_S: Final = 60.0
"""How long the offsets of a missing topic stay in the checkpoint if `failOnDataLoss` is false."""


class OffsetLookup(Lookup, Protocol):
    """What the plan needs to know of the cluster."""

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the query currently subscribes to."""
        ...

    def expect(self, topics: Collection[str]) -> None:
        """Look these topics up by name if a list of topics does not have them: the query has read them."""
        ...

    def ends(self, known: PartitionOffsets = ...) -> PartitionOffsets:
        """Return the ends of existing partitions; an end from `known` if a leader cannot return it at present."""
        ...

    def topic_ids(self, *, newest: bool = False) -> dict[str, Uuid]:
        """Return the ids of their topics, as far as they are known; look them up again if `newest`."""
        ...


@dataclass(frozen=True)
class BatchLimits:
    """Conditions on which a micro-batch begins; its maximum size is an argument of each call.

    Attributes:
        rows_min: wait until this many offsets are new; None not to wait.
        delay_max_ms: the longest time to wait for them, since the last batch.
    """

    rows_min: int | None = None
    delay_max_ms: int = 0


class _AtTarget:
    """A lookup that returns the ends of the partitions as they were looked up shortly before."""

    def __init__(self, lookup: OffsetLookup, target: PartitionOffsets) -> None:
        self.earliest = lookup.earliest
        self.at_timestamps = lookup.at_timestamps
        self._target = target

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """Return those ends."""
        return {tp: self._target[tp] for tp in partitions}


def _is_behind(available: PartitionOffsets, begin: PartitionOffsets) -> bool:
    return any(available.get(tp, 0) < offset for tp, offset in begin.items())


class StreamPlan:
    """See the module's theory of operation.

    Args:
        lookup: looks up partitions and offsets in the cluster.
        starting: where to start, according to the options.
        fail_on_data_loss: raise an error if records are missing, instead of logging a warning.
        limits: when a batch is large enough.
        now_s: a clock, in seconds.
    """

    def __init__(
        self,
        lookup: OffsetLookup,
        starting: Position,
        *,
        fail_on_data_loss: bool,
        limits: BatchLimits = BatchLimits(),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._starting = starting
        self._fail_on_data_loss = fail_on_data_loss
        self._limits = limits
        self._now_s = now_s
        self._planned_s: float | None = None
        self._initial: Resolved | None = None
        self._opening = False
        self._target: PartitionOffsets | None = None
        self._known_latest: PartitionOffsets | None = None
        self._forms = OffsetForms()
        self._topic_ids: dict[str, Uuid] = {}
        self._missing_since_s: dict[TopicPartition, float] = {}

    @property
    def known_latest(self) -> OffsetJson | None:
        """Return the ends of the partitions when they were last looked up, for progress events."""
        return None if self._known_latest is None else self._forms.as_json(self._known_latest)

    @property
    def has_target(self) -> bool:
        """Return whether the query ends at offsets fixed at its start (Trigger.AvailableNow)."""
        return self._target is not None

    def fix_target(self) -> None:
        """Read up to what is available now and no further (Trigger.AvailableNow).

        A start of "latest" is fixed now, too: if it were looked up later, it could be after the target.
        """
        self._target = self._look_up_latest({})
        self._find_remade([])

    def initial(self) -> OffsetJson:
        """Return the start of a query without a checkpoint; the same offsets for the life of this plan."""
        if self._initial is None:
            target = self._target
            if target is None:
                self._initial = self._starting.resolve(self._lookup.partitions(), self._lookup)
            else:
                self._initial = self._starting.resolve(target, _AtTarget(self._lookup, target))
            self._opening = True
            self._find_remade([])
        return self._forms.as_json(self._initial.offsets)

    def latest(
        self,
        start: OffsetJson,
        rows_max: int | None,
        wait: Callable[[PartitionOffsets], PartitionOffsets] | None = None,
    ) -> OffsetJson:
        """Return the end of the next batch.

        Args:
            start: where the batch starts.
            rows_max: about how many offsets it may have; None (Trigger.Once) for all.
            wait: called with the start if there are no new records. Waits briefly for new ones; returns the ends.

        Returns:
            the end; `start` itself if there are no new records.

        Raises:
            DataLossError: partitions end before the start, were deleted or created again, and `failOnDataLoss` is true.
        """
        begin = self._forms.parsed(start)
        held = self._held_at_start(begin)
        if held and rows_max is not None:
            return start
        self._lookup.expect({tp.topic for tp in begin})
        available, remade = self._look(begin, None if self.has_target or held else wait)
        self._check_loss(begin, available, remade)
        if rows_max is not None and not remade and self._is_too_early(begin, available):
            return start
        begin = begin | self._starts_of_new(begin, available)
        end = available if rows_max is None else prorate(begin, available, rows_max)
        if held:
            end = {tp: begin[tp] if tp in held else offset for tp, offset in end.items()}
        answer = self._forms.as_json(end)
        return start if answer == start else answer

    def _is_too_early(self, begin: PartitionOffsets, available: PartitionOffsets) -> bool:
        """Return whether `minOffsetsPerTrigger` asks to wait for more; never with Trigger.AvailableNow."""
        if self._limits.rows_min is None or self.has_target:
            return False
        now_s = self._now_s()
        rows = sum(offset - begin.get(tp, 0) for tp, offset in available.items())
        in_time = self._planned_s is not None and (now_s - self._planned_s) * 1000 < self._limits.delay_max_ms
        if rows < self._limits.rows_min and in_time:
            return True
        self._planned_s = now_s
        return False

    def ranges(self, start: OffsetJson, end: OffsetJson) -> list[OffsetRange]:
        """Return the ranges between two offsets of this query; those new in `end` are read from their first."""
        # Called before the first latest(): Spark repeats a logged batch 0, so its end is in the checkpoint already.
        self._opening = False
        begin, until = self._forms.parsed(start), self._forms.parsed(end)
        self._lookup.expect({tp.topic for tp in begin | until})
        if not self._topic_ids:  # Spark first repeats a batch that is in the checkpoint
            self._find_remade([])
        work = ranges_between(begin | self._starts_of_new(begin, until), until, self._topic_ids)
        there = set(self._lookup.partitions()) if work else set()
        for each in work:
            if each.topic_partition not in there:
                self._report_loss(f"{each.topic}-{each.partition} is gone from offset {each.start} on")
        return [each for each in work if each.topic_partition in there]

    def _held_at_start(self, begin: PartitionOffsets) -> frozenset[TopicPartition]:
        """Return the partitions that batch 0 must leave at their start; none after batch 0 is planned."""
        initial, opening, self._opening = self._initial, self._opening, False
        if initial is None or not opening or initial.offsets != begin:
            return frozenset()
        return initial.at_latest

    def _available(self, begin: PartitionOffsets) -> PartitionOffsets:
        if self._target is None:
            return self._look_up_latest(begin)
        # The target was fixed before Spark passed the offsets that the query has read, so a topic may be missing in it.
        left_out = begin.keys() - self._target.keys()
        there = [tp for tp in self._lookup.partitions() if tp in left_out] if left_out else []
        self._target = self._target | self._lookup.latest(there)
        return self._target

    def _look(
        self, begin: PartitionOffsets, wait: Callable[[PartitionOffsets], PartitionOffsets] | None
    ) -> tuple[PartitionOffsets, frozenset[str]]:
        """Return how far each partition can be read from `begin`, and which topics were created again."""
        available = self._available(begin)
        kept = self._kept(begin, available)
        remade = self._find_remade(begin, newest=_is_behind(available | kept, begin))
        if wait is not None and available | kept == begin and not remade:
            available = self._known_latest = wait(available)
            kept = self._kept(begin, available)
            remade = self._find_remade(begin, newest=_is_behind(available | kept, begin))
        available = available | kept
        return (self._at_beginnings(remade, begin, available) if remade else available), remade

    def _kept(self, begin: PartitionOffsets, available: PartitionOffsets) -> PartitionOffsets:
        """Return the offsets of missing partitions that may return; see 6. in the theory of operation."""
        gone = {tp for tp in begin if tp not in available and tp.topic in self._topic_ids}
        if self._fail_on_data_loss or not gone:
            self._missing_since_s.clear()
            return {}
        now_s = self._now_s()
        for topic in sorted({tp.topic for tp in gone - self._missing_since_s.keys()}):
            _log.warning(
                "topic %s is gone; its offsets stay in the checkpoint for %g s, in case it comes back",
                topic,
                _MISSING_KEPT_S,
            )
        self._missing_since_s = {tp: self._missing_since_s.get(tp, now_s) for tp in gone}
        return {tp: begin[tp] for tp, since_s in self._missing_since_s.items() if now_s - since_s < _MISSING_KEPT_S}

    def _find_remade(self, begin: Iterable[TopicPartition], *, newest: bool = False) -> frozenset[str]:
        """Return the topics of the query that have another id than at the last lookup."""
        before, now = self._topic_ids, self._lookup.topic_ids(newest=newest)
        self._topic_ids = before | now
        changed = {topic for topic, topic_id in now.items() if before.get(topic, topic_id) != topic_id}
        return frozenset(tp.topic for tp in begin if tp.topic in changed) if changed else frozenset()

    def _at_beginnings(
        self, remade: frozenset[str], begin: PartitionOffsets, available: PartitionOffsets
    ) -> PartitionOffsets:
        """Return the available ends; topics that were created again end where they start, in a target, too."""
        there = [tp for tp in self._lookup.partitions() if tp in begin and tp.topic in remade]
        others = {tp: offset for tp, offset in available.items() if tp not in begin or tp.topic not in remade}
        found = others | self._lookup.earliest(there)
        if self._target is not None:
            self._target = found
        return found

    def _look_up_latest(self, known: PartitionOffsets) -> PartitionOffsets:
        self._known_latest = self._lookup.ends(known)
        return self._known_latest

    def _starts_of_new(self, begin: PartitionOffsets, end: PartitionOffsets) -> PartitionOffsets:
        new = sorted(end.keys() - begin.keys())
        if not new:
            return {}
        starts = self._lookup.earliest(new)
        for tp in new:
            if starts[tp] > 0 and begin:
                self._report_loss(
                    f"the new partition {tp.topic}-{tp.partition} starts at offset {starts[tp]} instead of 0: "
                    "records written before it was found are gone"
                )
        return starts

    def _check_loss(self, begin: PartitionOffsets, available: PartitionOffsets, remade: frozenset[str]) -> None:
        lost = [tp for tp, offset in begin.items() if tp.topic in remade or available.get(tp, -1) < offset]
        for tp in sorted(lost):
            if tp.topic in remade:
                self._report_loss(
                    f"topic {tp.topic} was deleted and created again; the query had read {tp.topic}-{tp.partition} "
                    f"up to offset {begin[tp]}"
                )
            elif tp not in available:
                self._report_loss(f"{tp.topic}-{tp.partition} is gone; the query had read it up to offset {begin[tp]}")
            else:
                self._report_loss(
                    f"{tp.topic}-{tp.partition} ends at offset {available[tp]}, before {begin[tp]} where the query "
                    "continues: the topic was deleted and created again, records were truncated, or startingOffsets "
                    "of a new query lies beyond the end"
                )

    def _report_loss(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError.explained(what)
        _log.warning("records may be missing: %s", what)
