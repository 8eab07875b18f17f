"""The connection machine, event by event and byte by byte: no socket, no loop, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.connection import CORRELATION_ID_MAX, TRANSITIONS, ConnectionMachine, ConnectionState
from kafkaraw.core.connection_events import (
    Abandon,
    Action,
    BecomeReady,
    BytesLeft,
    CloseRequested,
    ConnectionLimits,
    End,
    Fail,
    FrameReceived,
    LinkLost,
    LinkMade,
    Send,
    SendOneway,
    Submit,
    Succeed,
)
from kafkaraw.core.negotiation import BINDING_SINCE
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol import (
    RequestHeader,
    ResponseHeader,
    decode_request,
    decode_request_header,
    encode_response,
)
from kafkaraw.protocol.apis import API_TABLE
from kafkaraw.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.protocol.messages.produce import ProduceRequest
from tests.examples import examples

PEER = "broker.test:9092"
ALL_APIS = [
    ApiVersion(api_key=api.key, min_version=api.supported.min, max_version=api.supported.max) for api in API_TABLE
]
# What librdkafka's mock cluster answers to ApiVersions v3 and v4: an error code, then neither v0 nor v3.
MALFORMED_REFUSAL = bytes.fromhex("0023 01 0012 0000 0002 00000000")


class Play:
    """A machine with a hand-held broker: collects what it does, answers what it sent."""

    def __init__(self, **limits: float | str) -> None:
        self.machine = ConnectionMachine(PEER, ConnectionLimits(client_id="me", **limits))  # type: ignore[arg-type]
        self.done: list[Action] = []
        self.sent: list[tuple[RequestHeader, bytes]] = []
        self.now_ms = 1000.0

    def collect(self) -> list[Action]:
        actions = self.machine.actions()
        for action in actions:
            if isinstance(action, Send | SendOneway):
                frame = b"".join(action.segments)  # type: ignore[arg-type]
                self.sent.append((decode_request_header(frame)[0], frame))
        self.done += actions
        return actions

    def receive(self, event: object) -> list[Action]:
        self.machine.receive(event, self.now_ms)  # type: ignore[arg-type]
        return self.collect()

    def pass_ms(self, ms: float) -> list[Action]:
        self.now_ms += ms
        self.machine.tick(self.now_ms)
        return self.collect()

    def connect(self) -> Play:
        self.receive(LinkMade(self.now_ms + 10_000))
        return self

    def answer(self, message: object, *, to: int = -1, correlation_id: int | None = None) -> list[Action]:
        header = self.sent[to][0]
        reply = ResponseHeader(header.correlation_id if correlation_id is None else correlation_id)
        return self.receive(FrameReceived(memoryview(encode_response(reply, message, header.api_version))))

    def answer_bytes(self, body: bytes) -> list[Action]:
        header = self.sent[-1][0]
        return self.receive(FrameReceived(memoryview(header.correlation_id.to_bytes(4, "big") + body)))

    def ready(self) -> Play:
        self.connect()
        self.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS))
        return self

    def submit(self, key: object = "key", message: object | None = None, **more: object) -> list[Action]:
        message = MetadataRequest(topics=[]) if message is None else message
        return self.receive(Submit(key, message, more.pop("version", None), more.pop("timeout_ms", 5000), **more))  # type: ignore[arg-type]

    @property
    def state(self) -> ConnectionState:
        return self.machine.state


def failures(actions: list[Action]) -> dict[object, KafkaError]:
    return {action.key: action.error for action in actions if isinstance(action, Fail)}


def end_of(actions: list[Action]) -> KafkaError:
    ends = [action.error for action in actions if isinstance(action, End)]
    assert len(ends) == 1
    assert isinstance(actions[-1], End)
    return ends[0]


def metadata(**more: int) -> MetadataResponse:
    return MetadataResponse(brokers=[], topics=[], **more)


# -- negotiation ---------------------------------------------------------------------------------------------------


def test_the_highest_api_versions_is_asked_first_and_says_who_we_are() -> None:
    play = Play().connect()
    header, frame = play.sent[0]
    assert (header.api_key, header.api_version, header.client_id) == (18, 4, "me")
    request = decode_request(frame)[1]
    assert isinstance(request, ApiVersionsRequest)
    assert request.client_software_name == "kafkaraw"
    assert play.state is ConnectionState.NEGOTIATING


def test_the_answer_makes_it_ready() -> None:
    play = Play().ready()
    assert isinstance(play.done[-1], BecomeReady)
    assert play.state is ConnectionState.READY
    assert play.machine.version_for(3) == 13
    assert play.machine.deadline_ms() is None


def test_a_refusal_in_v0_is_followed_to_the_version_it_offers() -> None:
    play = Play().connect()
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    play.answer_bytes(encode_response(ResponseHeader(0), refusal, 0)[4:])
    assert play.sent[-1][0].api_version == 2
    play.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS))
    assert play.state is ConnectionState.READY


@pytest.mark.parametrize(
    "refusal",
    [
        MALFORMED_REFUSAL,
        b"\0\x23",
        b"\0\x23\0\0\0\0",
        b"\0\x23" + bytes.fromhex("00000001 0012 0000 0007"),  # offers what it has just refused
        b"\0\x23" + bytes.fromhex("00000001 0012 ffff ffff"),
    ],
)
def test_any_other_refusal_is_followed_by_v0(refusal: bytes) -> None:
    play = Play().connect()
    play.answer_bytes(refusal)
    assert play.sent[-1][0].api_version == 0
    play.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS))
    assert play.state is ConnectionState.READY


def test_a_broker_that_refuses_api_versions_v0_ends_the_connection() -> None:
    play = Play().connect()
    play.answer_bytes(MALFORMED_REFUSAL)
    error = end_of(play.answer_bytes(MALFORMED_REFUSAL))
    assert isinstance(error, UnsupportedVersionError)
    assert PEER in str(error)
    assert len(play.sent) == 2


def test_another_error_code_is_passed_on() -> None:
    play = Play().connect()
    error = end_of(play.answer_bytes(b"\0\x1f\0\0\0\0"))
    assert isinstance(error, BrokerError)
    assert (error.code, error.name) == (31, "CLUSTER_AUTHORIZATION_FAILED")


def test_silence_ends_at_the_deadline_and_is_named() -> None:
    play = Play().connect()
    assert play.machine.deadline_ms() == 11_000
    assert play.pass_ms(9_999) == []
    error = end_of(play.pass_ms(1))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.API_VERSIONS
    assert f"{PEER} accepted the connection but did not answer ApiVersions within 10 s" in str(error)


@pytest.mark.parametrize("frame", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\0\0\0", b"hello, I am a chat server"])
def test_garbage_instead_of_the_answer_is_a_protocol_error_that_names_the_peer(frame: bytes) -> None:
    error = end_of(Play().connect().receive(FrameReceived(memoryview(frame))))
    assert isinstance(error, ProtocolError)
    assert PEER in str(error)


def test_an_answer_cut_at_any_byte_is_a_protocol_error() -> None:
    whole = encode_response(ResponseHeader(0), ApiVersionsResponse(error_code=0, api_keys=ALL_APIS), 4)
    for size in range(len(whole)):
        error = end_of(Play().connect().receive(FrameReceived(memoryview(whole)[:size])))
        assert isinstance(error, ProtocolError), size


def test_a_stranger_recognised_by_the_link_is_a_protocol_error() -> None:
    error = end_of(Play().connect().receive(LinkLost(ProtocolError("the other side speaks HTTP, not Kafka", offset=0))))
    assert isinstance(error, ProtocolError)
    assert f"{PEER} is not a Kafka broker: the other side speaks HTTP" in str(error)


def test_a_peer_that_hangs_up_instead_of_answering_is_named() -> None:
    error = end_of(Play().connect().receive(LinkLost(None)))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.API_VERSIONS
    assert f"{PEER} closed the connection instead of answering" in str(error)


def test_a_link_that_ends_with_its_own_loop_is_no_doing_of_the_peer() -> None:
    for play in (Play().connect(), Play().ready()):
        ended = ClosedError("the loop ends")
        assert end_of(play.receive(LinkLost(ended))) is ended


def test_a_reset_during_negotiation_is_put_at_that_stage() -> None:
    error = end_of(Play().connect().receive(LinkLost(NetworkError("reset", stage=Stage.REQUEST))))
    assert isinstance(error, NetworkError)
    assert error.stage is Stage.API_VERSIONS


def test_no_request_goes_out_before_the_versions_are_known() -> None:
    play = Play().connect()
    assert isinstance(failures(play.submit())["key"], UsageError)
    assert isinstance(failures(play.submit(version=3))["key"], UsageError)


# -- versions ------------------------------------------------------------------------------------------------------


def narrow(low: int, high: int) -> Play:
    play = Play().connect()
    offer = [ApiVersion(api_key=3, min_version=low, max_version=high)]
    play.answer(ApiVersionsResponse(error_code=0, api_keys=offer))
    return play


def test_the_highest_common_version_is_used() -> None:
    play = narrow(2, 7)
    play.submit()
    assert play.sent[-1][0].api_version == 7


def test_a_broker_from_the_future_is_spoken_to_in_our_highest() -> None:
    assert narrow(0, 99).machine.version_for(3) == 13


def test_without_a_common_version_both_ranges_are_named() -> None:
    play = narrow(90, 99)
    error = failures(play.submit())["key"]
    assert isinstance(error, UnsupportedVersionError)
    assert "90-99" in str(error) and "0-13" in str(error) and PEER in str(error)
    assert play.state is ConnectionState.READY


def test_an_api_that_the_broker_lacks_is_named() -> None:
    with pytest.raises(UnsupportedVersionError, match="does not offer CreateTopics"):
        narrow(0, 9).machine.version_for(19)
    with pytest.raises(UnsupportedVersionError, match="API 999"):
        narrow(0, 9).machine.version_for(999)


def test_a_version_asked_for_must_be_offered() -> None:
    play = narrow(2, 7)
    assert isinstance(failures(play.submit(version=8))["key"], UnsupportedVersionError)
    play.submit(version=5)
    assert play.sent[-1][0].api_version == 5


def test_a_message_that_does_not_fit_its_version_fails_alone() -> None:
    play = Play().ready()
    odd = MetadataRequest(topics=[], include_topic_authorized_operations=True)
    assert isinstance(failures(play.submit("odd", odd, version=1))["odd"], ProtocolError)
    play.submit("fine")
    assert Succeed("fine", metadata()) in play.answer(metadata())


# -- requests and answers ------------------------------------------------------------------------------------------


def test_answers_go_to_their_requests_in_order() -> None:
    play = Play().ready()
    for key in ("a", "b", "c"):
        play.submit(key)
    for at, key in enumerate(("a", "b", "c"), start=1):
        (action,) = play.answer(metadata(controller_id=at), to=at)
        assert isinstance(action, Succeed)
        assert (action.key, action.response) == (key, metadata(controller_id=at))
    assert play.machine.deadline_ms() is None


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    play = Play(max_in_flight=2).ready()
    for key in range(5):
        play.submit(key)
    assert len(play.sent) == 1 + 2
    actions = play.answer(metadata(), to=1)
    assert [type(action) for action in actions] == [Succeed, Send]
    assert [header.correlation_id for header, _ in play.sent[1:]] == [1, 2, 3]


def test_an_answer_with_another_correlation_id_ends_the_connection() -> None:
    play = Play().ready()
    play.submit("a")
    play.submit("b")
    actions = play.answer(metadata(), to=1, correlation_id=2)
    lost = failures(actions)
    assert set(lost) == {"a", "b"}
    assert all(isinstance(error, NetworkError) for error in lost.values())
    error = end_of(actions)
    assert isinstance(error, NetworkError)
    assert "out of step: correlation id 2, not 1" in str(error)
    assert isinstance(error.__cause__, ProtocolError)


def test_a_response_without_a_pending_request_ends_the_connection() -> None:
    play = Play().ready()
    error = end_of(play.receive(FrameReceived(memoryview(b"\0\0\0\7what?"))))
    assert "without a pending request" in str(error)


def test_an_answer_cut_at_any_byte_fails_its_request_and_ends_the_connection() -> None:
    whole = encode_response(ResponseHeader(1), metadata(), 13)
    for size in range(len(whole)):
        play = Play().ready()
        play.submit("cut")
        play.submit("behind")
        actions = play.receive(FrameReceived(memoryview(whole)[:size]))
        assert isinstance(failures(actions)["cut"], (ProtocolError, NetworkError))
        assert isinstance(failures(actions)["behind"], NetworkError)
        assert isinstance(end_of(actions), NetworkError)


def test_an_unreadable_answer_names_api_version_and_broker() -> None:
    play = Play().ready()
    play.submit()
    error = failures(play.answer_bytes(b"\0" * 5 + b"\xff" * 9))["key"]
    assert isinstance(error, ProtocolError)
    assert f"{PEER}: response to Metadata v13" in str(error)


def test_a_peer_that_closes_fails_exactly_what_is_unanswered() -> None:
    play = Play(max_in_flight=2).ready()
    for key in ("answered", "in flight", "too", "waiting"):
        play.submit(key)
    play.answer(metadata(), to=1)
    actions = play.receive(LinkLost(None))
    lost = failures(actions)
    assert set(lost) == {"in flight", "too", "waiting"}
    assert "Metadata v13 was not answered" in str(lost["in flight"])
    assert "Metadata v13 was not sent" in str(lost["waiting"])
    assert len({id(error) for error in lost.values()}) == 3
    assert isinstance(end_of(actions), NetworkError)


def test_after_the_end_every_request_fails_and_nothing_else_happens() -> None:
    play = Play().ready()
    play.receive(LinkLost(None))
    assert isinstance(failures(play.submit())["key"], NetworkError)
    assert play.receive(LinkLost(None)) == []
    assert play.receive(FrameReceived(memoryview(b"late"))) == []
    assert play.receive(CloseRequested()) == []
    assert play.pass_ms(1e9) == []
    assert play.machine.deadline_ms() is None


def test_closing_fails_what_is_unanswered_as_closed() -> None:
    play = Play().ready()
    play.submit()
    actions = play.receive(CloseRequested())
    assert isinstance(failures(actions)["key"], ClosedError)
    assert isinstance(end_of(actions), ClosedError)


def test_a_oneway_request_takes_no_answer_and_succeeds_when_its_bytes_have_left() -> None:
    play = Play(max_in_flight=1).ready()
    produce = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    assert [type(action) for action in play.submit("oneway", produce, oneway=True, version=9)] == [SendOneway]
    play.submit("asked")
    assert [type(action) for action in play.answer(metadata())] == [Succeed]
    assert play.receive(BytesLeft()) == [Succeed("oneway", None)]
    assert play.machine.deadline_ms() is None


def test_a_peer_that_does_not_take_a_oneway_request_in_time_ends_the_connection() -> None:
    play = Play().ready()
    produce = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    for key in ("left", "stuck"):
        play.submit(key, produce, oneway=True, version=9, timeout_ms=2000)
    play.receive(BytesLeft())
    assert play.machine.deadline_ms() == play.now_ms + 2000
    assert play.pass_ms(1999) == []
    actions = play.pass_ms(1)
    assert list(failures(actions)) == ["stuck"]
    assert "did not accept the bytes of Produce v9 within 2 s" in str(failures(actions)["stuck"])
    assert isinstance(end_of(actions), NetworkError)
    assert play.receive(BytesLeft()) == []


def test_an_abandoned_oneway_request_reports_no_outcome() -> None:
    play = Play().ready()
    play.submit("oneway", ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), oneway=True, version=9)
    play.receive(Abandon("oneway"))
    assert play.machine.deadline_ms() is None
    assert play.receive(BytesLeft()) == []


def test_a_oneway_request_keeps_its_place_in_the_order() -> None:
    play = Play(max_in_flight=1).ready()
    play.submit("first")
    play.submit("second")
    play.submit("oneway", ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), oneway=True, version=9)
    play.answer(metadata(), to=1)
    play.answer(metadata(), to=2)
    assert [header.api_key for header, _ in play.sent] == [18, 3, 3, 0]


def test_correlation_ids_start_again_below_those_kept_for_authentication() -> None:
    play = Play(first_correlation_id=CORRELATION_ID_MAX - 1).ready()
    play.submit("a")
    play.submit("b")
    assert [header.correlation_id for header, _ in play.sent] == [CORRELATION_ID_MAX - 1, CORRELATION_ID_MAX, 0]


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_request_fails_at_its_deadline_and_its_late_answer_is_thrown_away() -> None:
    play = Play().ready()
    play.submit("slow", timeout_ms=100)
    play.submit("patient")
    assert play.machine.deadline_ms() == play.now_ms + 100
    error = failures(play.pass_ms(100))["slow"]
    assert isinstance(error, KafkaTimeoutError)
    assert str(error) == f"{PEER} did not answer Metadata v13 within 0.1 s"
    assert play.state is ConnectionState.READY
    assert play.answer(metadata(), to=1) == []
    assert play.answer(metadata(), to=2) == [Succeed("patient", metadata())]


def test_a_request_that_never_gets_its_turn_says_so() -> None:
    play = Play(max_in_flight=1).ready()
    play.submit("first", timeout_ms=10_000)
    play.submit("second", timeout_ms=100)
    assert "could not be sent" in str(failures(play.pass_ms(100))["second"])
    assert play.answer(metadata(), to=1) == [Succeed("first", metadata())]
    assert len(play.sent) == 2


def test_a_connection_with_an_overdue_response_and_no_data_is_closed() -> None:
    play = Play(request_timeout_ms=30_000).ready()
    play.submit("short", timeout_ms=100)
    play.submit("long", timeout_ms=60_000)
    play.pass_ms(100)
    assert play.machine.deadline_ms() == play.now_ms - 100 + 30_000
    actions = play.pass_ms(29_900)
    assert isinstance(failures(actions)["long"], NetworkError)
    assert "has not responded to Metadata v13 and has sent nothing for 30 s" in str(end_of(actions))


def test_a_long_wait_that_was_asked_for_is_not_silence() -> None:
    play = Play(request_timeout_ms=1000).ready()
    play.submit("long poll", timeout_ms=60_000)
    assert play.pass_ms(59_999) == []
    assert play.answer(metadata()) == [Succeed("long poll", metadata())]


def test_answers_are_signs_of_life() -> None:
    play = Play(request_timeout_ms=1000).ready()
    for key in range(3):
        play.submit(key, timeout_ms=100)
    for at in (1, 2):
        play.pass_ms(900)
        play.answer(metadata(), to=at)
    play.pass_ms(900)
    assert play.state is ConnectionState.READY
    assert isinstance(end_of(play.pass_ms(100)), NetworkError)


def test_the_response_of_an_abandoned_request_is_dropped() -> None:
    play = Play(max_in_flight=1).ready()
    play.submit("sent")
    play.submit("waiting")
    assert play.receive(Abandon("sent")) == []
    play.receive(Abandon("waiting"))
    assert play.answer(metadata(), to=1) == []
    assert len(play.sent) == 2
    assert play.machine.deadline_ms() is None
    assert [type(action) for action in play.receive(LinkLost(None))] == [End]


# -- throttling (KIP-219) ------------------------------------------------------------------------------------------


def test_a_throttled_connection_sends_nothing_until_the_time_is_over() -> None:
    """KIP-219: the client keeps quiet, not the broker."""
    play = Play().ready()
    play.submit("a")
    play.answer(metadata(throttle_time_ms=500))
    assert play.state is ConnectionState.THROTTLED
    assert play.submit("b") == []
    assert play.machine.deadline_ms() == play.now_ms + 500
    assert play.pass_ms(499) == []
    assert [type(action) for action in play.pass_ms(1)] == [Send]
    assert play.state is ConnectionState.READY


def test_answers_under_way_still_come_while_throttled_and_the_longest_time_counts() -> None:
    play = Play().ready()
    play.submit("a")
    play.submit("b")
    play.answer(metadata(throttle_time_ms=500), to=1)
    play.answer(metadata(throttle_time_ms=100), to=2)
    assert play.machine.deadline_ms() == play.now_ms + 500


def test_before_kip_219_the_time_is_only_told() -> None:
    play = Play().ready()
    play.submit("a", version=BINDING_SINCE[3] - 1)
    play.answer(metadata(throttle_time_ms=500))
    assert play.state is ConnectionState.READY


# -- always --------------------------------------------------------------------------------------------------------


def test_no_transition_leaves_the_table() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert all(ConnectionState.CLOSED in after for state, after in TRANSITIONS.items() if after)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=64), st.booleans())
def test_any_bytes_give_an_answer_or_an_end_and_each_request_one_outcome(data: bytes, negotiated: bool) -> None:
    play = Play().ready() if negotiated else Play().connect()
    if negotiated:
        play.submit("a")
        play.submit("b")
    play.receive(FrameReceived(memoryview(data)))
    play.receive(LinkLost(None))
    assert play.state is ConnectionState.CLOSED
    assert sum(isinstance(action, End) for action in play.done) == 1
    outcomes = [action.key for action in play.done if isinstance(action, (Succeed, Fail))]
    assert sorted(outcomes) == (["a", "b"] if negotiated else [])  # type: ignore[type-var]


def test_a_throttle_time_in_the_answer_about_versions_holds_the_first_request_back() -> None:
    play = Play().connect()
    play.answer(ApiVersionsResponse(error_code=0, api_keys=ALL_APIS, throttle_time_ms=300))
    assert isinstance(play.done[-1], BecomeReady) and play.state is ConnectionState.THROTTLED
    assert play.submit() == []
    assert play.pass_ms(299) == []
    assert [type(action) for action in play.pass_ms(1)] == [Send]


def test_bytes_behind_an_answer_are_ignored_as_javas_clients_do() -> None:
    play = Play().ready()
    play.submit(message=MetadataRequest(topics=[]), version=1)
    header = play.sent[-1][0]
    body = encode_response(ResponseHeader(header.correlation_id), MetadataResponse(brokers=[], topics=[]), 1)
    (done,) = play.receive(FrameReceived(memoryview(body + b"\0\0\0")))
    assert isinstance(done, Succeed)
