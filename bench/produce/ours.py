"""Each way to send with our client, written as its users would.

A work is made with a topic, connects, and sends a first record, so that nobody's way of connecting is measured; called,
it does what its name says and returns what it found. Numbers that it does not return the worker measures itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING

from bench.settings import SILENCE_SECONDS_MAX, Settings, pairs, values

if TYPE_CHECKING:
    import kafkaraw

Found = dict[str, float]
Work = Callable[[], Found]
Make = Callable[[Settings, str, str], Work]

IDLE_SECONDS = 5.0
ENDLESS_SECONDS = 5.0
ENDLESS_BLOCK_MS = 200
KB_PER_MB = 1000
ARROW_ROWS = 65_536


def our_producer(settings: Settings, bootstrap_servers: str, topic: str) -> kafkaraw.Producer:
    """One that is connected and has sent a record."""
    from kafkaraw import Producer

    producer = Producer(
        bootstrap_servers=bootstrap_servers,
        acks="all" if settings.acks == "all" else int(settings.acks),
        enable_idempotence=settings.idempotent,
        compression_type=settings.compression,
        batch_size=settings.batch_size,
        linger_ms=settings.linger_ms,
    )
    producer.send(topic, b"warm-up")
    producer.flush(SILENCE_SECONDS_MAX)
    return producer


def sent(count: int) -> Found:
    """The result of most works."""
    return {"records": count}


def send(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`send()`, nothing kept."""
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        for value, _ in pairs(settings, keyed=False):
            producer.send(topic, value)
        producer.close(SILENCE_SECONDS_MAX)
        return sent(settings.records)

    return work


def send_keyed(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`send(key=)`, murmur2."""
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        for value, key in pairs(settings, keyed=True):
            producer.send(topic, value, key=key)
        producer.close(SILENCE_SECONDS_MAX)
        return sent(settings.records)

    return work


def _arrow(keyed: bool) -> Make:
    """`send_arrow()` of record batches; the rows are made before, as a program has them that reads or computes them."""

    def make(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
        import pyarrow as pa

        producer = our_producer(settings, bootstrap_servers, topic)
        made = list(pairs(settings, keyed=keyed))
        columns = {"value": pa.array([value for value, _ in made], pa.binary())}
        if keyed:
            columns["key"] = pa.array([key for _, key in made], pa.binary())
        batches = pa.table(columns).to_batches(max_chunksize=ARROW_ROWS)
        del made

        def work() -> Found:
            tickets = [producer.send_arrow(topic, batch) for batch in batches]
            producer.flush(SILENCE_SECONDS_MAX)
            delivered = sum(rows.rows_count for ticket in tickets for rows in ticket.result(0))
            producer.close(SILENCE_SECONDS_MAX)
            return sent(delivered)

        return work

    return make


def tickets(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """`send()`, every ticket kept and looked at."""
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        kept = []
        for value, _ in pairs(settings, keyed=False):
            kept.append(producer.send(topic, value))
        producer.flush(SILENCE_SECONDS_MAX)
        delivered = 0
        for ticket in kept:
            if ticket.exception() is None:
                delivered += 1
        producer.close(SILENCE_SECONDS_MAX)
        return sent(delivered)

    return work


def flush_each(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """One record and `flush()`, over and over."""
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        times = []
        for value, _ in pairs(settings, keyed=False):
            began = time.perf_counter()
            producer.send(topic, value)
            producer.flush(SILENCE_SECONDS_MAX)
            times.append(time.perf_counter() - began)
        producer.close(SILENCE_SECONDS_MAX)
        return sent(settings.records) | {"p50_us": statistics.median(times) * 1e6}

    return work


def _on_a_loop(act: Callable[[kafkaraw.AsyncProducer, Settings, str], Awaitable[Found]]) -> Make:
    def make(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
        from kafkaraw import AsyncProducer

        runner = asyncio.Runner()

        async def prepare() -> kafkaraw.AsyncProducer:
            producer = AsyncProducer(
                bootstrap_servers=bootstrap_servers,
                acks="all" if settings.acks == "all" else int(settings.acks),
                enable_idempotence=settings.idempotent,
                compression_type=settings.compression,
                batch_size=settings.batch_size,
                linger_ms=settings.linger_ms,
            )
            await producer.send(topic, b"warm-up")
            await producer.flush(SILENCE_SECONDS_MAX)
            return producer

        producer = runner.run(prepare())

        async def run() -> Found:
            found = await act(producer, settings, topic)
            await producer.close(SILENCE_SECONDS_MAX)
            return found

        return lambda: runner.run(run())

    return make


async def async_send(producer: kafkaraw.AsyncProducer, settings: Settings, topic: str) -> Found:
    """`await send()`."""
    for value, _ in pairs(settings, keyed=False):
        await producer.send(topic, value)
    await producer.flush(SILENCE_SECONDS_MAX)
    return sent(settings.records)


async def async_flush_each(producer: kafkaraw.AsyncProducer, settings: Settings, topic: str) -> Found:
    """One record and `await flush()`, over and over, on one loop."""
    times = []
    for value, _ in pairs(settings, keyed=False):
        began = time.perf_counter()
        await producer.send(topic, value)
        await producer.flush(SILENCE_SECONDS_MAX)
        times.append(time.perf_counter() - began)
    return sent(settings.records) | {"p50_us": statistics.median(times) * 1e6}


def idle(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    """A connected producer that is given nothing to do."""
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> Found:
        time.sleep(0.1)
        before = time.process_time()
        time.sleep(IDLE_SECONDS)
        spent = time.process_time() - before
        producer.close(SILENCE_SECONDS_MAX)
        return sent(0) | {"idle_percent": spent / IDLE_SECONDS * 100}

    return work


def endless(settings: Settings, _: str, topic: str) -> Work:
    """Sends that never stop, to a broker that died: the most memory above what there was before."""
    from kafkaraw import Admin, KafkaError, NewTopic, Producer
    from kafkaraw.broker import EmbeddedBroker

    broker = EmbeddedBroker(process=True)
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions=settings.partitions, replication_factor=1)])
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=ENDLESS_BLOCK_MS)
    producer.send(topic, b"warm-up")
    producer.flush(SILENCE_SECONDS_MAX)
    broker.stop()

    def work() -> Found:
        before = getrusage(RUSAGE_SELF).ru_maxrss
        end = time.monotonic() + ENDLESS_SECONDS
        made = values(settings)
        taken = refused = 0
        while time.monotonic() < end:
            try:
                for value in made:
                    producer.send(topic, value)
                    taken += 1
            except KafkaError:
                refused += 1
        grown_mb = (getrusage(RUSAGE_SELF).ru_maxrss - before) / KB_PER_MB
        with contextlib.suppress(KafkaError):
            producer.close(0)
        assert refused, "nothing was ever refused"
        return sent(0) | {"taken": taken, "refused": refused, "mb_above_bound": grown_mb - 32 * 1.048576}

    return work


WORKS: dict[str, Make] = {
    "send": send,
    "send-keyed": send_keyed,
    "tickets": tickets,
    "arrow": _arrow(keyed=False),
    "arrow-keyed": _arrow(keyed=True),
    "flush-each": flush_each,
    "async-send": _on_a_loop(async_send),
    "async-flush-each": _on_a_loop(async_flush_each),
    "idle": idle,
    "endless": endless,
}
