"""Two clusters on virtual time and a flow between them, for tests of one rule each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from kafkaraw.client.admin import NewPartitions, NewTopic
from kafkaraw.errors import BrokerError
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, Delivery, FlowSettings
from kafkaraw.records import Batch, Record, TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import FEW_PARTITIONS
from tests.client.virtual_cluster import PORT, VirtualCluster

T = TypeVar("T")
TOPIC = "orders"
COPY = "a.orders"
FIRST = TopicPartition(TOPIC, 0)
FIRST_COPY = TopicPartition(COPY, 0)


class PlanOfNames:
    """Copies topics of the source to `a.NAME`, with the partitions of the source; creates what is missing."""

    def __init__(self, clusters: TwoClusters, topics: Sequence[str], configs: Mapping[str, str]) -> None:
        self.topics = list(topics)
        self.configs = dict(configs)
        self._clusters = clusters

    async def refresh(self) -> Sequence[CopiedTopic]:
        async with self._clusters.source.admin() as source, self._clusters.target.admin() as target:
            found = await source.describe_topics(self.topics)
            for topic in self.topics:
                count = len(found[topic].partitions)
                with contextlib.suppress(BrokerError):
                    await target.create_topics([NewTopic(f"a.{topic}", count, configs=self.configs)])
                with contextlib.suppress(BrokerError):
                    await target.create_partitions({f"a.{topic}": NewPartitions(count)})
        return [CopiedTopic(topic, f"a.{topic}", self.configs) for topic in self.topics]


class TwoClusters:
    """A source and a target, and what a flow between them has told."""

    def __init__(
        self,
        simulation: Simulation,
        configs: Mapping[str, str],
        source_properties: Mapping[str, str],
        target_properties: Mapping[str, str],
    ) -> None:
        self.source = VirtualCluster(simulation, {**FEW_PARTITIONS, **source_properties})
        self.target = VirtualCluster(simulation, {**FEW_PARTITIONS, **target_properties}, port=PORT + 1)
        self.plan = PlanOfNames(self, [TOPIC], configs)
        self.copied: list[CopiedBatch] = []

    async def start(self) -> None:
        await self.source.node.start()
        await self.target.node.start()

    async def end(self) -> None:
        await self.source.end()
        await self.target.end()

    def flow(self, delivery: Delivery = Delivery.EXACTLY_ONCE, **settings: object) -> Flow:
        chosen = FlowSettings(
            "a",
            "b",
            {"bootstrap_servers": self.source.bootstrap},
            {"bootstrap_servers": self.target.bootstrap},
            delivery=delivery,
            **{"refresh_topics_interval_s": 30.0, **settings},
        )
        return Flow(
            chosen,
            self.plan,
            self.copied.extend,
            source_runtime=self.source.runtime,
            target_runtime=self.target.runtime,
        )

    @contextlib.asynccontextmanager
    async def mirroring(self, delivery: Delivery = Delivery.EXACTLY_ONCE, **settings: object) -> AsyncIterator[Flow]:
        """Run a flow while the block runs; then stop it."""
        flow = self.flow(delivery, **settings)
        task = asyncio.create_task(flow.run(), name="flow")
        try:
            yield flow
        except BaseException:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error from None
            raise
        finally:
            flow.stop()
            async with asyncio.timeout(300):
                await task

    async def copy(self, count: int, delivery: Delivery = Delivery.EXACTLY_ONCE, **settings: object) -> list[Record]:
        """Run a flow until the copy has so many records; returns them."""
        async with self.mirroring(delivery, **settings):
            return await self.copied_records(count)

    async def copied_records(self, count: int, seconds: float = 120) -> list[Record]:
        """Wait until the copy has so many committed records, and return all that it has by then."""
        records: list[Record] = []
        async with asyncio.timeout(seconds), self.target.consumer(isolation_level="read_committed") as consumer:
            consumer.assign(await consumer.partitions_for(COPY))
            while len(records) < count:
                records += [record for batch in (await consumer.poll(timeout=1)).values() for record in batch]
        return records

    async def all_records(self, cluster: VirtualCluster, topic: str) -> list[Record]:
        """Return all committed records that a topic has now."""
        batches = await self.batches(cluster, topic)
        return [record for batch in batches for record in batch]

    async def batches(self, cluster: VirtualCluster, topic: str, level: str = "read_committed") -> list[Batch]:
        found: list[Batch] = []
        async with cluster.consumer(isolation_level=level) as consumer:
            partitions = await consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for of, end in ends.items():
                while await consumer.position(of) < end:
                    found += (await consumer.poll(timeout=0.1)).values()
        return found

    async def fill(self, first: int, count: int, partition: int | None = None, **settings: object) -> None:
        """Write records with keys, values, headers and timestamps of their own."""
        async with self.source.producer(**settings) as producer:
            for number in range(first, first + count):
                await send(producer, number, partition)

    async def until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.05)


async def send(producer: object, number: int, partition: int | None = None) -> None:
    await producer.send(
        TOPIC,
        b"value %d" % number,
        b"key %d" % (number % 7) if number % 5 else None,
        headers=[("number", b"%d" % number), ("nothing", None)] if number % 3 == 0 else None,
        partition=number % 2 if partition is None else partition,
        timestamp_ms=1_767_000_000_000 + 1_000 * number,
    )


def contents(records: Sequence[Record]) -> dict[int, list[tuple[object, ...]]]:
    """Return what has to be equal in a copy, by partition, in order."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(
            (record.key, record.value, tuple(record.headers), record.timestamp_ms)
        )
    return found


def between_clusters(
    test: Callable[[TwoClusters], Awaitable[T]],
    seed: int = 1,
    *,
    partitions: int = 2,
    source_config: Mapping[str, str] | None = None,
    target_config: Mapping[str, str] | None = None,
    source_properties: Mapping[str, str] | None = None,
    target_properties: Mapping[str, str] | None = None,
) -> T:
    """Run a test with two clusters; the source has the topic."""

    async def life(simulation: Simulation) -> T:
        clusters = TwoClusters(simulation, target_config or {}, source_properties or {}, target_properties or {})
        await clusters.start()
        try:
            async with clusters.source.admin() as admin:
                await admin.create_topics([NewTopic(TOPIC, partitions, configs=dict(source_config or {}))])
            return await test(clusters)
        finally:
            await clusters.end()

    return run_virtual(life, seed)
