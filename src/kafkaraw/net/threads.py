"""Threads beside an event loop: waits that Ctrl-C interrupts, locks shared with a loop, blocking work for a coroutine.

`wait_interruptibly` blocks a thread. Python runs signal handlers on the main thread only, between two of its
instructions. A signal may come after this thread has released the interpreter and before it begins to wait, or the
system may deliver it to another thread. Then Python only sets a flag, which does not interrupt the wait. So a wait is
divided into short ones. For threads only: a coroutine uses timers.

`new_loop_lock` makes a lock that a loop thread waits for. A signal handler or `__del__` may interrupt a thread that
holds such a lock. If it made a blocking call, the loop would wait for the lock, and the thread for the loop, for ever.
So blocking calls are refused by `check_holds_no_loop_lock`.

`run_in_daemon_thread` runs a blocking function for a coroutine. It does not use the loop's executor: the function (a
name server, a token service) cannot be interrupted, and Python waits for executor threads at exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from _thread import RLock


SLICE_S: Final = 1.0
"""Duration of one short wait, and the longest delay of a Ctrl-C. Waking up once a second costs nothing."""


def wait_interruptibly(wait: Callable[[float], bool], timeout: float | None) -> bool:
    """Call `wait(seconds)` until it says that it is over, or the time is up; returns whether it is over.

    Args:
        wait: waits for at most that number of seconds, and returns whether it is over, as `Event.wait` does.
        timeout: in seconds; None for as long as it takes.
    """
    if timeout is None:
        while not wait(SLICE_S):
            pass
        return True
    if timeout <= SLICE_S:
        return wait(max(timeout, 0.0))
    end = monotonic() + timeout
    while (left := end - monotonic()) > SLICE_S:
        if wait(SLICE_S):
            return True
    return wait(max(left, 0.0))


_locks: Final[weakref.WeakValueDictionary[int, RLock]] = weakref.WeakValueDictionary()
"""By `id`: threads may make locks while the others are looked at, which a `WeakSet` does not allow."""


def new_loop_lock() -> RLock:
    """Make a lock for state that both a loop and other threads change; it can be taken again by its owner."""
    lock = threading.RLock()
    _locks[id(lock)] = lock
    return lock


def holds_loop_lock() -> bool:
    """Whether this thread was interrupted while it had such a lock, so that it must not wait for a loop."""
    held = (reference() for reference in _locks.valuerefs())
    return any(lock is not None and lock._is_owned() for lock in held)  # type: ignore[attr-defined] # noqa: SLF001 - as `Condition` asks


def check_holds_no_loop_lock() -> None:
    """Refuse a blocking call of such a thread.

    Raises:
        UsageError: it has a lock.
    """
    if holds_loop_lock():
        raise UsageError(
            "a blocking call was made in a signal handler or __del__ that has interrupted send() in the middle of a "
            "change, for which the loop thread waits; note the event there, and make the call afterwards"
        )


T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """Return what `work` returns, or raise what it raises. After a cancellation it runs on, and its result is dropped.

    Args:
        work: the blocking function.
        name: of the thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # there is a result when there is no error

    def run() -> None:
        result, failure = None, None
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - a thread's root: it is raised where it is waited for
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:  # the loop has closed: no coroutine waits any more
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer
