"""OAUTHBEARER: a bearer token that somebody else issued. Source: RFC 7628, KIP-255.

The client's half carries any token. The broker's half here takes *unsecured* tokens (signed by nobody) and is for
tests; it exists only where it was asked for by name, because a broker that takes them lets everybody in.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import AuthenticationError

NAME: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>[^,]*))?,\x01(?:[A-Za-z]+=[^\x01]*\x01)*?"
    r"auth=[Bb]earer +(?P<token>[A-Za-z0-9\-._~+/]+=*)\x01(?:[A-Za-z]+=[^\x01]*\x01)*\x01"
)
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'


class OAuthBearerClient:
    """The client's half.

    Args:
        token: as issued.
        extensions: SASL extensions (KIP-342), by name.

    Raises:
        AuthenticationError: the token has characters that no bearer token has.
    """

    name = NAME

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise AuthenticationError("the OAuth token provider gave something that is no bearer token (RFC 6750)")
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        self._token = "n,," + _SEPARATOR + "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
        self.complete = False

    def step(self, challenge: bytes | None) -> bytes:
        """See `ClientMechanism.step`: an answer with content is a refusal, which is acknowledged."""
        if challenge is None:
            return (self._token + _SEPARATOR).encode()
        if challenge:
            return _SEPARATOR.encode()
        self.complete = True
        return b""


class UnsecuredOAuthBearerServer:
    """The broker's half for unsecured tokens, for tests only.

    Args:
        now_s: wall clock, in seconds since 1970.
    """

    name = NAME

    def __init__(self, now_s: float) -> None:
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._now_s = now_s
        self._refusal = ""

    def step(self, response: bytes) -> bytes:
        """See `ServerMechanism.step`."""
        if self._refusal:
            raise AuthenticationError(self._refusal)
        found = _CLIENT_FIRST.fullmatch(response.decode(errors="replace"))
        if found is None:
            raise AuthenticationError("Authentication failed: the OAUTHBEARER message is not of the expected form")
        try:
            subject, expires_s = unsecured_subject(found["token"], self._now_s)
        except ValueError as error:
            self._refusal = f"Authentication failed: {error}"
            return INVALID_TOKEN
        if found["authorization_id"] not in (None, "", subject):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is not its own")
        self.user, self.expires_ms = subject, int(expires_s * 1000)
        return b""


def unsecured_subject(token: str, now_s: float) -> tuple[str, float]:
    """Return whom an unsecured JWS names, and until when, in seconds since 1970.

    Raises:
        ValueError: it is not one, is signed, names nobody, or its time is over; the message shows none of it.
    """
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise ValueError("not an unsecured token: it has a signature, which this broker cannot check")
    header, claims = _json_object(parts[0]), _json_object(parts[1])
    if header.get("alg") != "none":
        raise ValueError("not an unsecured token: its algorithm is not 'none'")
    subject, expires = claims.get("sub"), claims.get("exp")
    if not isinstance(subject, str) or not subject:
        raise ValueError("the token names no subject")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise ValueError("the token has no time of expiry")
    if expires <= now_s:
        raise ValueError("the token has expired")
    return subject, expires


def unsecured_token(subject: str, now_s: float, lifetime_s: float = 3600) -> str:
    """Make an unsecured JWS, for tests."""
    claims = {"sub": subject, "iat": int(now_s), "exp": int(now_s + lifetime_s)}
    return ".".join([*(_base64_json(part) for part in ({"alg": "none"}, claims)), ""])


def _base64_json(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def _json_object(part: str) -> dict[str, object]:
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("the token is no JSON Web Signature") from None
    if not isinstance(found, dict):
        raise ValueError("the token is no JSON Web Signature")
    return found
