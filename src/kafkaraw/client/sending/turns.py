"""Keeps a producer's open batches told which partitions take the records that go by no key.

Gathers what `core/producer/spreading.py` decides on: leaders from the metadata, and what waits from the machine. Called
for sealed batches, but not for each: what waits changes little meanwhile. Start at `Turns.renew`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.client.config import ProducerConfig
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.producer.machine import ProducerMachine
from kafkaraw.core.producer.spreading import Spreading
from kafkaraw.light_classes import replace
from kafkaraw.records import PARTITIONERS, KeyHash, OpenBatches, Partitioner, TopicPartition

RENEWED_AFTER_MS: Final = 5


def partitioner_of(config: ProducerConfig) -> Partitioner:
    """What the settings say about partitions."""
    choice = config.partitioner
    partitioner = PARTITIONERS[choice] if isinstance(choice, str) else Partitioner(function=choice)
    return replace(partitioner, key_hash=KeyHash.NONE) if config.partitioner_ignore_keys else partitioner


class Turns:
    """Whose turn it is.

    Args:
        spreading: decides.
        availability_timeout_ms: brokers that were held up for so long are passed over; 0 passes over none.
        cluster: knows the leaders.
        machine: knows what waits.
        open_batches: is told.
    """

    def __init__(
        self,
        spreading: Spreading,
        availability_timeout_ms: int,
        cluster: ClusterView,
        machine: ProducerMachine,
        open_batches: OpenBatches,
    ) -> None:
        self._spreading = spreading
        self._timeout_ms = availability_timeout_ms
        self._cluster = cluster
        self._machine = machine
        self._open = open_batches
        self._counts: dict[str, int] = {}
        self._led: dict[str, list[int]] = {}
        self._renew_ms = 0

    def learn(self, topic: str, partitions_count: int) -> None:
        """Take over which partitions of a topic have leaders; whenever there is new metadata."""
        self._counts[topic] = partitions_count
        self._led[topic] = [
            partition
            for partition in range(partitions_count)
            if self._cluster.leader_of(TopicPartition(topic, partition)) is not None
        ]
        self._renew_ms = 0

    def forget(self, topic: str) -> None:
        """A topic is sent to no more."""
        self._counts.pop(topic, None)
        self._led.pop(topic, None)

    def renew(self, topics: Iterable[str], now_ms: int) -> None:
        """Say the turns anew, for topics of which batches were sealed; mostly it is too early, and nothing is done."""
        if now_ms < self._renew_ms:
            return
        self._renew_ms = now_ms + RENEWED_AFTER_MS
        waiting = self._machine.waiting()
        held_up = self._machine.held_up_nodes(now_ms - self._timeout_ms) if self._timeout_ms else set()
        for topic in set(topics) & self._led.keys():
            led = self._led[topic]
            unavailable = [
                partition
                for partition in led
                if held_up and self._cluster.leader_of(TopicPartition(topic, partition)) in held_up
            ]
            of_topic = {partition: count for (of, partition), count in waiting.items() if of == topic}
            self._open.spread(topic, self._spreading.turns(self._counts[topic], led, of_topic, unavailable))
