"""`EndHistory`: the ends of partitions at earlier times, from which it computes the age of an offset. Pure.

A sample says where a partition ended at a time. Samples are observed, one per snapshot, or looked up later: a
ListOffsets request with a timestamp returns the first record from that time on, which is where the partition ended
before. Times are seconds on the clock of the caller; for lookups it must be that of the records' timestamps. Start at
`EndHistory.age`.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Final

from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import TopicPartition

SAMPLES_MAX: Final = 64
"""Samples of one partition. When there are more, each second one is dropped, so that they reach back further."""
PRECISION: Final = 0.1
"""An age whose limits are closer than this share of it is not looked up more precisely."""
PRECISION_MIN_S: Final = 2.0
_YOUNGEST_S: Final = 0.1
TRIES_MAX: Final = 12
"""Lookups for one offset; each one halves the limits, or does better."""
FIRST_RECORD_S: Final = 0.0
"""The time of a lookup for the first record of a partition."""


class Age(NamedTuple):
    """How old an offset is.

    Attributes:
        seconds: since the next record after the offset was written; 0 at the end of the partition.
        is_at_least: whether it may be older: no sample is as old.
    """

    seconds: float
    is_at_least: bool


class _Samples:
    """The samples of one partition, by time; offsets never decrease."""

    __slots__ = ("ends", "observed_from_s", "times_s", "tried", "tries")

    def __init__(self, at_s: float, end: int) -> None:
        self.times_s = array("d", (at_s,))
        self.ends = array("q", (end,))
        self.observed_from_s = at_s
        self.tried = -1  # the offset that was looked up last, and how often
        self.tries = 0

    def append(self, at_s: float, end: int) -> None:
        times, ends = self.times_s, self.ends
        if len(ends) >= 2 and ends[-1] == ends[-2] == end and times[-2] >= self.observed_from_s:
            times.pop()  # while nothing is written, the first and the last sample say it
            ends.pop()
        times.append(at_s)
        ends.append(end)
        if len(times) > SAMPLES_MAX:
            self.times_s = times[:-1:2] + times[-1:]
            self.ends = ends[:-1:2] + ends[-1:]

    def insert(self, at_s: float, end: int) -> None:
        """Add a sample of a time before the first one that was observed."""
        place = bisect_left(self.times_s, at_s)
        lowest = self.ends[place - 1] if place else 0
        self.times_s.insert(place, at_s)
        self.ends.insert(place, min(max(end, lowest), self.ends[place]))


class EndHistory:
    """The ends of partitions at earlier times."""

    def __init__(self) -> None:
        self._samples: dict[TopicPartition, _Samples] = {}

    def add(self, now_s: float, ends: Mapping[TopicPartition, int]) -> None:
        """Add an observed sample of each partition, and forget partitions that are gone."""
        for gone in self._samples.keys() - ends.keys():
            del self._samples[gone]
        for partition, end in ends.items():
            samples = self._samples.get(partition)
            if samples is None or end < samples.ends[-1]:  # the topic was created again, or its log truncated
                self._samples[partition] = _Samples(now_s, end)
            else:
                samples.append(now_s, end)

    def samples_of(self, partition: TopicPartition) -> int:
        """Return the number of samples of a partition."""
        samples = self._samples.get(partition)
        return 0 if samples is None else len(samples.times_s)

    def lag_s(self, partition: TopicPartition, committed: int, now_s: float) -> float | None:
        """Return the seconds of `age`; None if the partition has no sample."""
        found = self.age(partition, committed, now_s)
        return None if found is None else found.seconds

    def age(self, partition: TopicPartition, offset: int, now_s: float) -> Age | None:
        """Return since when a group that has committed `offset` is behind: since its next record was written.

        Between two samples, records count as written evenly. A record that is older than the first sample counts as old
        as that one. None if the partition has no sample.
        """
        samples = self._samples.get(partition)
        if samples is None:
            return None
        times, ends = samples.times_s, samples.ends
        after = bisect_right(ends, offset)
        if after == len(ends):
            return Age(0.0, False)
        if after == 0:
            return Age(now_s - times[0], True)
        share = (offset - ends[after - 1]) / (ends[after] - ends[after - 1])
        return Age(now_s - (times[after - 1] + share * (times[after] - times[after - 1])), False)

    def next_lookup(self, partition: TopicPartition, offset: int, now_s: float) -> float | None:
        """Return the time for which a lookup would make the age of an offset more precise; None if it is good enough.

        The first lookup asks for the first record of the partition. Later ones ask in turns for the time at which the
        offset was written if records were written evenly, and for the middle between the limits, by their ages.
        """
        samples = self._samples.get(partition)
        if samples is None:
            return None
        if samples.tried != offset:
            samples.tried, samples.tries = offset, 0
        times, ends = samples.times_s, samples.ends
        after = bisect_right(ends, offset)
        if after == len(ends) or samples.tries >= TRIES_MAX:
            return None
        newest_s = float(times[after])
        if newest_s > samples.observed_from_s:
            return None  # written while it was observed
        if after == 0:
            return FIRST_RECORD_S
        oldest_s = float(times[after - 1])
        share = (offset - ends[after - 1]) / (ends[after] - ends[after - 1])
        age_s = now_s - (oldest_s + share * (newest_s - oldest_s))
        if share == 0 or newest_s - oldest_s <= max(PRECISION_MIN_S, PRECISION * age_s):
            return None
        if samples.tries % 2:
            return oldest_s + share * (newest_s - oldest_s)
        youngest_age_s, oldest_age_s = max(now_s - newest_s, _YOUNGEST_S), now_s - oldest_s
        return now_s - math.sqrt(youngest_age_s * oldest_age_s)

    def found(self, partition: TopicPartition, at_s: float, offset: int, record_s: float | None) -> None:
        """Add what a lookup returned.

        Args:
            partition: the partition.
            at_s: the time that was asked for.
            offset: of the first record from that time on; the end of the partition if there is none.
            record_s: the time of that record; None if there is none.
        """
        samples = self._samples.get(partition)
        if samples is None:
            return
        samples.tries += 1
        if at_s == FIRST_RECORD_S:
            if record_s is not None and FIRST_RECORD_S < record_s < samples.observed_from_s:
                samples.insert(record_s, offset)
                samples.insert(record_s, 0)  # records before it are deleted: they count as old as it
            return
        if at_s < samples.observed_from_s:
            samples.insert(at_s, offset)
        if record_s is not None and at_s < record_s < samples.observed_from_s:
            samples.insert(record_s, offset)
