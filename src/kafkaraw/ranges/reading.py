"""Read ranges of offsets of many partitions, whole batches at a time.

There may be thousands of small ranges, so they are read in groups: one Fetch asks a broker for all partitions of a
group. Three bounds shape a group (`grouped`):

- A Fetch asks for `size_max_bytes` of each partition, and the sum over a group is at most 32 MiB, whatever the number
  of brokers. The reader holds one response of that size while the next one is on its way.
- `size_max_bytes` follows from the number of offsets: records behind the end of a range are fetched for nothing.
- A range of many offsets fills responses by itself, so it has a group of its own: decoding one partition's response
  after the other uses the caches of the processor better.

Within a group, records come in the order of the responses; those of one partition are in the order of their offsets.
Two ranges of one partition are in different groups, in their order, unless they adjoin: then they are read as one.

Records may be gone before they are read. Must not decide whether that is an error: `on_loss` does. Start at
`read_batches`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from kafkaraw.client.fetching.offsets import OffsetLookupTimeoutError
from kafkaraw.core.fetch.failures import is_unknown
from kafkaraw.core.fetch.subscription_state import FetchRange
from kafkaraw.errors import BrokerError, KafkaError, KafkaTimeoutError, LogTruncationError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.ranges.consumer import RangeConsumer
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.records import Batch, TopicPartition

T = TypeVar("T")

_POLL_TIMEOUT_S = 0.1
_END_CHECK_AFTER_S = 1.0
_LOOKUP_LEAST_S: Final = 1.0
"""A lookup that begins just before the end of the poll timeout has this long."""
_OFFSETS_MAX_S: Final = 5.0
"""Meanwhile the records of other partitions wait."""

_GROUP_BYTES: Final = 32 << 20
_GROUP_PARTITIONS: Final = 2_000
_PARTITION_BYTES: Final = 4 << 20
_PARTITION_BYTES_LEAST: Final = 16 << 10
_BYTES_PER_OFFSET: Final = 1 << 10
"""A guess: larger records need more Fetches, and smaller ones are fetched beyond the end of a range."""
_ALONE_FROM_OFFSETS: Final = 32_768


@dataclass(frozen=True)
class ReadLimits:
    """What bounds a read.

    Attributes:
        poll_timeout_ms: the longest time without a change of a position, in ms.
        poll_timeout_name: the setting of the user that gives it, for messages.
        on_loss: called with what is missing, in a sentence; it may raise, and otherwise the read continues without.
    """

    poll_timeout_ms: int
    poll_timeout_name: str
    on_loss: Callable[[str], None]


def read_batches(
    consumer: RangeConsumer, work: Iterable[OffsetRange], limits: ReadLimits
) -> Iterator[tuple[Batch, int]]:
    """Return the fetched batches, each with the end of its range; the last one of a range may reach beyond it.

    Args:
        consumer: it is assigned to the ranges, and is not usable for others after an error.
        work: the partitions and their offsets.
        limits: what bounds the read.

    Raises:
        KafkaTimeoutError: no position advanced for `poll_timeout_ms`.
    """
    for group in grouped(work):
        yield from _GroupRead(consumer, group, limits).fetched()
    consumer.assign([])


def grouped(work: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Distribute ranges to groups that are read one after the other; see the theory above. Pure."""
    waiting = _joined_by_partition(work)
    while waiting:
        group: list[OffsetRange] = []
        size = 0
        for ranges in waiting:  # the next range of each partition, so those of one partition stay in order
            each = ranges.popleft()
            if each.size >= _ALONE_FROM_OFFSETS:
                yield [each]
                continue
            group.append(each)
            size += size_max_bytes(each)
            if size >= _GROUP_BYTES or len(group) == _GROUP_PARTITIONS:
                yield group
                group, size = [], 0
        if group:
            yield group
        waiting = [ranges for ranges in waiting if ranges]


def _joined_by_partition(work: Iterable[OffsetRange]) -> list[deque[OffsetRange]]:
    """Return the ranges of each partition in their order; those that adjoin are joined."""
    found: dict[TopicPartition, deque[OffsetRange]] = {}
    for each in work:
        ranges = found.setdefault(each.topic_partition, deque())
        if ranges and (ranges[-1].end, ranges[-1].topic_id) == (each.start, each.topic_id):
            ranges[-1] = replace(ranges[-1], end=each.end)
        else:
            ranges.append(each)
    return list(found.values())


def size_max_bytes(work: OffsetRange) -> int:
    """Return how much of the range's partition one Fetch asks for."""
    return min(max(work.size * _BYTES_PER_OFFSET, _PARTITION_BYTES_LEAST), _PARTITION_BYTES)


@dataclass(slots=True)
class _RangeState:
    """How far a range has been read.

    Attributes:
        position: the next offset.
        end: the offset before which it ends; moved back if the log ends before.
    """

    topic_partition: TopicPartition
    position: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"


class _GroupRead:
    """One pass over a group of ranges, of different partitions. Its attributes are the state that the steps share."""

    def __init__(self, consumer: RangeConsumer, work: Sequence[OffsetRange], limits: ReadLimits) -> None:
        self._consumer = consumer
        self._limits = limits
        self._ranges = {each.topic_partition: FetchRange(each.start, each.end, size_max_bytes(each)) for each in work}
        self._left = {
            each.topic_partition: _RangeState(each.topic_partition, each.start, each.end)
            for each in work
            if each.start < each.end
        }  # the ranges that are not read to their ends
        self._topic_ids = {each.topic: each.topic_id for each in work}  # of the topics that the driver has planned
        self._waiting_since_s = 0.0
        self._check_ends_after_s = _END_CHECK_AFTER_S

    def fetched(self) -> Iterator[tuple[Batch, int]]:
        """Return the fetched batches, each with the end of its range; the last one of a range may reach beyond it."""
        if not self._left:
            return
        self._consumer.assign_ranges(self._ranges)
        self._waiting_since_s = time.monotonic()
        while self._left:
            has_advanced = False
            for of, batch in (self._unless_gone(self._poll) or {}).items():
                state = self._left.get(of)
                if state is None:
                    continue
                has_advanced |= batch.next_offset > state.position
                self._advance(state, batch.next_offset)
                yield batch, state.end
            # Aborted transactions and compaction leave long ranges without a record: to read them is progress, too.
            if not has_advanced:
                has_advanced = self._advance_without_records()
            if has_advanced:
                self._waiting_since_s, self._check_ends_after_s = time.monotonic(), _END_CHECK_AFTER_S
            elif self._left:
                self._unless_gone(self._check_waiting)

    def _advance(self, state: _RangeState, offset: int) -> None:
        state.position = max(state.position, offset)
        if state.position >= state.end:
            self._left.pop(state.topic_partition, None)

    def _advance_without_records(self) -> bool:
        """Take the consumer's positions, which are behind stretches without records; return whether one has moved."""
        has_advanced = False
        positions = self._consumer.positions()
        for state in list(self._left.values()):
            offset = positions.get(state.topic_partition, state.position)
            has_advanced |= offset > state.position
            self._advance(state, offset)
        return has_advanced

    def _poll(self) -> dict[TopicPartition, Batch]:
        try:
            fetched = self._consumer.poll(_POLL_TIMEOUT_S)
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            self._skip_what_is_gone()
            return {}
        except LogTruncationError:
            self._report_truncation()
            self._skip_what_is_gone()
            return {}
        others = self._of_other_topics(dict.fromkeys(of.topic for of in fetched))
        return {of: batch for of, batch in fetched.items() if of.topic not in others} if others else fetched

    # -- topics that are gone

    def _unless_gone(self, ask: Callable[[], T]) -> T | None:
        """Ask. Unknown topics and partitions end their ranges, unless a second lookup finds them."""
        try:
            return ask()
        except KafkaError as error:
            if not is_unknown(error):
                raise
        failures = self._consumer.failures()
        suspects = [state for of, state in self._left.items() if of in failures and is_unknown(failures[of])]
        suspects = suspects or list(self._left.values())
        for topic in dict.fromkeys(state.topic_partition.topic for state in suspects):
            self._look_again(topic, [state for state in suspects if state.topic_partition.topic == topic])
        return None

    def _look_again(self, topic: str, suspects: Sequence[_RangeState]) -> None:
        """End the ranges whose partitions brokers do not know; they have some seconds to learn of a topic."""
        try:
            known = set(self._consumer.partitions_for(topic, self._lookup_s()))
        except KafkaError as error:
            if not is_unknown(error):
                raise
            known = set()
        gone = [state for state in suspects if state.topic_partition not in known]
        self._end_with_loss({state.topic_partition: f"{state.name} does not exist any more" for state in gone})
        if len(gone) < len(suspects) and not self._of_other_topics({topic}):
            for state in suspects:
                if state.topic_partition in known:
                    self._consumer.seek(state.topic_partition, state.position)

    def _of_other_topics(self, topics: Iterable[str]) -> set[str]:
        """Return those of the topics that are not the ones that the driver has planned; end the ranges of theirs.

        The ranges do not end if only the consumer's metadata is outdated and has an older topic of that name: then
        the consumer fetches again.
        """
        found: set[str] = set()
        for topic in topics:
            if not self._knows_another_topic(topic):
                continue
            found.add(topic)
            self._consumer.partitions_for(topic, self._lookup_s())
            states = [state for of, state in self._left.items() if of.topic == topic]
            if self._knows_another_topic(topic):
                why = f"topic {topic} was deleted and created again"
                self._end_with_loss({state.topic_partition: why for state in states})
            else:
                for state in states:
                    self._consumer.seek(state.topic_partition, state.position)
        return found

    def _knows_another_topic(self, topic: str) -> bool:
        planned, known = self._topic_ids[topic], self._consumer.topic_id(topic)
        return ZERO_UUID not in (planned, known) and planned != known

    def _end_with_loss(self, reasons: dict[TopicPartition, str]) -> None:
        for of, why in reasons.items():
            state = self._left.pop(of)
            self._report_loss(f"{why}, {state.name} is gone from offset {state.position} on")
        if reasons:
            self._stop_reading(reasons)

    # -- offsets that are gone

    def _skip_what_is_gone(self) -> None:
        """Handle positions outside the log: continue at the log start offset, or stop at the end of the log."""
        lost = self._consumer.out_of_range()
        others = self._of_other_topics(dict.fromkeys(of.topic for of in lost))
        states = [self._left[of] for of in lost if of in self._left and of.topic not in others]
        firsts = self._looked_up(self._consumer.beginning_offsets, states)
        beyond = []
        for state in states:
            first = firsts.get(state.topic_partition)
            if first is None:
                continue
            if first > state.position:
                self._report_loss(f"{state.name} starts at offset {first} now, {state.position} is gone")
                self._advance(state, first)
            else:
                beyond.append(state)
        self._check_ends(beyond)
        for state in states:
            if state.topic_partition in self._left:
                self._consumer.seek(state.topic_partition, state.position)
        self._stop_reading(of for of in lost if of not in self._left)

    def _report_truncation(self) -> None:
        """Report that a new leader has other records than those that were read (KIP-320)."""
        for of in self._consumer.out_of_range():
            state = self._left.get(of)
            if state is not None:
                self._report_loss(
                    f"the log of {state.name} was truncated before offset {state.position}, as by an unclean leader "
                    f"election: records that were read are gone, and others may have their offsets"
                )

    def _check_waiting(self) -> None:
        waited_s = time.monotonic() - self._waiting_since_s
        if waited_s >= self._check_ends_after_s:
            self._check_ends_after_s = waited_s + _END_CHECK_AFTER_S
            self._check_ends(list(self._left.values()))
            if self._of_other_topics(dict.fromkeys(of.topic for of in self._left)):
                return
        if self._left and waited_s * 1000 >= self._limits.poll_timeout_ms:
            state = next(iter(self._left.values()))
            raise KafkaTimeoutError(
                f"{state.name}: the position {state.position} did not advance within "
                f"{self._limits.poll_timeout_ms} ms, the read ends at offset {state.end}; is its leader up? "
                f"({self._limits.poll_timeout_name} sets the limit)"
            )

    def _check_ends(self, states: Sequence[_RangeState]) -> None:
        """Move the ends of ranges back to the ends of their logs."""
        ends = self._looked_up(self._consumer.end_offsets, states)
        for state in states:
            end = ends.get(state.topic_partition, state.end)
            if end < state.end:
                self._report_loss(f"{state.name} ends at offset {end} now, records up to {state.end} were expected")
                state.end = end
                self._advance(state, state.position)
        self._stop_reading(state.topic_partition for state in states if state.topic_partition not in self._left)

    def _looked_up(
        self,
        ask: Callable[[Iterable[TopicPartition], float], Mapping[TopicPartition, int]],
        states: Sequence[_RangeState],
    ) -> Mapping[TopicPartition, int]:
        """Look up offsets in the time that is left; partitions whose leaders do not answer in time are left out."""
        if not states:
            return {}
        try:
            return ask([state.topic_partition for state in states], min(self._lookup_s(), _OFFSETS_MAX_S))
        except OffsetLookupTimeoutError as error:
            return {of: found.offset for of, found in error.found.items()}
        except KafkaTimeoutError:
            return {}

    def _lookup_s(self) -> float:
        """Return how long a lookup may take, in seconds, so that the task ends in time if leaders do not answer."""
        waited_s = time.monotonic() - self._waiting_since_s
        return max(self._limits.poll_timeout_ms / 1000 - waited_s, _LOOKUP_LEAST_S)

    def _stop_reading(self, partitions: Iterable[TopicPartition]) -> None:
        """Unassign partitions whose ranges have ended before the consumer has read to their ends."""
        assigned = set(self._consumer.assignment())
        gone = [of for of in partitions if of in assigned]
        if gone:
            self._consumer.incremental_unassign(gone)

    def _report_loss(self, what: str) -> None:
        self._limits.on_loss(what)
