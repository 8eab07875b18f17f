"""What is measured: each workload written once with our client and once with the rival, as its users would.

A workload gets a topic, does its work, and says how many records that were. The worker holds the watch. When it starts,
clients are connected and have sent or read their first record, so that nobody's way of connecting is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.settings import Settings, keys, values

if TYPE_CHECKING:
    import confluent_kafka

    import kafkaraw

OURS = "kafkaraw"
THEIRS = "confluent-kafka"
SILENCE_SECONDS_MAX = 30.0

Work = Callable[[], int]
Prepare = Callable[[Settings, str, str], Work]


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of the result.

    Attributes:
        produces: whether it writes the topic (or reads one that is filled).
        does: what each client does, by client name.
        prepare: connects, and returns the work to be timed.
    """

    name: str
    produces: bool
    does: dict[str, str]
    prepare: dict[str, Prepare]


def pairs(settings: Settings, keyed: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """As many values and keys as the run has records, out of a thousand that stay in memory."""
    endless_keys = itertools.cycle(keys(settings)) if keyed else itertools.repeat(None)
    return itertools.islice(zip(itertools.cycle(values(settings)), endless_keys), settings.records)


# -- ours


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


def _send(settings: Settings, bootstrap_servers: str, topic: str, *, keyed: bool = False) -> Work:
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> int:
        send = producer.send
        for value, key in pairs(settings, keyed):
            send(topic, value, key)
        producer.close(SILENCE_SECONDS_MAX)
        return settings.records

    return work


def _send_keyed(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    return _send(settings, bootstrap_servers, topic, keyed=True)


def _send_and_check(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    producer = our_producer(settings, bootstrap_servers, topic)

    def work() -> int:
        send = producer.send
        tickets = [send(topic, value) for value, _ in pairs(settings, keyed=False)]
        producer.flush(SILENCE_SECONDS_MAX)
        delivered = sum(ticket.exception() is None for ticket in tickets)
        producer.close(SILENCE_SECONDS_MAX)
        return delivered

    return work


def _our_consumer(settings: Settings, bootstrap_servers: str, topic: str) -> kafkaraw.Consumer:
    from kafkaraw import Consumer, TopicPartition

    consumer = Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, index) for index in range(settings.partitions)])
    assert consumer.poll(timeout=SILENCE_SECONDS_MAX, max_records=1)
    return consumer


def _poll(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    consumer = _our_consumer(settings, bootstrap_servers, topic)
    expected = settings.records - 1

    def work() -> int:
        count = size = 0
        while count < expected:
            batches = consumer.poll(timeout=SILENCE_SECONDS_MAX)
            assert batches, f"the broker fell silent after {count} records"
            for batch in batches.values():
                for record in batch:
                    size += len(record.value or b"")
                    count += 1
        consumer.close()
        assert size == count * settings.value_bytes
        return count

    return work


def _poll_arrow(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    import pyarrow.compute

    consumer = _our_consumer(settings, bootstrap_servers, topic)
    expected = settings.records - 1

    def work() -> int:
        count = size = 0
        while count < expected:
            table = consumer.poll_arrow(timeout=SILENCE_SECONDS_MAX, columns=["value"])
            assert table.num_rows, f"the broker fell silent after {count} records"
            size += pyarrow.compute.sum(pyarrow.compute.binary_length(table.column("value"))).as_py()
            count += table.num_rows
        consumer.close()
        assert size == count * settings.value_bytes
        return count

    return work


# -- confluent-kafka


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


def _produce(
    settings: Settings,
    bootstrap_servers: str,
    topic: str,
    *,
    keyed: bool = False,
    poll_every: int = 1000,
    check: bool = False,
) -> Work:
    producer = their_producer(settings, bootstrap_servers, topic)
    outcomes = [0, 0]  # delivered, failed

    def on_delivery(error: object, _: object) -> None:
        outcomes[error is not None] += 1

    def work() -> int:
        produce, poll = producer.produce, producer.poll
        extra = {"on_delivery": on_delivery} if check else {}
        for number, (value, key) in enumerate(pairs(settings, keyed)):
            while True:
                try:
                    produce(topic, value, key, **extra)
                    break
                except BufferError:
                    poll(0.01)
            if number % poll_every == 0:
                poll(0)
        left = producer.flush(SILENCE_SECONDS_MAX)
        assert left == 0 and outcomes[1] == 0, f"{left} not sent, {outcomes[1]} failed"
        return outcomes[0] if check else settings.records

    return work


def _produce_keyed(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    return _produce(settings, bootstrap_servers, topic, keyed=True)


def _produce_and_check(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    return _produce(settings, bootstrap_servers, topic, check=True)


def _their_consumer(settings: Settings, bootstrap_servers: str, topic: str) -> confluent_kafka.Consumer:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,  # as ours
            "fetch.queue.backoff.ms": settings.fetch_queue_backoff_ms,
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(settings.partitions)])
    assert consumer.poll(SILENCE_SECONDS_MAX) is not None
    return consumer


def _consume(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    consumer = _their_consumer(settings, bootstrap_servers, topic)
    expected = settings.records - 1

    def work() -> int:
        count = size = 0
        while count < expected:
            # Never asks for more than there is, or consume() would wait for the rest.
            messages = consumer.consume(min(1000, expected - count), SILENCE_SECONDS_MAX)
            assert messages, f"the broker fell silent after {count} records"
            for message in messages:
                size += len(message.value() or b"")
                count += 1
        consumer.close()
        assert size == count * settings.value_bytes
        return count

    return work


def _consume_to_arrow(settings: Settings, bootstrap_servers: str, topic: str) -> Work:
    import pyarrow
    import pyarrow.compute

    consumer = _their_consumer(settings, bootstrap_servers, topic)
    expected = settings.records - 1

    def work() -> int:
        count = size = 0
        while count < expected:
            messages = consumer.consume(min(10_000, expected - count), SILENCE_SECONDS_MAX)
            assert messages, f"the broker fell silent after {count} records"
            column = pyarrow.array([message.value() for message in messages], pyarrow.binary())
            size += pyarrow.compute.sum(pyarrow.compute.binary_length(column)).as_py()
            count += len(messages)
        consumer.close()
        assert size == count * settings.value_bytes
        return count

    return work


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "produce",
            True,
            {OURS: "send()", THEIRS: "produce(), poll(0) every 1000"},
            {OURS: _send, THEIRS: _produce},
        ),
        Workload(
            "produce-keyed",
            True,
            {OURS: "send(key=), murmur2", THEIRS: "produce(key=), murmur2_random"},
            {OURS: _send_keyed, THEIRS: _produce_keyed},
        ),
        Workload(
            "produce-checked",
            True,
            {OURS: "send(), every ticket kept and looked at", THEIRS: "produce(on_delivery=)"},
            {OURS: _send_and_check, THEIRS: _produce_and_check},
        ),
        Workload(
            "consume",
            False,
            {OURS: "poll(), each record.value", THEIRS: "consume(1000), each message.value()"},
            {OURS: _poll, THEIRS: _consume},
        ),
        Workload(
            "consume-arrow",
            False,
            {OURS: "poll_arrow(columns=[value])", THEIRS: "consume(10000), values to a pyarrow.array"},
            {OURS: _poll_arrow, THEIRS: _consume_to_arrow},
        ),
    )
}
