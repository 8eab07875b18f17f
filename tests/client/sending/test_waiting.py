"""Waiting for promises on a thread that may block; what tickets say is in `test_producer.py` and `test_blocking.py`."""

from __future__ import annotations

from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.records import BatchPromise
from tests.interrupting import interrupted_elsewhere


def promises(count: int) -> tuple[PromiseWaiter, list[BatchPromise]]:
    waiter = PromiseWaiter()
    return waiter, [BatchPromise("t", partition, waiter) for partition in range(count)]


def test_ctrl_c_ends_the_wait_for_a_record() -> None:
    waiter, (promise,) = promises(1)
    with interrupted_elsewhere():
        waiter.wait(promise, None)
    promise.resolve(0)  # whoever has stopped waiting is no obstacle


def test_ctrl_c_ends_the_wait_for_many_rows() -> None:
    waiter, several = promises(3)
    with interrupted_elsewhere():
        waiter.wait_all(several, 600)
    for promise in several:
        promise.resolve(0)
