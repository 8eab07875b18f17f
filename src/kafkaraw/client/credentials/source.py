"""The roles: what gives a login its mechanism, what gives it a token; and a cache for tokens."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.core.sasl.oauthbearer import OAuthBearerClient
from kafkaraw.errors import AuthenticationError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net import Clock

REUSED_SHARE = 0.8
"""The part of its life in which a token is used for new logins; Kafka's sasl.login.refresh.window.factor."""


class Credentials(Protocol):
    """Makes the client's half of logins."""

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """The client's half of one login.

        Args:
            host: of the broker, as it was dialled.
            timeout: how long that may take, in seconds.

        Raises:
            AuthenticationError: what the login needs is refused or cannot be used.
            NetworkError: stage SASL: it cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.

    Attributes:
        value: as issued.
        expires_ms: when it expires, in milliseconds since 1970; None when unknown.
    """

    value: str = field(repr=False)
    expires_ms: int | None = None


class TokenSource(Protocol):
    """Gives bearer tokens."""

    async def token(self, timeout: float) -> Token:
        """A token that can be used now; see `Credentials.mechanism` for arguments and errors."""
        ...


class BearerCredentials:
    """Logs in by OAUTHBEARER with tokens of a source."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def mechanism(self, host: str, timeout: float) -> ClientMechanism:
        """See `Credentials.mechanism`."""
        return OAuthBearerClient((await self._source.token(timeout)).value)


class CachedTokens:
    """Keeps a token for the first part of its life, for all connections of a client; fetches one at a time.

    Args:
        source: where tokens come from.
        clock: wall clock.
    """

    def __init__(self, source: TokenSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._fetching = asyncio.Lock()
        self._token: Token | None = None
        self._reused_until_ms = 0.0

    async def token(self, timeout: float) -> Token:
        """See `TokenSource.token`.

        Raises:
            AuthenticationError: the new token has expired already.
        """
        async with self._fetching:
            now_ms = self._clock.time_ms()
            if self._token is None or now_ms >= self._reused_until_ms:
                self._token = None
                self._keep(await self._source.token(timeout), now_ms)
            assert self._token is not None
            return self._token

    def _keep(self, token: Token, now_ms: int) -> None:
        ends_ms = token.expires_ms
        if ends_ms is not None and ends_ms <= self._clock.time_ms():
            raise AuthenticationError(
                "the OAuth token has expired already when it is issued; compare this machine's clock with the issuer's"
            )
        self._token = token
        self._reused_until_ms = 0.0 if ends_ms is None else now_ms + (ends_ms - now_ms) * REUSED_SHARE
