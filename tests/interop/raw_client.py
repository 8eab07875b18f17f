"""A client that sends exactly the requests it is given, one after the other, as a user who logs in with PLAIN or not.

To ask two brokers the same and compare what they answer; nothing is retried, refreshed or negotiated.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

TIMEOUT_SECONDS = 30.0


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """One connection.

    Args:
        bootstrap_servers: `host:port` of the listener.
        user: who logs in; None on a listener without logins.
        password: with which password.
        client_id: what the client calls itself; None for no name.
    """

    def __init__(
        self, bootstrap_servers: str, user: str | None = None, password: str = "", *, client_id: str | None = "raw"
    ) -> None:
        self._client_id = client_id
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        self._correlation_id = 0
        if user is not None:
            try:
                self._log_in(user, password)
            except BaseException:
                self._socket.close()
                raise

    def _log_in(self, user: str, password: str) -> None:
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())
        answer = self.ask(login, 2)
        assert answer.error_code == 0, answer.error_message

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its answer.

        Raises:
            Closed: there is none.
        """
        self.send(request, version)
        return self.receive(request, version)

    def receive(self, request: Any, version: int) -> Any:
        """Wait for the answer to the oldest request that was sent.

        Raises:
            Closed: there is none.
        """
        api = api_of(request)
        try:
            (size,) = struct.unpack(">i", self._read(4))
            return decode_response(self._read(size), api.key, version)[1]
        except (ConnectionError, EOFError) as error:
            raise Closed from error

    def send(self, request: Any, version: int) -> None:
        """Send a request, and wait for nothing."""
        self._correlation_id += 1
        frame = encode_request(
            RequestHeader(api_of(request).key, version, self._correlation_id, self._client_id), request
        )
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
