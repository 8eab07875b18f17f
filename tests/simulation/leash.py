"""A network of one client that can be taken away from it: it is alive, and nobody can tell."""

from __future__ import annotations

import asyncio

from kafkaraw.errors import NetworkError, Stage
from kafkaraw.net import Link, LinkHandler
from kafkaraw.testing.memory_network import MemoryLink, MemoryNetwork


class Leash:
    """Dials for one client; see `net.Network`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._links: list[MemoryLink] = []
        self._in_touch = asyncio.Event()
        self._in_touch.set()

    async def dial(self, host: str, port: int, handler: LinkHandler, *, timeout: float, frame_size_max: int) -> Link:
        """See `Network.dial`."""
        try:
            async with asyncio.timeout(timeout):
                await self._in_touch.wait()
        except TimeoutError:
            raise NetworkError(f"cannot connect to {host}: no answer in time", stage=Stage.CONNECT) from None
        link = await self._network.dial(host, port, handler, timeout=timeout, frame_size_max=frame_size_max)
        self._links.append(link)
        return link

    def cut(self) -> None:
        """From now on nothing is heard of this client, nor by it."""
        self._in_touch.clear()
        for link in self._links:
            link.heard = link.other.heard = False
        self._links.clear()

    def mend(self) -> None:
        """It may dial again; the old connections are dead."""
        self._in_touch.set()
