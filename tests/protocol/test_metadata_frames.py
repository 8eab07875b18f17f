"""Large Metadata responses: what the general decoder reads, with stops, and without topics that have not changed."""

from __future__ import annotations

import dataclasses

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import RequestHeader, ResponseHeader, Uuid, decode_response, encode_request, encode_response
from kafkaraw.protocol.frames import join_segments
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.protocol.metadata_frames import (
    LARGE_SIZE_MIN,
    METADATA_KEY,
    DecodedMetadata,
    LargeMetadata,
    UndecodedMetadata,
    read_in_steps,
)

VERSIONS = range(9, 14)
PARTITIONS = 200


def topic(number: int, **changes: object) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=index % 3,
            leader_epoch=7,
            replica_nodes=[index % 3, (index + 1) % 3],
            isr_nodes=[index % 3],
            offline_replicas=[(index + 1) % 3],
        )
        for index in range(PARTITIONS)
    ]
    made = MetadataResponseTopic(
        error_code=0,
        name=f"topic-é-{number}",
        topic_id=Uuid(bytes([number + 1] * 16)),
        is_internal=number == 1,
        partitions=partitions,
    )
    return dataclasses.replace(made, **changes)


def response(*topics: MetadataResponseTopic) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=9092, rack="r" if n else None) for n in range(3)]
    return MetadataResponse(
        throttle_time_ms=3, brokers=brokers, cluster_id="c", controller_id=2, topics=list(topics), error_code=129
    )


def frame_of(answer: MetadataResponse, version: int) -> memoryview:
    if version < 13:
        answer = dataclasses.replace(answer, error_code=0)
    if version < 10:
        zero = Uuid(bytes(16))
        answer = dataclasses.replace(answer, topics=[dataclasses.replace(it, topic_id=zero) for it in answer.topics])
    return memoryview(encode_response(ResponseHeader(5), answer, version))


def read(frame: memoryview, version: int, known: dict[str, bytes]) -> tuple[DecodedMetadata, int]:
    """Read a frame; return it with the number of stops."""
    found = LargeMetadata(MetadataRequest(topics=None)).read(frame, version)
    assert isinstance(found, UndecodedMetadata)
    assert found.throttle_time_ms == 3
    steps, count = read_in_steps(found, known), 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            return end.value, count


TOPICS = tuple(topic(number) for number in range(12))


@pytest.mark.parametrize("version", VERSIONS)
def test_large_response_equals_what_the_general_decoder_reads(version):
    frame = frame_of(response(*TOPICS), version)
    assert len(frame) >= LARGE_SIZE_MIN
    found, stops = read(frame, version, {})
    _, expected = decode_response(frame, METADATA_KEY, version)
    assert found.response == expected
    assert found.unchanged == []
    assert stops >= len(TOPICS) * PARTITIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_topic_with_the_bytes_of_an_earlier_response_is_not_decoded(version):
    first, _ = read(frame_of(response(*TOPICS), version), version, {})
    changed = topic(3, partitions=TOPICS[3].partitions[:-1])
    frame = frame_of(response(*TOPICS[5:], changed, *TOPICS[:3]), version)
    second, stops = read(frame, version, first.encoded)
    assert second.unchanged == [each.name for each in (*TOPICS[5:], *TOPICS[:3])]
    _, expected = decode_response(frame, METADATA_KEY, version)
    assert second.response == dataclasses.replace(expected, topics=[expected.topics[7]])
    assert second.encoded.keys() == {changed.name}
    assert stops < 2 * PARTITIONS


def test_bytes_of_another_version_and_topics_with_an_error_are_decoded():
    frame = frame_of(response(*TOPICS[1:], topic(0, error_code=5)), 13)
    first, _ = read(frame, 13, {})
    assert first.encoded.keys() == {each.name for each in TOPICS[1:]}
    again, _ = read(frame, 13, {name: b"\x0c" + text[1:] for name, text in first.encoded.items()})
    assert again.response == first.response
    again, _ = read(frame, 13, first.encoded)
    assert [each.name for each in again.response.topics] == [TOPICS[0].name]


@pytest.mark.parametrize("cut", [1, 70, LARGE_SIZE_MIN // 2, LARGE_SIZE_MIN - 40])
def test_frame_that_ends_early_is_explained_as_by_the_general_decoder(cut):
    frame = frame_of(response(*TOPICS), 13)[:-cut]
    with pytest.raises(ProtocolError) as expected:
        decode_response(frame, METADATA_KEY, 13)
    found = UndecodedMetadata(3, bytes(frame), 13)
    with pytest.raises(ProtocolError) as caught:
        list(read_in_steps(found, {}))
    assert str(caught.value) == str(expected.value)


def test_small_and_old_responses_are_decoded_at_once():
    small = frame_of(response(topic(0)), 13)
    assert len(small) < LARGE_SIZE_MIN
    assert isinstance(LargeMetadata(MetadataRequest(topics=None)).read(small, 13), MetadataResponse)
    old = memoryview(encode_response(ResponseHeader(5), dataclasses.replace(response(), error_code=0), 8))
    assert isinstance(LargeMetadata(MetadataRequest(topics=None)).read(old, 8), MetadataResponse)


def test_request_is_encoded_as_declared():
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    frame = join_segments(LargeMetadata(request).segments(12, 9, "me"))
    assert frame == encode_request(RequestHeader(METADATA_KEY, 12, 9, "me"), request)
