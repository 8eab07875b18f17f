"""What a terminal shows of an exchange, what it hides, and which exchanges it shows."""

from __future__ import annotations

import json
import struct

import pytest

from kafkaraw.inspect.exchanges import Connection, Exchange
from kafkaraw.inspect.tap.lines import Filter, Lines
from kafkaraw.inspect.tap.masking import masked_frames
from kafkaraw.inspect.tap.summary import Latencies, Summary
from kafkaraw.protocol import ResponseHeader, decode_request, decode_request_header, encode_response
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafkaraw.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkaraw.protocol.messages.metadata import MetadataResponseTopic as Topic
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkaraw.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkaraw.readable import latency_text, size_text
from kafkaraw.records import encode_batch
from tests.inspect.connections import ConnectionReader
from tests.inspect.tap.peers import asked, sized

SECRET = b"correct horse battery staple"
BEGAN_S = 1_700_000_000.0


def exchange(request, response, version: int, *, client_id: str | None = "app", at_s: float = BEGAN_S, number: int = 1):
    reader = ConnectionReader(Connection(number, "127.0.0.1:50112", "broker:9092", 3))
    reader.from_client(asked(request, version, 7, client_id), at_s)
    frame = encode_response(ResponseHeader(7), response, version) if not isinstance(response, bytes) else response
    (found,) = reader.from_broker(sized(frame), at_s + 0.0042)
    return found


def metadata(error_code: int = 0, **more) -> Exchange:
    topics = [Topic(error_code=error_code, name="flights", partitions=[])]
    return exchange(
        MetadataRequest(topics=[MetadataRequestTopic(name="flights")]),
        MetadataResponse(brokers=[], topics=topics),
        9,
        **more,
    )


def heartbeat(**more) -> Exchange:
    request = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    return exchange(request, HeartbeatResponse(error_code=0, throttle_time_ms=250), 4, **more)


def produce(records_count: int, **more) -> Exchange:
    batch = encode_batch([(0, None, b"v", [])] * records_count)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])]
    return exchange(ProduceRequest(acks=-1, timeout_ms=1, topic_data=data), ProduceResponse(responses=[]), 9, **more)


# -- lines ---------------------------------------------------------------------------------------------------------


def test_line_has_client_broker_api_sizes_latency_and_subject():
    (line,) = Lines().text(metadata()).splitlines()
    words = line.split()
    assert words[1:] == ["app", "3", "Metadata", "v9", "32", "B", ">", "42", "B", "4.20", "ms", "flights"]


def test_error_is_shown_with_its_meaning_and_place():
    line = Lines().text(metadata(error_code=3))
    assert "UNKNOWN_TOPIC_OR_PARTITION: this broker has no such topic" in line
    assert "(topics[0].error_code)" in line


def test_throttling_and_records_are_shown():
    assert "billing  throttled for 250 ms" in Lines().text(heartbeat())
    assert "t  3 records in 1 batch" in Lines().text(produce(3))


def test_control_characters_of_a_peer_do_not_reach_the_terminal():
    text = Lines(2).text(metadata(client_id="\x1b[2J\nforged"))
    assert "\x1b" not in text
    assert "\nforged" not in text


def test_fields_and_bytes_are_added():
    fields = Lines(1).text(metadata(error_code=3))
    assert "      topics[0].name = 'flights'" in fields
    assert "      topics[0].error_code = 3  (UNKNOWN_TOPIC_OR_PARTITION" in fields
    annotated = Lines(2).text(metadata())
    assert "66 6c 69 67 68 74 73" in annotated
    assert "request header v2" not in annotated.splitlines()[0]


def test_json_has_everything_for_programs():
    found = json.loads(Lines(1).json(metadata(error_code=3)))
    assert (found["api"], found["version"], found["client_id"], found["topics"]) == ("Metadata", 9, "app", ["flights"])
    assert found["errors"][0]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert found["latency_ms"] == 4.2
    assert found["request"]["topics"] == [{"name": "flights"}]
    assert found["response"]["topics"][0]["error_code"] == 3
    assert "request" not in json.loads(Lines().json(metadata()))


@pytest.mark.parametrize(
    ("fits", "shown"),
    [
        (Filter(), 2),
        (Filter(api_keys=frozenset({3})), 1),
        (Filter(client_ids=frozenset({"other"})), 0),
        (Filter(topics=frozenset({"flights"})), 1),
        (Filter(groups=frozenset({"billing"})), 1),
        (Filter(only_errors=True), 1),
        (Filter(slower_than_ms=4), 2),
        (Filter(slower_than_ms=5), 0),
    ],
)
def test_filter_chooses_exchanges(fits, shown):
    assert sum(map(fits.fits, (metadata(error_code=3), heartbeat()))) == shown


def test_sizes_and_durations_have_units():
    assert [size_text(size) for size in (0, 999, 1000, 202_033, 1_500_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "202 kB",
        "1.5 MB",
    ]
    assert [latency_text(seconds) for seconds in (0.00123, 1.5)] == ["1.23 ms", "1.50 s"]


# -- secrets -------------------------------------------------------------------------------------------------------


def scram() -> AlterUserScramCredentialsRequest:
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=SECRET
    )
    return AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])


def configs() -> IncrementalAlterConfigsRequest:
    change = AlterableConfig(name="ssl.key.password", config_operation=0, value=SECRET.decode())
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


SECRETIVE = {
    "token": lambda: exchange(
        SaslAuthenticateRequest(auth_bytes=SECRET),
        SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=SECRET),
        2,
    ),
    "scram": lambda: exchange(scram(), b"\0\0\0\x07" + SECRET, 0),
    "configs": lambda: exchange(configs(), b"\0\0\0\x07", 1),
    "cannot be read": lambda: exchange(SaslAuthenticateRequest(auth_bytes=SECRET), b"\0\0\0\x07\xff" + SECRET, 2),
}


@pytest.mark.parametrize("name", SECRETIVE)
def test_secrets_are_masked_unless_they_are_asked_for(name):
    found = SECRETIVE[name]()
    for lines in (Lines(1), Lines(2)):
        assert SECRET.decode() not in lines.text(found)
        assert SECRET.hex(" ")[:20] not in lines.text(found)
    assert SECRET.decode() not in Lines(1).json(found)
    assert SECRET.hex() not in Lines(1).json(found)
    shown = Lines(1, with_secrets=True)
    assert SECRET.decode() in shown.text(found) + shown.json(found)


def test_masked_frames_keep_their_size_and_can_be_decoded():
    found = SECRETIVE["scram"]()
    request, response = masked_frames(found)
    assert request is not None
    assert (len(request), len(response)) == (found.request.size_bytes, found.response.size_bytes)
    _, message = decode_request(request)
    assert message.upsertions[0].salted_password == b"*" * len(SECRET)
    assert message.upsertions[0].name == "alice"


@pytest.mark.parametrize("behind", [b"\0", SECRET])
def test_bytes_behind_a_message_are_masked_and_the_message_stays_readable(behind: bytes):
    """librdkafka sends some behind AlterUserScramCredentials."""
    whole = masked_frames(SECRETIVE["scram"]())[0]
    found = SECRETIVE["scram"]()
    found.request.data = bytes(found.request.data) + behind
    found.request.size_bytes += len(behind)
    assert masked_frames(found)[0] == whole + b"*" * len(behind)


def test_header_stays_readable_in_front_of_a_body_that_cannot_be_read():
    found = SECRETIVE["scram"]()
    found.request.data = bytes(found.request.data)[:-5]
    found.request.size_bytes -= 5
    masked = masked_frames(found)[0]
    header, at = decode_request_header(masked)
    assert header.client_id == found.client_id
    assert set(masked[at:]) == set(b"*")


def test_delegation_token_is_masked():
    response = CreateDelegationTokenResponse(
        error_code=0,
        principal_type="User",
        principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=1,
        max_timestamp_ms=1,
        token_id="id",
        hmac=SECRET,
        throttle_time_ms=0,
    )
    from kafkaraw.protocol.messages.create_delegation_token import CreateDelegationTokenRequest

    found = exchange(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), response, 2)
    assert SECRET not in masked_frames(found)[1]
    assert b"alice" in masked_frames(found)[1]


def test_bare_tokens_are_masked():
    from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest

    reader = ConnectionReader(Connection(1, "a:1", "b:2"))
    reader.from_client(asked(SaslHandshakeRequest(mechanism="PLAIN"), 0) + sized(b"\0alice\0" + SECRET), 0.0)
    token = reader.conversation.pending[1]
    assert masked_frames(token)[0] == b"*" * (7 + len(SECRET))


# -- summary -------------------------------------------------------------------------------------------------------


def test_summary_counts_by_client_and_api():
    summary = Summary()
    for found in (metadata(), metadata(error_code=3), heartbeat(client_id=None)):
        summary.add(found)
    first, second = summary.rows()
    assert (first["CLIENT"], first["API"], first["REQUESTS"]) == ("app", "Metadata", 2)
    assert first["ERRORS"] == {"UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert second["CLIENT"] == "127.0.0.1"
    assert summary.document()["uses"][0]["latency_ms"]["p50"] == pytest.approx(4.2, rel=0.06)


@pytest.mark.parametrize("client_id", ["c" * 30_000, "\x1b[2J\nforged" * 10])
def test_client_ids_of_any_kind_leave_the_terminal_readable(client_id: str):
    summary = Summary()
    for _ in range(3):
        summary.add(metadata(client_id=client_id, error_code=3))
    (row,) = summary.rows()
    for text in (row["CLIENT"], *summary.remarks(), Lines().text(metadata(client_id=client_id))):
        assert len(text) < 500
        assert text.rstrip("\n").isprintable()
    assert summary.document()["uses"][0]["client"] == client_id


def test_percentiles_are_exact_to_five_percent():
    latencies = Latencies()
    for number in range(1, 1001):
        latencies.add(number / 1000)
    for percent in (50, 95, 99):
        assert latencies.percentile(percent) == pytest.approx(percent / 100, rel=0.06)
    assert latencies.percentile(100) == latencies.max_s == 1.0


def remarks(*exchanges: Exchange) -> str:
    summary = Summary()
    for found in exchanges:
        summary.add(found)
    return "\n".join(summary.remarks())


def commit(at_s: float) -> Exchange:
    return exchange(OffsetCommitRequest(group_id="billing", topics=[]), OffsetCommitResponse(topics=[]), 8, at_s=at_s)


def join(generation: int) -> Exchange:
    request = JoinGroupRequest(
        group_id="billing", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[]
    )
    response = JoinGroupResponse(
        error_code=0, generation_id=generation, protocol_name="range", leader="m", member_id="m", members=[]
    )
    return exchange(request, response, 5)


@pytest.mark.parametrize(
    ("exchanges", "words"),
    [
        ([metadata(at_s=BEGAN_S + n) for n in range(10)], "app: asks for Metadata in 10 of 9 seconds"),
        ([produce(1) for _ in range(20)], "app: 20 of 20 batches have one record"),
        ([heartbeat()], "app: is throttled: 1 answers, for up to 250 ms"),
        ([commit(BEGAN_S + n / 10) for n in range(30)], "app: commits offsets 10 times a second"),
        ([metadata(number=n, at_s=BEGAN_S + n / 10) for n in range(30)], "app: opened 30 connections in 3 s"),
        ([join(generation) for generation in (4, 5, 6)], "group billing: 3 rebalances (generations 4 to 6)"),
        ([metadata(error_code=3)] * 2, "app: 2 x UNKNOWN_TOPIC_OR_PARTITION"),
        (
            [exchange(MetadataRequest(topics=[]), MetadataResponse(brokers=[], topics=[]), 9)],
            "",
        ),
        ([metadata(at_s=BEGAN_S + 300 * n) for n in range(10)], ""),
        ([produce(100) for _ in range(20)], ""),
    ],
)
def test_what_stands_out_is_said(exchanges, words):
    found = remarks(*exchanges)
    assert words in found if words else found == ""


def test_versions_that_kafka_has_removed_are_said():
    data = struct.pack(">hhih", 0, 2, 7, 3) + b"app" + struct.pack(">hii", 1, 1, 0)
    reader = ConnectionReader(Connection(1, "a:1", "b:2"))
    reader.from_client(sized(data), BEGAN_S)
    (found,) = reader.from_broker(sized(struct.pack(">iii", 7, 0, 0)), BEGAN_S)
    assert "uses versions that Kafka 4.0 has removed (KIP-896): Produce v2" in remarks(found)
