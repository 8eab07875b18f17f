"""A worker: takes work orders from a group's topics, and writes one result for each, exactly once.

    python -m examples.messaging.worker --servers localhost:9092 --name worker-1

An order is a Python source file to measure. Results, retries and the group's offsets are written in one transaction:
if a worker is killed, its orders are done again by its successor, and no result appears twice. An attempt that fails
goes to the topic of retries with the time of the next one; the last attempt's failure is the result. Start at `work`.
"""

from __future__ import annotations

import ast
import json
import signal
import sysconfig
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from kafkaraw import Consumer, Producer, Record

ORDERS, RETRIES, RESULTS = "work-orders", "work-orders.retries", "work-results"
GROUP: Final = "workers"
LIBRARY: Final = Path(sysconfig.get_paths()["stdlib"])
ATTEMPTS: Final = 3
FIRST_LIMIT: Final = 16 * 1024  # bytes of a file that the first attempt reads; each later one reads four times as many
FIRST_DELAY_MS: Final = 100
ORDERS_PER_TRANSACTION: Final = 20


class AttemptFailedError(Exception):
    """This attempt failed; another one may succeed."""


class OrderFailedError(Exception):
    """No attempt can succeed."""


def measure(path: str, attempt: int) -> dict[str, int]:
    """Return the number of lines and functions of a file of Python's standard library."""
    limit = FIRST_LIMIT * 4 ** (attempt - 1)
    file = (LIBRARY / path).resolve()
    if not file.is_relative_to(LIBRARY):
        raise OrderFailedError("the file is not in the library")
    try:
        with file.open("rb") as content:
            source = content.read(limit + 1)
    except OSError as error:
        raise AttemptFailedError(error.strerror or str(error)) from error
    if len(source) > limit:
        raise AttemptFailedError(f"the file has more than {limit} bytes")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise OrderFailedError(f"{type(error).__name__}: {error.args[0]}") from error
    functions = sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(tree))
    return {"lines": source.count(b"\n"), "functions": functions}


def handle(record: Record, worker: str, send: Callable[..., object]) -> None:
    """Work on one order: send its result, or its next attempt."""
    try:
        order = json.loads(record.value or b"")
        order_id, path = int(order["id"]), str(order["path"])
    except (ValueError, KeyError, TypeError):
        return  # no order: the pipeline, which reads the same topic, writes it to the dead-letter topic
    headers = dict(record.headers)
    attempt = int(headers.get("attempt") or b"1")
    wait_s = int(headers.get("not-before") or b"0") / 1000 - time.time()
    time.sleep(min(max(wait_s, 0), 2))
    result: dict[str, Any] = {"id": order_id, "worker": worker, "attempt": attempt, "state": "done"}
    try:
        result |= measure(path, attempt)
    except (AttemptFailedError, OrderFailedError) as error:
        if attempt < ATTEMPTS and isinstance(error, AttemptFailedError):
            due = int(time.time() * 1000) + FIRST_DELAY_MS * 2 ** (attempt - 1)
            next_attempt = [("attempt", b"%d" % (attempt + 1)), ("not-before", b"%d" % due)]
            send(RETRIES, record.value, record.key, headers=next_attempt)
            return
        result |= {"state": "failed", "error": str(error)}
    result["finished_at"] = datetime.now(UTC).isoformat()
    send(RESULTS, json.dumps(result).encode(), record.key)


def work(servers: str, name: str, is_stopped: Callable[[], bool]) -> int:
    """Work until told to stop; return the number of orders and retries handled."""
    handled = 0
    with (
        Producer(
            bootstrap_servers=servers, transactional_id=f"work-{name}", transaction_timeout_ms=120_000
        ) as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id=GROUP,
            group_instance_id=name,  # a worker that is started again has its partitions back at once
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        producer.init_transactions()  # aborts the transaction of a predecessor that was killed
        consumer.subscribe([ORDERS, RETRIES])
        while not is_stopped():
            batches = consumer.poll(0.2, max_records=ORDERS_PER_TRANSACTION)
            if not batches:
                continue
            with producer.transaction():
                for batch in batches.values():
                    for record in batch:
                        handle(record, name, producer.send)
                        handled += 1
                producer.send_offsets_to_transaction(consumer.next_offsets(), consumer.group_metadata())
    return handled


@click.command(help=__doc__)
@click.option("--servers", required=True)
@click.option("--name", required=True)
def main(servers: str, name: str) -> None:
    """Work until SIGTERM."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    handled = work(servers, name, lambda: bool(stopped))
    click.echo(f"{name}: {handled} orders and retries handled")


if __name__ == "__main__":
    main()
