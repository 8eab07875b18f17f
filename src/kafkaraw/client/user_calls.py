"""Calls of the blocking consumer that may have to call the rebalance listener, on the caller's own thread.

A callback is user code: it may block, and may use the blocking consumer, neither of which is possible on the loop
thread. So the call returns from the loop for it, and is made again afterwards; the reconciliation remembers which steps
are done. Other tasks wait for the end of a callback, so its end is reported in any case. That is done without waiting,
because a second Ctrl-C would end the wait; if Ctrl-C comes even before that, the consumer's next call on this thread
reports it. Start at `UserCalls.run`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

from kafkaraw.client.bridge import Bridge
from kafkaraw.client.consumer import AsyncConsumer, group_of
from kafkaraw.client.groups.listeners import CallUser, ListenerCall

T = TypeVar("T")


class UserCalls:
    """The calls of one blocking consumer.

    Args:
        bridge: to the loop thread.
        consumer: what runs there.
    """

    def __init__(self, bridge: Bridge, consumer: AsyncConsumer) -> None:
        self._bridge = bridge
        group = group_of(consumer)
        self._callbacks = None if group is None else group.membership.callbacks
        if self._callbacks is not None:
            self._callbacks.on_callers_thread = True
        self._begun: dict[ListenerCall, threading.Thread] = {}  # calls whose end is not reported yet
        self._interrupted = False  # Ctrl-C came since the last report that a call is not made

    def run(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run `work` on the loop thread. It is called again, for a new coroutine, after each callback."""
        if self._begun or self._interrupted:
            self._end_interrupted()
        try:
            while True:
                try:
                    return self._bridge.run(work())
                except CallUser as wanted:
                    call = wanted.call
                self._make(call)
        except Exception:
            raise
        except BaseException:
            self._interrupted = True
            self._end_interrupted()
            raise

    def _make(self, call: ListenerCall) -> None:
        """Call the callback. An error is raised after all callbacks; Ctrl-C and the like are raised at once."""
        work: _Work | None = None
        problem: Exception | None = None
        try:
            self._begun[call] = threading.current_thread()
            call.has_begun = True
            with call.inside():
                result = call.callback(call.partitions)
                if inspect.isawaitable(result):
                    work = _Work(call, result)
                    self._bridge.run(work.run())
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            problem = error
        finally:
            if work is None or not work.has_begun:  # otherwise `_Work.run` reports the end; Ctrl-C does not wait for it
                self._bridge.call_soon(lambda: call.end(problem))
            self._begun.pop(call, None)

    def _end_interrupted(self) -> None:
        """Report the end of calls that Ctrl-C has interrupted or prevented."""
        for call, thread in list(self._begun.items()):
            if thread is threading.current_thread() and not call.is_caller:
                self._bridge.call_soon(partial(call.end, None))
                self._begun.pop(call, None)
        if self._interrupted and self._callbacks is not None:
            self._bridge.call_soon(self._callbacks.drop_unstarted)
        self._interrupted = False


class _Work:
    """The coroutine of an `async` callback, on the loop thread."""

    def __init__(self, call: ListenerCall, work: Awaitable[None]) -> None:
        self.has_begun = False
        self._call = call
        self._work = work

    async def run(self) -> None:
        """Run the coroutine, and report its end."""
        self.has_begun = True
        problem: Exception | None = None
        try:
            await self._work
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            problem = error
        finally:
            self._call.end(problem)
