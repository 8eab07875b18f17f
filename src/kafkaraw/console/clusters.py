"""The clusters of a console: one admin client each, made when a page first needs it; consumers as pages need them.

A cluster that is away does not keep the console from starting: pages say what is wrong, and the next request tries
again. Must not render anything. Start at `ClusterConnection`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.console.settings import CLIENT_ID, ClusterSettings

if TYPE_CHECKING:
    from kafkaraw.monitoring import ClusterStatus, Monitor
    from kafkaraw.schemas.client import AsyncRegistry

T = TypeVar("T")

ANSWER_MS: Final = 8_000
"""The longest time until a page says that the cluster does not answer, in milliseconds."""
_CLIENT: Final = {"client_id": CLIENT_ID, "default_api_timeout_ms": ANSWER_MS, "request_timeout_ms": 5_000}
READING: Final[dict[str, Any]] = {
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "auto_offset_reset": "earliest",
}
"""Settings of consumers that only look."""


@dataclass
class _Kept:
    """An answer that is kept.

    Attributes:
        asked_at: when it was asked for, in seconds, monotonic.
        task: asks for it.
        took_s: how long it took.
        before: the answer before it, while this one is on its way; done.
    """

    asked_at: float
    task: asyncio.Task[Any]
    took_s: float = 0.0
    before: asyncio.Task[Any] | None = None

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Note how long it took, and retrieve the exception, for which no page may wait any more."""
        self.took_s = time.monotonic() - self.asked_at
        if not task.cancelled():
            task.exception()

    @property
    def has_failed(self) -> bool:
        """Whether there is no answer, and will be none."""
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


class ClusterConnection:
    """A cluster with its clients.

    Args:
        settings: of the cluster.

    Attributes:
        settings: as given.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings: ClusterSettings = settings
        self._admin: AsyncAdmin | None = None
        self._registry: AsyncRegistry | None = None
        self._kept: dict[str, _Kept] = {}
        self._aside: _Aside | None = None
        self._monitor: Monitor | None = None
        self._monitor_lock = asyncio.Lock()  # of the loop aside

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.settings.name

    @property
    def admin(self) -> AsyncAdmin:
        """The admin client."""
        if self._admin is None:
            self._admin = AsyncAdmin(**{**_CLIENT, **self.settings.client})
        return self._admin

    @property
    def registry(self) -> AsyncRegistry | None:
        """The registry's client; None if there is no registry."""
        if self._registry is None and self.settings.registry is not None:
            from kafkaraw.schemas.client import AsyncRegistry

            self._registry = AsyncRegistry.from_config({"retries": "1", **self.settings.registry})
        return self._registry

    def consumer(self, **settings: Any) -> AsyncConsumer:  # noqa: ANN401 - of consumers
        """Return a consumer that only looks; it must be closed."""
        return AsyncConsumer(**{**_CLIENT, **self.settings.consumer, **READING, **settings})

    async def aside(self, ask: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """Ask in a thread of its own, whose admin client is another one.

        Answers about all topics of a large cluster take long to decode: meanwhile pages are answered.

        Args:
            ask: asks, on the event loop of that thread.
        """
        if self._aside is None:
            self._aside = _Aside(f"console {self.name}", lambda: AsyncAdmin(**{**_CLIENT, **self.settings.client}))
        return await self._aside.run(ask)

    async def status(self) -> ClusterStatus:
        """Return what the cluster does now, with rates since the last time. Only `kept` calls it.

        Raises:
            KafkaError: the cluster does not answer.
        """

        async def refresh(admin: AsyncAdmin) -> ClusterStatus:
            from kafkaraw.monitoring import Monitor

            async with self._monitor_lock:
                if self._monitor is None:
                    self._monitor = Monitor(admin)
                return await self._monitor.refresh(lookup_rounds=0)

        return await self.aside(refresh)

    async def kept(
        self,
        key: str,
        seconds: float,
        ask: Callable[[], Coroutine[Any, Any, T]],
        *,
        stale_s: float = 0.0,
    ) -> T:
        """Return an answer that is at most so old; several pages that need it at the same time ask once.

        Args:
            key: names the question.
            seconds: how old the answer may be.
            ask: asks.
            stale_s: an answer that is older by at most so much is returned, while a new one is asked for; what takes
                long is asked for less often, so that it leaves time for pages.
        """
        now = time.monotonic()
        known = self._kept.get(key)
        if stale_s and known is not None:
            seconds = max(seconds, min(_ASKED_EACH * known.took_s, stale_s, _ASKED_MAX_S))
        if known is None or known.has_failed or (known.task.done() and now - known.asked_at > seconds):
            if len(self._kept) >= _KEPT_MAX:
                self._forget_oldest()
            is_usable = known is not None and not known.has_failed and now - known.asked_at <= seconds + stale_s
            before = known.task if known is not None and is_usable else None
            known = self._kept[key] = _Kept(now, asyncio.create_task(ask()), before=before)
            known.task.add_done_callback(known.ended)
        if stale_s and known.before is not None and not known.task.done():
            found: T = known.before.result()
            return found
        found = await asyncio.shield(known.task)
        return found

    async def within(self, seconds: float, key: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Return an answer, or None if it takes longer: then it comes later.

        Args:
            seconds: how long to wait; with 0 nothing is asked for, and an answer that is there is returned.
            key: of the answer.
            ask: returns it, by `kept`.
        """
        if not seconds:
            known = self._kept.get(key)
            if known is None or known.has_failed:
                return None
            task = known.task if known.task.done() else known.before
            found: T | None = None if task is None else task.result()
            return found
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(ask(), seconds)
        return None

    def _forget_oldest(self) -> None:
        """Forget the older half of the answers: each list that a reader has filtered is one."""
        done = sorted((each.asked_at, key) for key, each in self._kept.items() if each.task.done())
        for _, key in done[: _KEPT_MAX // 2]:
            del self._kept[key]

    def forget(self) -> None:
        """Forget answers: something was changed."""
        self._kept.clear()

    async def close(self) -> None:
        """Close the clients."""
        tasks = [each.task for each in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._aside is not None:
            await self._aside.close()
        if self._admin is not None:
            await self._admin.close()
        if self._registry is not None:
            await self._registry.close()


class _Aside:
    """An event loop in a thread of its own, with an admin client.

    Args:
        name: of the thread.
        admin: makes the client.
    """

    def __init__(self, name: str, admin: Callable[[], AsyncAdmin]) -> None:
        self._make = admin
        self._admin: AsyncAdmin | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def _live(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_forever()

    async def run(self, ask: Callable[[AsyncAdmin], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there, and return its result."""

        async def ask_there() -> T:
            if self._admin is None:
                self._admin = self._make()
            return await ask(self._admin)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask_there(), self._loop))

    async def close(self) -> None:
        """Close the client, and end the thread."""

        async def close_there() -> None:
            tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
            if self._admin is not None:
                await self._admin.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close_there(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _STOP_S)


_STOP_S: Final = 3.0
_ASKED_EACH: Final = 20
"""The console asks again for an answer that may be stale after 20 times as long as the answer took."""
_ASKED_MAX_S: Final = 15.0
"""The console waits no longer than this before it asks again, in seconds."""
_KEPT_MAX: Final = 200
