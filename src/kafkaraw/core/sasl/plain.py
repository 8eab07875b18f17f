"""PLAIN: name and password as they are, so only for TLS or a trusted network. Source: RFC 4616."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import AuthenticationError

NAME: Final = "PLAIN"
REFUSED: Final = "Authentication failed: Invalid username or password"


class PlainClient:
    """The client's half."""

    name = NAME

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise AuthenticationError("PLAIN cannot carry a user name or password with a NUL character")
        self._token = f"\0{username}\0{password}".encode()
        self.complete: bool = False

    def computation(self, challenge: bytes) -> None:
        """What has to be computed before `step` can answer, if that takes long enough to hold up an event loop."""

    def step(self, challenge: bytes | None) -> bytes:
        """See `ClientMechanism.step`: one message, to which the broker has nothing to add."""
        if challenge is None:
            return self._token
        self.complete = True
        return b""


class PlainServer:
    """The broker's half.

    Args:
        passwords: by user name.
    """

    name = NAME
    expires_ms: int | None = None
    token_authenticated = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def step(self, response: bytes) -> bytes:
        """Answer the client."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            raise AuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        try:
            authorization_id, username, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationError("Invalid SASL/PLAIN response: not UTF-8") from None
        if not username or not password:
            raise AuthenticationError("Authentication failed: username or password not specified")
        # An unknown user costs the same comparison as a known one.
        expected = self._passwords.get(username)
        import hmac  # only for logins: it takes 6 ms

        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not same:
            raise AuthenticationError(REFUSED)
        if authorization_id not in ("", username):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is not its own")
        self.user = username
        return b""
