"""The topics that a producer sends to: their partition counts, from metadata to where records are collected.

Start at `KnownTopics.learn`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.sending.turns import Turns
from kafkaraw.errors import UsageError
from kafkaraw.records import OpenBatches


class KnownTopics:
    """What is known of the topics of one producer.

    Args:
        engine: has the metadata.
        open_batches: takes records of topics whose partitions are known.
        turns: chooses among partitions.
    """

    def __init__(self, engine: Engine, open_batches: OpenBatches, turns: Turns) -> None:
        self._engine = engine
        self._open_batches = open_batches
        self._turns = turns
        self._counts: dict[str, int] = {}
        self._as_of: int | None = None

    @property
    def outdated(self) -> bool:
        """Whether there is newer metadata than was looked at."""
        return self._as_of != self._engine.cluster.updated_ms

    def counts_of(self, topics: Iterable[str]) -> dict[str, int] | None:
        """How many partitions topics have; None unless all are known. On any thread."""
        counts = {topic: self._counts.get(topic, 0) for topic in topics}
        return counts if all(counts.values()) else None

    async def learn(self, topic: str, partition: int | None, deadline: Deadline) -> int:
        """Wait until a topic is known, and that partition of it; gives how many it has.

        Raises:
            UsageError: it has no such partition.
            KafkaError: there is no such topic, or the time is up.
        """
        if topic in self._counts and partition is not None:  # so it is the partition that is not known
            await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], timeout=deadline.remaining)
        count = self.take(topic)
        if partition is not None and not 0 <= partition < count:
            raise UsageError(f"topic {topic!r} has partitions 0 to {count - 1}, there is no partition {partition}")
        return count

    def take(self, topic: str) -> int:
        """Carry a topic's partition count over; 0 when metadata has none."""
        count = len(self._engine.cluster.partitions_of(topic) or ())
        if count and self._counts.get(topic) != count:
            self._open_batches.set_partitions(topic, count)
            self._counts[topic] = count
            self._engine.use_topics(self._counts)
        if count:
            self._turns.learn(topic, count)
        return count

    def sync(self) -> None:
        """Notice new partitions, and topics that are gone, whenever there is new metadata."""
        if not self.outdated:
            return
        self._as_of = self._engine.cluster.updated_ms
        for topic in list(self._counts):
            if not self.take(topic):
                self._open_batches.forget_topic(topic)
                del self._counts[topic]
                self._engine.use_topics(self._counts)
