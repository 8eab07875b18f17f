"""A small blocking client for the driver's lookups: which topics exist, and their offsets.

It has one set of connections and imports little: Spark starts a new process on the driver for each streaming query, and
the first answer of that process waits for all imports. So it must not import the consumer, the producer or the admin
client, of which it would need only some methods. Start at `ClusterClient`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkaraw.client.admin.calls import Calls
from kafkaraw.client.admin.topics import TopicAdmin, TopicDescription, TopicListing
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.fetching.offsets import OffsetAndTimestamp, look_up
from kafkaraw.client.network.engine import Engine
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kafkaraw.records import TopicPartition
from kafkaraw.spark.options.client import Settings


class ClusterClient:
    """Looks up topics and offsets; connects on first use. Errors are those of `Consumer` and `Admin`.

    Args:
        settings: settings of a consumer, as text.
    """

    def __init__(self, settings: Settings) -> None:
        config = parse(ConsumerConfig, settings, from_text=True)
        self._engine = Engine.on(config, None)
        self._topics = TopicAdmin(Calls(self._engine))
        self._committed_only = config.isolation_level == "read_committed"
        self._bridge = Bridge("cluster client", self._engine)

    def close(self) -> None:
        """Close the connections."""
        self._bridge.run(self._engine.close())

    def list_topics(self) -> list[TopicListing]:
        """Return all topics that this client may describe."""
        return self._bridge.run(self._topics.list_topics())

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return these topics, by name."""
        return self._bridge.run(self._topics.describe_topics(names))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that the brokers still have, by partition."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP), None)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record, by partition, within `timeout` seconds."""
        return self._offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), timeout)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time in ms since 1970, by partition; None if there is none."""
        found = self._look_up(timestamps, None)
        return {tp: place.offset if place.offset >= 0 else None for tp, place in found.items()}

    def _offsets(self, marks: Mapping[TopicPartition, int], timeout: float | None) -> dict[TopicPartition, int]:
        return {tp: place.offset for tp, place in self._look_up(marks, timeout).items()}

    def _look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        async def ask() -> dict[TopicPartition, OffsetAndTimestamp]:
            deadline = self._engine.deadline(timeout)
            return await look_up(self._engine, timestamps, deadline=deadline, committed_only=self._committed_only)

        return self._bridge.run(ask())
