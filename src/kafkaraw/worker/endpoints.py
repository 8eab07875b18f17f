"""The HTTP endpoints of a worker: /healthz, /metrics and /status.

Each answer is made on the worker's event loop, so a handler that blocks the loop is found: then there is no answer in
time. Start at `endpoints`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from kafkaraw.light_classes import dataclass
from kafkaraw.metrics import register
from kafkaraw.net.status_server import PROMETHEUS, Answer, StatusServer
from kafkaraw.worker.metrics import WorkerStatus
from kafkaraw.worker.service import Service

log: logging.Logger = logging.getLogger("kafkaraw.worker")

ANSWER_S: Final = 2.0
"""How long the event loop may take to answer, in seconds."""


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that runs, its event loop, and the identifier of the loop's thread."""

    service: Service
    loop: asyncio.AbstractEventLoop
    thread: int

    def status(self) -> WorkerStatus:
        """Return the worker's numbers; may be called on any thread.

        Raises:
            TimeoutError: the event loop has not answered within 2 s.
        """
        if threading.get_ident() == self.thread:
            return self.service.status()
        found: Future[WorkerStatus] = Future()
        self.loop.call_soon_threadsafe(lambda: found.set_result(self.service.status()))
        return found.result(ANSWER_S)

    def client_metrics(self) -> str:
        """Return the metrics of both clients in Prometheus' text format; nothing without `prometheus-client`."""
        try:
            from prometheus_client import CollectorRegistry, generate_latest
        except ImportError:
            return ""
        registry = CollectorRegistry()
        register(self.service.consumer, registry, client="consumer")
        register(self.service.producer, registry, client="producer")
        text: bytes = generate_latest(registry)
        return text.decode()


@contextmanager
def endpoints(running: Running, port: int, host: str) -> Iterator[StatusServer]:
    """Serve the endpoints of a worker within this context.

    Raises:
        ConfigError: the port is in use, or not allowed.
    """
    answers = {"/healthz": _health, "/metrics": _metrics, "/status": _status}
    made = {path: partial(_answer, running, answer) for path, answer in answers.items()}
    server = StatusServer(port, host, made, thread_name="kafkaraw-worker-http")
    log.info("%s/healthz, /metrics and /status", server.address)
    try:
        yield server
    finally:
        server.close()


def _answer(running: Running, answer: Callable[[Running, WorkerStatus], Answer]) -> Answer:
    try:
        return answer(running, running.status())
    except TimeoutError:
        problem = f"not healthy\nthe event loop has not answered for {ANSWER_S:g} s: a handler blocks it\n"
    except RuntimeError:  # the loop is closed
        problem = "not healthy\nthe worker does not run\n"
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE, problem)


def _health(_: Running, status: WorkerStatus) -> Answer:
    return Answer(HTTPStatus.SERVICE_UNAVAILABLE if status.problems else HTTPStatus.OK, status.health_text())


def _metrics(running: Running, status: WorkerStatus) -> Answer:
    return Answer(HTTPStatus.OK, status.metrics_text() + running.client_metrics(), PROMETHEUS)


def _status(_: Running, status: WorkerStatus) -> Answer:
    return Answer(HTTPStatus.OK, json.dumps(status.as_dict()) + "\n", "application/json")
