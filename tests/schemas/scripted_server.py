"""An HTTP server over real sockets whose answers are scripted, byte by byte: for failures that no real registry has."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Script:
    """One answer.

    Attributes:
        pieces: bytes to send, one piece after the other.
        pause_s: between two pieces.
        then_waits: keep the connection open, without another byte, until the server closes.
        closes: close the connection afterwards.
    """

    pieces: Sequence[bytes] = ()
    pause_s: float = 0.0
    then_waits: bool = False
    closes: bool = False


def answer(status: int, content: Any, *, content_type: str = "application/json", headers: Sequence[str] = ()) -> Script:
    """A complete answer; content other than bytes is sent as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}", f"content-length: {len(body)}", *headers]
    return Script(["\r\n".join([*lines, "", ""]).encode() + body])


def error(status: int, code: int | None, message: str) -> Script:
    """A refusal in the registry's form."""
    return answer(status, {"error_code": code, "message": message} if code is not None else {"message": message})


def redirect(status: int, location: str) -> Script:
    return answer(status, b"", headers=[f"location: {location}"])


SILENCE = Script(then_waits=True)
HANGS_UP = Script(closes=True)
OK_TYPES = answer(200, ["AVRO", "JSON", "PROTOBUF"])
HTML = answer(200, b"<html><title>Log in</title></html>", content_type="text/html")

Answering = Callable[[Request], Script]


@dataclass
class ScriptedServer:
    """A server on 127.0.0.1.

    Args:
        script: the answers in turn, the last one again and again; or a function of the request.
        tls: speaks TLS with this context.
    """

    script: Sequence[Script] | Answering
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections_count: int = 0

    def __enter__(self) -> ScriptedServer:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = {self._listener}
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [f"{request.method} {request.target}" for request in self.requests]

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections_count += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_S)
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self._sockets.add(connection)
            with connection, connection.makefile("rb") as stream:
                while (request := self._read(stream)) is not None:
                    if not self._answer(connection, request):
                        return
        except (OSError, ValueError):  # the client or the test has closed it
            pass
        finally:
            self._sockets.discard(connection)
            connection.close()

    def _read(self, stream: Any) -> Request | None:
        line = stream.readline().decode()
        if not line:
            return None
        method, target, _ = line.split(" ", 2)
        headers = {}
        while (line := stream.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", "0")))
        request = Request(method, target, headers, body)
        self.requests.append(request)
        return request

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        if callable(self.script):
            chosen = self.script(request)
        else:
            chosen = self.script[min(len(self.requests), len(self.script)) - 1]
        for piece in chosen.pieces:
            connection.sendall(piece)
            if chosen.pause_s and self._closed.wait(chosen.pause_s):
                return False
        if chosen.then_waits:
            self._closed.wait(TIMEOUT_S)
            return False
        return not chosen.closes
