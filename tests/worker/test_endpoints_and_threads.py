"""Handlers in threads, and the endpoints of a worker that runs in a thread of this process, with real sockets."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import Record
from kafkaraw.worker import Retries, Worker, endpoints
from kafkaraw.worker.threads import HandlerThreads
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders"), NewTopic("payments")])
        yield broker.bootstrap_servers


@contextmanager
def running(worker: Worker, caplog: pytest.LogCaptureFixture) -> Iterator[HTTPConnection]:
    """Run a worker in a thread, and connect to its port."""
    caplog.set_level(logging.INFO, "kafkaraw.worker")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(lambda: "/healthz" in caplog.text)
        found = re.search(r"http://([^:]+):(\d+)/healthz", caplog.text)
        assert found
        with closing(HTTPConnection(found[1], int(found[2]), timeout=10)) as connection:
            yield connection
    finally:
        worker.stop()
        thread.join(30)
    assert not thread.is_alive()


def until(is_true) -> None:
    """Wait for other threads."""
    assert wait_until(is_true, 20, 0.005)


def ask(connection: HTTPConnection, path: str) -> tuple[int, str]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_healthz_returns_503_while_a_thread_exceeds_its_time(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(4):
            producer.send("orders", b"%d" % number, b"key-%d" % (number % 2))
    worker = Worker(bootstrap_servers=servers, group_id="threads", auto_offset_reset="earliest", concurrency=2, port=0)
    gate, calls, together = threading.Event(), list[tuple[bytes | None, str]](), threading.Barrier(2, timeout=20)

    @worker.handle("orders", timeout_ms=50)
    def work(record: Record) -> None:
        calls.append((record.key, threading.current_thread().name))
        if record.offset < 2:
            together.wait()  # both keys run at the same time
            gate.wait(20)

    with running(worker, caplog) as connection:
        until(lambda: ask(connection, "/healthz")[0] == 503 and len(calls) == 2 and worker.metrics()["problems"])
        status, text = ask(connection, "/healthz")
        assert (status, "handler 'work' exceeds timeout_ms=50 with the record orders-0 at offset" in text) == (
            503,
            True,
        )
        gate.set()
        until(lambda: json.loads(ask(connection, "/status")[1])["handlers"]["work"]["handled"] == 4)
        assert ask(connection, "/healthz") == (200, "ok\n")
        assert 'kafkaraw_worker_handled_total{group="threads",handler="work"} 4' in ask(connection, "/metrics")[1]
    assert {name for _, name in calls} <= {"kafkaraw-worker-1", "kafkaraw-worker-2"}
    assert sorted(key for key, _ in calls) == [b"key-0", b"key-0", b"key-1", b"key-1"]


def test_healthz_returns_503_while_a_handler_blocks_the_event_loop(
    servers: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "ANSWER_S", 0.05)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("payments", b"0")
    worker = Worker(bootstrap_servers=servers, group_id="blocking", auto_offset_reset="earliest", port=0)
    gate, began = threading.Event(), threading.Event()

    @worker.handle("payments", retries=Retries(attempts=1))
    async def work(record: Record) -> None:
        began.set()
        gate.wait(20)

    with running(worker, caplog) as connection:
        assert began.wait(20)
        assert ask(connection, "/healthz") == (
            503,
            "not healthy\nthe event loop has not answered for 0.05 s: a handler blocks it\n",
        )
        gate.set()
        until(lambda: ask(connection, "/healthz") == (200, "ok\n"))


def test_threads_are_used_again_and_keep_what_is_local_to_them() -> None:
    async def test() -> list[int]:
        threads, local, found = HandlerThreads(), threading.local(), list[int]()

        def count() -> int:
            local.calls = getattr(local, "calls", 0) + 1
            return local.calls

        for _ in range(3):
            found.append(await threads.run(count))
        threads.close()
        return found

    assert asyncio.run(test()) == [1, 2, 3]


def test_a_thread_has_the_context_of_its_caller_and_reports_what_the_function_raises() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    def fail() -> None:
        raise StopIteration(variable.get())

    async def test() -> None:
        threads = HandlerThreads()
        variable.set("of the caller")
        with pytest.raises(RuntimeError, match=r"the handler raised StopIteration\('of the caller'\)"):
            await threads.run(fail)
        threads.close()

    asyncio.run(test())


def test_a_cancelled_call_runs_on_in_its_thread_and_its_result_is_dropped() -> None:
    async def test() -> None:
        threads, gate, ended = HandlerThreads(), threading.Event(), threading.Event()

        def work() -> None:
            gate.wait(20)
            ended.set()

        answer = threads.run(work)
        answer.cancel()
        assert await threads.run(lambda: 7) == 7, "another thread takes the next call"
        gate.set()
        assert ended.wait(20)
        threads.close()

    asyncio.run(test())
