"""`Bridge`: how the blocking faces reach the client's loop thread. It knows nothing of what is done there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TypeVar

from kafkaraw.client.forking import leave_behind, tell_about_forks
from kafkaraw.errors import ForkedError
from kafkaraw.net.loop_thread import client_loop_thread

T = TypeVar("T")


class Bridge:
    """The way of one object's calls to the loop thread; closed in a child process."""

    def __init__(self, owner: str, inner: object) -> None:
        self._owner = owner
        self._inner = inner
        self._forked = False
        tell_about_forks(self, Bridge._after_fork_in_child)

    def run(self, work: Coroutine[object, None, T]) -> T:
        """Run it there and wait for the result; the work keeps its own time limit."""
        if self._forked:
            work.close()
            raise ForkedError(f"this {self._owner} belongs to the parent process; make a new one after the fork")
        return client_loop_thread().run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a plain function there: it changes what tasks on the loop look at."""

        async def on_loop() -> T:
            return work()

        return self.run(on_loop())

    def call_soon(self, work: Callable[[], object]) -> None:
        """Have a plain function called there, before whatever is run there next; does not wait for it."""
        if not self._forked:
            client_loop_thread().call_soon(work)

    def _after_fork_in_child(self) -> None:
        """The loop it belongs to does not run here."""
        self._forked = True
        leave_behind(self._inner)
