"""A foreign client in a process of its own, told line by line what to do: `send VALUE ...` and `read COUNT`.

    python -m tests.interop.steered_client confluent-kafka HOST:PORT,...

In a process of its own because of what such clients leave behind when nodes die under them (threads, open sockets).
"""

from __future__ import annotations

import sys
import time
from typing import Protocol

SECONDS_MAX = 60.0


class Writer(Protocol):
    """A client's idempotent producer with acks=all."""

    def send(self, values: list[bytes]) -> None:
        """Send to partition 0 of "t", and return when all are acknowledged."""

    def close(self) -> None:
        """Let go."""


class Reader(Protocol):
    """A client's consumer of partition 0 of "t", assigned, from the start."""

    def read(self, count: int) -> list[bytes]:
        """The next `count` values."""

    def close(self) -> None:
        """Let go."""


class ConfluentWriter:
    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Producer

        self.failures: list[object] = []
        self.producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

    def send(self, values: list[bytes]) -> None:
        for value in values:
            self.producer.produce("t", value, partition=0, on_delivery=self._delivered)
        assert self.producer.flush(SECONDS_MAX) == 0
        assert not self.failures

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failures.append(error)

    def close(self) -> None:
        pass


class ConfluentReader:
    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "log_level": 0})
        self.consumer.assign([TopicPartition("t", 0, 0)])

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until = time.monotonic() + SECONDS_MAX
        while len(found) < count and time.monotonic() < until:
            message = self.consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonWriter:
    def __init__(self, bootstrap_servers: str) -> None:
        from kafka import KafkaProducer

        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","), acks="all", enable_idempotence=True, linger_ms=0
        )

    def send(self, values: list[bytes]) -> None:
        for future in [self.producer.send("t", value, partition=0) for value in values]:
            future.get(timeout=SECONDS_MAX)

    def close(self) -> None:
        self.producer.close(timeout=10)


class KafkaPythonReader:
    def __init__(self, bootstrap_servers: str) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","))
        self.consumer.assign([TopicPartition("t", 0)])
        self.consumer.seek_to_beginning()

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until = time.monotonic() + SECONDS_MAX
        while len(found) < count and time.monotonic() < until:
            polled = self.consumer.poll(timeout_ms=1000, max_records=count - len(found))
            found += [record.value for records in polled.values() for record in records]
        return found

    def close(self) -> None:
        self.consumer.close()


CLIENTS = {
    "confluent-kafka": (ConfluentWriter, ConfluentReader),
    "kafka-python": (KafkaPythonWriter, KafkaPythonReader),
}


def main() -> None:
    """Obey until the input ends; every answer is one line."""
    name, bootstrap_servers = sys.argv[1:]
    make_writer, make_reader = CLIENTS[name]
    writer: Writer = make_writer(bootstrap_servers)
    reader: Reader = make_reader(bootstrap_servers)
    for line in sys.stdin:
        verb, *values = line.split()
        if verb == "send":
            writer.send([value.encode() for value in values])
            answer = "sent"
        else:
            answer = " ".join(value.decode() for value in reader.read(int(values[0])))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    writer.close()
    reader.close()


if __name__ == "__main__":
    main()
