"""Captures are read as exchanges: on any port, from any point of a connection, with holes, which the reader names."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

import pytest

from kafkaraw.inspect.captures import CaptureReader, CaptureReport, GuessedResponse, Remark
from kafkaraw.inspect.exchanges import Exchange, ExchangeKind
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.inspect.conversations import prefixed, random_turns, request, response
from tests.inspect.packet_writing import Packet, packets_of, pcap

BROKERS = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=1, host="kafka-1.example.com", port=9092)],
    cluster_id="4Lt1mAhFQ3yNyLSwTwIK5g",
    controller_id=1,
    topics=[],
)

ASK = request(MetadataRequest(topics=None), 12, 1)
FETCH_HEAD = bytes(12)


def read(packets: Sequence[Packet], **options: int) -> tuple[CaptureReport, list[Exchange], list[str]]:
    return read_file(pcap(packets, **options))


def read_file(data: bytes) -> tuple[CaptureReport, list[Exchange], list[str]]:
    reader = CaptureReader(io.BytesIO(data))
    items = list(reader.read())
    exchanges = [item for item in items if isinstance(item, Exchange)]
    return reader.report, exchanges, [item.words for item in items if isinstance(item, Remark)]


@pytest.mark.parametrize("seed", range(3))
def test_every_exchange_of_a_whole_capture_is_read(seed: int):
    turns = random_turns(seed)
    report, exchanges, remarks = read(packets_of(turns, segment_size=200, server=("10.0.0.2", 31337)))
    assert [(True, prefixed(bytes(one.request.data))) for one in exchanges if one.request] == turns[::2]
    assert [(False, prefixed(bytes(one.response.data))) for one in exchanges if one.response] == turns[1::2]
    assert not remarks and not any(one.problem for one in exchanges)
    assert (report.kafka, report.exchanges, report.missing_bytes) == (1, len(turns) // 2, 0)


def test_a_capture_from_the_middle_is_read_from_the_first_request_on():
    turns = random_turns(1)
    packets = packets_of(turns, segment_size=200)
    begin = len(packets) // 3
    _, exchanges, remarks = read(packets[begin:])
    whole = [one for one in exchanges if one.request is not None and one.response is not None]
    sent = [prefixed(bytes(one.request.data)) for one in whole if one.request]
    assert len(whole) > len(turns) // 4
    assert sent == [data for speaker, data in turns if speaker][-len(sent) :]
    assert all("the capture begins within the connection" in words for words in remarks)


def test_a_capture_of_responses_alone_guesses_their_apis_and_says_how_sure_it_is():
    turns = [
        request(MetadataRequest(topics=None), 12, 7),
        response(BROKERS, 12, 7),
        request(MetadataRequest(topics=None), 12, 8),
        response(BROKERS, 12, 8),
    ]
    packets = [packet for packet in packets_of(turns, opened=False) if not packet.from_client]
    report, exchanges, remarks = read(packets)
    assert [type(one) for one in exchanges] == [GuessedResponse, GuessedResponse]
    assert exchanges[0].name == "Metadata response v11-12, guessed, 100% sure"
    assert exchanges[0].correlation_id == 7
    assert exchanges[0].response_body == BROKERS
    assert exchanges[0].connection.broker == "10.0.0.2:9092"
    assert (report.guessed, report.unknown, remarks) == (2, 0, [])


def test_a_response_that_fits_many_apis_is_guessed_with_little_certainty():
    turns = [(False, prefixed(bytes.fromhex("00000009 00000000 0000")))] * 3
    _, exchanges, _ = read(packets_of([ASK, *turns], opened=False))
    guessed = [one for one in exchanges if isinstance(one, GuessedResponse)]
    assert guessed and guessed[0].candidates[0].share < 0.5
    assert "sure" in guessed[0].name


@pytest.mark.parametrize("seed", range(3))
def test_lost_packets_cost_no_more_than_the_exchanges_that_they_belong_to(seed: int):
    turns = random_turns(seed)
    packets = packets_of(turns, segment_size=200)
    rng = random.Random(seed)
    data = [packet for packet in packets if packet.payload]
    lost = rng.sample(data, 3)
    report, exchanges, remarks = read([packet for packet in packets if packet not in lost])
    whole = [
        one for one in exchanges if one.request and one.response and not one.request.is_cut and not one.response.is_cut
    ]
    assert report.missing_bytes == sum(len(packet.payload) for packet in lost)
    assert len(whole) >= len(turns) // 2 - 2 * len(lost)
    notes = [frame.note for one in exchanges for frame in (one.request, one.response) if frame and frame.note]
    assert notes or remarks


def test_a_hole_within_a_frame_leaves_its_beginning_and_the_next_frame():
    records = bytes(range(256)) * 20
    fetched = (False, prefixed((1).to_bytes(4) + FETCH_HEAD + records))
    packets = packets_of([ASK, fetched, response(BROKERS, 12, 2)], segment_size=1000)
    answer = [packet for packet in packets if packet.payload and not packet.from_client]
    packets.remove(answer[2])
    _, exchanges, remarks = read(packets)
    frame = exchanges[0].response
    assert frame is not None
    assert len(frame.data) == 2000 - 4
    assert frame.note == "1000 of its bytes are missing in the capture, behind the first 1996"
    assert isinstance(exchanges[1], GuessedResponse)
    assert remarks == []


def test_snapshot_length_cuts_frames_and_keeps_their_headers():
    turns = random_turns(2)
    report, exchanges, _ = read(packets_of(turns), snap_size=14 + 20 + 20 + 60)
    assert [one.api_key for one in exchanges] == [int.from_bytes(data[4:6]) for speaker, data in turns if speaker]
    assert report.packets is not None
    assert report.packets.cut_bytes == report.missing_bytes > 0


def test_bare_sasl_tokens_of_handshake_version_0_are_tokens():
    turns = [
        request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1),
        response(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), 0, 1),
        (True, prefixed(b"\0alice\0secret")),
        (False, prefixed(b"")),
        request(MetadataRequest(topics=None), 9, 2),
        response(BROKERS, 9, 2),
    ]
    _, exchanges, remarks = read(packets_of(turns))
    assert [one.kind for one in exchanges] == [ExchangeKind.REQUEST, ExchangeKind.TOKEN, ExchangeKind.REQUEST]
    assert remarks == []


def test_gssapi_tokens_before_kip_43_are_the_first_frames():
    token = bytes.fromhex("6082012306092a864886f712010202") + bytes(100)
    turns = [
        (True, prefixed(token)),
        (False, prefixed(token[:50])),
        request(MetadataRequest(topics=[]), 0, 1),
        response(MetadataResponse(brokers=[], topics=[]), 0, 1),
    ]
    _, exchanges, _ = read(packets_of(turns))
    assert [one.name for one in exchanges] == ["SASL token", "Metadata v0"]


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (bytes.fromhex("00000008 04d2162f"), "another protocol"),  # PostgreSQL asks for TLS
        (
            bytes.fromhex("0000002c 00000000 0000000000000000 00007530 0000000000000000 00000010") + bytes(17),
            "another protocol",
        ),
        (random.Random(1).randbytes(3000), "another protocol"),
    ],
    ids=["HTTP", "SSH", "PostgreSQL", "ZooKeeper", "noise"],
)
def test_other_protocols_are_counted_beside_kafka(first: bytes, kind: str):
    other = packets_of([(True, first), (False, first)], client=("10.0.0.9", 40_000))
    kafka = packets_of(random_turns(3, 4))
    report, exchanges, remarks = read([*other, *kafka])
    assert report.others == {kind: 1}
    assert (report.connections, report.kafka, len(exchanges), remarks) == (2, 1, 4, [])


def test_a_tls_connection_is_counted_as_encrypted():
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(190)
    report, exchanges, _ = read(packets_of([(True, hello), (False, hello)]))
    assert (report.encrypted, report.kafka, exchanges) == (1, 0, [])


def test_a_request_with_an_error_in_it_is_kafka_all_the_same():
    # The compact length of the software's name says 63.
    data = bytes.fromhex("0000002b 0012 0003 00000000 0007 61646d696e2d31 00 40 6170616368652d6b61666b612d6a617661 06")
    report, exchanges, _ = read(packets_of([(True, data + bytes(100))]))
    assert report.kafka == 1
    assert "request: " in exchanges[0].problem


def test_produce_without_acks_has_no_answer_and_unanswered_requests_are_counted():
    turns = [request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, 1)]
    report, exchanges, _ = read(packets_of(turns))
    assert report.unanswered == 1
    assert exchanges[0].ended == "closed by both ends"


def test_frames_of_impossible_size_are_named():
    turns = [*random_turns(5, 2), (True, b"\x7f\xff\xff\xff" + bytes(40)), *random_turns(6, 2)]
    _, exchanges, remarks = read(packets_of(turns))
    assert len([one for one in exchanges if one.response]) == 4
    assert "no frame begins with 7f ff ff ff" in remarks[0]


def test_a_frame_that_the_capture_ends_in_is_kept_as_far_as_it_goes():
    body = bytes(100)
    turns = [ASK, (False, (20 << 20).to_bytes(4) + (1).to_bytes(4) + body)]
    _, exchanges, _ = read(packets_of(turns, closed=False))
    frame = exchanges[0].response
    assert frame is not None
    assert (frame.size_bytes, len(frame.data), frame.is_cut) == (20 << 20, 104, True)
    assert "ends 20971416 bytes before its end" in frame.note
