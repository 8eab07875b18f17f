"""The clients of a flow's two clusters, and MirrorMaker's compacted topics: how they are made, written and read.

Start at `SessionClients`, which copy, and `FlowClients`, for all else.
Source: Kafka's MirrorUtils.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.admin.topics import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import BrokerError, KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.mirror.interfaces import Delivery, FlowSettings
from kafkaraw.mirror.mapping import Mark
from kafkaraw.mirror.stalls import Stalls
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record, TopicPartition

FETCH_BYTES: Final = 8 << 20
"""Of one response."""
REQUEST_BYTES: Final = 8 << 20
"""Of one Produce request, which has at most one batch of each partition."""
METADATA_KEPT_MS: Final = 24 * 3_600_000
"""How long the producer knows topics to which nothing is written: the flow will write to them."""
INTERNAL_REPLICATION_FACTOR: Final = 3
"""MirrorMaker's default for its own topics, if the cluster has as many brokers."""
_POLL_S: Final = 1.0


@dataclass(slots=True)
class SessionClients:
    """The clients of a session.

    Attributes:
        source: reads the source, without a group.
        target: asks the target about topics and positions, with the flow's group.
        producer: writes to the target.
        owner: has the flow's transactional id; the same as `producer` if records are in transactions.
    """

    source: AsyncConsumer
    target: AsyncConsumer
    producer: AsyncProducer
    owner: AsyncProducer

    @property
    def all(self) -> Sequence[AsyncProducer | AsyncConsumer]:
        """In the order in which they are closed."""
        owner = () if self.owner is self.producer else (self.owner,)
        return self.producer, *owner, self.source, self.target


def session_clients(settings: FlowSettings, runtimes: tuple[Runtime | None, Runtime | None]) -> SessionClients:
    """Return the clients of a session.

    Args:
        settings: of the flow.
        runtimes: of the clients of source and target.
    """
    reading: dict[str, Any] = {
        "fetch_max_bytes": FETCH_BYTES,
        **settings.source,
        **settings.consumer,
        "group_id": None,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed" if settings.read_committed else "read_uncommitted",
        "allow_auto_create_topics": False,
    }
    owner = owner_of(settings, runtimes[1])
    is_exact = settings.delivery is Delivery.EXACTLY_ONCE
    return SessionClients(
        AsyncConsumer(runtime=runtimes[0], **reading),
        positions_consumer_of(settings, runtimes[1]),
        owner if is_exact else _producer_of(settings, runtimes[1], transactional_id=None),
        owner,
    )


def positions_consumer_of(settings: FlowSettings, runtime: Runtime | None) -> AsyncConsumer:
    """Return a consumer of the target that asks for positions, with the flow's group, and reads nothing."""
    asking: dict[str, Any] = {
        **settings.target,
        "group_id": settings.group_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "allow_auto_create_topics": False,
    }
    return AsyncConsumer(runtime=runtime, **asking)


def owner_of(settings: FlowSettings, runtime: Runtime | None) -> AsyncProducer:
    """Return a producer of the target with the transactional id of the worker: later ones fence it."""
    return _producer_of(settings, runtime, transactional_id=settings.transactional_id)


def _producer_of(settings: FlowSettings, runtime: Runtime | None, *, transactional_id: str | None) -> AsyncProducer:
    writing: dict[str, Any] = {
        "max_request_size": REQUEST_BYTES,
        **settings.target,
        **settings.producer,
        "acks": "all",
        "linger_ms": 0,
        "metadata_max_idle_ms": METADATA_KEPT_MS,
        "enable_idempotence": True,
        "transactional_id": transactional_id,
    }
    return AsyncProducer(runtime=runtime, **writing)


class FlowClients:
    """Makes clients of both clusters of a flow; each one is closed by its user.

    Args:
        settings: of the flow.
        source_runtime: network, clock and randomness of clients of the source; the real ones when None.
        target_runtime: of clients of the target.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        source_runtime: Runtime | None = None,
        target_runtime: Runtime | None = None,
    ) -> None:
        self._settings = settings
        self._connections: dict[bool, dict[str, Any]] = {True: dict(settings.source), False: dict(settings.target)}
        self._runtimes = {True: source_runtime, False: target_runtime}

    def admin(self, *, of_source: bool) -> AsyncAdmin:
        """Return an admin client."""
        return AsyncAdmin(runtime=self._runtimes[of_source], **self._connections[of_source])

    def producer(self, *, of_source: bool) -> AsyncProducer:
        """Return a producer for MirrorMaker's own topics: idempotent, without transactions."""
        return AsyncProducer(runtime=self._runtimes[of_source], **self._connections[of_source])

    def consumer(
        self, *, of_source: bool, read_committed: bool | None = None, auto_offset_reset: str = "earliest"
    ) -> AsyncConsumer:
        """Return a consumer without a group.

        Args:
            of_source: which cluster.
            read_committed: whether records of aborted transactions are left out; None as the flow does.
            auto_offset_reset: what to do if records are deleted before they are read.
        """
        only_committed = self._settings.read_committed if read_committed is None else read_committed
        more: dict[str, Any] = {
            "group_id": None,
            "auto_offset_reset": auto_offset_reset,
            "isolation_level": "read_committed" if only_committed else "read_uncommitted",
            "allow_auto_create_topics": False,
        }
        return AsyncConsumer(runtime=self._runtimes[of_source], **self._connections[of_source], **more)

    async def records(self, topic: str, *, of_source: bool) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values of a compacted topic with one partition, in order; none if it does not exist.

        Raises:
            KafkaError: the cluster does not answer.
        """
        async with self.consumer(of_source=of_source, read_committed=False) as consumer:
            return await compacted_records(consumer, topic)

    async def marks(self, of: TopicPartition, offsets: range, *, of_source: bool) -> list[Mark]:
        """Return all records of a partition that are in a range, with timestamps and keys as their contents.

        Raises:
            KafkaError: the cluster does not answer.
        """
        async with self.consumer(of_source=of_source) as consumer:
            consumer.assign([of])
            consumer.seek(of, offsets.start)
            return [
                Mark(record.offset, (record.timestamp_ms, record.key))
                async for record in _read_until(consumer, of, offsets.stop)
            ]

    async def end_offset(self, of: TopicPartition, *, of_source: bool) -> int:
        """Return the offset behind the last record that can be read of a partition.

        Raises:
            KafkaError: the cluster does not answer.
        """
        async with self.consumer(of_source=of_source) as consumer:
            return (await consumer.end_offsets([of]))[of]

    async def timestamp_of(self, of: TopicPartition, offset: int, *, of_source: bool) -> int | None:
        """Return the timestamp of the first record from an offset on, in milliseconds; None if there is none.

        Raises:
            KafkaError: the cluster does not answer.
        """
        async with self.consumer(of_source=of_source) as consumer:
            end = (await consumer.end_offsets([of]))[of]
            consumer.assign([of])
            consumer.seek(of, offset)
            async for record in _read_until(consumer, of, end):
                return record.timestamp_ms
        return None


async def compacted_records(consumer: AsyncConsumer, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of a compacted topic with one partition, in order; none if it does not exist.

    Raises:
        KafkaError: the cluster does not answer.
    """
    partition = TopicPartition(topic, 0)
    if topic not in await consumer.list_topics():
        return []
    end = (await consumer.end_offsets([partition]))[partition]
    return [
        (record.key, record.value) async for record in _read_until(consumer, partition, end) if record.key is not None
    ]


def newest(records: Iterable[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Return the newest value of each key that is not deleted."""
    found = dict(records)
    return {key: value for key, value in found.items() if value is not None}


async def _read_until(consumer: AsyncConsumer, partition: TopicPartition, end: int) -> AsyncIterator[Record]:
    """Yield the records of a partition before an offset."""
    if partition not in consumer.assignment():
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
    stalls = Stalls()
    while (offset := await consumer.position(partition)) < end:
        batches = await consumer.poll(timeout=_POLL_S)
        if batches:
            stalls.clear()
        else:
            stalls.check(partition, offset, end, waited_s=_POLL_S)
        for batch in batches.values():
            for record in batch:
                if record.offset < end:
                    yield record


async def create_compacted(admin: AsyncAdmin, topics: Sequence[str], replication_factor: int | None) -> None:
    """Create those topics that do not exist: compacted, with one partition.

    Args:
        admin: of the cluster.
        topics: their names.
        replication_factor: None for MirrorMaker's default, or the number of brokers if there are fewer.

    Raises:
        KafkaError: the cluster refuses, or does not answer.
    """
    listed, cluster = await asyncio.gather(admin.list_topics(), admin.describe_cluster())
    there = {topic.name for topic in listed}
    factor = replication_factor or min(INTERNAL_REPLICATION_FACTOR, len(cluster.brokers))
    missing = [NewTopic(name, 1, factor, {"cleanup.policy": "compact"}) for name in topics if name not in there]
    if not missing:
        return
    try:
        await admin.create_topics(missing)
    except KafkaError as error:
        failures = error.failures.values() or (error,)
        for each in failures:
            if not isinstance(each, BrokerError) or each.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
