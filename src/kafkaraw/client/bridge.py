"""`Bridge`: how the blocking faces reach the client's loop thread. It knows nothing of what is done there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from kafkaraw.client.forking import call_after_fork, keep_unfinalized
from kafkaraw.errors import ClosedError, ForkedError, KafkaError
from kafkaraw.net.loop_thread import client_loop_thread

T = TypeVar("T")


class Bridge:
    """The way of one object's calls to the loop thread; closed in a child process, and when that thread has ended.

    Args:
        owner: what the object is, for errors.
        inner: what lives on the loop.
    """

    def __init__(self, owner: str, inner: object) -> None:
        self._owner = owner
        self._inner = inner
        self._forked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        call_after_fork(self, Bridge._after_fork_in_child)

    def check_usable(self) -> None:
        """Refuse what cannot be done any more.

        Raises:
            ForkedError: this is a child process.
            ClosedError: the loop thread on which the object lived has ended because of an error.
        """
        if self._forked:
            raise ForkedError(f"this {self._owner} belongs to the parent process; make a new one after the fork")
        if self.is_lost:
            raise ClosedError(f"the loop thread of this {self._owner} has ended because of an error; make a new one")

    @property
    def is_lost(self) -> bool:
        """Whether the loop on which the object lived is no more: it has begun with the first call."""
        if self._forked:
            return False
        loop = client_loop_thread().loop
        if self._loop is None:
            self._loop = loop
        return self._loop is not loop

    def let_go(self) -> None:
        """Close an object that is lost: nothing of it can be closed on its loop, and finalizers would complain."""
        keep_unfinalized(self._inner)

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Run it there and wait for the result; the work keeps its own time limit. Raises as `check_usable`."""
        try:
            self.check_usable()
        except KafkaError:
            work.close()
            raise
        return client_loop_thread().run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a plain function there: it changes what tasks on the loop look at."""

        async def on_loop() -> T:
            return work()

        return self.run(on_loop())

    def call_soon(self, work: Callable[[], object]) -> None:
        """Schedule a plain function on the loop thread, before later calls; does not wait for it."""
        if not self._forked and not self.is_lost:
            client_loop_thread().call_soon(work)

    def _after_fork_in_child(self) -> None:
        """The loop it belongs to does not run here."""
        self._forked = True
        keep_unfinalized(self._inner)
