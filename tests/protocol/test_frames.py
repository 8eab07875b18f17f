"""Headers and whole messages: versions of headers, segments, and what sending refuses."""

from __future__ import annotations

import random

import pytest

from kafkaraw.errors import ProtocolError, UnsupportedVersionError
from kafkaraw.protocol import (
    FileSlice,
    RequestHeader,
    ResponseHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_segments,
    encode_response,
    encode_response_segments,
    segments_size,
)
from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.frames import request_header_version, response_header_version
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkaraw.protocol.messages.list_offsets import ListOffsetsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.protocol.message_values import random_message


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_whole_frames_survive_with_their_headers(api: Api) -> None:
    rng = random.Random(5)
    for version in range(api.versions.min, api.versions.max + 1):
        client_id = rng.choice((None, "", "me")) if request_header_version(api.key, version) else None
        header = RequestHeader(api.key, version, 77, client_id)
        request = random_message(api.request, version, rng)
        assert decode_request(encode_request(header, request)) == (header, request)
        response = random_message(api.response, version, rng)
        frame = encode_response(ResponseHeader(77), response, version)
        assert decode_response(frame, api.key, version) == (ResponseHeader(77), response)


def test_api_versions_has_response_header_0_even_when_flexible() -> None:
    assert [response_header_version(18, version) for version in range(5)] == [0] * 5
    assert [request_header_version(18, version) for version in range(5)] == [1, 1, 1, 2, 2]
    assert (request_header_version(3, 8), request_header_version(3, 9)) == (1, 2)
    assert (response_header_version(3, 8), response_header_version(3, 9)) == (0, 1)


def test_the_header_of_a_version_from_the_future_can_be_read() -> None:
    frame = b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x02me\x00rest"
    header, at = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 99, 7, "me")
    assert frame[at:] == b"rest"
    with pytest.raises(UnsupportedVersionError, match="ApiVersionsRequest has versions 0-5, not 99"):
        decode_request(frame)


def test_an_unknown_api_key_is_named() -> None:
    with pytest.raises(UnsupportedVersionError, match="API key 9999"):
        decode_request(b"\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff")


def test_tags_of_a_header_survive() -> None:
    header = RequestHeader(18, 4, 1, "x", {5: b"new", 300: b""})
    request = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version="0.1")
    assert decode_request(encode_request(header, request)) == (header, request)


def test_records_are_sent_and_received_without_a_copy() -> None:
    batch = memoryview(b"x" * 5000)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    header = RequestHeader(0, 9, 1, "me")
    segments = encode_request_segments(header, request)
    assert any(segment is batch for segment in segments)
    frame = bytearray(encode_request(header, request))
    assert segments_size(segments) == len(frame)
    _, decoded = decode_request(frame)
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_a_slice_of_a_file_stays_a_slice() -> None:
    piece = FileSlice(3, 100, 70_000)
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=9, records=piece)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    segments = encode_response_segments(ResponseHeader(1), response, 12)
    assert piece in segments
    assert segments_size(segments) > 70_000
    with pytest.raises(ProtocolError, match="file slice"):
        encode_response(ResponseHeader(1), response, 12)


def test_a_field_that_the_version_lacks_is_never_dropped_silently() -> None:
    request = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[], timeout_ms=0)
    with pytest.raises(ProtocolError, match=r"isolation_level.*versions 2\+.*would be lost"):
        encode_request(RequestHeader(2, 1, 1), request)
    assert encode_request(RequestHeader(2, 2, 1), request)


def test_an_ignorable_field_may_be_left_out() -> None:
    response = MetadataResponse(brokers=[], topics=[], cluster_id="abc", throttle_time_ms=5)
    _, decoded = decode_response(encode_response(ResponseHeader(1), response, 1), 3, 1)
    assert isinstance(decoded, MetadataResponse)
    assert (decoded.cluster_id, decoded.throttle_time_ms) == (None, 0)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ({"name": None}, r"topics\[0\]\.name: .*may not be null"),
        ({"name": 7}, r"topics\[0\]\.name: .*expected string, got 7"),
        ({"name": "x" * 32_768}, "32768 bytes, the limit is 32767"),
        ({"name": "\udc80"}, "UTF-8"),
        ({"num_partitions": 2**31}, r"num_partitions: .*does not fit int32"),
        ({"num_partitions": None}, r"num_partitions: .*may not be null"),
        ({"configs": None}, r"configs: .*may not be null"),
        ({"configs": ["x"]}, r"configs\[0\]: .*expected CreatableTopicConfig"),
    ],
)
@pytest.mark.parametrize("version", [4, 7])
def test_a_value_that_does_not_fit_is_named_with_its_path(topic: dict, words: str, version: int) -> None:
    good = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    request = CreateTopicsRequest(topics=[CreatableTopic(**{**good, **topic})])
    with pytest.raises(ProtocolError, match=words):
        encode_request(RequestHeader(19, version, 1), request)


def test_a_wrong_place_is_named_with_path_and_offset() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="good"), MetadataRequestTopic(name="bad")])
    frame = bytearray(encode_request(RequestHeader(3, 1, 1, "me"), request))
    at = frame.index(b"bad")
    frame[at] = 0xFF
    with pytest.raises(ProtocolError, match="not UTF-8") as caught:
        decode_request(frame)
    assert (caught.value.path, caught.value.offset) == ("topics[1].name", at)


def test_a_claim_of_two_thousand_million_elements_is_refused_at_once() -> None:
    frame = b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff" + (2_000_000_000).to_bytes(4)
    with pytest.raises(ProtocolError, match="2000000000 elements") as caught:
        decode_request(frame)
    assert (caught.value.path, caught.value.offset) == ("topics", 10)


def test_an_overlong_varint_means_the_same() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="abc")])
    frame = encode_request(RequestHeader(3, 12, 1, "me"), request)
    at = frame.index(b"\x04abc")
    longer = frame[:at] + b"\x84\x80\x00" + frame[at + 1 :]
    assert decode_request(longer)[1] == request
