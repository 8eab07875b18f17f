"""A thread that holds a lock for which a loop waits makes no blocking call: each would wait for the other for ever."""

from __future__ import annotations

import threading

import pytest

from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.errors import UsageError
from kafkaraw.net.loop_locks import holds_loop_lock, new_loop_lock
from kafkaraw.net.loop_thread import LoopThread
from kafkaraw.records import BatchPromise


async def nothing() -> None:
    pass


def test_a_thread_that_holds_such_a_lock_makes_no_blocking_call():
    thread, lock, waiter = LoopThread("test"), new_loop_lock(), PromiseWaiter()
    try:
        thread.run(nothing())
        with lock:
            assert holds_loop_lock()
            for wait in (
                lambda: thread.run(nothing()),
                lambda: thread.run_until_told(lambda over: over(None)),
                lambda: waiter.wait(BatchPromise("t", 0, waiter), None),
                lambda: waiter.wait_all([BatchPromise("t", 0, waiter)], None),
            ):
                with pytest.raises(UsageError, match="in the middle of a change"):
                    wait()
        assert not holds_loop_lock()
        thread.run(nothing())
    finally:
        thread.stop()


def test_the_lock_of_another_thread_refuses_nothing():
    lock, thread = new_loop_lock(), LoopThread("test")
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert taken.wait(10)
        thread.run(nothing())
    finally:
        done.set()
        other.join()
        thread.stop()
