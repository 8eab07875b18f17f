"""Clients that are slow on purpose: requests byte by byte, and answers that they do not read."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time

import pytest
import trustme
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from kafkaraw.web_server import HttpServer, Limits

MEGABYTES = b"x" * (32 << 20)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/silent":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await asyncio.sleep(1)
        await send({"type": "http.response.body", "body": b" and ended"})
        return
    if scope["path"] == "/waits":
        await receive()
        await asyncio.Event().wait()
    await PlainTextResponse(MEGABYTES if scope["path"] == "/large" else b"ok")(scope, receive, send)


async def answered(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    try:
        return await reader.read()
    finally:
        writer.close()


async def trickle(port: int) -> None:
    """Send a header that does not end, until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    ended = asyncio.ensure_future(reader.read())
    try:
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait([ended], timeout=0.02)
        await asyncio.gather(ended, return_exceptions=True)
    finally:
        writer.close()


def test_connections_without_progress_are_closed_and_others_answered() -> None:
    async def run() -> None:
        server = HttpServer("test", "127.0.0.1", 0, Limits(stalled_s=0.2))
        await server.start(app, None)
        try:
            async with asyncio.timeout(20):
                async with asyncio.TaskGroup() as group:
                    for _ in range(5):
                        group.create_task(trickle(server.port))
                    for _ in range(5):
                        assert b"200 OK" in await answered(server.port)
        finally:
            await server.stop()

    asyncio.run(run())


def unread(limits: Limits) -> None:
    """Ask for a large answer, read nothing of it, and wait until the server hangs up."""

    async def run() -> None:
        server = HttpServer("test", "127.0.0.1", 0, limits)
        await server.start(app, None)
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(20):
                while not server._server.server_state.connections:
                    await asyncio.sleep(0.01)
                while server._server.server_state.connections:
                    await asyncio.sleep(0.01)
            writer.close()
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize("may_be_silent", [False, True])
def test_a_page_that_is_live_may_be_silent_where_limits_allow_it(may_be_silent: bool) -> None:
    async def run() -> None:
        server = HttpServer("test", "127.0.0.1", 0, Limits(stalled_s=0.2, may_be_silent=may_be_silent))
        await server.start(app, None)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /silent HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            async with asyncio.timeout(20):
                try:
                    answer = await reader.read()
                except ConnectionError:
                    answer = b""
            assert (b"and ended" in answer) == may_be_silent
            writer.close()
        finally:
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize("may_be_silent", [False, True])
def test_an_answer_that_is_not_read_is_given_up_also_where_pages_are_live(may_be_silent: bool) -> None:
    unread(Limits(stalled_s=0.2, may_be_silent=may_be_silent))


@pytest.mark.parametrize("path", ["/large", "/waits"])
def test_no_connection_stays_open_when_the_server_has_stopped(path: str) -> None:
    async def run(client: socket.socket) -> None:
        server = HttpServer("test", "127.0.0.1", 0, Limits(stop_s=0))
        await server.start(app, None)
        client.connect(("127.0.0.1", server.port))
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n".encode())
        async with asyncio.timeout(20):
            while not any(connection.cycle for connection in server._server.server_state.connections):
                await asyncio.sleep(0.01)
        await server.stop()
        assert server._server.server_state.connections == set()

    with socket.socket() as client:
        asyncio.run(run(client))
        gc.collect()  # would report a connection that is still open


def test_a_connection_with_tls_whose_client_does_not_consent_does_not_delay_the_stop() -> None:
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    def ask(port: int) -> ssl.SSLSocket:
        client = trusting.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while not client.recv(1000).endswith(b"ok"):
            pass
        return client

    async def run() -> ssl.SSLSocket:
        server = HttpServer("test", "127.0.0.1", 0)
        await server.start(app, serving)
        client = await asyncio.to_thread(ask, server.port)
        began = time.monotonic()
        await server.stop()
        assert time.monotonic() - began < Limits().stop_s
        assert server._server.server_state.connections == set()
        return client

    asyncio.run(run()).close()
    gc.collect()  # would report a connection that is still open
