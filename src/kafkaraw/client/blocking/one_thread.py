"""`OneThread`: refuses calls of a second thread while a first one uses a consumer, as Java's `KafkaConsumer.acquire`.

A call uses the consumer until it returns; a `for` loop over its records, until the loop is left. What is checked per
call is two comparisons; a loop is checked when it takes a batch of records, and never per record.

No lock is needed: between a comparison and the assignment after it there is no call and no jump back, where alone
CPython lets other threads run or signal handlers raise. Start at `OneThread.begin`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kafkaraw.client.forking import call_after_fork
from kafkaraw.errors import ConcurrentUseError
from kafkaraw.net.loop_thread import client_loop_thread

P = ParamSpec("P")
R = TypeVar("R")


class Loop:
    """A loop over records that has begun.

    Attributes:
        thread: the identifier of the thread that came for records last; to be set to 0 when the loop is left.
        outer: the loop that was under way when this one began.
    """

    __slots__ = ("outer", "thread")

    def __init__(self) -> None:
        self.thread: int = 0
        self.outer: Loop | None = None


class OneThread:
    """Which thread uses a consumer.

    Attributes:
        loop: the innermost loop under way; None when there is none, or it was not looked at since it was left.
        caller: the identifier of the thread whose call is under way, or 0. To be set to what `begin` has returned when
            the call is over: by an assignment, so that no signal handler can raise between a result and its return.
    """

    __slots__ = ("__weakref__", "caller", "loop")

    def __init__(self) -> None:
        self.caller: int = 0
        self.loop: Loop | None = None
        call_after_fork(self, OneThread._forget)

    def begin(self, call: str) -> int:
        """Begin a call.

        Args:
            call: its name, for the message.

        Returns:
            what `caller` has to be after the call: not 0 when this thread makes it within another one.

        Raises:
            ConcurrentUseError: another thread uses the consumer.
        """
        me = get_ident()
        caller, loop = self.caller, self.loop
        if (caller and caller != me) or (loop is not None and loop.thread != me):
            self._check(me, call)
        before = self.caller
        self.caller = me
        return before

    def enter_loop(self, loop: Loop) -> None:
        """Begin a loop, or have one come for more records, perhaps on another thread than before.

        Raises:
            ConcurrentUseError: another thread uses the consumer.
        """
        me = get_ident()
        is_inner = self.loop is not loop
        if is_inner or (self.caller and self.caller != me):
            self._check(me, "iteration")
        if is_inner:
            threading.current_thread()  # makes it known to `threading.enumerate`, if it was not started by Python
            loop.outer = self.loop
        loop.thread = me
        self.loop = loop

    def _forget(self) -> None:
        """In a forked child none of these threads is there; the calls are refused for another reason."""
        self.caller, self.loop = 0, None

    def _check(self, me: int, call: str) -> None:
        """Refuse a second thread, unless the first one has left its loop or has ended in it."""
        if client_loop_thread().is_current:
            return  # refused by the call itself, which says what to do on that thread
        if self.caller and self.caller != me:
            raise _concurrent_use_error(call, "in a call", self.caller)
        loop = self.loop
        while loop is not None and loop.thread != me:
            if any(thread.ident == loop.thread for thread in threading.enumerate()):
                raise _concurrent_use_error(call, "in a loop over the records", loop.thread)
            loop = loop.outer
        self.loop = loop


def _concurrent_use_error(call: str, what: str, other: int) -> ConcurrentUseError:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    mine = threading.current_thread()
    return ConcurrentUseError(
        f"{call} on thread {mine.name!r} ({mine.ident}): thread {names.get(other, 'unknown')!r} ({other}) is {what} of "
        f"this consumer. A consumer is for one thread at a time: make one for each thread, or read in one thread and "
        f"hand the records to others (queue.Queue). From other threads call wakeup() or close()"
    )


class _UsesOneThread(Protocol):
    @property
    def _use(self) -> OneThread: ...


C = TypeVar("C", bound=_UsesOneThread)


def one_thread(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Make a method a call that is refused while another thread uses the object, whose `_use` is a `OneThread`.

    Not for methods that return records: a signal handler may raise after the method and before this returns.
    """
    name = method.__name__

    @wraps(method)
    def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        use = self._use
        before = use.begin(name)
        try:
            return method(self, *args, **kwargs)
        finally:
            use.caller = before

    return call
