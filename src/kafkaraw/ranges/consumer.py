"""`RangeConsumer`: a consumer that reads given ranges of many partitions, and stops fetching each at its end.

One Fetch to each broker asks for all of its partitions. A partition that has reached the end of its range is not in the
next Fetch, which is on its way while the caller handles the records: so it does not bring records behind the range.
Must not decide what a range or an error means: `reading.py` does. Start at `RangeConsumer.assign_ranges`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.core.fetch.subscription_state import FetchRange, FetchState
from kafkaraw.errors import KafkaError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.consumer import AsyncConsumer


@dataclass(frozen=True, slots=True)
class FirstSince:
    """Where the records of a time and later begin in a partition.

    Attributes:
        offset: of the first one; None if there is none.
        start: the log start offset.
        end: the end offset; None if it was not looked up.
        topic_id: of the topic that has the partition; zero if it is not known, None if it was not looked up.
    """

    offset: int | None
    start: int
    end: int | None
    topic_id: Uuid | None

    def is_of_another(self, topic_id: Uuid) -> bool:
        """Return whether the partition is known to be of another topic."""
        return self.topic_id not in (None, ZERO_UUID, topic_id) and topic_id != ZERO_UUID


class RangeConsumer(Consumer):
    """A consumer for the ranges of one task. `poll` returns at once if all of them are fetched."""

    def assign_ranges(self, ranges: Mapping[TopicPartition, FetchRange]) -> None:
        """Assign exactly these partitions, at the starts of their ranges; batches may still reach beyond the ends."""
        self._bridge.call(lambda: self._reading.assign_ranges(ranges))

    def positions(self) -> dict[TopicPartition, int]:
        """Return the position of each partition that has one: behind offsets without records, too."""
        return {of: position.offset for of, position in self.next_offsets().items()}

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the log start offset and the end offset of each partition; both are looked up at the same time.

        Raises:
            KafkaError: some offsets could not be looked up.
        """
        return self._bridge.run(_bounds(self._async, partitions))

    def first_since(self, ends: Mapping[TopicPartition, int], time_ms: int) -> dict[TopicPartition, FirstSince]:
        """Return the offset of the first record of a time or later.

        What was deleted before it was looked up is shown by what is looked up afterwards: log start offsets, and the
        ends and topics of partitions of which nothing is to be read. Reading the others shows theirs.

        Args:
            ends: partitions, and the offsets before which records are read.
            time_ms: milliseconds since 1970.

        Raises:
            UnknownTopicError: a topic does not exist any more.
            KafkaError: some offsets could not be looked up.
        """
        return self._bridge.run(_first_since(self._async, ends, time_ms))

    def out_of_range(self) -> list[TopicPartition]:
        """Return the partitions that have lost their position, because it is outside the log."""
        partitions = list(self._reading.subscriptions.partitions())
        return [each.topic_partition for each in partitions if each.fetch_state is FetchState.INITIALIZING]

    def failures(self) -> dict[TopicPartition, KafkaError]:
        """Return the last error of each partition whose last Fetch or lookup has failed."""
        partitions = list(self._reading.subscriptions.partitions())
        return {each.topic_partition: each.error for each in partitions if each.error is not None}


async def _bounds(
    consumer: AsyncConsumer, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    starts, ends = await asyncio.gather(consumer.beginning_offsets(partitions), consumer.end_offsets(partitions))
    return {of: (starts[of], ends[of]) for of in partitions}


async def _first_since(
    consumer: AsyncConsumer, ends: Mapping[TopicPartition, int], time_ms: int
) -> dict[TopicPartition, FirstSince]:
    found = await consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    offsets = {of: None if place is None else place.offset for of, place in found.items()}
    unread = [of for of, offset in offsets.items() if offset is None or offset >= ends[of]]
    topics = dict.fromkeys(of.topic for of in unread)
    offsets_now = asyncio.gather(consumer.beginning_offsets(ends), consumer.end_offsets(unread))
    topics_now = asyncio.gather(*map(consumer.partitions_for, topics))
    (starts, left), _ = await asyncio.gather(offsets_now, topics_now)
    ids = {topic: consumer.topic_id(topic) for topic in topics}
    return {of: FirstSince(offset, starts[of], left.get(of), ids.get(of.topic)) for of, offset in offsets.items()}
