"""The topics that a producer sends to: their partition counts, from metadata to where records are collected.

A topic is forgotten when nothing was sent to it for `metadata_max_idle_ms`: whatever is kept by topic or partition goes
then, and is learned again with the next record.

Start at `KnownTopics.learn`.

Source: Kafka's ProducerMetadata.retainTopic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Final

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.sending.turns import Turns
from kafkaraw.errors import UsageError
from kafkaraw.records import OpenBatches

LOOKS: Final = 16
"""How often to look for idle topics within `metadata_max_idle_ms`, at most; so a topic may stay a sixteenth longer."""


class KnownTopics:
    """What is known of the topics of one producer.

    Args:
        engine: has the metadata.
        open_batches: takes records of topics whose partitions are known.
        turns: chooses among partitions.
        max_idle_ms: how long a topic is kept to which nothing is sent.

    Attributes:
        idle_at_ms: when `take_idle` has something to look at, on the loop's clock; None without topics.
    """

    def __init__(self, engine: Engine, open_batches: OpenBatches, turns: Turns, max_idle_ms: int) -> None:
        self._engine = engine
        self._open_batches = open_batches
        self._turns = turns
        self._counts: dict[str, int] = {}
        self._max_idle_ms = max_idle_ms
        self._used_ms: dict[str, int] = {}
        self.idle_at_ms: int | None = None
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
        if count and topic not in self._counts:
            self.note_used((topic,), int(asyncio.get_running_loop().time() * 1000))
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
                self._forget(topic)
                self._engine.use_topics(self._counts)

    def note_used(self, topics: Iterable[str], now_ms: int) -> None:
        """Records are sent to these topics now."""
        for topic in topics:
            self._used_ms[topic] = now_ms
        if self.idle_at_ms is None:
            self.idle_at_ms = now_ms + self._max_idle_ms

    def take_idle(self, busy: Collection[str], now_ms: int) -> frozenset[str]:
        """Forget the topics to which nothing was sent for long, and return them; their open batches are sealed.

        Args:
            busy: the topics of which batches are under way, which are not idle.
            now_ms: the time.
        """
        self.note_used(self._used_ms.keys() & busy, now_ms)
        idle = {topic for topic, used_ms in self._used_ms.items() if used_ms + self._max_idle_ms <= now_ms}
        for topic in idle:
            self._used_ms.pop(topic)
            self._forget(topic)
        if idle:
            self._engine.use_topics(self._counts)
        used_ms = min(self._used_ms.values(), default=None)
        if used_ms is None:
            self.idle_at_ms = None
        else:  # each look costs as much as there are topics, so it is not made for each topic that becomes idle
            self.idle_at_ms = max(used_ms + self._max_idle_ms, now_ms + self._max_idle_ms // LOOKS)
        return frozenset(idle)

    def _forget(self, topic: str) -> None:
        self._open_batches.forget_topic(topic)
        self._turns.forget(topic)
        self._counts.pop(topic, None)
