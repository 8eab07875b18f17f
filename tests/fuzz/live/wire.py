"""Bare sockets that speak as much Kafka as they are told to, and any other bytes."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import Any

from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import API_BY_NAME, api_of
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

SIZE = struct.Struct(">i")
ANSWER_SIZE_MAX = 64 << 20
CLIENT_ID = "fuzz"


class HungUp(OSError):
    """The other end closed the connection."""


def framed(body: bytes) -> bytes:
    """The body as a frame."""
    return SIZE.pack(len(body)) + body


def request_bytes(message: object, version: int, correlation_id: int = 1, client_id: str | None = CLIENT_ID) -> bytes:
    """A whole request, without its size."""
    return encode_request(RequestHeader(api_of(message).key, version, correlation_id, client_id), message)


class Peer:
    """One connection of a hostile or of an honest client.

    Args:
        address: of the listener.
        timeout_s: how long anything may take.
        source: the address to come from.
        tls: a context, to begin with a TLS handshake.
        receive_buffer: size of the socket's receive buffer in bytes; None is the system's.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        timeout_s: float = 5.0,
        source: str | None = None,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        made = socket.socket()
        try:
            made.settimeout(timeout_s)
            if receive_buffer is not None:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            if source is not None:
                made.bind((source, 0))
            made.connect(address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket: socket.socket = made if tls is None else tls.wrap_socket(made, server_hostname="localhost")
        except BaseException:
            made.close()
            raise
        self._correlation_id = 0

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, message: object, version: int) -> int:
        """Send a request; its correlation id."""
        self._correlation_id += 1
        self.send(framed(request_bytes(message, version, self._correlation_id)))
        return self._correlation_id

    def ask(self, message: object, version: int) -> Any:
        """Send a request and return the answer.

        Raises:
            OSError: the connection was lost, or the answer took too long (TimeoutError).
            ValueError: the answer is to another request.
        """
        expected = self.request(message, version)
        header, answer = decode_response(self.frame(), api_of(message).key, version)
        if header.correlation_id != expected:
            raise ValueError(f"the answer has the correlation id {header.correlation_id}, the request {expected}")
        return answer

    def frame(self) -> bytes:
        """The next frame."""
        (size,) = SIZE.unpack(self.exactly(4))
        if not 0 <= size <= ANSWER_SIZE_MAX:
            raise ValueError(f"a frame of {size} bytes was announced")
        return self.exactly(size)

    def exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise HungUp("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def drain(self) -> int:
        """Read and drop what is there now; the number of bytes. The end of the connection is no error."""
        timeout = self.socket.gettimeout()
        dropped = 0
        self.socket.settimeout(0.0)
        with suppress(OSError):
            while part := self.socket.recv(1 << 20):
                dropped += len(part)
        self.socket.settimeout(timeout)
        return dropped

    def log_in(self, user: str, password: str) -> None:
        """Log in by PLAIN.

        Raises:
            PermissionError: the login is refused.
        """
        answer = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        if not answer.error_code:
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)
        if answer.error_code:
            raise PermissionError(f"the login of {user} is refused with error code {answer.error_code}")

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def newest(name: str) -> int:
    """The newest version of an API that a broker offers."""
    return API_BY_NAME[name].supported.max


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
