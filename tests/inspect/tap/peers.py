"""Peers of a tap that do what a test says: a broker of a few lines, and a client that sends bytes."""

from __future__ import annotations

import asyncio
import functools
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from kafkaraw.protocol import RequestHeader, ResponseHeader, decode_request, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.net.stream_server import stream_server

WAIT_S = 10.0
Answer = Callable[[bytes], bytes | None]
"""Returns the answer to a request, without size prefix; None ends the connection."""


def on_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(*args: object, **settings: object) -> None:
        asyncio.run(test(*args, **settings))

    return run


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def asked(message, version: int, correlation_id: int = 1, client_id: str | None = "app") -> bytes:
    key = API_BY_NAME[type(message).__name__.removesuffix("Request")].key
    return sized(encode_request(RequestHeader(key, version, correlation_id, client_id), message))


def metadata_request(correlation_id: int = 1, version: int = 9) -> bytes:
    return asked(MetadataRequest(topics=[]), version, correlation_id)


def metadata_of(*brokers: tuple[int, str, int]) -> Answer:
    """Answers each Metadata request with these brokers."""

    def answer(frame: bytes) -> bytes:
        header, _ = decode_request(frame)
        found = [MetadataResponseBroker(node_id=n, host=host, port=port) for n, host, port in brokers]
        response = MetadataResponse(brokers=found, topics=[])
        return encode_response(ResponseHeader(header.correlation_id), response, header.api_version)

    return answer


@asynccontextmanager
async def broker(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A broker that answers each frame; returns its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = answer(await reader.readexactly(size))
                if frame is None:
                    return
                writer.write(sized(frame))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with stream_server(serve, tls=tls) as port:
        yield f"127.0.0.1:{port}"


class Client:
    """A connection to an address that sends and receives bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, data: bytes) -> bytes:
        """Send bytes and return the next frame without its size prefix."""
        self.writer.write(data)
        return await self.frame()

    async def frame(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """What comes until the other side closes."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()


@asynccontextmanager
async def client(servers: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    host, _, port = servers.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
