from __future__ import annotations

import logging

import pytest

from kafkaraw.core.sasl.conversation import TRANSITIONS, SaslConversation, SaslState
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient
from kafkaraw.errors import AuthenticationError, ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def begun(mechanism=None) -> SaslConversation:
    conversation = SaslConversation("b:1")
    conversation.versions_asked()
    conversation.begin(mechanism or PlainClient("ada", "s3cret"), 1)
    return conversation


def states_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().rpartition(" ")[2] for record in caplog.records]


def test_the_states_are_logged_by_the_names_that_kafka_gives_them(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "kafkaraw.core.sasl.conversation"):
        conversation = begun()
        assert conversation.next_request() == SaslHandshakeRequest(mechanism="PLAIN")
        conversation.receive(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
        assert conversation.next_request() == SaslAuthenticateRequest(auth_bytes=b"\0ada\0s3cret")
        answer = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=9)
        conversation.receive(answer)
    assert conversation.next_request() is None
    assert conversation.session_lifetime_ms == 9
    assert states_in(caplog) == [
        "SEND_APIVERSIONS_REQUEST",
        "RECEIVE_APIVERSIONS_RESPONSE",
        "SEND_HANDSHAKE_REQUEST",
        "RECEIVE_HANDSHAKE_RESPONSE",
        "INITIAL",
        "INTERMEDIATE",
        "COMPLETE",
    ]
    assert "s3cret" not in caplog.text


def test_a_refused_login_is_told_in_the_words_of_the_broker(caplog: pytest.LogCaptureFixture):
    conversation = begun()
    conversation.next_request()
    conversation.receive(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    conversation.next_request()
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    with (
        caplog.at_level(logging.DEBUG, "kafkaraw.core.sasl.conversation"),
        pytest.raises(
            AuthenticationError, match=r"b:1 \[SASL\]: authentication failed: No such user \(SASL_AUTHENTICATION_FAILED"
        ),
    ):
        conversation.receive(SaslAuthenticateResponse(error_code=code, error_message="No such user", auth_bytes=b""))
    assert conversation.state is SaslState.FAILED
    assert states_in(caplog) == ["FAILED"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "does not offer the SASL mechanism PLAIN, but GSSAPI, SCRAM-SHA-512"),
        (ErrorCode.ILLEGAL_SASL_STATE, "has no authentication"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_refused_handshake_says_what_to_use_instead(code: ErrorCode, words: str):
    conversation = begun()
    conversation.next_request()
    with pytest.raises(AuthenticationError, match=words):
        conversation.receive(SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-512", "GSSAPI"]))
    assert conversation.state is SaslState.FAILED


def test_a_renewal_that_comes_too_soon_says_so():
    conversation = SaslConversation("broker:9092", renews=True)
    conversation.begin(PlainClient("ada", "s3cret"), 1)
    conversation.next_request()
    with pytest.raises(AuthenticationError, match="one re-authentication a second"):
        conversation.receive(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))


def test_a_broker_that_cannot_prove_itself_fails_the_login():
    conversation = begun(ScramClient("SCRAM-SHA-256", "ada", "s3cret", "nonce"))
    conversation.next_request()
    conversation.receive(SaslHandshakeResponse(error_code=0, mechanisms=[]))
    conversation.next_request()
    with pytest.raises(AuthenticationError, match="nonce"):
        conversation.receive(
            SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"r=x,s=eA==,i=4096")
        )
    assert conversation.state is SaslState.FAILED


def test_an_answer_to_another_question_ends_it():
    conversation = begun()
    conversation.next_request()
    with pytest.raises(ProtocolError, match="during the authentication"):
        conversation.receive(SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b""))


def test_every_state_is_in_the_table_and_only_the_ends_lead_nowhere():
    assert TRANSITIONS.keys() == set(SaslState)
    assert {state for state, following in TRANSITIONS.items() if not following} == {
        SaslState.COMPLETE,
        SaslState.FAILED,
    }
