"""Tokens of an OpenID provider, by client id and secret or assertion: OAuth's client credentials grant, over httpx.

Source: RFC 6749 section 4.4, RFC 7523 section 2.2, KIP-768, KIP-1139, KIP-1258, Kafka's HttpJwtRetriever. An answer
that says no is an AuthenticationError at once; an endpoint that cannot be reached, is overloaded or breaks is asked
again, with a growing pause, until the time for the login is up. Proxies of the environment (HTTPS_PROXY, ALL_PROXY)
are used for https to other machines only: with plain http they would read the secret. Redirects are not followed,
answers are bounded, and neither the secret, an assertion nor an answer's content appears in a message, the provider's
own error code excepted.

`url_fault` says from which URLs tokens may be requested (CVE-2025-27817 read files and internal hosts): https, and http
to this machine; no other scheme, no user name inside. With an allow-list, only the URLs in it, compared letter by
letter, as with Kafka's org.apache.kafka.sasl.oauthbearer.allowed.urls; a listed URL may be plain http.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, urlsplit

from kafkaraw.client.credentials.assertions import Assertions
from kafkaraw.client.credentials.source import Token
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.core.sasl.oauthbearer import expiry_ms
from kafkaraw.errors import AuthenticationError, NetworkError, Stage
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import Clock

if TYPE_CHECKING:
    import ssl

    import httpx


ANSWER_SIZE_MAX: Final = 1 << 18
_SHARE_OF_TIMEOUT: Final = 0.95
_RETRIABLE_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ERROR_CODE: Final = re.compile(r"[a-zA-Z0-9_.\-]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and as whom to ask.

    Attributes:
        url: the token endpoint; checked by `url_fault` before.
        client_id: who asks.
        client_secret: their secret; empty if there are assertions.
        assertions: prove who asks in place of the secret.
        scope: what the token is to be good for; None leaves that to the provider.
        urlencode: encode id and secret before they go into the Authorization header, as RFC 6749 says and not every
            provider understands.
        connect_timeout: seconds.
        read_timeout: seconds.
        backoff: pauses between attempts.
        tls: makes the context to speak TLS with.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    assertions: Assertions | None = None
    scope: str | None
    urlencode: bool
    connect_timeout: float
    read_timeout: float
    backoff: Backoff
    tls: Callable[[], ssl.SSLContext]


class _TryAgainError(Exception):
    """The endpoint gave no answer that settles anything."""


class EndpointTokens:
    """Fetches tokens from an endpoint.

    Args:
        endpoint: see there.
        rng: source of jitter.
        clock: the time of assertions.
        transport: what carries requests; httpx's own when None.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rng: RandomSource,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._rng = rng
        self._clock = clock
        self._transport = transport

    async def token(self, timeout: float) -> Token:
        """A token that can be used now; see `Credentials.mechanism` for arguments and errors."""
        loop = asyncio.get_running_loop()
        # A little before the caller gives up, who could not say why there is no token.
        deadline = loop.time() + timeout * _SHARE_OF_TIMEOUT
        attempts, reason = 0, ""
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._ask()
            except TimeoutError:
                reason = reason or "no answer"  # what stopped an attempt before says more than that the time is up
            except _TryAgainError as failure:
                reason = str(failure)
            pause = self._endpoint.backoff.delay_ms(attempts, self._rng) / 1000
            attempts += 1
            if loop.time() + pause >= deadline:
                raise NetworkError(
                    f"no token from {self._endpoint.url}: {reason} ({attempts} attempts in {timeout:.3g} s)",
                    stage=Stage.SASL,
                )
            await asyncio.sleep(pause)

    async def _ask(self) -> Token:
        import httpx

        endpoint = self._endpoint
        form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
        # Compressed answers are not asked for: their true size would be known too late.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        if endpoint.assertions is None:
            headers["authorization"] = _basic(endpoint)
        else:
            form |= {
                "client_assertion_type": _ASSERTION_TYPE,
                "client_assertion": endpoint.assertions.assertion(self._clock.time_ms() / 1000),
            }
            form |= {"client_id": endpoint.client_id} if endpoint.client_id else {}
        limits = httpx.Timeout(endpoint.read_timeout, connect=endpoint.connect_timeout)
        verify = endpoint.tls() if endpoint.url.startswith("https:") and self._transport is None else False
        try:
            async with (
                httpx.AsyncClient(
                    verify=verify,
                    transport=self._transport,
                    timeout=limits,
                    trust_env=may_use_proxies(endpoint.url),
                ) as client,
                client.stream("POST", endpoint.url, data=form, headers=headers) as answer,
            ):
                return self._read(answer.status_code, await _content(answer))
        except httpx.HTTPError as error:
            raise _TryAgainError(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    def _read(self, status: int, content: bytes) -> Token:
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        found = answer if isinstance(answer, dict) else {}
        if status in _RETRIABLE_STATUS:
            raise _TryAgainError(f"HTTP status {status}")
        if status != 200:
            code = found.get("error")
            words = f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
            proof = "secret" if self._endpoint.assertions is None else "assertion (its key, aud, iss and sub)"
            raise AuthenticationError(
                f"{self._endpoint.url} refuses a token for client {self._endpoint.client_id!r}: HTTP status "
                f"{status}{words}; check the endpoint, the client id, its {proof} and the scope"
            )
        token = found.get("access_token") or found.get("id_token")
        if not isinstance(token, str):
            raise AuthenticationError(f"{self._endpoint.url} answered without an access_token; is it a token endpoint?")
        try:
            return Token(token, expiry_ms(token))
        except ValueError as error:
            raise AuthenticationError(f"the token of {self._endpoint.url} cannot be used: {error}") from None


def may_use_proxies(url: str) -> bool:
    """Whether the proxies of the environment may carry the secret.

    They get it encrypted with https; with plain http they could read it. This machine is never reached through them.
    """
    parts = urlsplit(url)
    return parts.scheme == "https" and not is_loopback(parts.hostname or "")


async def _content(answer: httpx.Response) -> bytes:
    content = bytearray()
    async for chunk in answer.aiter_raw():
        content += chunk
        if len(content) > ANSWER_SIZE_MAX:
            raise AuthenticationError(f"{answer.request.url} answered with more than {ANSWER_SIZE_MAX} bytes")
    return bytes(content)


def _basic(endpoint: Endpoint) -> str:
    name, secret = endpoint.client_id, endpoint.client_secret
    if endpoint.urlencode:
        name, secret = quote_plus(name), quote_plus(secret)
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine: `localhost` and names below it, 127.0.0.0/8, ::1."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def url_fault(url: str, allowed: Sequence[str]) -> str:
    """Why tokens may not be fetched from there; an empty string when they may."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("https", "http") or not host:
        return "it must begin with https:// and name a host"
    if parts.username is not None or parts.password is not None:
        return "a user name or password inside a URL ends up in logs: use the client id and secret"
    if allowed:
        return "" if url in allowed else "it is not in sasl_oauthbearer_allowed_urls"
    if parts.scheme == "http" and not is_loopback(host):
        return "the client's secret would travel in the clear: use https, or list it in sasl_oauthbearer_allowed_urls"
    return ""
