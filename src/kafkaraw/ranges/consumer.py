"""`RangeConsumer`: a consumer that reads given ranges of many partitions, and stops fetching each at its end.

One Fetch to each broker asks for all of its partitions. A partition that has reached the end of its range is not in the
next Fetch, which is on its way while the caller handles the records: so it does not bring records behind the range.
Must not decide what a range or an error means: `reading.py` does. Start at `RangeConsumer.assign_ranges`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.core.fetch.subscription_state import FetchRange, FetchState
from kafkaraw.errors import KafkaError
from kafkaraw.records import TopicPartition


class RangeConsumer(Consumer):
    """A consumer for the ranges of one task. `poll` returns at once if all of them are fetched."""

    def assign_ranges(self, ranges: Mapping[TopicPartition, FetchRange]) -> None:
        """Assign exactly these partitions, at the starts of their ranges; batches may still reach beyond the ends."""
        self._bridge.call(lambda: self._reading.assign_ranges(ranges))

    def positions(self) -> dict[TopicPartition, int]:
        """Return the position of each partition that has one: behind offsets without records, too."""
        return {of: position.offset for of, position in self.next_offsets().items()}

    def out_of_range(self) -> list[TopicPartition]:
        """Return the partitions that have lost their position, because it is outside the log."""
        partitions = list(self._reading.subscriptions.partitions())
        return [each.topic_partition for each in partitions if each.fetch_state is FetchState.INITIALIZING]

    def failures(self) -> dict[TopicPartition, KafkaError]:
        """Return the last error of each partition whose last Fetch or lookup has failed."""
        partitions = list(self._reading.subscriptions.partitions())
        return {each.topic_partition: each.error for each in partitions if each.error is not None}
