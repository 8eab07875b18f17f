"""Read the logs of topics unfiltered, aborted records and markers included, and list open transactions.

For auditors, of the embedded broker and of Apache Kafka: it uses the protocol as any client does. Blocks; must not be
called on an event loop. Start at `read_logs` and `open_transactions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.offsets import look_up
from kafkaraw.client.network.engine import Engine
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP
from kafkaraw.errors import KafkaError, StaleMetadataError
from kafkaraw.protocol import FileSlice
from kafkaraw.protocol.error_codes import error_for
from kafkaraw.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from kafkaraw.protocol.messages.list_transactions import ListTransactionsRequest
from kafkaraw.records import TopicPartition, Wire, iter_headers

T = TypeVar("T")

_TIMEOUT_S: Final = 30.0
_FETCH_BYTES: Final = 1 << 20
_BY_NAME_VERSION_MAX: Final = 12
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def read_logs(bootstrap_servers: str, topics: Iterable[str]) -> dict[TopicPartition, list[Wire]]:
    """Return all batches of some topics, from the log start offset up to the high watermark.

    Args:
        bootstrap_servers: bootstrap servers of the cluster.
        topics: names of the topics.

    Raises:
        KafkaError: a partition could not be read within 30 s.
    """
    names = list(topics)

    async def read(engine: Engine) -> dict[TopicPartition, list[Wire]]:
        await engine.wait_for_topics(names, _TIMEOUT_S)
        found: dict[TopicPartition, list[Wire]] = {}
        for name in names:
            for topic_partition in engine.cluster.partitions_of(name) or ():
                found[topic_partition] = await _read(engine, topic_partition)
        return found

    return _run(bootstrap_servers, read)


def open_transactions(bootstrap_servers: str, prefix: str) -> list[str]:
    """Return the transactional ids with a prefix that have open transactions, from their coordinators (KIP-664).

    Raises:
        KafkaError: a broker did not answer within 30 s.
    """

    async def ask(engine: Engine) -> list[str]:
        await engine.start(_TIMEOUT_S)
        found: set[str] = set()
        request = ListTransactionsRequest(state_filters=list(_OPEN_STATES), producer_id_filters=[])
        for node_id in list(engine.cluster.brokers):
            answer = await engine.request(node_id, request, timeout=_TIMEOUT_S, version_max=0)
            if answer.error_code:
                raise error_for(answer.error_code, f"list the transactions of broker {node_id}")
            found.update(each.transactional_id for each in answer.transaction_states)
        return sorted(each for each in found if each.startswith(prefix))

    return _run(bootstrap_servers, ask)


def _run(bootstrap_servers: str, work: Callable[[Engine], Awaitable[T]]) -> T:
    async def with_engine() -> T:
        engine = Engine(parse(AdminConfig, {"bootstrap_servers": bootstrap_servers}))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(with_engine())


async def _read(engine: Engine, topic_partition: TopicPartition) -> list[Wire]:
    wires: list[Wire] = []
    start = await look_up(engine, {topic_partition: EARLIEST_TIMESTAMP}, deadline=Deadline(_TIMEOUT_S))
    offset, end = start[topic_partition].offset, None
    async with asyncio.timeout(_TIMEOUT_S):
        while end is None or offset < end:
            try:
                answer = await _fetch(engine, topic_partition, offset)
            except KafkaError:
                await engine.refresh([topic_partition.topic], timeout=_TIMEOUT_S)
                await asyncio.sleep(0.1)
                continue
            end = answer.high_watermark
            records = answer.records
            assert not isinstance(records, FileSlice)
            for header, wire in iter_headers(memoryview(records or b"")):
                wires.append((header, memoryview(bytes(wire))))
                offset = header.next_offset
    return wires


async def _fetch(engine: Engine, topic_partition: TopicPartition, offset: int) -> PartitionData:
    leader = engine.cluster.leader_of(topic_partition)
    if leader is None:
        raise StaleMetadataError(f"{topic_partition} has no leader")
    wanted = FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=0,
        topics=[FetchTopic(topic=topic_partition.topic, partitions=[wanted])],
    )
    answer = await engine.request(leader, request, timeout=_TIMEOUT_S, version_max=_BY_NAME_VERSION_MAX)
    found = answer.responses[0].partitions[0]
    if found.error_code:
        raise error_for(found.error_code, f"read {topic_partition}")
    return found
