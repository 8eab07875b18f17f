"""Decoding costs bounded time and memory, whatever the arrays of a message claim; large clusters still fit."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import (
    RequestHeader,
    Uuid,
    decode_message,
    decode_request,
    decode_request_header,
    decode_response,
    encode_message,
    encode_request,
)
from kafkaraw.protocol.annotate import EXPLAINED_ELEMENTS_MAX
from kafkaraw.protocol.decoder_source import ELEMENTS_MAX
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.protocol.types import encode_uvarint

PARTITIONS = 100_000
FETCH_START = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)
EMPTY_TOPIC = b"\x01\x01\x00"
BROKEN = b"\x01\xff\xff"


def fetch(count: int) -> tuple[type[object], int, bytes]:
    return FetchRequest, 12, FETCH_START + encode_uvarint(count + 1) + EMPTY_TOPIC * count + b"\x01\x01\x00"


def strings(count: int) -> tuple[type[object], int, bytes]:
    return DescribeGroupsRequest, 5, encode_uvarint(count + 1) + b"\x01" * count + b"\x00\x00"


def tags(count: int) -> tuple[type[object], int, bytes]:
    each = b"".join(encode_uvarint(tag) + b"\x00" for tag in range(5, 5 + count))
    return DescribeGroupsRequest, 5, b"\x01\x00" + encode_uvarint(count) + each


def numbers(count: int) -> tuple[type[object], int, bytes]:
    many = 4 * count + 4
    return OffsetFetchRequest, 6, b"\x01\x02\x02a" + encode_uvarint(many + 1) + bytes(4 * many) + b"\x00\x00"


def nested(count: int) -> tuple[type[object], int, bytes]:
    """Arrays that are small each, in an outer one."""
    partition = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 0) + b"\x00"
    topics = count // 65
    topic = b"\x01" + encode_uvarint(65) + partition * 64 + b"\x00"
    return FetchRequest, 12, FETCH_START + encode_uvarint(topics + 1) + topic * topics + b"\x01\x01\x00"


@pytest.mark.parametrize("hostile", [fetch, strings, tags, numbers, nested])
def test_a_message_with_too_many_elements_is_refused_before_they_are_made(
    hostile: Callable[[int], tuple[type[object], int, bytes]],
):
    cls, version, body = hostile(2 * ELEMENTS_MAX)
    frame = memoryview(bytearray(body))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements in its arrays"):
            decode_message(cls, version, frame)
        peak = tracemalloc.get_traced_memory()[1] - len(frame)
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


@pytest.mark.parametrize("allowed", [fetch, strings, tags, numbers, nested])
def test_a_message_with_half_of_the_elements_is_decoded(allowed: Callable[[int], tuple[type[object], int, bytes]]):
    cls, version, body = allowed(ELEMENTS_MAX // 2)
    assert encode_message(decode_message(cls, version, body), version) == body


def test_a_broken_message_with_many_elements_is_explained_by_its_first_elements():
    _, _, body = fetch(200_000)
    with pytest.raises(ProtocolError, match=f"a reason behind its first {EXPLAINED_ELEMENTS_MAX} elements"):
        decode_message(FetchRequest, 12, body[: -len(EMPTY_TOPIC) - 3] + BROKEN)


def test_a_broken_message_names_its_field_if_few_elements_precede_it():
    _, _, body = fetch(EXPLAINED_ELEMENTS_MAX)
    with pytest.raises(ProtocolError, match=rf"topics\[{EXPLAINED_ELEMENTS_MAX - 1}\]"):
        decode_message(FetchRequest, 12, body[: -len(EMPTY_TOPIC) - 3] + BROKEN)


def test_tagged_fields_of_a_header_are_limited():
    _, _, body = tags(1001)
    frame = struct.pack(">hhih", 15, 5, 1, -1) + body[2:]
    with pytest.raises(ProtocolError, match="1001 of them, the limit is 1000"):
        decode_request_header(frame)


def test_requests_for_a_hundred_thousand_partitions_are_decoded():
    """Each in a topic of its own, so there are as many topics."""
    asked = [FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1)]
    fetched = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic_id=Uuid(number.to_bytes(16)), partitions=asked) for number in range(PARTITIONS)],
    )
    assert len(decode_request(encode_request(RequestHeader(1, 17, 1, None), fetched))[1].topics) == PARTITIONS  # type: ignore[attr-defined]
    written = [PartitionProduceData(index=0, records=b"x" * 70)]
    produced = ProduceRequest(
        acks=-1,
        timeout_ms=0,
        topic_data=[TopicProduceData(name=f"topic-{number}", partition_data=written) for number in range(PARTITIONS)],
    )
    decoded = decode_request(encode_request(RequestHeader(0, 9, 1, None), produced))[1]
    assert len(decoded.topic_data) == PARTITIONS  # type: ignore[attr-defined]


def test_a_response_may_describe_more_than_a_request_may_ask():
    topic = MetadataResponseTopic(error_code=0, name="topic", is_internal=False, partitions=[])
    topics = [topic] * (ELEMENTS_MAX + 40_000)
    response = MetadataResponse(brokers=[], cluster_id=None, controller_id=1, topics=topics)
    frame = struct.pack(">i", 1) + encode_message(response, 8)
    assert len(decode_response(frame, 3, 8)[1].topics) == len(topics)  # type: ignore[attr-defined]
