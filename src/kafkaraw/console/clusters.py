"""The clusters of a console: one admin client each, made when a page first needs it; consumers as pages need them.

A cluster that is away does not keep the console from starting: pages say what is wrong, and the next request tries
again. Must not render anything. Start at `ClusterConnection`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.console.settings import CLIENT_ID, ClusterSettings

if TYPE_CHECKING:
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
        self._kept: dict[str, tuple[float, asyncio.Task[Any]]] = {}

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

    async def kept(self, key: str, seconds: float, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return an answer that is at most so old; several pages that need it at the same time ask once.

        Args:
            key: names the question.
            seconds: how old the answer may be.
            ask: asks.
        """
        now = time.monotonic()
        asked_at, task = self._kept.get(key, (0.0, None))
        if task is None or now - asked_at > seconds or (task.done() and (task.cancelled() or task.exception())):
            if len(self._kept) > _KEPT_MAX:
                self._kept.clear()
            task = asyncio.create_task(ask())
            self._kept[key] = (now, task)
        found: T = await asyncio.shield(task)
        return found

    def forget(self) -> None:
        """Forget answers: something was changed."""
        self._kept.clear()

    async def close(self) -> None:
        """Close the clients."""
        for _, task in self._kept.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._kept.values()), return_exceptions=True)
        if self._admin is not None:
            await self._admin.close()
        if self._registry is not None:
            await self._registry.close()


_KEPT_MAX: Final = 2_000
