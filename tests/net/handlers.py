"""A handler that remembers, a pair of them that is connected, and bytes to send."""

from __future__ import annotations

import asyncio

from kafkaraw.errors import KafkaError
from kafkaraw.net import AsyncioNetwork, Link

LIMIT = 1 << 26


class Recorder:
    """Remembers everything that a link tells; each kind of event can be awaited."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.made: asyncio.Event = asyncio.Event()
        self.frames: asyncio.Queue[memoryview] = asyncio.Queue()
        self.lost: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        self.pauses: list[bool] = []
        self.pause_changed = asyncio.Event()

    def link_made(self, link: Link) -> None:
        self.link = link
        self.made.set()

    def frame_received(self, frame: memoryview) -> None:
        self.frames.put_nowait(frame)

    def link_lost(self, error: KafkaError | None) -> None:
        self.lost.set_result(error)

    def writing_paused(self, paused: bool) -> None:
        self.pauses.append(paused)
        self.pause_changed.set()

    async def frame(self) -> bytes:
        return bytes(await asyncio.wait_for(self.frames.get(), 10))

    async def loss(self) -> KafkaError | None:
        return await asyncio.wait_for(asyncio.shield(self.lost), 10)


class Answerers:
    """Makes a recorder for each accepted connection."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Recorder] = asyncio.Queue()

    def __call__(self) -> Recorder:
        recorder = Recorder()
        self.accepted.put_nowait(recorder)
        return recorder

    async def next(self) -> Recorder:
        recorder = await asyncio.wait_for(self.accepted.get(), 10)
        await asyncio.wait_for(recorder.made.wait(), 10)
        return recorder


class Pair:
    """A listener and one connection to it."""

    def __init__(self, network: AsyncioNetwork) -> None:
        self.network = network

    async def __aenter__(self) -> Pair:
        answerers = Answerers()
        self.listener = await self.network.listen("127.0.0.1", 0, answerers, frame_size_max=LIMIT)
        self.client = Recorder()
        self.link = await self.network.dial(
            "127.0.0.1", self.listener.port, self.client, timeout=10, frame_size_max=LIMIT
        )
        self.server = await answerers.next()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.listener.close()
        for end in (self.client, self.server):
            end.link.abort()
            await end.loss()


def pattern(size: int, salt: int = 0) -> bytes:
    """Bytes without zeros in which every place differs from its neighbours."""
    return bytes((at * 7 + salt) % 255 + 1 for at in range(size)) if size < 4096 else _long_pattern(size, salt)


def _long_pattern(size: int, salt: int) -> bytes:
    block = pattern(4093, salt)
    return (block * (size // len(block) + 1))[:size]
