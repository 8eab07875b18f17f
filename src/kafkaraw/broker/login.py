"""The broker's half of a login on one connection: handshake, tokens, and nothing else until it is complete.

States and refusals are those of Kafka's SaslServerAuthenticator: a refused login is answered, in Kafka's words, and
then the connection is closed; any other request closes it at once. Tokens after SaslHandshake version 0 come bare,
without a Kafka header.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from kafkaraw.broker.refusal import CloseConnection
from kafkaraw.broker.security import Accounts
from kafkaraw.core.sasl.mechanism import ServerMechanism
from kafkaraw.errors import AuthenticationError
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_logger = logging.getLogger("kafkaraw.broker")
BARE_TOKENS_VERSION: Final = 0


class LoginState(Enum):
    """What the broker waits for."""

    HANDSHAKE_REQUEST = "handshake request"
    AUTHENTICATE = "token"
    COMPLETE = "complete"
    FAILED = "failed"


TRANSITIONS: Final[dict[LoginState, frozenset[LoginState]]] = {
    LoginState.HANDSHAKE_REQUEST: frozenset({LoginState.AUTHENTICATE, LoginState.FAILED}),
    LoginState.AUTHENTICATE: frozenset({LoginState.COMPLETE, LoginState.FAILED}),
    LoginState.COMPLETE: frozenset(),
    LoginState.FAILED: frozenset(),
}
_ALLOWED: Final = {
    LoginState.HANDSHAKE_REQUEST: frozenset(API_BY_NAME[name].key for name in ("ApiVersions", "SaslHandshake")),
    LoginState.AUTHENTICATE: frozenset({API_BY_NAME["SaslAuthenticate"].key}),
}


class Login:
    """One login.

    Args:
        accounts: who may log in, and how.
        peer: the client's address, for the log.

    Attributes:
        state: where it is.
        user: who has logged in, once COMPLETE.
    """

    def __init__(self, accounts: Accounts, peer: str) -> None:
        self.state = LoginState.HANDSHAKE_REQUEST
        self.user: str | None = None
        self._accounts = accounts
        self._peer = peer
        self._mechanism: ServerMechanism | None = None
        self._bare = False

    @property
    def takes_bare_token(self) -> bool:
        """Whether the next frame is a token without a Kafka header."""
        return self._bare and self.state is LoginState.AUTHENTICATE

    def check_allowed(self, api_key: int, name: str) -> None:
        """Refuse what nobody may ask before the login is complete.

        Raises:
            CloseConnection: such a request.
        """
        if self.state is not LoginState.COMPLETE and api_key not in _ALLOWED.get(self.state, ()):
            raise CloseConnection(f"{name} before the login is complete; this listener asks for one (SASL)")

    def answer(self, api_version: int, request: object) -> object | None:
        """Answer a request that belongs to the login; None for one that does not."""
        if self.state is LoginState.HANDSHAKE_REQUEST and isinstance(request, SaslHandshakeRequest):
            return self._handshake(request, api_version)
        if self.state is LoginState.AUTHENTICATE and isinstance(request, SaslAuthenticateRequest):
            try:
                return SaslAuthenticateResponse(
                    error_code=0, error_message=None, auth_bytes=self.take(request.auth_bytes)
                )
            except AuthenticationError as error:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED
                return SaslAuthenticateResponse(error_code=code, error_message=str(error), auth_bytes=b"")
        return None

    def take(self, token: bytes) -> bytes:
        """Give a token to the mechanism and return its answer.

        Raises:
            AuthenticationError: the login is refused.
        """
        assert self._mechanism is not None
        try:
            reply = self._mechanism.step(bytes(token))
        except AuthenticationError as error:
            _logger.info("login from %s by %s refused: %s", self._peer, self._mechanism.name, error)
            self._move_to(LoginState.FAILED)
            raise
        if self._mechanism.user is not None:
            self.user = self._mechanism.user
            self._move_to(LoginState.COMPLETE)
        return reply

    def _handshake(self, request: SaslHandshakeRequest, api_version: int) -> SaslHandshakeResponse:
        enabled = self._accounts.security.mechanisms
        if request.mechanism not in enabled:
            _logger.info("login from %s refused: %r is not among %s", self._peer, request.mechanism, ", ".join(enabled))
            self._move_to(LoginState.FAILED)
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(enabled))
        self._mechanism = self._accounts.mechanism(request.mechanism)
        self._bare = api_version == BARE_TOKENS_VERSION
        self._move_to(LoginState.AUTHENTICATE)
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=list(enabled))

    def _move_to(self, state: LoginState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
