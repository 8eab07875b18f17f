"""Threads for handlers that are not `async`: they stay, so that a handler may keep connections in `threading.local`.

They are daemon threads: Python waits for those of `concurrent.futures` at exit, and a handler that hangs would keep the
process alive after the second SIGTERM. Start at `HandlerThreads.run`.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

T = TypeVar("T")

_Job: TypeAlias = Callable[[], None]


class HandlerThreads:
    """As many threads as calls run at the same time; a thread that is idle takes the next call."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._started = 0

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function in a thread; its result, or what it raises, is that of the future.

        If the future is cancelled, the function runs on, and its result is dropped.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._idle += 1
            if answer.done():
                return
            if isinstance(error, StopIteration):  # a future cannot raise it
                error = RuntimeError(f"the handler raised {error!r}")
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # there is a result when there is no error

        def job() -> None:
            result, failure = None, None
            try:
                result = context.run(work)
            except BaseException as error:  # noqa: BLE001 - a thread's root: it is raised where it is waited for
                failure = error
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:  # the loop has closed: no coroutine waits any more
                return

        if self._idle:
            self._idle -= 1
        else:
            self._started += 1
            threading.Thread(target=self._work, name=f"kafkaraw-worker-{self._started}", daemon=True).start()
        self._jobs.put(job)
        return answer

    def close(self) -> None:
        """End the threads, each after its present call."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # it refers to the record
