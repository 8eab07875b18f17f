"""Topics whose log files have everything that a reader must understand, written through a broker."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from kafkaraw import Admin, NewTopic, Producer, TopicPartition
from kafkaraw.core.log.offset_checkpoint import CLEANER_FILE, LOG_STARTS_FILE
from tests import waiting

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20  # Kafka allows no less
TIME_MS = 1_700_000_000_000
DELETED = 7
COMPACTED_RECORDS = 1500
PROPERTIES = {
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "86400000",
}
"""Properties of a broker, with which it soon compacts, and soon writes log start offsets."""
OPEN_PRODUCERS: list[Producer] = []
"""Producers of transactions that are open on purpose."""


def write(servers: str, log_dir: Path) -> tuple[str, ...]:
    """Write topics, wait until one is compacted and the records of another are deleted; return the names.

    Args:
        servers: the broker; it has `PROPERTIES`.
        log_dir: its log directory.
    """
    small = {"segment.bytes": str(SEGMENT_BYTES)}
    topics = {
        "codecs": NewTopic("codecs", len(CODECS), configs=small),
        "large": NewTopic("large", 1, configs=small),
        "txn": NewTopic("txn", 2),
        "appended": NewTopic("appended", 1, configs={"message.timestamp.type": "LogAppendTime"}),
        "empty": NewTopic("empty", 2),
        "deleted": NewTopic("deleted", 1),
        "compacted": NewTopic(
            "compacted",
            1,
            configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "200000"},
        ),
    }
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(list(topics.values()))
    for partition, codec in enumerate(CODECS):
        _write_records(servers, "codecs", partition, 300, compression_type=codec, batch_size=4096)
    _write_records(servers, "large", 0, 3000, batch_size=16384)
    _write_records(servers, "appended", 0, 50, linger_ms=0)
    _write_records(servers, "deleted", 0, 20, linger_ms=0)
    _write_transactions(servers)
    _write_keys_again(servers)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition("deleted", 0): DELETED})
    starts = log_dir / LOG_STARTS_FILE
    wait_until(lambda: starts.exists() and f"deleted 0 {DELETED}" in starts.read_text(), "the log start offset")
    wait_until(lambda: _is_compacted(log_dir), "compaction up to the active segment")
    return tuple(topics)


def _write_keys_again(servers: str) -> None:
    """Write records, tombstones and an aborted transaction, with few keys, to a topic that is compacted."""
    rng = random.Random("compacted")
    with Producer(bootstrap_servers=servers, batch_size=2048, compression_type="lz4") as producer:
        for number in range(COMPACTED_RECORDS):
            value = None if number % 11 == 3 else rng.randbytes(rng.choice((0, 30, 200)))
            at = TIME_MS + 1000 * number
            producer.send("compacted", value, b"key %d" % rng.randrange(60), partition=0, timestamp_ms=at)
            if number % 20 == 19:
                producer.flush()
    with Producer(bootstrap_servers=servers, transactional_id="compacted") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            at = TIME_MS + 1000 * COMPACTED_RECORDS + 150_000 * number
            producer.send("compacted", b"transaction %d" % number, b"key %d" % number, partition=0, timestamp_ms=at)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def _is_compacted(log_dir: Path) -> bool:
    """Whether the cleaner has reached the active segment."""
    active = max(int(log.stem) for log in (log_dir / "compacted-0").glob("*.log"))
    file = log_dir / CLEANER_FILE
    return active > 0 and file.exists() and f"compacted 0 {active}\n" in file.read_text()


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
    assert waiting.wait_until(holds, seconds), what
