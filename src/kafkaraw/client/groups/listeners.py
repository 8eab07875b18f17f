"""The rebalance listener of a subscription: its callbacks, on which thread they run, and how other tasks wait for them.

A callback runs inside the call to poll that reconciles. In the blocking face that is the thread of this call, because a
callback may block, and may commit and seek with the blocking consumer. A task or thread that closes the consumer may
want to go on with the same reconciliation meanwhile. It waits until the callback has returned, unless the callback
itself closes the consumer. Start at `Callbacks.make`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from kafkaraw.client.deadline import Deadline
from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, fields
from kafkaraw.records import TopicPartition

Callback = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Called with partitions, in order; may be `async`."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks of a subscription.

    Attributes:
        on_assigned: called after partitions were assigned; it may `seek`, because no record of them was read yet.
        on_revoked: called before partitions are revoked; processed offsets can still be committed.
        on_lost: called when other members may own the partitions; if None, `on_revoked` is called instead.
    """

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None

    def check(self) -> None:
        """Check that the callbacks can be called.

        Raises:
            UsageError: a callback is not a function.
        """
        for field in fields(self):
            given = getattr(self, field.name)
            if given is not None and not callable(given):
                raise UsageError(
                    f"subscribe: {field.name}={given!r} must be a function that takes a list of partitions"
                )


Ended = Callable[[Exception | None], None]


class ListenerCall:
    """One call of a callback.

    Args:
        callback: the callback.
        partitions: its argument.
        ended: called once with what the callback raised, or None.

    Attributes:
        is_over: set when the callback has returned or raised.
        has_begun: whether a thread has started the callback; before that, Ctrl-C can prevent the call.
        is_lost: the callback was not called, and will not be.
    """

    def __init__(self, callback: Callback, partitions: list[TopicPartition], ended: Ended) -> None:
        self.callback = callback
        self.partitions = partitions
        self.is_over: asyncio.Event = asyncio.Event()
        self.has_begun = False
        self.is_lost = False
        self._ended = ended
        self._around: ListenerCall | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark what runs within this as part of the callback, also in its tasks, and on the client's loop."""
        self._around = _innermost.get()
        token = _innermost.set(self)
        try:
            yield
        finally:
            _innermost.reset(token)

    @property
    def is_caller(self) -> bool:
        """Whether this property is read by the callback itself."""
        call = _innermost.get()
        while call is not None and call is not self:
            call = call._around  # noqa: SLF001 - same class
        return call is self

    def end(self, problem: Exception | None) -> None:
        """Note that the callback has ended, on the thread of the loop; may be called twice."""
        if not self.is_over.is_set():
            self.is_over.set()
            self._ended(problem)


class CallUser(Exception):
    """Ends a call of the blocking face on the loop thread, so that a callback runs on the thread of the application.

    Attributes:
        call: to be made there, and to be ended in any case.
    """

    def __init__(self, call: ListenerCall) -> None:
        super().__init__("a callback has to be called on the thread of the application")
        self.call = call


class Callbacks:
    """The listener calls of one consumer.

    Attributes:
        on_callers_thread: whether the code that catches `CallUser` makes them, instead of `make`.
    """

    def __init__(self) -> None:
        self.on_callers_thread = False
        self._under_way: list[ListenerCall] = []

    def call(
        self, callback: Callback, partitions: list[TopicPartition], failed: Callable[[Exception], None]
    ) -> ListenerCall:
        """Return a call, to be made at once.

        Args:
            callback: the callback.
            partitions: its argument.
            failed: called with what the callback raises.
        """

        def ended(problem: Exception | None) -> None:
            self._under_way.remove(call)
            if problem is not None:
                failed(problem)

        self._under_way.append(call := ListenerCall(callback, partitions, ended))
        return call

    async def make(self, call: ListenerCall) -> None:
        """Make a call.

        Raises:
            CallUser: it has to be made on the thread of the application.
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

    def drop_unstarted(self) -> None:
        """Drop the calls that Ctrl-C has prevented."""
        for call in [call for call in self._under_way if not call.has_begun]:
            call.is_lost = True
            call.end(None)

    @property
    def is_inside(self) -> bool:
        """Whether this property is read by a callback that runs."""
        return any(call.is_caller for call in self._under_way)

    async def wait_for_others(self, deadline: Deadline) -> bool:
        """Wait until no callback runs except the one that calls this; return False if the time was up before."""
        while others := [call for call in self._under_way if not call.is_caller]:
            if deadline.expired:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline.remaining):
                    await others[0].is_over.wait()
        return True


_innermost: ContextVar[ListenerCall | None] = ContextVar("the callback that runs", default=None)
