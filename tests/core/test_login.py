"""The connection machine logging in, and renewing the login on the same connection (KIP-368)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.connection import ConnectionState
from kafkaraw.core.connection_events import (
    BecomeReady,
    CloseRequested,
    End,
    Fail,
    FrameReceived,
    LinkLost,
    LinkMade,
    MechanismFailed,
    MechanismReady,
    NeedMechanism,
    Send,
    Succeed,
)
from kafkaraw.core.sasl.plain import PlainClient
from kafkaraw.core.sasl.scram import ScramClient, ScramServer, make_credential
from kafkaraw.errors import (
    AuthenticationError,
    ClosedError,
    KafkaTimeoutError,
    NetworkError,
    Stage,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_response
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.core.test_connection import ALL_APIS, PEER, Play, end_of, failures, metadata
from tests.examples import examples

LIFETIME_MS = 10_000
HANDSHAKE, METADATA, AUTHENTICATE = 17, 3, 36
S = ConnectionState


def plain() -> PlainClient:
    return PlainClient("ada", "s3cret")


class LoginPlay(Play):
    """A play whose hand-held broker wants a login."""

    def __init__(self, **limits: float) -> None:
        super().__init__(session_share=0.9, **limits)

    def connect(self) -> LoginPlay:
        self.receive(LinkMade(self.now_ms + 10_000, wants_login=True))
        return self

    def negotiated(self, handshake: int = 1, mechanism: object = None) -> LoginPlay:
        self.connect()
        apis = [api for api in ALL_APIS if api.api_key not in (HANDSHAKE, AUTHENTICATE) or handshake]
        if not handshake:
            apis.append(ApiVersion(api_key=HANDSHAKE, min_version=0, max_version=0))
        self.answer(ApiVersionsResponse(error_code=0, api_keys=apis))
        self.receive(MechanismReady(mechanism or plain()))  # type: ignore[arg-type]
        return self

    def logged_in(self, lifetime_ms: int = LIFETIME_MS) -> LoginPlay:
        self.negotiated()
        self.let_in(lifetime_ms)
        assert self.state is S.READY
        return self

    def let_in(self, lifetime_ms: int = LIFETIME_MS) -> None:
        self.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
        self.answer(accepted(lifetime_ms))

    @property
    def asked(self) -> list[int]:
        return [header.api_key for header, _ in self.sent]


def accepted(lifetime_ms: int = LIFETIME_MS) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=lifetime_ms)


def refused(words: str = "Invalid username or password") -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=58, error_message=words, auth_bytes=b"")


# -- the first login -----------------------------------------------------------------------------------------------


def test_it_is_ready_once_the_login_is_complete_and_not_before() -> None:
    play = LoginPlay().negotiated()
    assert play.state is S.AUTHENTICATING
    assert isinstance(failures(play.submit("early"))["early"], UsageError)
    play.let_in()
    assert play.asked == [18, HANDSHAKE, AUTHENTICATE]
    assert isinstance(play.done[-1], BecomeReady)
    assert play.state is S.READY
    assert play.machine.deadline_ms() is None


def test_a_refused_login_ends_it_with_the_brokers_words() -> None:
    play = LoginPlay().negotiated()
    play.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    error = end_of(play.answer(refused()))
    assert isinstance(error, AuthenticationError)
    assert "authentication failed: Invalid username or password (SASL_AUTHENTICATION_FAILED" in str(error)


def test_silence_in_the_login_ends_it_at_the_deadline_of_the_connection() -> None:
    play = LoginPlay().negotiated()
    error = end_of(play.pass_ms(10_000))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL
    assert "did not complete the authentication (SASL) within 10 s" in str(error)


def test_a_token_that_does_not_come_ends_it_at_the_deadline_of_the_connection() -> None:
    play = LoginPlay().connect()
    actions = play.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS))
    assert actions == [NeedMechanism(deadline_ms=11_000)]
    error = end_of(play.pass_ms(10_000))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL
    assert "the credentials (token or ticket) for broker.test:9092 were not available within 10 s" in str(error)


def test_without_a_token_the_broker_is_not_asked_for_a_login() -> None:
    play = LoginPlay().connect()
    play.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS))
    assert end_of(play.receive(MechanismFailed(AuthenticationError("no token")))).args == ("no token",)
    assert play.asked == [18]


@pytest.mark.parametrize("lost", [None, NetworkError("reset", stage=Stage.REQUEST)])
def test_a_link_lost_in_the_login_says_so(lost: NetworkError | None) -> None:
    error = end_of(LoginPlay().negotiated().receive(LinkLost(lost)))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL
    assert "during the authentication" in str(error)


def test_garbage_in_the_login_ends_it() -> None:
    error = end_of(LoginPlay().negotiated().answer_bytes(b"\0"))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL


def test_a_broker_without_logins_is_named() -> None:
    play = LoginPlay().connect()
    apis = [api for api in ALL_APIS if api.api_key != HANDSHAKE]
    assert [type(action) for action in play.answer(ApiVersionsResponse(error_code=0, api_keys=apis))] == [NeedMechanism]
    error = end_of(play.receive(MechanismReady(plain())))
    assert isinstance(error, UnsupportedVersionError)
    assert "does not offer SaslHandshake" in str(error)


# -- renewing ------------------------------------------------------------------------------------------------------


def test_a_login_is_renewed_after_a_share_of_its_life_when_all_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    play = LoginPlay().logged_in()
    play.pass_ms(LIFETIME_MS * 0.9 - 1)
    play.submit("before")
    play.pass_ms(1)
    with caplog.at_level(logging.DEBUG, "kafkaraw.core"):
        assert [type(action) for action in play.submit("after")] == [NeedMechanism]
        assert play.receive(MechanismReady(plain())) == []  # "before" is not answered yet
        assert [type(action) for action in play.answer(metadata())] == [Succeed, Send]
        play.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
        assert [type(action) for action in play.answer(accepted())] == [Send]
    assert play.asked[3:] == [METADATA, HANDSHAKE, AUTHENTICATE, METADATA]
    assert [type(action) for action in play.answer(metadata())] == [Succeed]
    states = [record.getMessage().rpartition(" ")[2] for record in caplog.records]
    assert [state for state in states if state.isupper()] == [
        "DRAINING",
        "REAUTHENTICATING",
        "REAUTH_PROCESS_ORIG_APIVERSIONS_RESPONSE",
        "REAUTH_SEND_HANDSHAKE_REQUEST",
        "REAUTH_RECEIVE_HANDSHAKE_OR_OTHER_RESPONSE",
        "REAUTH_INITIAL",
        "INTERMEDIATE",
        "COMPLETE",
        "READY",
    ]


def test_a_renewed_login_is_renewed_again() -> None:
    play = LoginPlay().logged_in()
    for _ in range(3):
        play.pass_ms(LIFETIME_MS)
        play.submit()
        play.receive(MechanismReady(plain()))
        play.let_in()
        assert play.answer(metadata()) == [Succeed("key", metadata())]
    assert play.asked.count(HANDSHAKE) == 4
    assert sum(isinstance(action, BecomeReady) for action in play.done) == 1


def test_a_login_without_an_end_is_never_renewed() -> None:
    play = LoginPlay().logged_in(0)
    play.pass_ms(10**9)
    assert [type(action) for action in play.submit()] == [Send]


def test_an_idle_connection_renews_nothing() -> None:
    play = LoginPlay().logged_in()
    assert play.machine.deadline_ms() is None
    assert play.pass_ms(LIFETIME_MS * 2) == []
    assert [type(action) for action in play.submit()] == [NeedMechanism]


def test_a_refused_renewal_ends_the_connection_once_and_every_waiting_request_with_its_error() -> None:
    play = LoginPlay().logged_in()
    play.pass_ms(LIFETIME_MS)
    for key in ("a", "b"):
        play.submit(key)
    play.receive(MechanismReady(plain()))
    play.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    actions = play.answer(refused("Cannot change principals during re-authentication"))
    error = end_of(actions)
    assert isinstance(error, AuthenticationError)
    assert "re-authentication failed: Cannot change principals" in str(error)
    assert {key: type(each) for key, each in failures(actions).items()} == dict.fromkeys("ab", AuthenticationError)
    assert play.receive(MechanismReady(plain())) == play.receive(LinkLost(None)) == []


def test_a_login_that_cannot_be_had_ends_the_connection() -> None:
    play = LoginPlay().logged_in()
    play.pass_ms(LIFETIME_MS)
    play.submit()
    gone = AuthenticationError("no token")
    actions = play.receive(MechanismFailed(gone))
    assert end_of(actions) is gone
    assert isinstance(failures(actions)["key"], AuthenticationError)


def test_closing_wins_over_a_renewal_under_way() -> None:
    for steps in range(3):
        play = LoginPlay().logged_in()
        play.pass_ms(LIFETIME_MS)
        play.submit()
        if steps > 0:
            play.receive(MechanismReady(plain()))
        if steps > 1:
            play.answer(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
        actions = play.receive(CloseRequested())
        assert isinstance(failures(actions)["key"], ClosedError)
        assert isinstance(end_of(actions), ClosedError)
        assert play.receive(MechanismReady(plain())) == play.receive(MechanismFailed(ClosedError("x"))) == []


def test_a_renewals_token_that_does_not_come_ends_it_at_the_login_timeout() -> None:
    play = LoginPlay(login_timeout_ms=3000).logged_in()
    play.submit("slow", timeout_ms=60_000)
    play.pass_ms(LIFETIME_MS)
    assert play.submit("waiting") == [NeedMechanism(play.now_ms + 3000)]
    error = end_of(play.pass_ms(3000))
    assert isinstance(error, NetworkError)
    assert "were not available within 3 s" in str(error)


def test_silence_in_a_renewal_ends_it_at_the_login_timeout() -> None:
    play = LoginPlay(login_timeout_ms=3000).logged_in()
    play.pass_ms(LIFETIME_MS)
    play.submit()
    play.pass_ms(1000)
    play.receive(MechanismReady(plain()))
    assert play.machine.deadline_ms() == play.now_ms + 3000
    error = end_of(play.pass_ms(3000))
    assert isinstance(error, NetworkError)
    assert (error.stage, "within 3 s" in str(error)) == (Stage.SASL, True)


def test_a_request_that_waits_for_a_renewal_keeps_its_deadline() -> None:
    play = LoginPlay().logged_in()
    play.pass_ms(LIFETIME_MS)
    play.submit("impatient", timeout_ms=100)
    play.receive(MechanismReady(plain()))
    error = failures(play.pass_ms(100))["impatient"]
    assert isinstance(error, KafkaTimeoutError)
    assert "could not be sent" in str(error)
    assert "re-authenticating" in str(error)
    play.let_in()
    assert play.state is S.READY
    assert play.asked[-1] == AUTHENTICATE


def test_a_throttled_connection_renews_when_it_may_send_again() -> None:
    play = LoginPlay().logged_in()
    play.submit("last", timeout_ms=60_000)
    play.pass_ms(LIFETIME_MS)
    play.submit("next", timeout_ms=60_000)
    play.receive(MechanismReady(plain()))
    throttled = metadata(throttle_time_ms=500)
    assert [type(action) for action in play.answer(throttled)] == [Succeed]
    assert play.machine.deadline_ms() == play.now_ms + 500
    assert play.pass_ms(499) == []
    assert [type(action) for action in play.pass_ms(1)] == [Send]
    play.let_in()
    assert play.asked[-3:] == [HANDSHAKE, AUTHENTICATE, METADATA]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(["submit", "answer", "pass", "login"]), max_size=60))
def test_each_request_is_settled_once_and_none_is_sent_while_reauthenticating(steps: list[str]) -> None:
    play = LoginPlay(max_in_flight=2).logged_in()
    unanswered: list[int] = []
    number = 0
    for step in steps:
        renewing, before = play.state in (S.DRAINING, S.REAUTHENTICATING), len(play.sent)
        match step:
            case "submit":
                number += 1
                play.submit(number, timeout_ms=10**7)
            case "answer" if unanswered:
                header = play.sent[unanswered.pop(0)][0]
                answers = {HANDSHAKE: SaslHandshakeResponse(error_code=0, mechanisms=[]), AUTHENTICATE: accepted()}
                play.answer(answers.get(header.api_key, metadata()), to=index_of(play, header))
            case "pass":
                play.pass_ms(4000)
            case "login" if play.state is S.DRAINING:
                play.receive(MechanismReady(plain()))
        unanswered += range(before, len(play.sent))
        if renewing and play.state in (S.DRAINING, S.REAUTHENTICATING):
            assert all(key != METADATA for key in play.asked[before:])
        if play.state is S.CLOSED:
            break
    settled = [action.key for action in play.done if isinstance(action, Succeed | Fail)]
    assert len(settled) == len(set(settled))
    closing = play.receive(CloseRequested())
    settled += [action.key for action in closing if isinstance(action, Fail)]
    assert sorted(settled) == list(range(1, number + 1))  # type: ignore[type-var]


def index_of(play: Play, header: RequestHeader) -> int:
    return next(index for index, (sent, _) in enumerate(play.sent) if sent is header)


# -- tokens without a Kafka header, for brokers before 1.0 -----------------------------------------------------------


def frames_of(actions: list[object]) -> list[bytes]:
    return [b"".join(action.segments) for action in actions if isinstance(action, Send)]  # type: ignore[arg-type]


class BareFrames(LoginPlay):
    """Does not look for a Kafka header in what comes after the handshake."""

    def take(self) -> list[object]:
        return list(self.machine.actions())

    def say(self, token: bytes) -> list[object]:
        self.machine.receive(FrameReceived(memoryview(token)), self.now_ms)
        return self.take()

    def handshaken(self, mechanism: object) -> list[object]:
        self.negotiated(0, mechanism)
        header = self.sent[-1][0]
        assert (header.api_key, header.api_version) == (HANDSHAKE, 0)
        answer = encode_response(
            ResponseHeader(header.correlation_id), SaslHandshakeResponse(error_code=0, mechanisms=[]), 0
        )
        self.machine.receive(FrameReceived(memoryview(answer)), self.now_ms)
        return self.take()


def test_after_handshake_v0_tokens_are_frames_of_their_own() -> None:
    play = BareFrames()
    assert frames_of(play.handshaken(plain())) == [b"\0ada\0s3cret"]
    assert [type(action) for action in play.say(b"")] == [BecomeReady]
    assert [type(action) for action in play.submit()] == [Send]
    assert play.asked[-1] == METADATA


def test_scram_goes_to_and_fro_in_bare_tokens() -> None:
    credential = make_credential("SCRAM-SHA-256", "s3cret", b"salt")
    server = ScramServer("SCRAM-SHA-256", {"ada": credential}.get, "server")
    play = BareFrames()
    actions = play.handshaken(ScramClient("SCRAM-SHA-256", "ada", "s3cret", "client"))
    for _ in range(2):
        (token,) = frames_of(actions)
        actions = play.say(server.step(token))
    assert [type(action) for action in actions] == [BecomeReady]


def test_a_connection_closed_after_a_bare_token_is_an_authentication_error() -> None:
    play = BareFrames()
    play.handshaken(plain())
    play.machine.receive(LinkLost(None), play.now_ms)
    (end,) = play.take()
    assert isinstance(end, End)
    assert isinstance(end.error, AuthenticationError)
    assert PEER in str(end.error)
    assert "brokers before Kafka 1.0" in str(end.error)


def test_silence_after_a_bare_token_ends_it() -> None:
    play = BareFrames()
    play.handshaken(plain())
    error = end_of(play.pass_ms(10_000))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.SASL
