"""SASL authentication of one connection on the broker's side: only handshake and tokens until it is complete.

States and errors are those of Kafka's SaslServerAuthenticator: a failed authentication gets a response with Kafka's
message, then the connection is closed; any other request closes it immediately. Tokens after SaslHandshake version 0
have no Kafka header. If the session expires (`connections.max.reauth.ms`, a token's expiry), the client may
reauthenticate on the connection, with the same mechanism and user (KIP-368). After expiry, every request but the
handshake of a reauthentication closes the connection. `SaslServers` creates the SASL server of a mechanism.
Start at `SaslAuthenticator`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.ids import RandomBits, random_bytes
from kafkaraw.broker.security.delegation_tokens import DelegationTokens
from kafkaraw.broker.security.listener_security import BrokerSecurity
from kafkaraw.broker.security.mechanisms import SaslSettings
from kafkaraw.broker.security.scram_credentials import ScramCredentials
from kafkaraw.core.sasl.mechanism import ServerMechanism
from kafkaraw.core.sasl.oauthbearer import UnsecuredOAuthBearerServer
from kafkaraw.core.sasl.plain import PlainServer
from kafkaraw.core.sasl.scram import ScramServer
from kafkaraw.errors import AuthenticationError
from kafkaraw.net import Clock
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkaraw.protocol.printable import printable


class SaslServers:
    """Starts authentications.

    Args:
        security: the settings.
        clock: wall clock, for the expiry of tokens.
        rng: for salts and nonces; the operating system's, outside simulations.
        credentials: the SCRAM credentials; all nodes of a cluster share them.
        tokens: the delegation tokens; all nodes of a cluster share them.
    """

    def __init__(
        self,
        security: BrokerSecurity,
        clock: Clock,
        rng: RandomBits,
        credentials: ScramCredentials,
        tokens: DelegationTokens,
    ) -> None:
        self._security = security
        self.credentials = credentials
        self._tokens = tokens
        self._clock = clock
        self._rng = rng

    def mechanism(self, listener: str, name: str, *, again: bool = False) -> ServerMechanism:
        """Return the SASL server for one authentication.

        Args:
            listener: name of the client's listener.
            name: a mechanism that is enabled for the listener.
            again: the client reauthenticates (KIP-368).
        """
        settings = self.settings(listener)
        if name == "PLAIN":
            return PlainServer(settings.passwords)
        if name == "OAUTHBEARER":
            return UnsecuredOAuthBearerServer(self._clock.time_ms() / 1000, settings.unsecured)
        during = "re-authentication" if again else "authentication"
        return ScramServer(
            name,
            partial(self.credentials.find, name),
            random_bytes(self._rng).hex(),
            during,
            lambda token_id: self._tokens.login(name, token_id, self._clock.time_ms()),
        )

    def settings(self, listener: str) -> SaslSettings:
        """Return the SASL settings of a listener."""
        return self._security.listeners[listener].sasl

    def lifetime_ms(self, listener: str, mechanism: ServerMechanism) -> int | None:
        """Return the lifetime of an authenticated session in milliseconds; None for no expiry."""
        limits = [self.settings(listener).reauth_ms.get(mechanism.name)]
        if mechanism.expires_ms is not None:
            limits.append(mechanism.expires_ms - self._clock.time_ms())
        ends = [limit for limit in limits if limit is not None]
        return max(0, min(ends)) if ends else None


_logger = logging.getLogger("kafkaraw.broker")
BARE_TOKENS_VERSION: Final = 0
RENEWAL_INTERVAL_S: Final = 1.0
"""Minimum time between reauthentications."""


class AuthenticationState(Enum):
    """The state of the authentication: what the broker waits for."""

    HANDSHAKE_REQUEST = "handshake request"
    AUTHENTICATE = "token"
    COMPLETE = "complete"
    OTHER_MECHANISM = "reauthentication with another mechanism"
    FAILED = "failed"


TRANSITIONS: Final[dict[AuthenticationState, frozenset[AuthenticationState]]] = {
    AuthenticationState.HANDSHAKE_REQUEST: frozenset({AuthenticationState.AUTHENTICATE, AuthenticationState.FAILED}),
    AuthenticationState.AUTHENTICATE: frozenset({AuthenticationState.COMPLETE, AuthenticationState.FAILED}),
    AuthenticationState.COMPLETE: frozenset(
        {AuthenticationState.AUTHENTICATE, AuthenticationState.OTHER_MECHANISM, AuthenticationState.FAILED}
    ),
    AuthenticationState.OTHER_MECHANISM: frozenset(),
    AuthenticationState.FAILED: frozenset(),
}
_HANDSHAKE_KEY: Final = API_BY_NAME["SaslHandshake"].key
_ALLOWED: Final = {
    AuthenticationState.HANDSHAKE_REQUEST: frozenset({API_BY_NAME["ApiVersions"].key, _HANDSHAKE_KEY}),
    AuthenticationState.AUTHENTICATE: frozenset({API_BY_NAME["SaslAuthenticate"].key}),
}


class SaslAuthenticator:
    """The authentication of one connection, and its reauthentications.

    Args:
        accounts: the users and mechanisms.
        listener: name of the client's listener.
        peer: the client's address, for the log.
        now: monotonic time, in seconds.

    Attributes:
        state: the state of the authentication.
        user: the authenticated user, once COMPLETE.
        token_authenticated: whether a delegation token authenticated the user.
    """

    def __init__(self, accounts: SaslServers, listener: str, peer: str, now: Callable[[], float]) -> None:
        self.state: AuthenticationState = AuthenticationState.HANDSHAKE_REQUEST
        self.user: str | None = None
        self.token_authenticated: bool = False
        self._servers = accounts
        self._listener = listener
        self._peer = peer
        self._now = now
        self._mechanism: ServerMechanism | None = None
        self._bare = False
        self._ends: float | None = None
        self._renewal_began: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated."""
        return self.state is AuthenticationState.COMPLETE

    @property
    def has_failed(self) -> bool:
        """Whether the authentication failed; the connection has to be closed."""
        return self.state is AuthenticationState.FAILED

    @property
    def takes_bare_token(self) -> bool:
        """Whether the next frame is a token without a Kafka header."""
        return self._bare and self.state is AuthenticationState.AUTHENTICATE

    def check_allowed(self, api_key: int, name: str) -> None:
        """Refuse requests that are not allowed before authentication or after its expiry.

        Raises:
            CloseConnectionError: such a request.
        """
        if self.state is AuthenticationState.COMPLETE:
            if self._ends is not None and self._now() > self._ends and not self._renews(api_key):
                raise CloseConnectionError(
                    f"{name} after the session of user {self.user} expired; the client did not reauthenticate"
                )
        elif self.state is AuthenticationState.OTHER_MECHANISM:
            raise CloseConnectionError(f"user {self.user} tried to reauthenticate with another mechanism")
        elif api_key not in _ALLOWED.get(self.state, ()):
            raise CloseConnectionError(f"{name} before the authentication is complete; this listener requires SASL")

    def answer(self, api_version: int, request: Request[Response]) -> Response | None:
        """Answer a request of the SASL authentication; return None for any other request."""
        if isinstance(request, SaslHandshakeRequest):
            if self.state is AuthenticationState.HANDSHAKE_REQUEST:
                return self._handshake(request, api_version)
            if self._renews(_HANDSHAKE_KEY):
                self._renewal_began = self._now()
                return self._handshake(request, api_version)
        if self.state is AuthenticationState.AUTHENTICATE and isinstance(request, SaslAuthenticateRequest):
            try:
                reply, lifetime_ms = self._step(request.auth_bytes)
            except AuthenticationError as error:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED
                return SaslAuthenticateResponse(error_code=code, error_message=str(error), auth_bytes=b"")
            return SaslAuthenticateResponse(
                error_code=0, error_message="", auth_bytes=reply, session_lifetime_ms=lifetime_ms
            )
        return None

    def take(self, token: bytes) -> bytes:
        """Give a bare token to the mechanism and return its answer.

        Raises:
            AuthenticationError: the authentication failed.
        """
        return self._step(token)[0]

    def _renews(self, api_key: int) -> bool:
        """Return whether a request begins a reauthentication."""
        if self.state is not AuthenticationState.COMPLETE or api_key != _HANDSHAKE_KEY or self._ends is None:
            return False
        return self._renewal_began is None or self._now() - self._renewal_began >= RENEWAL_INTERVAL_S

    def _step(self, token: bytes) -> tuple[bytes, int]:
        """Pass a token to the mechanism; return its response and the session lifetime, 0 for no expiry."""
        assert self._mechanism is not None
        try:
            reply = self._mechanism.step(bytes(token))
            self._check_same_user(self._mechanism.user)
        except AuthenticationError as error:
            _logger.info("authentication from %s by %s failed: %s", self._peer, self._mechanism.name, printable(error))
            self._move_to(AuthenticationState.FAILED)
            raise
        if self._mechanism.user is None:
            return reply, 0
        self.user = self._mechanism.user
        self.token_authenticated = self._mechanism.token_authenticated
        lifetime_ms = self._servers.lifetime_ms(self._listener, self._mechanism)
        self._ends = None if lifetime_ms is None else self._now() + lifetime_ms / 1000
        self._move_to(AuthenticationState.COMPLETE)
        return reply, lifetime_ms or 0

    def _check_same_user(self, user: str | None) -> None:
        if self.user is not None and user is not None and user != self.user:
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{user}"
            )

    def _handshake(self, request: SaslHandshakeRequest, api_version: int) -> SaslHandshakeResponse:
        enabled = self._servers.settings(self._listener).mechanisms
        again = self._mechanism is not None
        if request.mechanism not in enabled:
            _logger.info(
                "authentication from %s failed: %r is not among %s", self._peer, request.mechanism, ", ".join(enabled)
            )
            self._move_to(AuthenticationState.FAILED)
            if again:  # as in Kafka, a failed reauthentication handshake gets no response
                raise CloseConnectionError(
                    f"{request.mechanism!r} is not enabled: the reauthentication of {self.user} failed"
                )
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(enabled))
        if self._mechanism is not None and request.mechanism != self._mechanism.name:
            # Kafka answers with success here, and closes the connection at the next request.
            self._move_to(AuthenticationState.OTHER_MECHANISM)
        else:
            self._mechanism = self._servers.mechanism(self._listener, request.mechanism, again=again)
            self._bare = api_version == BARE_TOKENS_VERSION
            self._move_to(AuthenticationState.AUTHENTICATE)
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=list(enabled))

    def _move_to(self, state: AuthenticationState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
