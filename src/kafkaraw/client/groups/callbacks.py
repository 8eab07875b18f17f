"""Calls of the user's callbacks: where they are made, and that everybody else waits for their end.

A callback runs in the call of the user that found something to tell; in the blocking face that is on the thread of this
call, because it may block, and may commit and seek with the blocking consumer. Somebody else may want to go on with the
same rebalance meanwhile: a task or thread that closes the consumer. It waits until the callback is over, unless it is
the callback itself that closes. Start at `Callbacks.make`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from kafkaraw.client.deadline import Deadline
from kafkaraw.client.listeners import Callback
from kafkaraw.records import TopicPartition

Ended = Callable[[Exception | None], None]


class UserCall:
    """One call of a callback.

    Args:
        callback: to be called.
        partitions: with these, in order.
        ended: told once when it is over, with what it raised.

    Attributes:
        is_over: set when the callback has come to its end.
        has_begun: whether somebody makes it; else it may still be lost on the way to them.
        is_lost: nobody has made it, and nobody will.
    """

    def __init__(self, callback: Callback, partitions: list[TopicPartition], ended: Ended) -> None:
        self.callback = callback
        self.partitions = partitions
        self.is_over = asyncio.Event()
        self.has_begun = False
        self.is_lost = False
        self._ended = ended
        self._around: UserCall | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Whatever is done within this, also in tasks that begin within it and on the client's loop, is done by it."""
        self._around = _innermost.get()
        token = _innermost.set(self)
        try:
            yield
        finally:
            _innermost.reset(token)

    @property
    def is_ours(self) -> bool:
        """Whether it is this callback that asks."""
        call = _innermost.get()
        while call is not None and call is not self:
            call = call._around  # noqa: SLF001 - same class
        return call is self

    def end(self, problem: Exception | None) -> None:
        """It is over, on the loop's thread; may be told twice."""
        if not self.is_over.is_set():
            self.is_over.set()
            self._ended(problem)


class CallUser(Exception):
    """Ends a call of the blocking face on the loop thread, so that a callback runs on the caller's thread.

    Attributes:
        call: to be made there, and to be ended in any case.
    """

    def __init__(self, call: UserCall) -> None:
        super().__init__("a callback waits to be called")
        self.call = call


class Callbacks:
    """The calls of one consumer's callbacks.

    Attributes:
        on_callers_thread: whether they are made by whoever catches `CallUser`, instead of right here.
    """

    def __init__(self) -> None:
        self.on_callers_thread = False
        self._under_way: list[UserCall] = []

    def call(
        self, callback: Callback, partitions: list[TopicPartition], failed: Callable[[Exception], None]
    ) -> UserCall:
        """A call, to be made at once.

        Args:
            callback: to be called.
            partitions: with these, in order.
            failed: told what it raises.
        """

        def ended(problem: Exception | None) -> None:
            self._under_way.remove(call)
            if problem is not None:
                failed(problem)

        self._under_way.append(call := UserCall(callback, partitions, ended))
        return call

    async def make(self, call: UserCall) -> None:
        """Make it.

        Raises:
            CallUser: it has to be made on the user's thread.
        """
        if self.on_callers_thread:
            raise CallUser(call)
        call.has_begun = True
        problem: Exception | None = None
        try:
            with call.inside():
                result = call.callback(call.partitions)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            problem = error
        finally:
            call.end(problem)

    def nobody_comes(self) -> None:
        """Ctrl-C has ended whoever should have made a call, perhaps on the way."""
        for call in [call for call in self._under_way if not call.has_begun]:
            call.is_lost = True
            call.end(None)

    @property
    def is_inside(self) -> bool:
        """Whether a callback asks, and not somebody else."""
        return any(call.is_ours for call in self._under_way)

    async def others_over(self, deadline: Deadline) -> bool:
        """Wait until none is under way but those that ask; says whether that is so, or the time is up before."""
        while others := [call for call in self._under_way if not call.is_ours]:
            if deadline.expired:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline.remaining):
                    await others[0].is_over.wait()
        return True


_innermost: ContextVar[UserCall | None] = ContextVar("the callback that runs", default=None)
