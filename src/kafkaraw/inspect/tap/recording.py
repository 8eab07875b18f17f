"""`Recording`: the exchanges of a tap, kept for tests and other programs that look at them from any thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.inspect.exchanges import Exchange
from kafkaraw.inspect.frames import api_named
from kafkaraw.net.threads import wait_interruptibly

RECORDED_MAX: Final = 10_000
WAIT_TIMEOUT_S: Final = 10.0


class Recording:
    """The newest exchanges that have ended; `Tap.record` makes one. All methods may be called from any thread.

    Args:
        exchanges_max: how many are kept.
    """

    def __init__(self, exchanges_max: int = RECORDED_MAX) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=exchanges_max)
        self._lock = threading.Lock()
        self._waiters: list[threading.Event] = []

    def add(self, exchange: Exchange) -> None:
        """Keep an exchange; the tap calls this."""
        with self._lock:
            self._exchanges.append(exchange)
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.set()

    def exchanges(
        self, api: str | int | None = None, *, client_id: str | None = None, topic: str | None = None
    ) -> list[Exchange]:
        """Return the exchanges so far, the oldest first; those of an API, a client or a topic if they are given.

        Raises:
            UsageError: there is no such API.
        """
        fits = _matcher(api, client_id, topic)
        with self._lock:
            found = list(self._exchanges)
        return [exchange for exchange in found if fits(exchange)]

    def wait_for(
        self,
        api: str | int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        nth: int = 1,
        timeout: float = WAIT_TIMEOUT_S,
    ) -> Exchange:
        """Return the `nth` exchange that fits; block until there is one.

        Raises:
            KafkaTimeoutError: it did not come within `timeout` seconds.
            UsageError: there is no such API.
        """
        came = threading.Event()
        with self._lock:
            self._waiters.append(came)
        deadline = time.monotonic() + timeout
        try:
            while True:
                came.clear()
                found = self.exchanges(api, client_id=client_id, topic=topic)
                if len(found) >= nth:
                    return found[nth - 1]
                if not wait_interruptibly(came.wait, max(deadline - time.monotonic(), 0.0)):
                    break
        finally:
            with self._lock:
                self._waiters.remove(came)
        given = {"api": api, "client_id": client_id, "topic": topic}
        wanted = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None) or "anything"
        raise KafkaTimeoutError(f"{len(found)} of {nth} exchanges with {wanted} passed the tap within {timeout:g} s")


def _matcher(api: str | int | None, client_id: str | None, topic: str | None) -> Callable[[Exchange], bool]:
    key = None if api is None else api_named(api).key

    def fits(exchange: Exchange) -> bool:
        return (
            key in (None, exchange.api_key)
            and client_id in (None, exchange.client_id)
            and (topic is None or topic in exchange.topics)
        )

    return fits
