"""Makes, uses and closes one kind of client many times, and tells what the process holds before and after.

A program of its own, so that nothing but the clients counts: `python -W error -m tests.client.cycles SERVERS COUNT
COUNT`. Whatever is left for the garbage collector to close shows on standard error, as all warnings are errors.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from collections.abc import Callable

from kafkaraw import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from tests.footprint import footprint

TOPIC = "cycles"
PARTITION = TopicPartition(TOPIC, 0)


def producer(servers: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=0) as made:
        made.send(TOPIC, b"value", partition=0).result(10)


def transactions(servers: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=0, transactional_id="cycles") as made:
        made.init_transactions()
        with made.transaction():
            made.send(TOPIC, b"value", partition=0)


def consumer(servers: str) -> None:
    with Consumer(bootstrap_servers=servers) as made:
        made.assign([PARTITION])
        made.seek(PARTITION, 0)
        assert made.poll(10)


def member(servers: str, protocol: str) -> None:
    settings = {
        "group_id": f"cycles-{protocol}",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with Consumer(bootstrap_servers=servers, **settings) as made:
        made.subscribe([TOPIC])
        assert made.poll(10)
        made.commit({PARTITION: 0})


def admin(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as made:
        made.describe_topics([TOPIC])


def unused(servers: str) -> None:
    for kind in (Producer, Consumer, Admin):
        kind(bootstrap_servers=servers).close()


def refused(servers: str) -> None:
    """Nobody listens where it connects to."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        with Admin(bootstrap_servers=f"127.0.0.1:{sock.getsockname()[1]}") as made:
            try:
                made.list_topics(timeout=0.05)
            except KafkaError:
                return
    raise AssertionError("somebody answered")


async def async_clients(servers: str) -> None:
    async with AsyncProducer(bootstrap_servers=servers, linger_ms=0) as sending:
        await sending.send(TOPIC, b"value", partition=0)
    async with AsyncConsumer(bootstrap_servers=servers) as reading:
        reading.assign([PARTITION])
        reading.seek(PARTITION, 0)
        assert await reading.poll(10)
    async with AsyncAdmin(bootstrap_servers=servers) as asking:
        await asking.describe_topics([TOPIC])


def new_loop(servers: str) -> None:
    """Async clients, each time on a loop of their own."""
    asyncio.run(async_clients(servers))


def broker(servers: str) -> None:
    with EmbeddedBroker() as made:
        producer(made.bootstrap_servers)


KINDS: dict[str, Callable[[str], None]] = {
    "producer": producer,
    "transactions": transactions,
    "consumer": consumer,
    "member, classic": lambda servers: member(servers, "classic"),
    "member, consumer": lambda servers: member(servers, "consumer"),
    "admin": admin,
    "unused": unused,
    "refused": refused,
    "new loop": new_loop,
    "broker": broker,
}


def holdings() -> dict[str, int]:
    """What this process holds, with the number of its Python objects."""
    gc.collect()
    found = footprint(os.getpid())
    assert found is not None
    return {
        "memory_kb": found.memory_kb,
        "threads": found.threads,
        "files": found.files,
        "sockets": found.sockets,
        "objects": len(gc.get_objects()),
    }


def run(kind: str, counts: list[int], servers: str) -> list[dict[str, int]]:
    """What is held after so many cycles of one kind, and after so many more."""
    found: list[dict[str, int]] = []
    for count in counts:
        for _ in range(count):
            KINDS[kind](servers)
        found.append(holdings())
    return found


async def run_async(counts: list[int], servers: str) -> list[dict[str, int]]:
    """The same for async clients on one loop, with the number of tasks."""
    found: list[dict[str, int]] = []
    for count in counts:
        for _ in range(count):
            await async_clients(servers)
        found.append(holdings() | {"tasks": len(asyncio.all_tasks())})
    return found


def main(servers: str, *numbers: str) -> None:
    """Print what is held, by kind, as JSON."""
    counts = [int(number) for number in numbers]
    told = {kind: run(kind, counts, servers) for kind in KINDS}
    print(json.dumps(told | {"one loop": asyncio.run(run_async(counts, servers))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
