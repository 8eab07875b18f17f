"""Kafka clients behind one small face, so that each can write what every other reads.

An adapter writes samples with a client's own producer and reads whole partitions with its own consumer, by assignment,
without a group. Nothing here judges: the tests compare what came back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.kafka_python import close_client

READ_SECONDS_MAX = 30.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Sample:
    """One record as a producer is given it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 1_357_000_000_000


@dataclass(frozen=True, order=True)
class Received:
    """One record as a consumer gave it, with where it was."""

    partition: int
    offset: int
    sample: Sample


class Client(Protocol):
    """What an adapter does."""

    name: str
    null_header_values: bool  # whether its producer takes them; the protocol and every consumer do

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        """Write the samples, in order, and return when all are acknowledged."""

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        """Read `count` records from the start of all partitions."""


def _acks_number(acks: str) -> int | str:
    return acks if acks == "all" else int(acks)


def _give_up(name: str, got: int, count: int) -> AssertionError:
    return AssertionError(f"{name} read {got} of {count} records in {READ_SECONDS_MAX:.0f} s")


class _Adapter:
    """What every adapter is made with.

    Args:
        security: how to log in and what to trust, in the client's own settings.
    """

    def __init__(self, security: Mapping[str, object] | None = None) -> None:
        self.security = dict(security or {})


class Confluent(_Adapter):
    """confluent-kafka, which is librdkafka."""

    name = "confluent-kafka"
    null_header_values = True

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        from confluent_kafka import Producer

        failures: list[object] = []
        producer = Producer(
            {
                **self.security,
                "bootstrap.servers": bootstrap_servers,
                "acks": acks,
                "enable.idempotence": idempotent,
                "compression.type": codec,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
            }
        )
        for sample in samples:
            producer.produce(
                topic,
                value=sample.value,
                key=sample.key,
                headers=list(sample.headers),
                timestamp=sample.timestamp_ms,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(READ_SECONDS_MAX) == 0
        assert failures == []

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {
                **self.security,
                "bootstrap.servers": bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        received: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
            deadline = time.monotonic() + READ_SECONDS_MAX
            while len(received) < count:
                if time.monotonic() > deadline:
                    raise _give_up(self.name, len(received), count)
                for message in consumer.consume(count, 0.1):
                    assert message.error() is None, message.error()
                    sample = Sample(
                        message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]
                    )
                    received.append(Received(message.partition(), message.offset(), sample))
        finally:
            consumer.close()
        return received


class KafkaPython(_Adapter):
    """kafka-python."""

    name = "kafka-python"
    null_header_values = False

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            acks=_acks_number(acks),
            enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp_ms,
                )
                for sample in samples
            ]
            producer.flush(READ_SECONDS_MAX)
            for future in futures:
                future.get(READ_SECONDS_MAX)
        finally:
            close_client(producer)

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=True,
        )
        received: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            deadline = time.monotonic() + READ_SECONDS_MAX
            while len(received) < count:
                if time.monotonic() > deadline:
                    raise _give_up(self.name, len(received), count)
                for records in consumer.poll(timeout_ms=100).values():
                    received += [
                        Received(r.partition, r.offset, Sample(r.key, r.value, tuple(r.headers), r.timestamp))
                        for r in records
                    ]
        finally:
            close_client(consumer)
        return received


class Aiokafka(_Adapter):
    """aiokafka."""

    name = "aiokafka"
    null_header_values = True

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        asyncio.run(self._produce(bootstrap_servers, topic, samples, codec, acks, idempotent))

    async def _produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], codec: str, acks: str, idempotent: bool
    ) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            acks=_acks_number(acks),
            enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp_ms,
                )
                for sample in samples
            ]
            await asyncio.wait_for(asyncio.gather(*futures), READ_SECONDS_MAX)
        finally:
            await producer.stop()

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        return asyncio.run(self._consume(bootstrap_servers, topic, partitions, count))

    async def _consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            check_crcs=True,
        )
        await consumer.start()
        received: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            deadline = time.monotonic() + READ_SECONDS_MAX
            while len(received) < count:
                if time.monotonic() > deadline:
                    raise _give_up(self.name, len(received), count)
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    received += [
                        Received(r.partition, r.offset, Sample(r.key, r.value, tuple(r.headers), r.timestamp))
                        for r in records
                    ]
        finally:
            await consumer.stop()
        return received


class Kafkaraw(_Adapter):
    """Our blocking client."""

    name = "kafkaraw"
    null_header_values = True

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        from kafkaraw import Producer

        with Producer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            acks=_acks_number(acks),
            enable_idempotence=idempotent,
            compression_type=codec,
            linger_ms=20,
        ) as producer:
            tickets = [
                producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp_ms,
                )
                for sample in samples
            ]
            producer.flush(READ_SECONDS_MAX)
            for ticket in tickets:
                ticket.result(timeout=READ_SECONDS_MAX)

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        from kafkaraw import Consumer, TopicPartition

        received: list[Received] = []
        with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **self.security) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            deadline = time.monotonic() + READ_SECONDS_MAX
            while len(received) < count:
                if time.monotonic() > deadline:
                    raise _give_up(self.name, len(received), count)
                for batch in consumer.poll(timeout=0.1).values():
                    received += [
                        Received(r.partition, r.offset, Sample(r.key, r.value, tuple(r.headers), r.timestamp_ms))
                        for r in batch
                    ]
        return received


class KafkarawAsync(_Adapter):
    """Our asyncio client."""

    name = "kafkaraw (async)"
    null_header_values = True

    def produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], *, codec: str, acks: str, idempotent: bool
    ) -> None:
        asyncio.run(self._produce(bootstrap_servers, topic, samples, codec, acks, idempotent))

    async def _produce(
        self, bootstrap_servers: str, topic: str, samples: Sequence[Sample], codec: str, acks: str, idempotent: bool
    ) -> None:
        from kafkaraw import AsyncProducer

        async with AsyncProducer(
            bootstrap_servers=bootstrap_servers,
            **self.security,
            acks=_acks_number(acks),
            enable_idempotence=idempotent,
            compression_type=codec,
            linger_ms=20,
        ) as producer:
            tickets = [
                await producer.send(
                    topic,
                    value=sample.value,
                    key=sample.key,
                    headers=list(sample.headers),
                    timestamp_ms=sample.timestamp_ms,
                )
                for sample in samples
            ]
            for ticket in tickets:
                await asyncio.wait_for(_result(ticket), READ_SECONDS_MAX)

    def consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        return asyncio.run(self._consume(bootstrap_servers, topic, partitions, count))

    async def _consume(self, bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Received]:
        from kafkaraw import AsyncConsumer, TopicPartition

        received: list[Received] = []
        async with AsyncConsumer(
            bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **self.security
        ) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            async with asyncio.timeout(READ_SECONDS_MAX):
                async for r in consumer:
                    sample = Sample(r.key, r.value, tuple(r.headers), r.timestamp_ms)
                    received.append(Received(r.partition, r.offset, sample))
                    if len(received) == count:
                        break
        return received


async def _result(ticket: object) -> object:
    return await ticket  # type: ignore[misc]


FOREIGN: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka())
OURS: tuple[Client, ...] = (Kafkaraw(), KafkarawAsync())
