"""What our producer relies on when things go wrong, on our broker and on Apache Kafka: both must agree."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Iterator

import pytest

from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import BrokerError, UnknownTopicError
from kafkaraw.records import TopicPartition


@pytest.fixture(params=["ours", "apache"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ours":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap_servers
    else:
        yield request.getfixturevalue("apache_kafka").bootstrap_servers


async def new_topic(bootstrap: str, **configs: str) -> TopicPartition:
    name = f"producer-{uuid.uuid4().hex[:12]}"
    async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
        renamed = {key.replace("_", "."): value for key, value in configs.items()}
        await admin.create_topics([NewTopic(name, 1, configs=renamed)])
    return TopicPartition(name, 0)


async def read(bootstrap: str, partition: TopicPartition) -> list[bytes | None]:
    """Every value in a partition."""
    async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes | None] = []
        while await consumer.position(partition) < end:
            for batch in (await consumer.poll(10)).values():
                values += batch.values()
        return values


def test_a_refused_batch_among_five_in_flight_costs_only_its_own_records(bootstrap):
    """Its sequence numbers are never written; what follows is refused until the producer starts over."""

    async def test() -> tuple[list[bytes | None], list[BaseException | None]]:
        partition = await new_topic(bootstrap, max_message_bytes="2000")
        async with AsyncProducer(bootstrap_servers=bootstrap, batch_size=1, linger_ms=0) as producer:
            await (await producer.send(partition.topic, b"first"))
            values = [b"a", b"b", bytes(3000), b"c", b"d", bytes(3000), b"e", b"f", b"g"]
            tickets = [await producer.send(partition.topic, value) for value in values]
            outcomes = await asyncio.gather(*(outcome(ticket) for ticket in tickets))
        return await read(bootstrap, partition), outcomes

    values, outcomes = asyncio.run(test())
    assert values == [b"first", b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    refused = [error for error in outcomes if error is not None]
    assert [isinstance(error, BrokerError) and error.name for error in refused] == ["MESSAGE_TOO_LARGE"] * 2


@pytest.mark.parametrize("idempotent", [True, False])
def test_batches_that_are_too_large_arrive_in_parts_and_in_order(bootstrap, idempotent):
    async def test() -> tuple[list[bytes | None], list[int]]:
        partition = await new_topic(bootstrap, max_message_bytes="2000")
        settings = {"enable_idempotence": idempotent, "batch_size": 50_000, "linger_ms": 20}
        async with AsyncProducer(bootstrap_servers=bootstrap, **settings) as producer:
            tickets = [await producer.send(partition.topic, b"%05d" % number) for number in range(5000)]
            offsets = [(await ticket).offset for ticket in tickets]
        return await read(bootstrap, partition), offsets

    values, offsets = asyncio.run(test())
    assert values == [b"%05d" % number for number in range(5000)]
    assert offsets == list(range(5000))


async def outcome(ticket) -> BaseException | None:
    with contextlib.suppress(BrokerError):
        await ticket
    return ticket.exception()


def test_connections_that_break_lose_double_and_reorder_nothing(bootstrap):
    async def test() -> list[bytes | None]:
        partition = await new_topic(bootstrap)
        settings = {"batch_size": 200, "linger_ms": 1, "retry_backoff_ms": 5}
        async with AsyncProducer(bootstrap_servers=bootstrap, **settings) as producer:
            for number in range(2000):
                await producer.send(partition.topic, b"%d" % number)
                if number % 100 == 50:
                    await asyncio.sleep(0.003)
                    break_connections(producer)
        return await read(bootstrap, partition)

    assert asyncio.run(test()) == [b"%d" % number for number in range(2000)]


def break_connections(producer: AsyncProducer) -> None:
    """As a network does, in the middle of whatever is under way."""
    for _, connection in list(producer._core._engine._pool._open.values()):
        if not connection.closed:
            with contextlib.suppress(OSError):
                connection._link._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


def test_a_topic_that_does_not_exist_is_a_quick_error(bootstrap, monkeypatch):
    monkeypatch.setattr("kafkaraw.client.network.metadata.UNKNOWN_TOPIC_GRACE_S", 0.5)

    async def test() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap, allow_auto_create_topics=False) as producer:
            with pytest.raises(UnknownTopicError, match="does not exist"):
                await producer.send(f"nowhere-{uuid.uuid4().hex}", b"v")

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_is_written(bootstrap, acks):
    async def test() -> list[bytes | None]:
        partition = await new_topic(bootstrap)
        async with AsyncProducer(bootstrap_servers=bootstrap, acks=acks, compression_type="zstd") as producer:
            for number in range(100):
                await producer.send(partition.topic, b"%d" % number)
        while len(values := await read(bootstrap, partition)) < 100:  # acks=0: written, but when, nobody says
            await asyncio.sleep(0.05)
        return values

    assert asyncio.run(asyncio.wait_for(test(), 30)) == [b"%d" % number for number in range(100)]
