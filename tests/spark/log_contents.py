"""Topics whose log files have everything that a reader must understand, written through a broker."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from kafkaraw import Admin, NewTopic, Producer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20  # Kafka allows no less
TIME_MS = 1_700_000_000_000
DELETED = 7
OPEN_PRODUCERS: list[Producer] = []
"""Producers of transactions that are open on purpose."""


def write(servers: str, *, deletes: bool) -> tuple[str, ...]:
    """Write topics; return their names.

    Args:
        servers: the broker.
        deletes: delete the first records of a partition, too.
    """
    small = {"segment.bytes": str(SEGMENT_BYTES)}
    topics = {
        "codecs": NewTopic("codecs", len(CODECS), configs=small),
        "large": NewTopic("large", 1, configs=small),
        "txn": NewTopic("txn", 2),
        "appended": NewTopic("appended", 1, configs={"message.timestamp.type": "LogAppendTime"}),
        "empty": NewTopic("empty", 2),
        "deleted": NewTopic("deleted", 1),
    }
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(list(topics.values()))
    for partition, codec in enumerate(CODECS):
        _write_records(servers, "codecs", partition, 300, compression_type=codec, batch_size=4096)
    _write_records(servers, "large", 0, 3000, batch_size=16384)
    _write_records(servers, "appended", 0, 50, linger_ms=0)
    _write_records(servers, "deleted", 0, 20, linger_ms=0)
    _write_transactions(servers)
    if deletes:
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_records({TopicPartition("deleted", 0): DELETED})
    return tuple(topics)


def _write_records(servers: str, topic: str, partition: int, count: int, **settings: object) -> None:
    rng = random.Random(f"{topic}{partition}")
    with Producer(bootstrap_servers=servers, **settings) as producer:  # type: ignore[arg-type]
        for number in range(count):
            value = None if number % 9 == 4 else rng.randbytes(rng.choice((0, 30, 1500)))
            key = f"key {number} é".encode() if number % 5 else None
            headers = [("h1", b"x"), ("h2", None)] if number % 7 == 0 else ()
            # Producers set timestamps as they like: most of them increase.
            at = TIME_MS + 1000 * number - (30_000 if number % 50 == 49 else 0)
            producer.send(topic, value, key, headers=headers, partition=partition, timestamp_ms=at)
            if number % 100 == 99:
                producer.flush()


def _write_transactions(servers: str) -> None:
    for name in ("t1", "t2"):
        with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                for each in range(20):
                    at = TIME_MS + 1000 * each
                    producer.send("txn", b"%s %d" % (name.encode(), each), partition=number % 2, timestamp_ms=at)
                    if each % 7 == 0:
                        producer.flush()
                producer.flush()
                if number % 3 == 1:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
    _write_records(servers, "txn", 0, 3)
    open_one = Producer(bootstrap_servers=servers, transactional_id="open")
    open_one.init_transactions()
    open_one.begin_transaction()
    for _ in range(5):
        open_one.send("txn", b"open", partition=1)
    open_one.flush()
    OPEN_PRODUCERS.append(open_one)
    _write_records(servers, "txn", 1, 3)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
