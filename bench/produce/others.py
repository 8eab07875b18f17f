"""The same with other clients, written as their users would. See `ours.py`."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from bench.produce.ours import Found, Make, Work, sent
from bench.settings import SILENCE_SECONDS_MAX, Settings, pairs

if TYPE_CHECKING:
    import confluent_kafka

POLL_EVERY = 1000


def their_producer(settings: Settings, bootstrap_servers: str, topic: str) -> confluent_kafka.Producer:
    """One that is connected and has sent a record."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": settings.acks,
            "enable.idempotence": settings.idempotent,
            "compression.type": settings.compression,
            "batch.size": settings.batch_size,
            "linger.ms": settings.linger_ms,
            "queue.buffering.max.messages": settings.queue_messages,
            "batch.num.messages": 1_000_000,  # batch.size alone decides, as with ours
            "partitioner": "murmur2_random",
        }
    )
    producer.produce(topic, b"warm-up")
    producer.flush(SILENCE_SECONDS_MAX)
    return producer


def produce(settings: Settings, bootstrap_servers: str, topic: str, *, keyed: bool = False) -> Work:
    """`produce()`, `poll(0)` every 1000."""
    producer = their_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        for number, (value, key) in enumerate(pairs(settings, keyed=keyed)):
            while True:
                try:
                    if keyed:
                        producer.produce(topic, value, key=key)
                    else:
                        producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
            if not number % POLL_EVERY:
                producer.poll(0)
        assert producer.flush(SILENCE_SECONDS_MAX) == 0
        return sent(settings.records)

    return work


def produce_keyed(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`produce(key=)`, murmur2_random."""
    return produce(settings, bootstrap_servers, topic, keyed=True)


def on_delivery(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`produce(on_delivery=)`."""
    producer = their_producer(settings, bootstrap_servers, topic)
    delivered = 0

    def note(error: object, _: object) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    def work() -> Found:
        for number, (value, _) in enumerate(pairs(settings, keyed=False)):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=note)
                    break
                except BufferError:
                    producer.poll(0.01)
            if not number % POLL_EVERY:
                producer.poll(0)
        assert producer.flush(SILENCE_SECONDS_MAX) == 0
        return sent(delivered)

    return work


def flush_each(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """One record and `flush()`, over and over; `flush` does not wait for `linger.ms`."""
    producer = their_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        times = []
        for value, _ in pairs(settings, keyed=False):
            began = time.perf_counter()
            producer.produce(topic, value)
            assert producer.flush(SILENCE_SECONDS_MAX) == 0
            times.append(time.perf_counter() - began)
        return sent(settings.records) | {"p50_us": statistics.median(times) * 1e6}

    return work


def aio_producer(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`await AIOProducer.produce()`."""
    from confluent_kafka.aio import AIOProducer

    async def run() -> None:
        for value, _ in pairs(settings, keyed=False):
            await producer.produce(topic, value=value)
        await producer.flush()

    async def prepare() -> AIOProducer:
        made = AIOProducer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": settings.acks,
                "enable.idempotence": settings.idempotent,
                "compression.type": settings.compression,
                "batch.size": settings.batch_size,
                "linger.ms": settings.linger_ms,
            }
        )
        outcome: Awaitable[object] = await made.produce(topic, value=b"warm-up")
        await made.flush()
        await outcome
        return made

    runner = asyncio.Runner()
    producer = runner.run(prepare())

    def work() -> Found:
        runner.run(run())
        return sent(settings.records)

    return work


def aiokafka_send(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`await AIOKafkaProducer.send()`."""
    from aiokafka import AIOKafkaProducer

    async def prepare() -> AIOKafkaProducer:
        made = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            acks="all" if settings.acks == "all" else int(settings.acks),
            enable_idempotence=settings.idempotent,
            compression_type=None if settings.compression == "none" else settings.compression,
            max_batch_size=settings.batch_size,
            linger_ms=settings.linger_ms,
        )
        await made.start()
        await made.send_and_wait(topic, b"warm-up")
        return made

    async def run() -> None:
        for value, _ in pairs(settings, keyed=False):
            await producer.send(topic, value)
        await producer.stop()

    runner = asyncio.Runner()
    producer = runner.run(prepare())

    def work() -> Found:
        runner.run(run())
        return sent(settings.records)

    return work


WORKS: dict[str, Make] = {
    "produce": produce,
    "produce-keyed": produce_keyed,
    "on-delivery": on_delivery,
    "their-flush-each": flush_each,
    "aio-producer": aio_producer,
    "aiokafka": aiokafka_send,
}
CLIENTS = dict.fromkeys(WORKS, "confluent-kafka") | {
    "aio-producer": "confluent-kafka's AIOProducer",
    "aiokafka": "aiokafka",
}
