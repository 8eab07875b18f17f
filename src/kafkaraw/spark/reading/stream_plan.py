"""The decisions of a streaming query's driver: where to start, how far the next batch goes. Pure.

Theory of operation. Spark's driver keeps one `StreamPlan` for the life of a query and asks, per batch, for
`latest(start)`; the answer goes into the checkpoint before any task runs. Six things shape this module:

1. The start of batch 0 is not in the checkpoint. When the driver dies between writing the offsets of batch 0 and
   committing it, the restarted query asks for `initial()` anew and then reads from there to the *logged* end. If the
   start was "latest", everything that arrived in between would be lost. So where a start is "latest", batch 0 is made
   empty: its end is the start, and from then on the start is in the checkpoint.
   With Trigger.Once there is no second batch, so an empty one would read nothing at all. There only the partitions
   that start at "latest" are held at their start; the others are read.
2. `initial()` is called twice for batch 0. It must answer the same both times, so it is kept.
3. Offsets are compared as text: when nothing is new, `latest` answers with the very start it was given.
4. `minOffsetsPerTrigger` is met the same way: too little is told to Spark as nothing new, until enough time has passed.
5. A topic that was deleted and made again has another id, whatever its offsets. The checkpoint has no room for ids, so
   they are known for the life of the plan. When such a loss is to be put up with, one batch ends at the first offset of
   the new topic, before its start, and so reads nothing of it; then the checkpoint holds where the new topic begins.
6. A partition whose offset leaves the checkpoint is new when it comes back, and is read from its start. So brokers are
   asked by name about a topic that the query has read before it counts as deleted (`OffsetLookup.expect`). If that loss
   is to be put up with, the offsets of a topic that this plan has seen stay in the checkpoint for another minute: if
   the same topic comes back, which its id tells, the query goes on where it was; another topic is case 5.

It must not wait, retry or talk to a broker: `OffsetLookup` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.offsets import OffsetJson, PartitionOffsets, from_checkpoint, to_json
from kafkaraw.spark.options.positions import Lookup, Position, Resolved
from kafkaraw.spark.reading.planning import OffsetRange, prorate, ranges_between

_log = logging.getLogger(__name__)

_MISSING_KEPT_S: Final = 60.0
"""How long the offsets of a topic that is gone stay in the checkpoint when `failOnDataLoss` is false."""


class OffsetLookup(Lookup, Protocol):
    """What the plan needs to know of the cluster."""

    def partitions(self) -> list[TopicPartition]:
        """The partitions that the query subscribes to, as of now."""
        ...

    def expect(self, topics: Collection[str]) -> None:
        """Look these topics up by name when a list of topics leaves them out: the query has read them."""
        ...

    def ends(self, known: PartitionOffsets = ...) -> PartitionOffsets:
        """The ends of those that exist; of `known` where a leader cannot tell the end for the time being."""
        ...

    def topic_ids(self, *, newest: bool = False) -> dict[str, Uuid]:
        """The ids of their topics, as far as they are known; asks anew for the `newest`."""
        ...


@dataclass(frozen=True)
class BatchLimits:
    """When a micro-batch is large enough to begin; how far it goes is asked for each time.

    Attributes:
        rows_min: wait until there are so many offsets; None to wait for none.
        delay_max_ms: how long to wait for them at most, since the last batch.
    """

    rows_min: int | None = None
    delay_max_ms: int = 0


class _AtTarget:
    """A lookup in which the ends of the partitions are those of a moment ago."""

    def __init__(self, lookup: OffsetLookup, target: PartitionOffsets) -> None:
        self.earliest = lookup.earliest
        self.at_timestamps = lookup.at_timestamps
        self._target = target

    def latest(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        """The ends, then."""
        return {tp: self._target[tp] for tp in partitions}


def _is_behind(available: PartitionOffsets, begin: PartitionOffsets) -> bool:
    return any(available.get(tp, 0) < offset for tp, offset in begin.items())


class StreamPlan:
    """See the module's theory of operation.

    Args:
        lookup: what the cluster says.
        starting: what the options say of the start.
        fail_on_data_loss: raise instead of warn when records are found missing.
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
        self._topic_ids: dict[str, Uuid] = {}
        self._missing_since_s: dict[TopicPartition, float] = {}

    @property
    def known_latest(self) -> OffsetJson | None:
        """The ends of the partitions when they were last looked up, for progress events."""
        return None if self._known_latest is None else to_json(self._known_latest)

    @property
    def has_target(self) -> bool:
        """Whether the query ends at offsets fixed at its start (Trigger.AvailableNow)."""
        return self._target is not None

    def fix_target(self) -> None:
        """Read up to what is available now and no further (Trigger.AvailableNow).

        A start of "latest" means this very moment, too: taken later, it could lie beyond the target.
        """
        self._target = self._look_up_latest({})
        self._find_remade([])

    def initial(self) -> OffsetJson:
        """Where a query without a checkpoint starts; the same answer for the life of this plan."""
        if self._initial is None:
            target = self._target
            if target is None:
                self._initial = self._starting.resolve(self._lookup.partitions(), self._lookup)
            else:
                self._initial = self._starting.resolve(target, _AtTarget(self._lookup, target))
            self._opening = True
            self._find_remade([])
        return to_json(self._initial.offsets)

    def latest(
        self,
        start: OffsetJson,
        rows_max: int | None,
        wait: Callable[[PartitionOffsets], PartitionOffsets] | None = None,
    ) -> OffsetJson:
        """How far the next batch goes.

        Args:
            start: where it starts.
            rows_max: about how many offsets it may take; None (Trigger.Once) for all.
            wait: called with the start when nothing is new, to wait a little for something to come; gives the ends.

        Returns:
            the end; `start` itself when there is nothing new.

        Raises:
            DataLossError: partitions end before the start, or are gone or made anew, and `failOnDataLoss` is true.
        """
        begin = from_checkpoint(start)
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
        end = {tp: begin[tp] if tp in held else offset for tp, offset in end.items()}
        return start if to_json(end) == start else to_json(end)

    def _is_too_early(self, begin: PartitionOffsets, available: PartitionOffsets) -> bool:
        """Whether to wait for more, as `minOffsetsPerTrigger` says; never when the query ends with what there is."""
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
        """The work between two offsets of this query; partitions that are new in `end` are read from their first."""
        # Asked for before the first latest(): Spark repeats a logged batch 0, so its end is in the checkpoint already.
        self._opening = False
        begin, until = from_checkpoint(start), from_checkpoint(end)
        self._lookup.expect({tp.topic for tp in begin | until})
        if not self._topic_ids:  # Spark repeats a batch that is in the checkpoint, before anything else
            self._find_remade([])
        work = ranges_between(begin | self._starts_of_new(begin, until), until, self._topic_ids)
        there = set(self._lookup.partitions())
        for each in work:
            if each.topic_partition not in there:
                self._report_loss(f"{each.topic}-{each.partition} is gone from offset {each.start} on")
        return [each for each in work if each.topic_partition in there]

    def _held_at_start(self, begin: PartitionOffsets) -> frozenset[TopicPartition]:
        """The partitions that batch 0 must leave where they are; none once batch 0 is planned."""
        initial, opening, self._opening = self._initial, self._opening, False
        if initial is None or not opening or initial.offsets != begin:
            return frozenset()
        return initial.at_latest

    def _available(self, begin: PartitionOffsets) -> PartitionOffsets:
        if self._target is None:
            return self._look_up_latest(begin)
        # The target was fixed before Spark told what the query has read, so a topic may have been left out.
        left_out = begin.keys() - self._target.keys()
        there = [tp for tp in self._lookup.partitions() if tp in left_out] if left_out else []
        self._target = self._target | self._lookup.latest(there)
        return self._target

    def _look(
        self, begin: PartitionOffsets, wait: Callable[[PartitionOffsets], PartitionOffsets] | None
    ) -> tuple[PartitionOffsets, frozenset[str]]:
        """How far one can read from `begin`, and which topics were made anew."""
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
        """The offsets of partitions that are gone and may come back; see 6. in the theory of operation."""
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
        """Which topics of the query are other ones than when they were looked at last, under the same name."""
        before, now = self._topic_ids, self._lookup.topic_ids(newest=newest)
        self._topic_ids = before | now
        changed = {topic for topic, topic_id in now.items() if before.get(topic, topic_id) != topic_id}
        return frozenset(tp.topic for tp in begin if tp.topic in changed)

    def _at_beginnings(
        self, remade: frozenset[str], begin: PartitionOffsets, available: PartitionOffsets
    ) -> PartitionOffsets:
        """What is available, but of the topics made anew no more than where they start; that goes for a target, too."""
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
        new = sorted(set(end) - set(begin))
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
        for tp in sorted(begin):
            if tp.topic in remade:
                self._report_loss(
                    f"topic {tp.topic} was deleted and made again; the query had read {tp.topic}-{tp.partition} "
                    f"up to offset {begin[tp]}"
                )
            elif tp not in available:
                self._report_loss(f"{tp.topic}-{tp.partition} is gone; the query had read it up to offset {begin[tp]}")
            elif available[tp] < begin[tp]:
                self._report_loss(
                    f"{tp.topic}-{tp.partition} ends at offset {available[tp]}, before {begin[tp]} where the query "
                    "wants to go on: the topic was deleted and made again, records were cut off, or startingOffsets "
                    "of a new query lies beyond the end"
                )

    def _report_loss(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError.explained(what)
        _log.warning("records may be missing: %s", what)
