"""Interruptible waits, locks that a loop thread waits for, and blocking work in a daemon thread."""

from __future__ import annotations

import asyncio
import contextvars
import math
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.errors import UsageError
from kafkaraw.net import threads
from kafkaraw.net.loop_thread import LoopThread
from kafkaraw.net.threads import SLICE_S, holds_loop_lock, new_loop_lock, run_in_daemon_thread, wait_interruptibly
from kafkaraw.records import BatchPromise


class Waits:
    """A condition that is true `over_after` seconds from now; records the length of each wait for it."""

    def __init__(self, over_after: float) -> None:
        self.now = 1000.0
        self.slices: list[float] = []
        self._over_at = self.now + over_after

    def __call__(self, seconds: float) -> bool:
        self.slices.append(seconds)
        self.now = min(self.now + seconds, max(self._over_at, self.now))
        return self.now >= self._over_at


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Waits]:
    def make(over_after: float) -> Waits:
        waits = Waits(over_after)
        monkeypatch.setattr(threads, "monotonic", lambda: waits.now)
        return waits

    return make


@pytest.mark.parametrize("timeout", [None, 0.0, 0.5, 3600.0, math.inf])
def test_what_is_over_is_asked_for_once(waits: Callable[[float], Waits], timeout: float | None) -> None:
    over = waits(0.0)
    assert wait_interruptibly(over, timeout)
    assert len(over.slices) == 1


@pytest.mark.parametrize("timeout", [0.0, 0.25, SLICE_S, 1.5, 2 * SLICE_S, 30.125])
def test_a_timeout_is_kept_exactly(waits: Callable[[float], Waits], timeout: float) -> None:
    never = waits(math.inf)
    assert not wait_interruptibly(never, timeout)
    assert never.now == 1000.0 + timeout
    assert max(never.slices) <= SLICE_S


@pytest.mark.parametrize("timeout", [None, 60.0, math.inf])
def test_a_long_wait_is_over_when_it_is_over(waits: Callable[[float], Waits], timeout: float | None) -> None:
    late = waits(7.5)
    assert wait_interruptibly(late, timeout)
    assert late.now == 1007.5
    assert max(late.slices) <= SLICE_S


def test_a_negative_timeout_asks_only(waits: Callable[[float], Waits]) -> None:
    never = waits(math.inf)
    assert not wait_interruptibly(never, -1)  # not for ever, as with a lock
    assert never.slices == [0.0]


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
                lambda: thread.run_until_called(lambda over: over(None)),
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


def test_results_and_errors_come_back_and_context_goes_along():
    colour = contextvars.ContextVar("colour", default="none")

    async def main() -> None:
        colour.set("red")
        assert await run_in_daemon_thread(lambda: (colour.get(), threading.current_thread().name), "t") == ("red", "t")
        with pytest.raises(ZeroDivisionError):
            await run_in_daemon_thread(lambda: 1 // 0, "t")

    asyncio.run(main())


def test_being_cancelled_does_not_wait_for_it():
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(30)
        ended.set()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run_in_daemon_thread(work, "t")

    asyncio.run(main())
    assert not ended.is_set()
    release.set()  # the loop is closed, so no coroutine receives the result
    assert ended.wait(10)


def test_it_does_not_hold_the_process_at_its_end():
    code = """if True:
        import asyncio, time
        from kafkaraw.net.threads import run_in_daemon_thread

        async def main():
            try:
                async with asyncio.timeout(0.01):
                    await run_in_daemon_thread(lambda: time.sleep(1000), "t")
            except TimeoutError:
                print("gave up")

        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "gave up\n"
