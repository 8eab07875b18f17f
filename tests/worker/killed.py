"""The process that `kills.py` kills: a worker that writes each call of its handler into a file.

    python -m tests.worker.killed '{"log": "/tmp/calls", "worker": {...}, ...}'

A line is written with one system call before the handler goes on, so a kill loses none. Start at `main`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import time
from typing import Any

from kafkaraw import Record
from kafkaraw.worker import ProducerRecord, Retries, Worker

ORDERS, RETRY, DEAD, INVOICES = "orders", "orders.retry", "orders.dead", "invoices"
ATTEMPTS = 3
HANG = b"hang"
"""The handler takes an hour for this value."""


def always_fails(number: int) -> bool:
    """Whether no call of the handler succeeds for a record."""
    return number % 17 == 5


def fails_first(number: int) -> bool:
    """Whether the first call of a process fails for a record."""
    return number % 7 == 3


class Handlers:
    """The handler in three forms, and the file into which they write.

    Args:
        path: of the file.
        longest_s: the duration of the slowest call.
        seed: of the durations.
    """

    def __init__(self, path: str, longest_s: float, seed: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._longest_s, self._rng = longest_s, random.Random(seed)
        self._called: set[bytes] = set()

    def _write(self, what: str, record: Record) -> None:
        key = (record.key or b"").decode()
        os.write(self._file, f"{what} {record.partition} {record.offset} {key}\n".encode())

    def _seconds(self, record: Record) -> float:
        self._write("began", record)
        return 3_600 if record.value == HANG else self._rng.uniform(0, self._longest_s)

    def _result(self, record: Record) -> ProducerRecord:
        assert record.value is not None
        number, is_first = int(record.value), record.value not in self._called
        self._called.add(record.value)
        if always_fails(number) or (fails_first(number) and is_first):
            self._write("failed", record)
            raise ConnectionError("down")
        self._write("ended", record)
        return ProducerRecord(INVOICES, f"{record.partition} {record.offset}".encode())

    async def on_loop(self, record: Record) -> ProducerRecord:
        await asyncio.sleep(self._seconds(record))
        return self._result(record)

    async def blocking(self, record: Record) -> ProducerRecord:
        time.sleep(self._seconds(record))
        return self._result(record)

    def in_thread(self, record: Record) -> ProducerRecord:
        time.sleep(self._seconds(record))
        return self._result(record)


def main(given: dict[str, Any]) -> None:
    """Run the worker until SIGTERM.

    Args:
        given: `log`, `longest_s` and `seed` of `Handlers`; `handler`: the name of its method; `retry_topic`;
            `timeout_ms` and `attempts` of a call; `worker`: the settings.
    """
    logging.basicConfig(level=logging.INFO)
    handlers = Handlers(given["log"], given["longest_s"], given["seed"])
    worker = Worker(**given["worker"])
    retries = Retries(attempts=given.get("attempts", ATTEMPTS), backoff_ms=5, topic=given.get("retry_topic"))
    handle = worker.handle(ORDERS, retries=retries, dead_letter_topic=DEAD, timeout_ms=given.get("timeout_ms"))
    handle(getattr(handlers, given["handler"]))
    worker.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
