"""SASL authentication of one connection on the broker's side: only handshake and tokens until it is complete.

States and errors are those of Kafka's SaslServerAuthenticator: a failed authentication gets a response with Kafka's
message, then the connection is closed; any other request closes it immediately. Tokens after SaslHandshake version 0
have no Kafka header. If the session expires (`connections.max.reauth.ms`, a token's expiry), the client may
reauthenticate on the connection, with the same mechanism and user (KIP-368). After expiry, every request but the
handshake of a reauthentication closes the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.security.accounts import Accounts
from kafkaraw.core.sasl.mechanism import ServerMechanism
from kafkaraw.errors import AuthenticationError
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkaraw.protocol.printable import printable

_logger = logging.getLogger("kafkaraw.broker")
BARE_TOKENS_VERSION: Final = 0
RENEWAL_INTERVAL_S: Final = 1.0
"""Minimum time between reauthentications."""


class LoginState(Enum):
    """The state of the authentication: what the broker waits for."""

    HANDSHAKE_REQUEST = "handshake request"
    AUTHENTICATE = "token"
    COMPLETE = "complete"
    OTHER_MECHANISM = "renewed by another mechanism"
    FAILED = "failed"


TRANSITIONS: Final[dict[LoginState, frozenset[LoginState]]] = {
    LoginState.HANDSHAKE_REQUEST: frozenset({LoginState.AUTHENTICATE, LoginState.FAILED}),
    LoginState.AUTHENTICATE: frozenset({LoginState.COMPLETE, LoginState.FAILED}),
    LoginState.COMPLETE: frozenset({LoginState.AUTHENTICATE, LoginState.OTHER_MECHANISM, LoginState.FAILED}),
    LoginState.OTHER_MECHANISM: frozenset(),
    LoginState.FAILED: frozenset(),
}
_HANDSHAKE_KEY: Final = API_BY_NAME["SaslHandshake"].key
_ALLOWED: Final = {
    LoginState.HANDSHAKE_REQUEST: frozenset({API_BY_NAME["ApiVersions"].key, _HANDSHAKE_KEY}),
    LoginState.AUTHENTICATE: frozenset({API_BY_NAME["SaslAuthenticate"].key}),
}


class Login:
    """The authentication of one connection, and its reauthentications.

    Args:
        accounts: the users and mechanisms.
        listener: name of the client's listener.
        peer: the client's address, for the log.
        now: monotonic time, in seconds.

    Attributes:
        state: the state of the authentication.
        user: the authenticated user, once COMPLETE.
    """

    def __init__(self, accounts: Accounts, listener: str, peer: str, now: Callable[[], float]) -> None:
        self.state = LoginState.HANDSHAKE_REQUEST
        self.user: str | None = None
        self._accounts = accounts
        self._listener = listener
        self._peer = peer
        self._now = now
        self._mechanism: ServerMechanism | None = None
        self._bare = False
        self._ends: float | None = None
        self._renewal_began: float | None = None

    @property
    def takes_bare_token(self) -> bool:
        """Whether the next frame is a token without a Kafka header."""
        return self._bare and self.state is LoginState.AUTHENTICATE

    def check_allowed(self, api_key: int, name: str) -> None:
        """Refuse requests that are not allowed before authentication or after its expiry.

        Raises:
            CloseConnectionError: such a request.
        """
        if self.state is LoginState.COMPLETE:
            if self._ends is not None and self._now() > self._ends and not self._renews(api_key):
                raise CloseConnectionError(f"{name} after the end of the login of user {self.user}; it was not renewed")
        elif self.state is LoginState.OTHER_MECHANISM:
            raise CloseConnectionError(f"user {self.user} tried to renew the login by another mechanism")
        elif api_key not in _ALLOWED.get(self.state, ()):
            raise CloseConnectionError(f"{name} before the login is complete; this listener asks for one (SASL)")

    def answer(self, api_version: int, request: Request[Response]) -> Response | None:
        """Answer a request of the SASL authentication; return None for any other request."""
        if isinstance(request, SaslHandshakeRequest):
            if self.state is LoginState.HANDSHAKE_REQUEST:
                return self._handshake(request, api_version)
            if self._renews(_HANDSHAKE_KEY):
                self._renewal_began = self._now()
                return self._handshake(request, api_version)
        if self.state is LoginState.AUTHENTICATE and isinstance(request, SaslAuthenticateRequest):
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
        if self.state is not LoginState.COMPLETE or api_key != _HANDSHAKE_KEY or self._ends is None:
            return False
        return self._renewal_began is None or self._now() - self._renewal_began >= RENEWAL_INTERVAL_S

    def _step(self, token: bytes) -> tuple[bytes, int]:
        """Pass a token to the mechanism; return its response and the session lifetime, 0 for no expiry."""
        assert self._mechanism is not None
        try:
            reply = self._mechanism.step(bytes(token))
            self._check_same_user(self._mechanism.user)
        except AuthenticationError as error:
            _logger.info("login from %s by %s refused: %s", self._peer, self._mechanism.name, printable(error))
            self._move_to(LoginState.FAILED)
            raise
        if self._mechanism.user is None:
            return reply, 0
        self.user = self._mechanism.user
        lifetime_ms = self._accounts.lifetime_ms(self._listener, self._mechanism)
        self._ends = None if lifetime_ms is None else self._now() + lifetime_ms / 1000
        self._move_to(LoginState.COMPLETE)
        return reply, lifetime_ms or 0

    def _check_same_user(self, user: str | None) -> None:
        if self.user is not None and user is not None and user != self.user:
            raise AuthenticationError(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{user}"
            )

    def _handshake(self, request: SaslHandshakeRequest, api_version: int) -> SaslHandshakeResponse:
        enabled = self._accounts.logins(self._listener).mechanisms
        again = self._mechanism is not None
        if request.mechanism not in enabled:
            _logger.info("login from %s refused: %r is not among %s", self._peer, request.mechanism, ", ".join(enabled))
            self._move_to(LoginState.FAILED)
            if again:  # as in Kafka, a failed reauthentication handshake gets no response
                raise CloseConnectionError(
                    f"{request.mechanism!r} is not enabled: the login of {self.user} is not renewed"
                )
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(enabled))
        if self._mechanism is not None and request.mechanism != self._mechanism.name:
            # Kafka answers with success here, and closes the connection at the next request.
            self._move_to(LoginState.OTHER_MECHANISM)
        else:
            self._mechanism = self._accounts.mechanism(self._listener, request.mechanism, again=again)
            self._bare = api_version == BARE_TOKENS_VERSION
            self._move_to(LoginState.AUTHENTICATE)
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=list(enabled))

    def _move_to(self, state: LoginState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
