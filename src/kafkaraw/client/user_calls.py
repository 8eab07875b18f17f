"""Calls of the blocking consumer in which callbacks of a rebalance may have to be called, on the caller's own thread.

A callback is user code: it may block, and may use the blocking consumer, neither of which is possible on the loop
thread. So the call comes back for it, and is made again afterwards; the handover remembers which steps are done.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from kafkaraw.client.bridge import Bridge
from kafkaraw.client.consumer import AsyncConsumer, group_of
from kafkaraw.client.listeners import CallUser, call_caller

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
        self._membership = None if group is None else group.membership
        if self._membership is not None:
            self._membership.call = call_caller

    def run(self, work: Callable[[], Coroutine[object, None, T]]) -> T:
        """Run it on the loop thread; `work` is made anew after each callback."""
        while True:
            try:
                return self._bridge.run(work())
            except CallUser as wanted:
                problem = self._called(wanted)
            self._tell(problem if isinstance(problem, Exception) else None)
            if problem is not None and not isinstance(problem, Exception):
                raise problem  # Ctrl-C and the like: now, not when all is told

    def _called(self, wanted: CallUser) -> BaseException | None:
        try:
            result = wanted.callback(wanted.partitions)
            if inspect.isawaitable(result):
                self._bridge.run(_finish(result))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is raised again
            return error
        return None

    def _tell(self, problem: Exception | None) -> None:
        membership = self._membership
        assert membership is not None
        self._bridge.call(lambda: membership.called(problem))


async def _finish(work: Awaitable[None]) -> None:
    await work
