"""Server-sent events for pages that change while they are looked at, with a deadline for each piece.

A browser that does not read holds a connection and what the page reads for it: after `SLOW_S` it is let go. Must not
know what is sent. Start at `EventStream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from kafkaraw.errors import UsageError

SLOW_S: Final = 20.0
"""The longest time that a browser may take to accept an event."""
STREAMS_MAX: Final = 24
"""How many pages may be live at once: each of them may hold a consumer."""


def event(name: str, data: object) -> bytes:
    """Return an event; texts are sent as they are, other data as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


class EventStream:
    """An ASGI response of events, which ends when the browser goes away or does not read.

    Args:
        events: makes them; it is closed at the end.
        ended: called at the end.
    """

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None] = lambda: None) -> None:
        self._events = events
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        watch = asyncio.create_task(_gone(receive))
        work = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait([watch, work], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watch, work):
                task.cancel()
            done = await asyncio.gather(watch, work, return_exceptions=True)
            with contextlib.suppress(Exception):
                await self._events.aclose()  # type: ignore[attr-defined]  # a generator
            self._ended()
            for each in done:
                if isinstance(each, Exception) and not isinstance(each, TimeoutError):
                    raise each

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for each in self._events:
            await asyncio.wait_for(send({"type": "http.response.body", "body": each, "more_body": True}), SLOW_S)
        await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), SLOW_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamLimit:
    """How many things happen at once.

    Args:
        what: named in the error.
        most: the number.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most, self._running = what, most, 0

    @property
    def running(self) -> int:
        """How many there are."""
        return self._running

    def take(self) -> Callable[[], None]:
        """Begin one; return what must be called once at its end.

        Raises:
            UsageError: there are too many.
        """
        if self._running >= self._most:
            raise UsageError(f"{self._most} {self._what} run already: close or stop one of them, and try again")
        self._running += 1
        return self._release

    def _release(self) -> None:
        self._running -= 1
