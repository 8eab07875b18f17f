"""Clients under attack: a process that runs scripts of calls against a broker, and tells how each call ended.

A command is a line of JSON with the name of a script and settings; the answer is a line with one entry for each call:
its name, its limit, how long it took without the time in which another process had the core, and how it ended.
Start at `SCRIPTS`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kafkaraw import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
)

TOPIC = "t"
PARTITIONS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
CALL_S = 0.6
READING_S = 10.0
"""How long the records of one poll may take to be read; what may be decompressed for them is bounded."""
POLLS = 5
SETTINGS: dict[str, object] = {
    "request_timeout_ms": 400,
    "default_api_timeout_ms": int(CALL_S * 1000),
    "socket_connection_setup_timeout_ms": 300,
    "socket_connection_setup_timeout_max_ms": 300,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
}
CONSUMER = {"auto_offset_reset": "earliest", "fetch_max_bytes": 4 << 20, "fetch_max_wait_ms": 50}
GROUP = CONSUMER | {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
PRODUCER = {"max_block_ms": int(CALL_S * 1000), "delivery_timeout_ms": int(CALL_S * 1000), "linger_ms": 1}


@dataclass
class Call:
    """How a call ended.

    Attributes:
        name: of the call.
        limit_s: its timeout.
        took_s: how long it took, without waiting for a core.
        outcome: "ok", or the name of a KafkaError.
        bare: the end of the traceback of any other error.
    """

    name: str
    limit_s: float
    took_s: float = 0.0
    outcome: str = "ok"
    bare: str = ""


@dataclass
class Calls:
    """The calls of one script."""

    made: list[Call] = field(default_factory=list)
    records: int = 0

    @contextmanager
    def timed(self, name: str, limit_s: float = CALL_S) -> Iterator[None]:
        """Hold what is within to the rules."""
        call = Call(name, limit_s)
        delayed, began = run_delays_s(), time.monotonic()
        try:
            yield
        except KafkaError as error:
            call.outcome = type(error).__name__
        except Exception as error:  # noqa: BLE001 -- whatever else comes out of a client is what is looked for
            call.outcome = type(error).__name__
            call.bare = "".join(traceback.format_exception(error))[-1_500:]
        call.took_s = max(0.0, time.monotonic() - began - (run_delays_s() - delayed))
        self.made.append(call)

    def do(self, name: str, act: Callable[[], Any], limit_s: float = CALL_S) -> Any:
        """Make a call; None when it fails."""
        result = None
        with self.timed(name, limit_s):
            result = act()
        return result

    async def wait(self, name: str, act: Callable[[], Awaitable[Any]], limit_s: float = CALL_S) -> Any:
        """Make a call and await it; None when it fails."""
        result = None
        with self.timed(name, limit_s):
            result = await act()
        return result


def run_delays_s() -> float:
    """For how long the threads of this process have been ready while others had the core."""
    total = 0
    for stat in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(stat.read_text().split()[1])
        except (OSError, IndexError):
            continue  # the thread has ended
    return total / 1e9


def _read(calls: Calls, batches: Any) -> None:
    with calls.timed("read", READING_S):
        for batch in (batches or {}).values():
            for record in batch:
                record.value, record.headers  # noqa: B018 -- made when they are looked at
                calls.records += 1


def consume(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    """Partitions assigned by hand, read as records and as columns."""
    consumer = Consumer(**settings, **CONSUMER, isolation_level="read_committed")
    calls.do("assign", lambda: consumer.assign(PARTITIONS))
    calls.do("end_offsets", lambda: consumer.end_offsets(PARTITIONS, timeout=CALL_S))
    for _ in range(POLLS):
        calls.do("seek_to_beginning", lambda: consumer.seek_to_beginning(PARTITIONS))
        _read(calls, calls.do("poll", lambda: consumer.poll(timeout=CALL_S)))
    calls.do("seek_to_beginning", lambda: consumer.seek_to_beginning(PARTITIONS))
    calls.do("poll_arrow", lambda: consumer.poll_arrow(timeout=CALL_S))
    calls.do("position", lambda: consumer.position(PARTITIONS[0], timeout=CALL_S))
    calls.do("close", lambda: consumer.close(timeout=CALL_S))


def consume_in_group(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    """A member of a group, of either protocol."""
    for protocol in ("classic", "consumer"):
        group = {**GROUP, "group_protocol": protocol, "group_id": f"{group_id}-{protocol}"}
        if protocol == "consumer":
            group = {name: group[name] for name in group if name not in ("session_timeout_ms", "heartbeat_interval_ms")}
        consumer = Consumer(**settings, **group)
        calls.do("subscribe", lambda consumer=consumer: consumer.subscribe([TOPIC]))
        for _ in range(POLLS):
            _read(calls, calls.do("poll", lambda consumer=consumer: consumer.poll(timeout=CALL_S)))
        calls.do("commit", lambda consumer=consumer: consumer.commit(timeout=CALL_S))
        calls.do("committed", lambda consumer=consumer: consumer.committed(PARTITIONS, timeout=CALL_S))
        calls.do("close", lambda consumer=consumer: consumer.close(timeout=CALL_S))


def produce(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    """Records, alone and in transactions."""
    producer = Producer(**settings, **PRODUCER)
    tickets = [calls.do("send", lambda at=at: producer.send(TOPIC, b"v" * 100, key=b"%d" % at)) for at in range(5)]
    for ticket in filter(None, tickets):
        calls.do("result", lambda ticket=ticket: ticket.result(timeout=CALL_S))
    calls.do("flush", lambda: producer.flush(timeout=CALL_S))
    calls.do("partitions_for", lambda: producer.partitions_for(TOPIC, timeout=CALL_S))
    calls.do("close", lambda: producer.close(timeout=CALL_S))
    transactional = Producer(**settings, **PRODUCER, transactional_id="victim", transaction_timeout_ms=5_000)
    calls.do("init_transactions", lambda: transactional.init_transactions(timeout=CALL_S))
    calls.do("begin_transaction", transactional.begin_transaction)
    calls.do("send", lambda: transactional.send(TOPIC, b"in a transaction"))
    calls.do("commit_transaction", lambda: transactional.commit_transaction(timeout=CALL_S))
    calls.do("abort_transaction", lambda: transactional.abort_transaction(timeout=CALL_S))
    calls.do("close", lambda: transactional.close(timeout=CALL_S))


def administer(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    """Questions and changes of an admin client."""
    admin = Admin(**settings)
    calls.do("list_topics", lambda: admin.list_topics(timeout=CALL_S))
    calls.do("describe_topics", lambda: admin.describe_topics([TOPIC], timeout=CALL_S))
    calls.do("describe_cluster", lambda: admin.describe_cluster(timeout=CALL_S))
    calls.do("create_topics", lambda: admin.create_topics([NewTopic("made", 1, 1)], timeout=CALL_S))
    calls.do("list_groups", lambda: admin.list_groups(timeout=CALL_S))
    calls.do("describe_groups", lambda: admin.describe_groups([group_id], timeout=CALL_S))
    calls.do("list_group_offsets", lambda: admin.list_group_offsets(group_id, timeout=CALL_S))
    calls.do("delete_topics", lambda: admin.delete_topics(["made"], timeout=CALL_S))
    calls.do("close", admin.close)


async def _async_clients(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    watching = asyncio.create_task(_watch_the_loop(calls))
    consumer = AsyncConsumer(**settings, **GROUP, group_id=group_id)
    calls.do("subscribe", lambda: consumer.subscribe([TOPIC]))
    producer = AsyncProducer(**settings, **PRODUCER)
    admin = AsyncAdmin(**settings)
    ticket = await calls.wait("send", lambda: producer.send(TOPIC, b"v"))
    for _ in range(POLLS):
        _read(calls, await calls.wait("poll", lambda: consumer.poll(timeout=CALL_S)))
    if ticket is not None:
        await calls.wait("await of a ticket", lambda: asyncio.wait_for(_awaited(ticket), 10))
    await calls.wait("flush", lambda: producer.flush(timeout=CALL_S))
    await calls.wait("commit", lambda: consumer.commit(timeout=CALL_S))
    await calls.wait("list_topics", lambda: admin.list_topics(timeout=CALL_S))
    await calls.wait("describe_configs", lambda: admin.describe_cluster(timeout=CALL_S))
    await calls.wait("consumer.close", lambda: consumer.close(timeout=CALL_S))
    await calls.wait("producer.close", lambda: producer.close(timeout=CALL_S))
    await calls.wait("admin.close", admin.close)
    watching.cancel()


async def _awaited(ticket: Any) -> Any:
    return await ticket


async def _watch_the_loop(calls: Calls) -> None:
    """A call named for it fails when the loop stands still."""
    while True:
        with calls.timed("turn of the loop", 0.05):
            await asyncio.sleep(0.02)
        if calls.made[-1].took_s < 0.5:
            del calls.made[-1]


def use_asyncio(calls: Calls, settings: dict[str, Any], group_id: str) -> None:
    """All three clients on one loop of the user's, which must not stand still."""
    with calls.timed("all on one loop", 30.0):
        asyncio.run(_async_clients(calls, settings, group_id))


SCRIPTS: dict[str, Callable[[Calls, dict[str, Any], str], None]] = {
    "consume": consume,
    "group": consume_in_group,
    "produce": produce,
    "admin": administer,
    "asyncio": use_asyncio,
}


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    threading.excepthook = lambda args: traceback.print_exception(args.exc_value)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        calls = Calls()
        SCRIPTS[command["script"]](calls, SETTINGS | command["settings"], command["group"])
        print(json.dumps({"calls": [asdict(call) for call in calls.made], "records": calls.records}), flush=True)


if __name__ == "__main__":
    main()
