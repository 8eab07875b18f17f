"""OAUTHBEARER: a bearer token from an authorization server.

The client's half sends any token. The broker's half accepts *unsecured* tokens, which have no signature, and is for
tests; it has to be enabled by name, because a broker that accepts such tokens authenticates every client.

`json_object`, `expiry_s` and `expiry_ms` read JSON Web Tokens; they do not check signatures. For any bytes they return
a value, or raise a ValueError without the bytes. Source: RFC 7628, KIP-255; RFC 7515 and RFC 7519 for tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import AuthenticationError
from kafkaraw.light_classes import NamedTuple, dataclass

NAME: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_HEADER: Final = re.compile(r"n,(?:a=(?P<authorization_id>[^,]*))?,")
_BEARER: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9\-._~+/]+=*)")
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'


_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_OWN_NAME: Final = "auth"


def extension_fault(name: object, value: object) -> str:
    """Return why a SASL extension cannot be sent (RFC 7628); empty if it can. The text does not show the value."""
    if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name):
        return f"{name!r} is no name of a SASL extension, which has letters of ASCII only"
    if name == _OWN_NAME:
        return f"{name!r} is the name of the token itself, not of an extension"
    if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
        return f"the value of {name!r} must be text of printable ASCII characters, and not empty"
    return ""


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
        self.complete: bool = False

    def computation(self, challenge: bytes) -> None:
        """What has to be computed before `step` can answer, if that takes long enough to hold up an event loop."""

    def step(self, challenge: bytes | None) -> bytes:
        """See `ClientMechanism.step`: an answer with content is a refusal, which is acknowledged."""
        if challenge is None:
            return (self._token + _SEPARATOR).encode()
        if challenge:
            return _SEPARATOR.encode()
        self.complete = True
        return b""


@dataclass(frozen=True, slots=True)
class UnsecuredRules:
    """What an unsecured token must say; the defaults are those of Kafka's validator.

    Attributes:
        principal_claim: the claim that names the user.
        scope_claim: the claim with the scopes.
        required_scope: scopes that the token must have, with spaces between them.
        clock_skew_ms: how far clocks may be apart, in milliseconds.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: str = ""
    clock_skew_ms: int = 0


class UnsecuredOAuthBearerServer:
    """The broker's half for unsecured tokens, for tests only.

    Args:
        now_s: wall clock, in seconds since 1970.
        rules: what a token must say.
    """

    name = NAME
    token_authenticated = False

    def __init__(self, now_s: float, rules: UnsecuredRules | None = None) -> None:
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._now_s = now_s
        self._rules = rules or UnsecuredRules()
        self._refusal = ""

    def step(self, response: bytes) -> bytes:
        """Answer the client."""
        if self._refusal:
            raise AuthenticationError(self._refusal)
        first = read_client_first(response)
        try:
            token = read_unsecured_token(first.token, self._now_s, self._rules)
        except ValueError as error:
            self._refusal = f"Authentication failed: {error}"
            return INVALID_TOKEN
        if set(self._rules.required_scope.split()) - token.scopes:
            self._refusal = "Authentication failed: the token lacks a scope that is required"
            return json.dumps({"status": "insufficient_scope", "scope": self._rules.required_scope}).encode()
        if first.authorization_id not in ("", token.user):
            raise AuthenticationError("Authentication failed: Client requested an authorization id that is not its own")
        self.user, self.expires_ms = token.user, int(token.expires_s * 1000)
        return b""


class ClientFirst(NamedTuple):
    """A client's first message: on whose behalf, empty for its own, and the token."""

    authorization_id: str
    token: str


def read_client_first(message: bytes) -> ClientFirst:
    """Read a client's first message, in time that grows with its length only.

    Raises:
        AuthenticationError: it is not of the form that RFC 7628 gives it, or has not exactly one token.
    """
    header, *pairs = message.decode(errors="replace").split(_SEPARATOR)
    gs2 = _HEADER.fullmatch(header)
    named = [pair.partition("=") for pair in pairs[:-2]]
    bearers = [_BEARER.fullmatch(value) for name, _, value in named if name == "auth"]
    well_formed = pairs[-2:] == ["", ""] and all(name.isascii() and name.isalpha() and is_ for name, is_, _ in named)
    if gs2 is None or not well_formed or len(bearers) != 1 or bearers[0] is None:
        raise AuthenticationError("Authentication failed: the OAUTHBEARER message is not of the expected form")
    return ClientFirst(gs2["authorization_id"] or "", bearers[0]["token"])


class UnsecuredToken(NamedTuple):
    """What an unsecured token says: who, until when in seconds since 1970, and what for."""

    user: str
    expires_s: float
    scopes: frozenset[str]


def read_unsecured_token(token: str, now_s: float, rules: UnsecuredRules) -> UnsecuredToken:
    """Read an unsecured JWS.

    Raises:
        ValueError: it is not an unsecured JWS, is signed, has no principal, or has expired; the message does not show
            the token.
    """
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise ValueError("not an unsecured token: it has a signature, which this broker cannot check")
    header, claims = json_object(parts[0]), json_object(parts[1])
    if header.get("alg") != "none":
        raise ValueError("not an unsecured token: its algorithm is not 'none'")
    user, expires_s = claims.get(rules.principal_claim), expiry_s(claims)
    if not isinstance(user, str) or not user:
        raise ValueError("the token names no subject")
    if expires_s is None:
        raise ValueError("the token has no time of expiry")
    if expires_s + rules.clock_skew_ms / 1000 <= now_s:
        raise ValueError("the token has expired")
    return UnsecuredToken(user, expires_s, _scopes(claims.get(rules.scope_claim)))


def _scopes(claim: object) -> frozenset[str]:
    """The scopes in a claim: a text with spaces, or a list of texts."""
    if isinstance(claim, list):
        return frozenset(scope for scope in claim if isinstance(scope, str))
    return frozenset(claim.split()) if isinstance(claim, str) else frozenset()


def unsecured_token(subject: str, now_s: float, lifetime_s: float = 3600) -> str:
    """Make an unsecured JWS, for tests."""
    claims = {"sub": subject, "iat": int(now_s), "exp": int(now_s + lifetime_s)}
    return ".".join([*(base64_json(part) for part in ({"alg": "none"}, claims)), ""])


def base64_json(value: Mapping[str, object]) -> str:
    """Return a header or payload as it is written in a token."""
    return base64url(json.dumps(value, separators=(",", ":")).encode())


def base64url(data: bytes) -> str:
    """Return bytes in base64url without padding, as tokens have them (RFC 7515)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


EXPIRY_MAX_S: Final = 2**40
"""Later times of expiry, some 35,000 years from now, are taken for none; so are infinity and what is no number."""


def json_object(part: str) -> dict[str, object]:
    """The content of a token's header or payload.

    Raises:
        ValueError: it is not base64url of a JSON object.
    """
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise ValueError("the token is no JSON Web Signature") from None
    if not isinstance(found, dict):
        raise ValueError("the token is no JSON Web Signature")
    return found


def expiry_s(claims: Mapping[str, object]) -> int | float | None:
    """The claim `exp`, in seconds since 1970; None when it is missing or no time."""
    expires = claims.get("exp")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        return None
    return expires if 0 <= expires < EXPIRY_MAX_S else None  # neither holds for NaN


def expiry_ms(token: str) -> int:
    """When a token ends, in milliseconds since 1970.

    Raises:
        ValueError: it is no JWT, or does not say when it ends.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it is no JSON Web Token")
    try:
        claims = json_object(parts[1])
    except ValueError:
        raise ValueError("it is no JSON Web Token") from None
    expires = expiry_s(claims)
    if expires is None:
        raise ValueError("its claim 'exp', the time of its end, is missing")
    return int(expires * 1000)
