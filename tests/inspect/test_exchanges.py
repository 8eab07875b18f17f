"""Connections as exchanges: each answer is matched with its request."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from kafkaraw.inspect.exchanges import (
    PENDING_MAX,
    Connection,
    Conversation,
    Exchange,
    ExchangeKind,
    Frame,
    stranger_in,
)
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.inspect.connections import ConnectionReader

GOLDEN = Path(__file__).parents[1] / "protocol" / "golden"
CONNECTION = Connection(1, "127.0.0.1:50112", "broker:9092", 3)


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def asked(message, version: int, correlation_id: int, client_id: str | None = "app") -> bytes:
    key = API_BY_NAME[type(message).__name__.removesuffix("Request")].key
    return sized(encode_request(RequestHeader(key, version, correlation_id, client_id), message))


def answered(message, version: int, correlation_id: int) -> bytes:
    return sized(encode_response(ResponseHeader(correlation_id), message, version))


def produce(acks: int, records: bytes = b"x" * 100) -> ProduceRequest:
    partitions = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1, topic_data=[TopicProduceData(name="flights", partition_data=partitions)]
    )


def metadata_of(*topics: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])


def read(*pieces: tuple[str, bytes]) -> tuple[ConnectionReader, list[Exchange]]:
    reader, found = ConnectionReader(CONNECTION), []
    for at, (end, data) in enumerate(pieces):
        found += (reader.from_client if end == "client" else reader.from_broker)(data, float(at))
    return reader, found


def test_answer_is_matched_and_decoded():
    topics = [MetadataResponseTopic(error_code=3, name="flights", partitions=[])]
    reader, (found,) = read(
        ("client", asked(metadata_of("flights", "weather"), 12, 7)),
        ("broker", answered(MetadataResponse(brokers=[], topics=topics, throttle_time_ms=20), 12, 7)),
    )
    assert (found.name, found.client_id, found.correlation_id) == ("Metadata v12", "app", 7)
    assert found.connection is CONNECTION
    assert found.latency_s == 1.0
    assert found.subjects.topics == ("flights", "weather")
    assert [(error.path, error.name) for error in found.errors] == [
        ("topics[0].error_code", "UNKNOWN_TOPIC_OR_PARTITION")
    ]
    assert found.throttle_time_ms == 20
    assert found.problem == ""
    assert not reader.conversation.pending


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_produce_without_acks_has_no_answer(version):
    reader, found = read(
        ("client", asked(produce(acks=0), version, 1)),
        ("client", asked(produce(acks=1), version, 2)),
    )
    assert [(one.correlation_id, one.is_answered, one.subjects.topics) for one in found] == [(1, False, ("flights",))]
    assert [one.correlation_id for one in reader.conversation.pending] == [2]


def test_refused_api_versions_is_read_in_version_0():
    refused = ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[])
    request = asked(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4, 1)
    _, (found,) = read(("client", request), ("broker", answered(refused, 0, 1)))
    assert found.response_version == 0
    assert [error.name for error in found.errors] == ["UNSUPPORTED_VERSION"]


def test_bare_tokens_end_with_the_first_request():
    reader, found = read(
        ("client", asked(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1)),
        ("broker", answered(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), 0, 1)),
        ("client", sized(b"\0alice\0secret")),
        ("broker", sized(b"")),
        ("client", asked(metadata_of("flights"), 9, 2)),
        ("broker", answered(MetadataResponse(brokers=[], topics=[]), 9, 2)),
    )
    assert [one.name for one in found] == ["SaslHandshake v0", "SASL token", "Metadata v9"]
    assert found[1].response_bytes == 4
    assert not reader.conversation.pending


def test_gssapi_token_without_handshake_is_a_token():
    _, (found,) = read(("client", sized(b"\x60\x82\x02\x7a\x06\x09\x2a\x86\x48")), ("broker", sized(b"\x60token")))
    assert found.kind is ExchangeKind.TOKEN


def test_reauthentication_is_ordinary_requests():
    pairs = (
        (SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), 1),
        (
            SaslAuthenticateRequest(auth_bytes=b"token"),
            SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b""),
            2,
        ),
    )
    pieces = []
    for number in range(4):
        request, response, version = pairs[number % 2]
        pieces += [("client", asked(request, version, number)), ("broker", answered(response, version, number))]
    _, found = read(*pieces)
    assert [one.name for one in found] == ["SaslHandshake v1", "SaslAuthenticate v2"] * 2


def test_skipped_requests_and_answers_without_request_are_said():
    response = answered(MetadataResponse(brokers=[], topics=[]), 9, 2)
    _, found = read(
        ("client", asked(metadata_of(), 9, 1) + asked(metadata_of(), 9, 2)), ("broker", response), ("broker", response)
    )
    assert [(one.correlation_id, one.kind.value) for one in found] == [
        (1, "request"),
        (2, "request"),
        (2, "answer without a request"),
    ]
    assert "answered a later request first" in found[0].ended
    assert found[0].response is None


def test_unknown_apis_and_versions_are_named_and_passed_over():
    header = struct.pack(">hhih", 120, 3, 1, 3) + b"app\0"
    _, found = read(
        ("client", sized(header) + sized(struct.pack(">hhih", 3, 99, 2, -1) + b"\0what")),
        ("broker", sized(struct.pack(">i", 1) + b"\0") + sized(struct.pack(">i", 2) + b"\0?")),
    )
    assert [(one.name, one.client_id, one.problem) for one in found] == [
        ("API 120 v3", "app", "API 120 v3 is not known here"),
        ("Metadata v99", None, "Metadata v99 is not known here, only 0-13"),
    ]
    assert found[0].subjects.topics == ()
    assert found[0].errors == []


def test_damaged_bodies_are_a_problem_of_the_exchange():
    request = bytearray(asked(metadata_of("flights"), 9, 1))
    request[-6] = 0xFF
    _, (found,) = read(("client", bytes(request)), ("broker", sized(struct.pack(">i", 1) + b"\xff\xff")))
    assert "request: " in found.problem
    assert "answer: " in found.problem
    assert found.request_body is None


def test_frame_that_is_too_short_for_a_request_is_passed_over():
    reader, _ = read(("client", sized(b"abc")))
    assert reader.conversation.pending[0].kind is ExchangeKind.UNKNOWN


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "a TLS handshake"),
        (b"GET / HTTP/1.1\r\n", "an HTTP request"),
        (b"\x7f\xff\xff\xff\x00", "frame of 2147483647 bytes, the limit is"),
        (b"\xff\xff\xff\xff\x00", "negative frame size -1"),
    ],
)
def test_other_protocols_and_absurd_sizes_are_named(data, words):
    assert words in stranger_in(data[:4], is_first=True)


def test_cut_produce_names_its_first_topic():
    request = asked(produce(acks=1, records=b"x" * 5000), 9, 1)[4:]
    found = Conversation(CONNECTION).request(Frame(request[:500], len(request), 0.0, 0.0))
    assert found.subjects.topics == ("flights",)
    assert "only the first 500 of" in found.problem


def test_requests_that_are_never_answered_are_given_up():
    reader = ConnectionReader(CONNECTION)
    request = asked(metadata_of(), 9, 1)
    dropped = reader.from_client(request * (PENDING_MAX + 5), 0.0)
    assert len(dropped) == 5
    assert len(reader.conversation.pending) == PENDING_MAX


def test_every_golden_frame_is_read():
    """What Apache Kafka and its clients have said to each other."""
    for path in sorted(GOLDEN.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        for number, line in enumerate(lines):
            frame = bytes.fromhex(line["frame"])
            if line["direction"] == "request":
                exchange = Conversation(CONNECTION).request(Frame(frame, len(frame), 0.0, 0.0))
                assert exchange.request_body is not None, (path.name, number, exchange.problem)
                assert not exchange.subjects.topics or "" not in exchange.subjects.topics
            else:
                exchange = Exchange(
                    CONNECTION, ExchangeKind.REQUEST, None, api_key=line["key"], version=line["version"]
                )
                exchange.response = Frame(frame, len(frame), 0.0, 0.0)
                assert exchange.response_body is not None, (path.name, number, exchange.problem)
                assert all(error.code for error in exchange.errors)


def test_groups_and_transactional_ids_are_found():
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="flights", partitions=[partition])]
    commit = OffsetCommitRequest(group_id="billing", topics=topics)
    reader, _ = read(
        ("client", asked(commit, 8, 1)),
        ("client", asked(FindCoordinatorRequest(key="tx", key_type=1), 3, 2)),
        ("client", asked(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4, 3)),
    )
    first, second, third = (one.subjects for one in reader.conversation.pending)
    assert (first.groups, first.topics) == (("billing",), ("flights",))
    assert second.transactional_ids == ("tx",)
    assert third.groups == ("a", "b")
