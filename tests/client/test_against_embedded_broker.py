"""Admin and consumer against the embedded broker: over real sockets, and both on one virtual loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from kafkaraw.broker import BrokerConfig, BrokerNode, EmbeddedBroker
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.network.engine import Engine
from kafkaraw.errors import BrokerError, NetworkError, UnknownTopicError
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaraw.records import TopicPartition, encode_batch
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import runtime_of

P0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false", **KEEP_RECORDS}) as broker:
        yield broker


async def produce(engine: Engine, partition: TopicPartition, values: Iterable[bytes], *, timestamp_ms: int = 0) -> None:
    """Write one batch with one request, without a producer."""
    await engine.wait_for_topics([partition.topic], 10)
    records = encode_batch([(timestamp_ms + i, None, value, None) for i, value in enumerate(values)])
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=partition.topic,
                topic_id=engine.cluster.topic_id_of(partition.topic),
                partition_data=[PartitionProduceData(index=partition.partition, records=records)],
            )
        ],
    )
    leader = engine.cluster.leader_of(partition)
    assert leader is not None
    answer = await engine.request(leader, request, timeout=10)
    assert [part.error_code for topic in answer.responses for part in topic.partition_responses] == [0]


@contextlib.asynccontextmanager
async def writer(servers: str) -> AsyncIterator[Engine]:
    engine = Engine(parse(AdminConfig, {"bootstrap_servers": servers}))
    try:
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def fresh_topic(servers: str, partitions: int = 1) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic("t", partitions)], timeout=10)
        try:
            yield admin
        finally:
            await admin.delete_topics(["t"], timeout=10)


def test_what_is_written_is_read_back(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        servers = broker.bootstrap_servers
        async with fresh_topic(servers, 2), writer(servers) as engine:
            await produce(engine, P0, [b"a", b"b"], timestamp_ms=1000)
            await produce(engine, TopicPartition("t", 1), [b"c"])
            async with AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
                partitions = await consumer.partitions_for("t", 10)
                consumer.assign(partitions)
                got: list[bytes | None] = []
                while len(got) < 3:
                    for batch in (await consumer.poll(10)).values():
                        got += batch.values()
                assert sorted(value or b"" for value in got) == [b"a", b"b", b"c"]
                assert await consumer.end_offsets(partitions, 10) == {P0: 2, TopicPartition("t", 1): 1}
                assert await consumer.beginning_offsets([P0], 10) == {P0: 0}
                times = await consumer.offsets_for_times({P0: 1001}, 10)
                assert times[P0] is not None
                assert (times[P0].offset, times[P0].timestamp_ms) == (1, 1001)

    asyncio.run(main())


def test_a_record_larger_than_the_fetch_limits_is_delivered(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        servers = broker.bootstrap_servers
        settings = {"fetch_max_bytes": 1000, "max_partition_fetch_bytes": 1000, "auto_offset_reset": "earliest"}
        async with fresh_topic(servers), writer(servers) as engine:
            await produce(engine, P0, [bytes(500_000)])
            async with AsyncConsumer(bootstrap_servers=servers, **settings) as consumer:
                consumer.assign([P0])
                assert [len(batch.values()[0] or b"") for batch in (await consumer.poll(10)).values()] == [500_000]

    asyncio.run(main())


def test_topics_are_created_listed_described_and_deleted(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with fresh_topic(broker.bootstrap_servers, 3) as admin:
            assert ("t", 3) in [(topic.name, topic.partitions) for topic in await admin.list_topics(timeout=10)]
            described = await admin.describe_topics(["t"], timeout=10)
            assert [part.partition for part in described["t"].partitions] == [0, 1, 2]
            with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
                await admin.create_topics(["t"], timeout=10)
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert "t" not in [topic.name for topic in await admin.list_topics(timeout=10)]

    asyncio.run(main())


@pytest.mark.usefixtures("short_topic_grace")
def test_an_unknown_topic_without_auto_create_is_a_clear_error(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        async with AsyncConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("nope", 0)])
            with pytest.raises(UnknownTopicError, match="'nope' does not exist"):
                await consumer.poll(30)

    asyncio.run(main())


def test_a_closed_port_and_an_unknown_host_are_both_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def main() -> None:
        servers = f"127.0.0.1:{port},no-such-host.invalid:9092"
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            with pytest.raises(NetworkError) as caught:
                await admin.list_topics(timeout=30)
        assert f"127.0.0.1:{port} [connect]" in str(caught.value)
        assert "no-such-host.invalid:9092 [resolve]" in str(caught.value)

    asyncio.run(main())


def history(seed: int) -> str:
    """Write and read for a while, broker and client on one virtual loop; gives the digest of every byte sent."""

    async def main(simulation: Simulation) -> str:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://broker:9092"})
        node = BrokerNode(
            config,
            network=simulation.network,
            storage=MemoryStorage(),
            clock=simulation.clock,
            rng=simulation.rng,
        )
        async with node:
            runtime, servers = runtime_of(simulation), node.bootstrap_servers
            settings = {"runtime": runtime, "bootstrap_servers": servers}
            async with AsyncAdmin(**settings) as admin:
                await admin.create_topics([NewTopic("t", 2)])
            engine = Engine.on(parse(AdminConfig, {"bootstrap_servers": servers}), runtime)
            async with AsyncConsumer(auto_offset_reset="earliest", **settings) as consumer:
                consumer.assign(await consumer.partitions_for("t"))
                got: list[bytes | None] = []
                for number in range(30):
                    await produce(engine, TopicPartition("t", number % 2), [b"%d" % number])
                    for batch in (await consumer.poll(simulation.rng.random())).values():
                        got += batch.values()
                    if simulation.rng.random() < 0.2:
                        simulation.network.cut("broker", 9092)
                        await asyncio.sleep(0.01)
                while len(got) < 30:
                    for batch in (await consumer.poll(30)).values():
                        got += batch.values()
            await engine.close()
            assert sorted(int(value or b"-1") for value in got) == list(range(30))
        return simulation.network.digest()

    return run_virtual(main, seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_client_and_broker_on_one_virtual_loop_do_the_same_for_the_same_seed(seed: int) -> None:
    assert history(seed) == history(seed)
