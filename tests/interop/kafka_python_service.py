"""A service on kafka-python that makes transactions until its standard input ends, and then says what it committed.

    python -m tests.interop.kafka_python_service HOST:PORT TOPIC

Each line of its output is a partition and a value, in the order of sending.
"""

from __future__ import annotations

import itertools
import sys
import threading

from kafka import KafkaProducer

PARTITIONS = 3
RECORDS = 12


def main(bootstrap_servers: str, topic: str) -> None:
    """Commit three transactions of four, as long as anybody wants that."""
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    limits = {"request_timeout_ms": 2_000, "delivery_timeout_ms": 8_000}
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=f"id-{topic}", linger_ms=1, **limits)
    producer.init_transactions()
    for number in itertools.count():
        producer.begin_transaction()
        values = [(index % PARTITIONS, f"transaction-{number:05d}-{index:02d}") for index in range(RECORDS)]
        futures = [producer.send(topic, value.encode(), partition=partition) for partition, value in values]
        producer.flush()
        # Its commit says nothing of records that were given up: one has to look at each.
        if number % 4 != 3 and all(future.succeeded() for future in futures):
            producer.commit_transaction()
            print("".join(f"{partition} {value}\n" for partition, value in values), end="", flush=True)
        else:
            producer.abort_transaction()
        if over.wait(0.005):
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
