"""Codecs that stop after every few elements give what the others give."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import (
    ResponseHeader,
    decode_in_steps,
    decode_message,
    encode_message,
    encode_response,
    encode_response_in_steps,
)
from kafkaraw.protocol.frames import join_segments
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def run(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    stops = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, stops
        stops += 1


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_a_request_decoded_in_steps_is_the_same_message(version: int):
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(1_000)])
    body = encode_message(request, version)
    message, stops = run(decode_in_steps(MetadataRequest, version, body))
    assert message == decode_message(MetadataRequest, version, body)
    assert stops >= 1_000 // 64


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_a_response_encoded_in_steps_has_the_same_bytes(version: int):
    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1], leader_epoch=-1
    )
    topics = [
        MetadataResponseTopic(error_code=0, name=f"t{number}", partitions=[partition] * 3) for number in range(500)
    ]
    response = MetadataResponse(brokers=[], controller_id=1, topics=topics)
    segments, stops = run(encode_response_in_steps(ResponseHeader(7), response, version))
    assert join_segments(segments) == encode_response(ResponseHeader(7), response, version)
    assert stops >= 500 // 64


def test_failures_in_steps_are_explained_as_others_are():
    body = encode_message(DescribeGroupsRequest(groups=["g"] * 500), 0)
    with pytest.raises(ProtocolError, match="groups"):
        run(decode_in_steps(DescribeGroupsRequest, 0, body[:-1]))
    many = (1 << 19).to_bytes(4) + b"\0\0" * (1 << 19)
    with pytest.raises(ProtocolError, match="more than 262144 elements"):
        run(decode_in_steps(DescribeGroupsRequest, 0, many))
    response = MetadataResponse(brokers=[], controller_id=1, topics=[None])  # type: ignore[list-item]
    with pytest.raises(ProtocolError, match="topics"):
        run(encode_response_in_steps(ResponseHeader(7), response, 1))
