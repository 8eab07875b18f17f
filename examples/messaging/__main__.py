"""Messaging: work orders for the files of Python's standard library, three workers, and the results joined back.

    python -m examples.messaging

One worker is killed in the middle of its work and started again. Every order has one result, that of plain Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.harness import ExampleFailedError, Place, Size, check, command
from examples.messaging.worker import (
    ATTEMPTS,
    LIBRARY,
    ORDERS,
    RESULTS,
    RETRIES,
    AttemptFailedError,
    OrderFailedError,
    measure,
)
from examples.picture import bars
from kafkaraw import NewTopic, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = {"small": 150, "whole": None}
WORKERS = ("worker-1", "worker-2", "worker-3")
MISSING = ("no_such_file.py", "nor/this_one.py")
NO_ORDERS = (b"not JSON", b'{"id": 1}', b'{"path": "os.py"}')
DEADLINE_S = 240


class Workers:
    """The workers' processes.

    Args:
        servers: of the broker.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a worker."""
        arguments = ["-m", "examples.messaging.worker", "--servers", self._servers, "--name", name]
        root = Path(__file__).parents[2]
        self._processes[name] = subprocess.Popen([sys.executable, *arguments], cwd=root, stdout=subprocess.DEVNULL)

    def kill(self, name: str) -> None:
        """Kill a worker: it finishes nothing."""
        self._processes[name].kill()
        self._processes[name].wait(20)

    def check(self) -> None:
        """Raise ExampleFailedError if a worker has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ExampleFailedError(f"{name} has ended with {process.returncode}")

    def stop(self) -> None:
        """Stop all workers."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(60)


@contextmanager
def working(servers: str) -> Iterator[Workers]:
    """Start all workers, and stop them at the end."""
    workers = Workers(servers)
    try:
        for name in WORKERS:
            workers.start(name)
        yield workers
    finally:
        workers.stop()


def run(place: Place, spark: SparkSession, size: Size) -> str:
    """Order, work, join, compare; return the picture."""
    place.create_topics(*(NewTopic(topic, 3) for topic in (ORDERS, RETRIES, RESULTS)))
    orders = dict(enumerate([*MISSING, *_files(FILES[size])]))
    _send(place.servers, orders)
    with working(place.servers) as workers:
        _wait_for_results(place, workers, len(orders) // 4)
        workers.kill(WORKERS[0])
        workers.start(WORKERS[0])
        place.say(f"{WORKERS[0]} was killed, and started again")
        place.run_pipeline(spark)
        _wait_for_results(place, workers, len(orders))
    place.run_pipeline(spark)
    finished = [row.asDict() for row in place.table(spark, "finished_orders").collect()]
    expected = [{"id": number, "path": path, **_outcome(path)} for number, path in orders.items()]
    check("finished_orders", expected, finished)
    failed = [{"id": each["id"], "error": each["error"]} for each in expected if each["state"] == "failed"]
    check("failed-orders", failed, (json.loads(each.value or b"") for each in place.records("failed-orders")))
    _check_dead_letters(place)
    retried = sum(each["attempt"] > 1 for each in expected)
    place.say(f"{len(orders):,} orders, {retried} of them retried, {len(failed)} failed: one result each, as expected")
    work = sorted(place.table(spark, "work_by_worker").collect(), key=lambda row: row.worker)
    return bars(
        "Orders by worker",
        f"{len(orders):,} files of Python's standard library; {WORKERS[0]} was killed and started again",
        [(row.worker, row.done + row.failed, f"{row.done + row.failed} orders, {row.lines:,} lines") for row in work],
    )


def _files(limit: int | None) -> list[str]:
    """Return the source files of the standard library: for a sample, every so-manieth, so that all sizes occur."""
    found = sorted(
        str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if "site-packages" not in path.parts
    )
    return found if limit is None else found[:: len(found) // limit][:limit]


def _send(servers: str, orders: dict[int, str]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in NO_ORDERS:
            producer.send(ORDERS, value)
        for number, path in orders.items():
            order = {"id": number, "path": path, "ordered_at": datetime.now(UTC).isoformat()}
            producer.send(ORDERS, json.dumps(order).encode(), str(number).encode())
        producer.flush(60)


def _wait_for_results(place: Place, workers: Workers, number: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (results := len(place.records(RESULTS))) < number:
        workers.check()
        if time.monotonic() > deadline:
            raise ExampleFailedError(f"{results} of {number} results after {DEADLINE_S} s")
        time.sleep(0.5)


def _outcome(path: str) -> dict[str, Any]:
    """Return the result that an order for a file must have."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return {"attempt": attempt, "state": "done", "error": None, **measure(path, attempt)}
        except OrderFailedError as error:
            return {"attempt": attempt, "state": "failed", "error": str(error)}
        except AttemptFailedError as error:
            failure = str(error)
    return {"attempt": ATTEMPTS, "state": "failed", "error": failure}


def _check_dead_letters(place: Place) -> None:
    expected = [{"reason": reason} for reason in ("decode", "expectation", "expectation")]
    letters = place.records("messaging.dead-letters")
    check("dead letters", expected, ({"reason": dict(each.headers)["kafkaraw.reason"].decode()} for each in letters))


if __name__ == "__main__":
    command("messaging", run)()
