"""What a worker process keeps between tasks."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from kafkaraw.errors import KafkaError
from kafkaraw.net.loop_thread import client_loop_thread
from kafkaraw.spark.worker import ClientPool, cores_of_this_machine, tell_cores


class Client:
    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_client_serves_one_task_after_another():
    pool = ClientPool(Client)
    with pool.borrow({"a": "1", "b": "2"}) as first:
        pass
    with pool.borrow({"b": "2", "a": "1"}) as second:
        assert second is first
        assert not first.closed


def test_clients_with_different_settings_are_not_shared():
    pool = ClientPool(Client)
    with pool.borrow({"a": "1"}) as first:
        pass
    with pool.borrow({"a": "2"}) as second:
        assert second is not first
        assert second.settings == {"a": "2"}


def test_reads_that_are_interleaved_do_not_share_a_client():
    pool = ClientPool(Client)
    with pool.borrow({}) as first, pool.borrow({}) as second:
        assert first is not second


def test_a_client_is_closed_when_its_task_fails():
    pool = ClientPool(Client)
    with pytest.raises(RuntimeError), pool.borrow({}) as failed:
        raise RuntimeError("task failed")
    assert failed.closed
    with pool.borrow({}) as next_one:
        assert next_one is not failed


def test_no_more_idle_clients_are_kept_than_allowed():
    pool = ClientPool(Client, idle_max=1)
    with pool.borrow({}) as first, pool.borrow({}) as second:
        pass
    assert sorted([first.closed, second.closed]) == [False, True]
    pool.close()
    assert first.closed
    assert second.closed


def test_the_least_recently_used_client_is_closed_first():
    pool, clients = ClientPool(Client, total_max=2), []
    for name in ("a", "b", "a", "c"):
        with pool.borrow({"transactional_id": name}) as client:
            clients.append(client)
    first, second, again, third = clients
    assert again is first
    assert [each.closed for each in (first, second, third)] == [False, True, False]
    with pool.borrow({"transactional_id": "a"}) as kept:
        assert kept is first


def test_a_client_that_is_not_needed_again_is_closed():
    pool = ClientPool(Client)
    with pool.borrow({"transactional_id": "once"}, keep=False) as client:
        assert not client.closed
    assert client.closed


def test_a_forked_worker_makes_its_own_clients_and_leaves_its_parents_alone(monkeypatch):
    pool = ClientPool(Client)
    with pool.borrow({}) as parents:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pool.borrow({}) as childs:
        assert childs is not parents
    assert not parents.closed


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[*]", os.cpu_count()), ("local[*,2]", os.cpu_count())]
    + [(master, None) for master in ("yarn", "spark://h:1", "local-cluster[2,1,1024]", "local[0]")],
)
def test_the_number_of_parallel_tasks_of_a_local_spark_is_known(monkeypatch, master, cores):
    monkeypatch.setenv("KAFKARAW_SPARK_CORES", "77")
    tell_cores(master)
    assert cores_of_this_machine() == cores


def test_a_client_with_pending_failures_reports_them_and_is_not_reused():
    def report(client: Client) -> None:
        if client.settings == {"a": "1"}:
            raise KafkaError("1 record was not written")

    pool = ClientPool(Client, settle=report)
    with pytest.raises(KafkaError, match="1 record was not written"), pool.borrow({"a": "1"}) as client:
        pass
    assert client.closed
    with pool.borrow({"a": "2"}) as other:
        pass
    assert not other.closed


def test_threads_that_borrow_at_once_never_share_a_client():
    pool = ClientPool(Client, idle_max=2, total_max=3)
    in_use: set[Client] = set()
    made: set[Client] = set()
    shared: list[Client] = []

    def work(number: int) -> None:
        for turn in range(500):
            with pool.borrow({"a": str((number + turn) % 2)}) as client:
                if client in in_use or client.closed:
                    shared.append(client)
                in_use.add(client)
                made.add(client)
                in_use.discard(client)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not shared
    assert sum(not client.closed for client in made) <= 3


class Unclosable(Client):
    def close(self) -> None:
        super().close()
        raise KafkaError("2 records were not written")


def test_a_task_that_fails_raises_its_own_error_and_notes_what_closing_the_client_raised():
    pool = ClientPool(Unclosable)
    with pytest.raises(ValueError, match="the task's own") as caught, pool.borrow({"a": "1"}) as client:
        raise ValueError("the task's own")
    assert client.closed
    assert caught.value.__notes__ == ["closing the Unclosable failed, too: KafkaError: 2 records were not written"]


def test_a_surplus_client_that_cannot_be_closed_fails_no_other_task(caplog: pytest.LogCaptureFixture):
    pool = ClientPool(Unclosable, total_max=1)
    for number in "12":
        with pool.borrow({"a": number}):
            pass
    assert caplog.text.count("could not be closed: 2 records were not written") == 1
    pool.close()  # the other one, before the end of the process


def test_a_read_that_the_garbage_collector_ends_on_the_loop_thread_closes_its_client():
    class Blocking(Client):
        def close(self) -> None:
            client_loop_thread().run(asyncio.sleep(0))
            super().close()
            over.set()

    def read() -> Iterator[Client]:
        with pool.borrow({"a": "1"}) as client:
            yield client

    over = threading.Event()
    pool = ClientPool(Blocking)
    rows = read()
    client = next(rows)
    client_loop_thread().call_soon(rows.close)
    assert over.wait(10)
    assert client.closed
