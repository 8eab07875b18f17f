"""Bytes printed in blog posts decode to the values printed there, and encode back to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import FrameReader, decode_request, decode_response, encode_request, encode_response
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkaraw.protocol.messages.metadata import MetadataResponse

VECTORS = Path(__file__).parent / "vectors"
API_VERSIONS, METADATA = 18, 3
# Highest versions of the API keys 0 to 47, in order: a Kafka 2.4 broker.
KAFKA_2_4_VERSIONS = [8, 11, 5, 9, 4, 2, 6, 3, 8, 6, 3, 6, 4, 4, 4, 5, 3, 1, 3, 5, 4, 1, 2, 3]
KAFKA_2_4_VERSIONS += [1, 1, 1, 0, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 2, 2, 1, 0, 0, 0]


def vector(name: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


def test_the_request_of_the_blog_post_asks_for_api_versions() -> None:
    frame = vector("api_versions_v0_request")
    header, message = decode_request(frame[4:])
    assert int.from_bytes(frame[:4]) == 22 == len(frame) - 4
    assert (header.api_key, header.api_version) == (API_VERSIONS, 0)
    assert (header.correlation_id, header.client_id) == (1, "kafkaraw/0.1")
    assert message == ApiVersionsRequest()
    assert encode_request(header, message) == frame[4:]


def test_the_response_of_the_blog_post_is_a_kafka_2_4() -> None:
    frame = vector("api_versions_v0_response")
    header, message = decode_response(frame[4:], API_VERSIONS, 0)
    assert isinstance(message, ApiVersionsResponse)
    assert header.correlation_id == 1
    assert message.error_code == 0
    assert [key.api_key for key in message.api_keys] == list(range(48))
    assert [key.min_version for key in message.api_keys] == [0] * 48
    assert [key.max_version for key in message.api_keys] == KAFKA_2_4_VERSIONS
    assert encode_response(header, message, 0) == frame[4:]


def test_the_erlang_blob_is_the_metadata_of_three_brokers() -> None:
    frame = vector("metadata_v0_response")
    header, message = decode_response(frame, METADATA, 0)
    assert isinstance(message, MetadataResponse)
    assert header.correlation_id == 0
    assert [(broker.node_id, broker.host, broker.port) for broker in message.brokers] == [
        (3, "vagrant-ubuntu-precise-64", 9093),
        (1, "vagrant-ubuntu-precise-64", 9091),
        (2, "vagrant-ubuntu-precise-64", 9092),
    ]
    partitions = {
        topic.name: [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions]
        for topic in message.topics
    }
    assert partitions == {
        "a1": [(0, 3, [3], [3]), (1, 1, [1], [1])],
        "a2": [(0, 1, [1], [1]), (1, 2, [2], [2])],
        "a3": [(0, 3, [3, 1], [3, 1]), (1, 1, [1, 2], [1, 2])],
    }
    assert encode_response(header, message, 0) == frame


@pytest.mark.parametrize("name", ["api_versions_v0_request", "api_versions_v0_response"])
def test_a_frame_cut_at_any_byte_is_not_whole(name: str) -> None:
    frame = vector(name)
    for end in range(len(frame)):
        reader = FrameReader(limit=1 << 20)
        assert reader.feed(frame[:end]) == []
        assert reader.is_between_frames == (end == 0)
        assert [bytes(got) for got in reader.feed(frame[end:])] == [frame[4:]]


def test_a_metadata_response_cut_at_any_byte_is_refused() -> None:
    frame = vector("metadata_v0_response")
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_response(frame[:end], METADATA, 0)
