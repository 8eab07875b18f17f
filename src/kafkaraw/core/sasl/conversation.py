"""How a client logs in: versions, handshake, tokens. Pure; `client/connection.py` carries it.

The states are those of Kafka's SaslClientAuthenticator, logged by name and without any token:
SEND_APIVERSIONS_REQUEST, RECEIVE_APIVERSIONS_RESPONSE, SEND_HANDSHAKE_REQUEST, RECEIVE_HANDSHAKE_RESPONSE, INITIAL,
INTERMEDIATE, and COMPLETE or FAILED. ApiVersions itself is asked by `core/connection.py`. Tokens travel in
SaslAuthenticate, after SaslHandshake version 1 (KIP-152); the bare tokens of brokers before Kafka 1.0 are not spoken.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from kafkaraw.core.sasl.mechanism import ClientMechanism
from kafkaraw.errors import AuthenticationError, KafkaError, ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = logging.getLogger(__name__)

HANDSHAKE_VERSION: Final = 1


class SaslState(Enum):
    """What the client is about to do, or waits for."""

    SEND_APIVERSIONS_REQUEST = "send ApiVersions request"
    RECEIVE_APIVERSIONS_RESPONSE = "receive ApiVersions response"
    SEND_HANDSHAKE_REQUEST = "send handshake request"
    RECEIVE_HANDSHAKE_RESPONSE = "receive handshake response"
    INITIAL = "initial token"
    INTERMEDIATE = "intermediate token"
    COMPLETE = "complete"
    FAILED = "failed"


_S = SaslState
TRANSITIONS: Final[dict[SaslState, frozenset[SaslState]]] = {
    _S.SEND_APIVERSIONS_REQUEST: frozenset({_S.RECEIVE_APIVERSIONS_RESPONSE, _S.FAILED}),
    _S.RECEIVE_APIVERSIONS_RESPONSE: frozenset({_S.SEND_HANDSHAKE_REQUEST, _S.FAILED}),
    _S.SEND_HANDSHAKE_REQUEST: frozenset({_S.RECEIVE_HANDSHAKE_RESPONSE, _S.FAILED}),
    _S.RECEIVE_HANDSHAKE_RESPONSE: frozenset({_S.INITIAL, _S.FAILED}),
    _S.INITIAL: frozenset({_S.INTERMEDIATE, _S.FAILED}),
    _S.INTERMEDIATE: frozenset({_S.INTERMEDIATE, _S.COMPLETE, _S.FAILED}),
    _S.COMPLETE: frozenset(),
    _S.FAILED: frozenset(),
}


class SaslConversation:
    """One login on one connection.

    Args:
        mechanism: the client's half, fresh.
        peer: the broker as "host:port", for messages.

    Attributes:
        state: where it is.
        session_lifetime_ms: how long the broker keeps the login, once COMPLETE; 0 is as long as the connection.
    """

    def __init__(self, mechanism: ClientMechanism, peer: str) -> None:
        self.state = SaslState.SEND_APIVERSIONS_REQUEST
        self.session_lifetime_ms = 0
        self._mechanism = mechanism
        self._peer = peer
        self._token: bytes | None = None
        self._log_state()

    def versions_asked(self) -> None:
        """ApiVersions is on its way."""
        self._move_to(SaslState.RECEIVE_APIVERSIONS_RESPONSE)

    def versions_known(self) -> None:
        """The broker has said which versions it speaks."""
        self._move_to(SaslState.SEND_HANDSHAKE_REQUEST)

    def next_request(self) -> SaslHandshakeRequest | SaslAuthenticateRequest | None:
        """Return what to send now; None when the login is complete.

        Raises:
            AuthenticationError: the mechanism cannot begin.
        """
        if self.state is SaslState.SEND_HANDSHAKE_REQUEST:
            self._move_to(SaslState.RECEIVE_HANDSHAKE_RESPONSE)
            return SaslHandshakeRequest(mechanism=self._mechanism.name)
        if self.state is SaslState.INITIAL:
            token = self._step(None)
            self._move_to(SaslState.INTERMEDIATE)
            return SaslAuthenticateRequest(auth_bytes=token)
        token, self._token = self._token or b"", None
        return None if self.state is SaslState.COMPLETE else SaslAuthenticateRequest(auth_bytes=token)

    def receive(self, response: object) -> None:
        """Take the broker's answer.

        Raises:
            AuthenticationError: the login is refused, or the broker could not prove who it is.
        """
        match response:
            case SaslHandshakeResponse() if self.state is SaslState.RECEIVE_HANDSHAKE_RESPONSE:
                self._handshake_received(response)
            case SaslAuthenticateResponse() if self.state is SaslState.INTERMEDIATE:
                self._token_received(response)
            case _:
                self.fail()
                raise ProtocolError(f"{self._peer} answered {type(response).__name__} in the middle of the login")

    def fail(self) -> None:
        """Whatever carried the conversation broke."""
        if self.state not in (SaslState.COMPLETE, SaslState.FAILED):
            self._move_to(SaslState.FAILED)

    def _handshake_received(self, response: SaslHandshakeResponse) -> None:
        name = self._mechanism.name
        if response.error_code == ErrorCode.NONE:
            self._move_to(SaslState.INITIAL)
            return
        offered = ", ".join(sorted(response.mechanisms)) or "none"
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            why = f"it does not offer the SASL mechanism {name}, but {offered} (UNSUPPORTED_SASL_MECHANISM)"
        elif response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            why = "this listener wants no login (ILLEGAL_SASL_STATE); use security_protocol PLAINTEXT or SSL here"
        else:
            why = f"{error_name(response.error_code)}; it offers {offered}"
        self._refused(why)

    def _token_received(self, response: SaslAuthenticateResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            words = response.error_message or "no reason given"
            self._refused(f"{words} ({error_name(response.error_code)}, mechanism {self._mechanism.name})")
        self._token = self._step(bytes(response.auth_bytes))
        if self._mechanism.complete:
            self.session_lifetime_ms = response.session_lifetime_ms
            self._move_to(SaslState.COMPLETE)

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return self._mechanism.step(challenge)
        except KafkaError as error:
            self._refused(str(error))
            raise

    def _refused(self, why: str) -> None:
        self.fail()
        raise AuthenticationError(f"{self._peer} [SASL]: login failed: {why}")

    def _move_to(self, state: SaslState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        if state is not self.state:
            self.state = state
            self._log_state()

    def _log_state(self) -> None:
        log.debug("%s: Set SASL client state to %s", self._peer, self.state.name)
