"""Members of consumer groups that are other clients, each in a process of its own, behind one small face.

A member reads a topic from the start, commits by itself, and writes what it reads and what it owns to its standard
output, one JSON object a line. It is this module as a program, with client, servers, group, topic and strategy.
This module imports nothing of kafkaraw.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.interop import java_members

HEARTBEAT_MS, SESSION_MS = 200, 6_000


class Member:
    """A member in a process of its own.

    Args:
        client: ours, confluent, kafka-python, aiokafka, java; or one of Apache's tools, verifiable and console.
        strategy: the assignor; "KIP-848" for the protocol in which the broker assigns.

    Attributes:
        is_up: its program runs; how long that takes is the machine's business.
        owned: numbers of the partitions that it has, as it told last.
        offsets: what it read: pairs of partition and offset, in order.
        log: what it wrote to its standard error, once it has ended.
    """

    def __init__(self, client: str, servers: str, group: str, topic: str, strategy: str) -> None:
        make = JAVA.get(client)
        if make is not None:
            command = make(servers, group, topic, strategy)
        else:
            program = ["tests.interop.our_member"] if client == "ours" else [__spec__.name, client]
            command = [sys.executable, "-m", *program, servers, group, topic, strategy]
        self.is_up = client != "ours"  # which alone says so
        self.owned: set[int] = set()
        self.log = ""
        self.offsets: list[tuple[int, int]] = []
        self._is_tool = client in TOOLS
        self._understand = TOOLS[client]() if self._is_tool else json.loads
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `_end`
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def leave(self) -> None:
        """Close its consumer in good order."""
        assert self._process.stdin
        if self._is_tool:
            self._process.terminate()
        self._process.stdin.close()
        self._process.wait(30)
        self._end()

    def kill(self) -> None:
        """As `kill -9`: the group learns of it when the session times out."""
        self._process.kill()
        self._process.wait(30)
        self._end()

    def _end(self) -> None:
        self._reader.join(10)
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self.owned = set()
        if not self._log.closed:
            self._log.seek(0)
            self.log = self._log.read()
            self._log.close()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            told = self._understand(line)
            self.is_up = True
            if "owned" in told:
                self.owned = set(told["owned"])
            elif "offset" in told:
                self.offsets.append((told["partition"], told["offset"]))


JAVA = {"java": java_members.consumer, "verifiable": java_members.verifiable, "console": java_members.console}
TOOLS: dict[str, Callable[[], java_members.Reader]] = {
    "verifiable": java_members.VerifiableReader,
    "console": lambda: java_members.read_console,
}


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def asked_to_leave() -> threading.Event:
    """Set when whoever started this process closes its standard input."""
    end = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=wait, daemon=True).start()
    return end


def confluent(servers: str, group: str, topic: str, strategy: str) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
    }
    if strategy == "KIP-848":
        settings["group.protocol"] = "consumer"
    else:
        settings |= {
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": SESSION_MS,
        }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    end = asked_to_leave()
    owned: list[int] = []
    while not end.is_set():
        message = consumer.poll(0.05)
        now = sorted(partition.partition for partition in consumer.assignment())
        if now != owned:
            owned = now
            tell(owned=owned)
        if message is not None and message.error() is None:
            tell(partition=message.partition(), offset=message.offset())
    consumer.close()


def kafka_python(servers: str, group: str, topic: str, strategy: str) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    strategies = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
        partition_assignment_strategy=[strategies[strategy]],
    )
    end = asked_to_leave()
    owned: list[int] = []
    while not end.is_set():
        batches = consumer.poll(timeout_ms=50)
        now = sorted(partition.partition for partition in consumer.assignment())
        if now != owned:
            owned = now
            tell(owned=owned)
        for records in batches.values():
            for record in records:
                tell(partition=record.partition, offset=record.offset)
    consumer.close()


def aiokafka(servers: str, group: str, topic: str, strategy: str) -> None:
    asyncio.run(_aiokafka(servers, group, topic, strategy))


async def _aiokafka(servers: str, group: str, topic: str, strategy: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    strategies = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=SESSION_MS,
        partition_assignment_strategy=(strategies[strategy],),
    )
    await consumer.start()
    end = asked_to_leave()
    owned: list[int] = []
    while not end.is_set():
        batches = await consumer.getmany(timeout_ms=50)
        now = sorted(partition.partition for partition in consumer.assignment())
        if now != owned:
            owned = now
            tell(owned=owned)
        for records in batches.values():
            for record in records:
                tell(partition=record.partition, offset=record.offset)
    await consumer.stop()


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](*sys.argv[2:])
