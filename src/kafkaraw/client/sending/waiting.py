"""Waiting for a batch's promise: on a thread that may block, and in a coroutine.

`records` knows promises but neither threads nor loops; it is handed a `PromiseWaiter`, one per producer. Nothing here
is touched when a record is sent, only when somebody waits for one. Start at `PromiseWaiter.wait`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from kafkaraw.client.deadline import check_timeout
from kafkaraw.errors import ForkedError, KafkaTimeoutError, UsageError
from kafkaraw.net.interruptible import wait_interruptibly
from kafkaraw.net.loop_locks import check_holds_no_loop_lock
from kafkaraw.records import BatchPromise

FORKED = "this producer belongs to the parent process; make a new one after the fork"


class PromiseWaiter:
    """How the tickets of one producer wait; implements `records.Waiter`.

    Attributes:
        loop: the loop on which the producer settles its promises; waiting must not block it.
        forked: this process is a child of the one that sent the records, which will hear of them; nobody here will.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.forked = False

    def wait(self, promise: BatchPromise, timeout: float | None) -> None:
        """Block until the promise is done; see `records.Waiter.wait`.

        Raises:
            KafkaTimeoutError: it is still pending after `timeout` seconds.
            UsageError: called on the loop that has to settle it, or on a thread that the loop waits for.
        """
        if timeout is not None:
            check_timeout(timeout)
        if self._is_forked(promise):
            return
        check_holds_no_loop_lock()
        if self.loop is not None and _running_loop() is self.loop:
            raise UsageError("Ticket.result() would block the loop that has to deliver the record; `await` the ticket")
        done = threading.Event()

        def tell(_: BatchPromise) -> None:
            done.set()

        promise.add_callback(tell)
        try:
            in_time = wait_interruptibly(done.wait, timeout)
        finally:
            promise.remove_callback(tell)
        if not in_time:
            raise KafkaTimeoutError(
                f"no acknowledgement for {promise.topic}-{promise.partition} within {timeout:g} s; "
                f"the record is still on its way and may yet be written"
            )

    def wait_all(self, promises: Sequence[BatchPromise], timeout: float | None) -> None:
        """Block until all of them are done; as `wait`."""
        if timeout is not None:
            check_timeout(timeout)
        pending = [promise for promise in promises if not self._is_forked(promise)]
        if not pending:
            return
        check_holds_no_loop_lock()
        if self.loop is not None and _running_loop() is self.loop:
            raise UsageError("result() would block the loop that has to deliver the rows; `await` the ticket")
        done = threading.Event()
        forget = self.call_after_all(pending, done.set)
        try:
            in_time = wait_interruptibly(done.wait, timeout)
        finally:
            forget()
        if not in_time:
            raise KafkaTimeoutError(
                f"no acknowledgement for {sum(not promise.done for promise in pending)} batches within {timeout:g} s; "
                f"they are still on their way and may yet be written"
            )

    def call_after_all(self, promises: Sequence[BatchPromise], callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once all of them are done, at once when they are; in the thread that settles the last.

        Returns:
            what to call when nobody waits any more: it leaves nothing behind in promises that are still pending.
        """
        left = deque(promises)

        def count_down(_: BatchPromise) -> None:
            if left.pop() is promises[0]:  # atomic: one thread gets the last one
                callback()

        if not promises:
            callback()
        for promise in promises:
            promise.add_callback(count_down)

        def forget() -> None:
            for promise in promises:
                promise.remove_callback(count_down)

        return forget

    def awaitable(self, promise: BatchPromise) -> Awaitable[None]:
        """Give a future of the running loop that is done when the promise is."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self._is_forked(promise):
            future.set_result(None)
            return future

        def settle(_: BatchPromise) -> None:
            if _running_loop() is loop:
                _finish(future)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(_finish, future)

        promise.add_callback(settle)
        future.add_done_callback(lambda _: promise.remove_callback(settle))  # when it is cancelled
        return future

    def check_not_forked(self) -> None:
        """Refuse to go on in a child process.

        Raises:
            ForkedError: this is one.
        """
        if self.forked:
            raise ForkedError(FORKED)

    def _is_forked(self, promise: BatchPromise) -> bool:
        if self.forked:
            promise.fail(
                ForkedError(
                    f"the record for {promise.topic}-{promise.partition} was sent before the fork: the parent process "
                    f"delivers it, this one cannot know the outcome"
                )
            )
        return self.forked


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
