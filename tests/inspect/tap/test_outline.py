"""The outline of a frame has everything but most of its records, and no bytes of a peer make it fail or large."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from kafkaraw.inspect.tap.outline import OUTLINE_BYTES_MAX, RECORDS_BYTES, Outline, outline_for
from kafkaraw.protocol import RequestHeader, ResponseHeader, decode_request, decode_response, encode_request
from kafkaraw.protocol import encode_response as encode_response_frame
from kafkaraw.protocol.apis import API_BY_NAME
from kafkaraw.protocol.messages import fetch, produce
from tests.protocol.message_values import random_message

VERSIONS = [
    (name, version, is_request)
    for name, is_request in (("Produce", True), ("Fetch", False), ("ShareFetch", False), ("FetchSnapshot", False))
    for version in range(API_BY_NAME[name].versions.min, API_BY_NAME[name].versions.max + 1)
]


def frame_of(message: Any, key: int, version: int, *, is_request: bool) -> bytes:
    if is_request:
        return encode_request(RequestHeader(key, version, 7, "an application"), message)
    return encode_response_frame(ResponseHeader(7), message, version)


def message_in(frame: bytes, key: int, version: int, *, is_request: bool) -> Any:
    return (decode_request(frame) if is_request else decode_response(frame, key, version))[1]


def outline_of(frame: bytes, outline: Outline, rng: random.Random | None = None) -> bytes | None:
    at = 0
    while at < len(frame):
        count = rng.choice((1, 2, 5, 63, 300, 5000)) if rng else len(frame)
        outline.feed(memoryview(frame)[at : at + count])
        at += count
    return outline.found()


def with_records(message: Any, rng: random.Random) -> Any:
    """The same message with records of very different sizes."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in ("records", "unaligned_records"):
            sizes = (0, 1, RECORDS_BYTES, RECORDS_BYTES + 1, 127, 128, 4000, 70_000)
            setattr(message, field.name, rng.randbytes(rng.choice(sizes)))
        for one in value if isinstance(value, list) else [value]:
            if dataclasses.is_dataclass(one):
                with_records(one, rng)
    return message


def cut(message: Any) -> Any:
    """The same message with the records that an outline keeps."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in ("records", "unaligned_records") and value is not None:
            setattr(message, field.name, bytes(value[:RECORDS_BYTES]))
        for one in value if isinstance(value, list) else [value]:
            if dataclasses.is_dataclass(one):
                cut(one)
    return message


@pytest.mark.parametrize(("name", "version", "is_request"), VERSIONS)
def test_outline_is_the_message_without_most_of_its_records(name: str, version: int, is_request: bool):
    api = API_BY_NAME[name]
    for seed in range(8):
        rng = random.Random(seed)
        message = with_records(random_message(api.request if is_request else api.response, version, rng), rng)
        frame = frame_of(message, api.key, version, is_request=is_request)
        outline = outline_for(api.key, version, is_request=is_request)
        assert outline is not None
        found = outline_of(frame, outline, rng if seed else None)
        assert found is not None, seed
        expected = cut(message_in(frame, api.key, version, is_request=is_request))
        assert cut(message_in(found, api.key, version, is_request=is_request)) == expected, seed


def test_bytes_behind_the_last_records_are_those_of_the_frame():
    part = fetch.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=bytes(500_000))
    response = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[part])],
        node_endpoints=[fetch.NodeEndpoint(node_id=1, host="one.example", port=9092)],
    )
    frame = frame_of(response, 1, 17, is_request=False) + b"more than a message"
    outline = outline_for(1, 17, is_request=False)
    assert outline is not None
    found = outline_of(frame, outline, random.Random(1))
    assert found is not None
    assert len(found) < 300
    assert found[-60:] == frame[-60:]


def test_frames_without_records_have_no_outline():
    assert outline_for(0, 9, is_request=False) is None
    assert outline_for(1, 17, is_request=True) is None
    assert outline_for(1, 99, is_request=False) is None
    assert outline_for(-1, 0, is_request=False) is None


def test_frame_that_is_not_complete_has_no_outline():
    data = [produce.PartitionProduceData(index=0, records=bytes(1000))]
    topics = [produce.TopicProduceData(name="orders", partition_data=data)]
    request = produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
    frame = frame_of(request, 0, 9, is_request=True)
    for end in range(len(frame)):
        outline = outline_for(0, 9, is_request=True)
        assert outline is not None
        found = outline_of(frame[:end], outline)
        assert found is None, end


def test_message_with_too_much_besides_records_has_no_outline():
    parts = [fetch.PartitionData(partition_index=0, error_code=0, high_watermark=1, records=b"")] * 20_000
    topics = [fetch.FetchableTopicResponse(topic_id=bytes(range(16)), partitions=parts)]
    frame = frame_of(fetch.FetchResponse(responses=topics), 1, 17, is_request=False)
    assert len(frame) > OUTLINE_BYTES_MAX
    outline = outline_for(1, 17, is_request=False)
    assert outline is not None
    assert outline_of(frame, outline) is None
    assert outline.is_lost


@pytest.mark.parametrize(("name", "version", "is_request"), VERSIONS[::3])
def test_no_bytes_make_it_fail_or_large(name: str, version: int, is_request: bool):
    api = API_BY_NAME[name]
    for seed in range(40):
        rng = random.Random(seed)
        message = with_records(random_message(api.request if is_request else api.response, version, rng), rng)
        frame = bytearray(frame_of(message, api.key, version, is_request=is_request))
        for _ in range(rng.randrange(1, 5)):
            frame[rng.randrange(min(len(frame), 300))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        outline = outline_for(api.key, version, is_request=is_request)
        assert outline is not None
        found = outline_of(bytes(frame), outline, rng)
        assert found is None or len(found) <= OUTLINE_BYTES_MAX
