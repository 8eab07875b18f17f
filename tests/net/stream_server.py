"""A server on this machine that answers as a test says, none of whose connections outlives the test's event loop.

``asyncio.Server.close`` leaves the connections open. A handler that still reads when ``asyncio.run`` ends is cancelled,
and its transport warns when the garbage collector finds it, in whatever test runs by then. So does the socket of a
connection that is accepted while the server closes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from kafkaraw.net.listener import stop_accepting


@asynccontextmanager
async def stream_server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    host: str = "127.0.0.1",
    *,
    backlog: int = 100,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Answer every connection with ``answer``, which may hang up itself; yields the port."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await answer(reader, writer)

    server = await asyncio.start_server(serve, host, 0, backlog=backlog, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_accepting([sock.fileno() for sock in server.sockets])
        server.close()
        await asyncio.sleep(0)  # a connection that was accepted just now has its handler started
        for writer in writers:
            writer.transport.abort()  # a peer that does not read would keep what is not sent yet, and the server
            with suppress(OSError):
                await writer.wait_closed()
