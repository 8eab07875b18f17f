"""One deadline per call, passed down through everything that waits on its behalf.

A caller's `timeout` covers the whole call: connecting, refreshing metadata, retrying. So it becomes a `Deadline` at the
top and every step asks what is left. Measured on the loop's clock, which is virtual in simulations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from kafkaraw.errors import ClosedError, KafkaTimeoutError, UsageError, copy_to_raise

T = TypeVar("T")

GRAIN_S = 1e-6
"""Less time than this is none: a timer so short may leave a virtual clock where it stands."""


def check_timeout(timeout: object) -> None:
    """Refuse a timeout that is no number of seconds.

    Raises:
        UsageError: it is none, or negative.
    """
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise UsageError(
            f"timeout={timeout!r}: must be a number of seconds, 0 or more, or None, not {type(timeout).__name__}"
        )
    if not timeout >= 0:
        raise UsageError(f"timeout={timeout!r}: must be zero or more seconds")


def shown(seconds: float) -> str:
    """Seconds for a message: what is left of a timeout of 0.3 s, 0.299996 s, is shown as 0.3."""
    return f"{float(f'{seconds:.3g}'):g}"


class Deadline:
    """A point in time on the running loop's clock.

    Attributes:
        timeout: the seconds that were given, for messages.
    """

    __slots__ = ("_at", "_loop", "timeout")

    def __init__(self, timeout: float) -> None:
        check_timeout(timeout)
        self._loop = asyncio.get_running_loop()
        self.timeout: float = timeout
        self._at = self._loop.time() + timeout

    @property
    def remaining(self) -> float:
        """Seconds left; never negative."""
        left = self._at - self._loop.time()
        return left if left > GRAIN_S else 0.0

    @property
    def expired(self) -> bool:
        """Whether the time has passed."""
        return not self.remaining

    def at_most(self, seconds: float) -> float:
        """What is left, but no more than `seconds`."""
        return min(self.remaining, seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not beyond the deadline."""
        await asyncio.sleep(self.at_most(seconds))

    async def wait(self, work: Awaitable[T], what: str) -> T:
        """Wait for `work`, cancelling it when the deadline passes.

        Raises:
            KafkaTimeoutError: the deadline passed; `what` begins the message.
        """
        try:
            async with asyncio.timeout(self.remaining):
                return await work
        except TimeoutError as error:
            if isinstance(error, KafkaTimeoutError):
                raise
            raise self.error(what) from None

    async def wait_with_others(self, shared: asyncio.Future[T], what: str) -> T:
        """Wait for something that others wait for, too: it goes on when the deadline passes or this wait is cancelled.

        Raises:
            KafkaTimeoutError: the deadline passed; `what` begins the message.
            ClosedError: it was cancelled, because the client was closed.
            KafkaError: it failed; each who waits gets a copy.
        """
        await asyncio.wait([shared], timeout=self.remaining)
        if not shared.done():
            raise self.error(what)
        if shared.cancelled():
            raise ClosedError(f"{what}: the client was closed")
        error = shared.exception()
        if error is not None:
            raise copy_to_raise(error)
        return shared.result()

    def error(self, what: str) -> KafkaTimeoutError:
        """The error to raise when the time is up."""
        return KafkaTimeoutError(f"{what}: not done within {shown(self.timeout)} s")
