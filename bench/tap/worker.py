"""One measurement of confluent-kafka in a fresh process: `python -m bench.tap.worker WORKLOAD SERVERS TOPIC NUMBER`.

Prints one line of JSON: records, bytes and seconds; for round trips, the median in seconds. Bytes are those of the
values, before compression. Workloads with lz4 have a partition of their own.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from functools import partial
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

VALUE_BYTES: Final = 1000
VALUES: Final = 1000
TIMEOUT_S: Final = 60.0
WARMUP: Final = 50
FETCH_BYTES: Final = 16 << 20
BATCH_BYTES: Final = 1_000_000


def values() -> list[bytes]:
    """Return different objects of JSON with 1,000 bytes each, of which lz4 makes about a third."""
    chosen = random.Random(1)
    words = [f"{chosen.getrandbits(40):x}" for _ in range(200)]
    made = []
    for number in range(VALUES):
        text = ",".join(f'"field {index}":"{chosen.choice(words)}"' for index in range(40))
        made.append(f'{{"id":{number},{text}}}'.encode().ljust(VALUE_BYTES)[:VALUE_BYTES])
    return made


def produce(servers: str, topic: str, number: int, *, codec: str, partition: int) -> dict[str, float]:
    """Send records of 1 KB as fast as they are acknowledged."""
    made = values()
    producer = Producer(
        {
            "compression.type": codec,
            "bootstrap.servers": servers,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.list_topics(topic, TIMEOUT_S)
    began = time.perf_counter()
    for index in range(number):
        while True:
            try:
                producer.produce(topic, made[index % VALUES], partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(TIMEOUT_S):
        raise SystemExit("records were not acknowledged")
    return {"records": number, "bytes": number * VALUE_BYTES, "seconds": time.perf_counter() - began}


def consume(servers: str, topic: str, number: int, *, partition: int) -> dict[str, float]:
    """Read that many records of one partition; the time begins with the first one."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.max.bytes": 2 * FETCH_BYTES,
            "queued.max.messages.kbytes": 1 << 18,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = began = 0.0
    deadline = time.perf_counter() + TIMEOUT_S
    while found < number:
        batch = consumer.consume(5000, 1.0)
        found += len(batch)
        began = began or time.perf_counter()
        if time.perf_counter() > deadline:
            raise SystemExit(f"read {found:.0f} of {number} records")
    seconds = time.perf_counter() - began
    consumer.close()
    return {"records": found, "bytes": found * VALUE_BYTES, "seconds": seconds}


def round_trip(servers: str, topic: str, number: int) -> dict[str, float]:
    """Send one record after another, each acknowledged before the next one."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": 1})
    producer.list_topics(topic, TIMEOUT_S)
    times = []
    for _ in range(number + WARMUP):
        began = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        producer.flush(TIMEOUT_S)
        times.append(time.perf_counter() - began)
    times = times[WARMUP:]
    return {"records": number, "bytes": 0, "seconds": sum(times), "median_seconds": statistics.median(times)}


WORKLOADS: Final = {
    "produce": partial(produce, codec="none", partition=0),
    "consume": partial(consume, partition=0),
    "produce-lz4": partial(produce, codec="lz4", partition=1),
    "consume-lz4": partial(consume, partition=1),
    "round-trip": round_trip,
}


if __name__ == "__main__":
    name, bootstrap, to, count = sys.argv[1:]
    print(json.dumps(WORKLOADS[name](bootstrap, to, int(count))))
