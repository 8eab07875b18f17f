"""How a client logs in: versions, handshake, tokens. Pure; `core/connection.py` carries it.

The states are those of Kafka's SaslClientAuthenticator, logged by name and without any token:
SEND_APIVERSIONS_REQUEST, RECEIVE_APIVERSIONS_RESPONSE, SEND_HANDSHAKE_REQUEST, RECEIVE_HANDSHAKE_RESPONSE, INITIAL,
INTERMEDIATE, and COMPLETE or FAILED. A login that renews another one (KIP-368) begins with
REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE, because the versions are known, and has states of its own until its first
token. ApiVersions itself is asked by `core/connection.py`. Tokens travel in SaslAuthenticate after SaslHandshake
version 1 (KIP-152), and bare, as frames without a Kafka header, after version 0: to brokers before Kafka 1.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from kafkaraw.core.sasl.mechanism import BareToken, ClientMechanism
from kafkaraw.errors import AuthenticationError, KafkaError, ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkaraw.protocol.printable import printable

log: logging.Logger = logging.getLogger(__name__)

BARE_TOKENS_VERSION: Final = 0
"""The version of SaslHandshake after which tokens come without a Kafka header."""


SaslRequest: TypeAlias = SaslHandshakeRequest | SaslAuthenticateRequest | BareToken


class SaslState(Enum):
    """What the client is about to do, or waits for."""

    SEND_APIVERSIONS_REQUEST = "send ApiVersions request"
    RECEIVE_APIVERSIONS_RESPONSE = "receive ApiVersions response"
    SEND_HANDSHAKE_REQUEST = "send handshake request"
    RECEIVE_HANDSHAKE_RESPONSE = "receive handshake response"
    INITIAL = "initial token"
    REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE = "renew with the versions that are known"
    REAUTH_SEND_HANDSHAKE_REQUEST = "send handshake request, renewing"
    REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE = "receive handshake response, renewing"
    REAUTH_INITIAL = "initial token, renewing"
    INTERMEDIATE = "intermediate token"
    COMPLETE = "complete"
    FAILED = "failed"


_WITH_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_S = SaslState
TRANSITIONS: Final[dict[SaslState, frozenset[SaslState]]] = {
    _S.SEND_APIVERSIONS_REQUEST: frozenset({_S.RECEIVE_APIVERSIONS_RESPONSE, _S.FAILED}),
    _S.RECEIVE_APIVERSIONS_RESPONSE: frozenset({_S.SEND_HANDSHAKE_REQUEST, _S.FAILED}),
    _S.SEND_HANDSHAKE_REQUEST: frozenset({_S.RECEIVE_HANDSHAKE_RESPONSE, _S.FAILED}),
    _S.RECEIVE_HANDSHAKE_RESPONSE: frozenset({_S.INITIAL, _S.FAILED}),
    _S.INITIAL: frozenset({_S.INTERMEDIATE, _S.FAILED}),
    _S.REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE: frozenset({_S.REAUTH_SEND_HANDSHAKE_REQUEST, _S.FAILED}),
    _S.REAUTH_SEND_HANDSHAKE_REQUEST: frozenset({_S.REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE, _S.FAILED}),
    _S.REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE: frozenset({_S.REAUTH_INITIAL, _S.FAILED}),
    _S.REAUTH_INITIAL: frozenset({_S.INTERMEDIATE, _S.FAILED}),
    _S.INTERMEDIATE: frozenset({_S.INTERMEDIATE, _S.COMPLETE, _S.FAILED}),
    _S.COMPLETE: frozenset(),
    _S.FAILED: frozenset(),
}
_BEGINS: Final = {
    _S.RECEIVE_APIVERSIONS_RESPONSE: _S.SEND_HANDSHAKE_REQUEST,
    _S.REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE: _S.REAUTH_SEND_HANDSHAKE_REQUEST,
}
_SENDS_HANDSHAKE: Final = {
    _S.SEND_HANDSHAKE_REQUEST: _S.RECEIVE_HANDSHAKE_RESPONSE,
    _S.REAUTH_SEND_HANDSHAKE_REQUEST: _S.REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE,
}
_TAKES_HANDSHAKE: Final = {
    _S.RECEIVE_HANDSHAKE_RESPONSE: _S.INITIAL,
    _S.REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE: _S.REAUTH_INITIAL,
}
# What ILLEGAL_SASL_STATE means as an answer to the handshake.
_NOT_NOW: Final = {
    _S.RECEIVE_HANDSHAKE_RESPONSE: "this listener has no authentication; use security_protocol PLAINTEXT or SSL",
    _S.REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE: "the broker accepts one re-authentication a second; let sessions "
    "last longer (the broker's connections.max.reauth.ms, or the token's expiry)",
}
_SENDS_FIRST_TOKEN: Final = frozenset({_S.INITIAL, _S.REAUTH_INITIAL})


class SaslConversation:
    """One login on one connection.

    Args:
        peer: the broker as "host:port", for messages.
        renews: it renews a login on a connection that has one.

    Attributes:
        state: where it is.
        session_lifetime_ms: how long the broker keeps the login, once COMPLETE; 0 is as long as the connection.
        computation: to be called, on any thread, and then `computed`, before the login goes on; None when it may.
    """

    def __init__(self, peer: str, *, renews: bool = False) -> None:
        self.state = _S.REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE if renews else _S.SEND_APIVERSIONS_REQUEST
        self.session_lifetime_ms: int = 0
        self.computation: Callable[[], None] | None = None
        self._challenge = BareToken(b""), 0
        self._handshake_version: int | None = None
        self._what = "re-authentication" if renews else "authentication"
        self._mechanism: ClientMechanism | None = None
        self._peer = peer
        self._token = b""
        self._log_state()

    def versions_asked(self) -> None:
        """ApiVersions is on its way."""
        self._move_to(_S.RECEIVE_APIVERSIONS_RESPONSE)

    def begin(self, mechanism: ClientMechanism, handshake_version: int) -> None:
        """The versions are known, and there is what it takes.

        Args:
            mechanism: the client's half, fresh.
            handshake_version: the version of SaslHandshake to use.
        """
        self._mechanism = mechanism
        self._handshake_version = handshake_version
        self._move_to(_BEGINS[self.state])

    @property
    def begun(self) -> bool:
        """Whether it has its mechanism."""
        return self._mechanism is not None

    @property
    def mechanism(self) -> ClientMechanism:
        """The client's half; there from `begin` on."""
        assert self._mechanism is not None
        return self._mechanism

    @property
    def awaits_bare_token(self) -> bool:
        """Whether the next frame is a token without a Kafka header."""
        bare = self._handshake_version == BARE_TOKENS_VERSION
        return bare and self.state is _S.INTERMEDIATE and self.computation is None

    def next_request(self) -> SaslRequest | None:
        """Return what to send now; None when the login is complete.

        Raises:
            AuthenticationError: the mechanism cannot begin.
        """
        if self.state in _SENDS_HANDSHAKE:
            self._move_to(_SENDS_HANDSHAKE[self.state])
            return SaslHandshakeRequest(mechanism=self.mechanism.name)
        if self.state is _S.COMPLETE:
            return None
        if self.state in _SENDS_FIRST_TOKEN:
            self._token = self._step(None)
            self._move_to(_S.INTERMEDIATE)
        token, self._token = self._token, b""
        return BareToken(token) if self.awaits_bare_token else SaslAuthenticateRequest(auth_bytes=token)

    def receive(self, response: object) -> None:
        """Take the broker's answer.

        Raises:
            AuthenticationError: the login is refused, or the broker could not prove who it is.
        """
        match response:
            case SaslHandshakeResponse() if self.state in _TAKES_HANDSHAKE:
                self._handshake_received(response)
            case SaslAuthenticateResponse() if self.state is _S.INTERMEDIATE:
                self._answer_received(response)
            case BareToken(token) if self.awaits_bare_token:
                self._take(token, session_lifetime_ms=0)
            case _:
                self.fail()
                raise ProtocolError(f"{self._peer} answered {type(response).__name__} during the authentication")

    def fail(self) -> None:
        """End the conversation because its connection has ended."""
        if self.state not in (_S.COMPLETE, _S.FAILED):
            self._move_to(_S.FAILED)

    def _handshake_received(self, response: SaslHandshakeResponse) -> None:
        name = self.mechanism.name
        if response.error_code == ErrorCode.NONE:
            self._move_to(_TAKES_HANDSHAKE[self.state])
            return
        offered = ", ".join(sorted(response.mechanisms)) or "none"
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            why = (
                f"it does not offer the SASL mechanism {name}, but {offered} (UNSUPPORTED_SASL_MECHANISM); set "
                f"sasl_mechanism to one of these"
            )
        elif response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            why = f"{_NOT_NOW[self.state]} (ILLEGAL_SASL_STATE)"
        else:
            why = f"{error_name(response.error_code)}; it offers {offered}"
        self._refused(why)

    def _answer_received(self, response: SaslAuthenticateResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            words = printable(response.error_message or "no reason given")
            remedy = "; check sasl_username and sasl_password" if self.mechanism.name in _WITH_PASSWORD else ""
            self._refused(f"{words} ({error_name(response.error_code)}, mechanism {self.mechanism.name}){remedy}")
        self._take(bytes(response.auth_bytes), response.session_lifetime_ms)

    def computed(self) -> None:
        """`computation` was called: answer the token that it was for.

        Raises:
            AuthenticationError: as `receive`.
        """
        self.computation = None
        challenge, session_lifetime_ms = self._challenge
        self._answer(challenge.token, session_lifetime_ms)

    def _take(self, token: bytes, session_lifetime_ms: int) -> None:
        self.computation = self.mechanism.computation(token)
        if self.computation is None:
            self._answer(token, session_lifetime_ms)
        else:
            self._challenge = BareToken(token), session_lifetime_ms

    def _answer(self, token: bytes, session_lifetime_ms: int) -> None:
        self._token = self._step(token)
        if self.mechanism.complete:
            self.session_lifetime_ms = session_lifetime_ms
            self._move_to(_S.COMPLETE)

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return self.mechanism.step(challenge)
        except KafkaError as error:
            self._refused(str(error))
            raise

    def _refused(self, why: str) -> None:
        self.fail()
        raise AuthenticationError(f"{self._peer} [SASL]: {self._what} failed: {why}")

    def _move_to(self, state: SaslState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        if state is not self.state:
            self.state = state
            self._log_state()

    def _log_state(self) -> None:
        log.debug("%s: Set SASL client state to %s", self._peer, self.state.name)
