"""Runs what blocks in a daemon thread of its own, and waits for it on the loop.

The loop's executor is not used: what blocks (a name server, a token service) cannot be interrupted, and Python waits
for executor threads at exit, so a dead one would hold the process for as long as it likes.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

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
