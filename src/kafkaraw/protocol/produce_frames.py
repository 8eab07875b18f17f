"""Produce without the general codec: the request that a producer sends all the time, and the response without errors.

`Produce` writes what `ProduceRequest` encodes to, field by field as in `messages/produce.py`, with a tenth of the
steps: everything between two batches is one piece of bytes. The response is read in the same way if it holds no error
and nothing unusual; otherwise the general decoder reads it. So it is with versions before 9, which no supported broker
needs. Start at `Produce.segments` and `Produce.read`.

Source: ProduceRequest.json and ProduceResponse.json of Kafka 4.3, versions 9 to 13.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.frames import HandWritten, RequestHeader, decode_response, encode_request_segments
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkaraw.protocol.types import Uuid, encode_uvarint

if TYPE_CHECKING:
    from kafkaraw.protocol.frames import Segment

PRODUCE_KEY: Final = 0
_FLEXIBLE_SINCE: Final = 9
_TOPIC_IDS_SINCE: Final = 13

TopicRecords: TypeAlias = tuple[str, Uuid, Sequence[tuple[int, memoryview]]]
"""A topic's name and id, and its batches: for each partition its index and one batch."""

_HEAD: Final = struct.Struct(">hhi")
_INDEX: Final = struct.Struct(">i")
# index, error_code, base_offset, log_append_time_ms, log_start_offset; no record_errors, no error_message, no tags
_PARTITION: Final = struct.Struct(">ihqqqBBB")
_CORRELATION_ID_AND_NO_TAGS: Final = 5
_THROTTLE_AND_NO_TAGS: Final = struct.Struct(">iB")
_ONE_BYTE_MAX: Final = 127


@dataclass(slots=True)
class Written(Response):
    """A response without errors and without changes: each batch is written.

    Attributes:
        throttle_time_ms: as in `ProduceResponse`.
        partitions: name of the topic, partition, base offset, log append time and log start offset of each.
    """

    throttle_time_ms: int
    partitions: list[tuple[str, int, int, int, int]]


class Produce(HandWritten["Written | ProduceResponse"]):
    """A Produce request.

    Args:
        transactional_id: as in `ProduceRequest`.
        acks: as there.
        timeout_ms: as there.
        topics: the topics with their batches.
    """

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")
    api: Api = API_BY_KEY[PRODUCE_KEY]

    def __init__(
        self, transactional_id: str | None, acks: int, timeout_ms: int, topics: Sequence[TopicRecords]
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.acks: int = acks
        self.timeout_ms: int = timeout_ms
        self.topics: Sequence[TopicRecords] = topics

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """Return the whole frame, as `encode_request_segments` does; raises the same errors."""
        topics = self.topics
        if version < _FLEXIBLE_SINCE or len(topics) >= _ONE_BYTE_MAX:
            header = RequestHeader(PRODUCE_KEY, version, correlation_id, client_id)
            return encode_request_segments(header, self.declared())
        between = _HEAD.pack(PRODUCE_KEY, version, correlation_id)
        between += _preamble(client_id, self.transactional_id, self.acks, self.timeout_ms)
        between += (len(topics) + 1).to_bytes(1, "big")
        segments: list[Segment] = []
        for name, topic_id, batches in topics:
            between += topic_id if version >= _TOPIC_IDS_SINCE else _compact(name)
            between += encode_uvarint(len(batches) + 1)
            for index, records in batches:
                segments.append(between + _INDEX.pack(index) + encode_uvarint(len(records) + 1))
                segments.append(records)
                between = b"\0"  # no tags
            between += b"\0"
        segments.append(between + b"\0")
        return segments

    def declared(self) -> ProduceRequest:
        """Return the same request as a message."""
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=self.timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=records) for index, records in batches],
                )
                for name, topic_id, batches in self.topics
            ],
        )

    def read(self, frame: memoryview, version: int) -> Written | ProduceResponse:
        """Read the response in that version; raises the errors of `decode_response`. Bytes after it are ignored."""
        written = self._read_written(frame, version) if version >= _FLEXIBLE_SINCE else None
        if written is not None:
            return written
        _, response = decode_response(frame, PRODUCE_KEY, version, allow_trailing_bytes=True)
        assert isinstance(response, ProduceResponse)
        return response

    def _read_written(self, frame: memoryview, version: int) -> Written | None:
        """Return the response if it names the request's topics in order and has no error and nothing unusual."""
        topics, at, end = self.topics, _CORRELATION_ID_AND_NO_TAGS + 1, len(frame)
        if end <= at or frame[at - 2] or frame[at - 1] != len(topics) + 1 or len(topics) >= _ONE_BYTE_MAX:
            return None
        partitions: list[tuple[str, int, int, int, int]] = []
        for name, topic_id, batches in topics:
            key = topic_id if version >= _TOPIC_IDS_SINCE else _compact(name)
            count = len(batches)
            first = at + len(key) + 1
            at = first + count * _PARTITION.size
            if count >= _ONE_BYTE_MAX or at >= end or frame[first - 1 - len(key) : first] != key + bytes((count + 1,)):
                return None
            for found in _PARTITION.iter_unpack(frame[first:at]):
                index, error, base_offset, append_time_ms, log_start, errors, message, tags = found
                if error or errors != 1 or message or tags:
                    return None
                partitions.append((name, index, base_offset, append_time_ms, log_start))
            if frame[at]:
                return None
            at += 1
        if at + _THROTTLE_AND_NO_TAGS.size > end:
            return None
        throttle_time_ms, tags = _THROTTLE_AND_NO_TAGS.unpack_from(frame, at)
        return None if tags else Written(throttle_time_ms, partitions)


@lru_cache(maxsize=64)
def _preamble(client_id: str | None, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    """Return the bytes between the correlation id and the topics, which are equal for all requests of a producer."""
    empty = Produce(transactional_id, acks, timeout_ms, ())
    header = RequestHeader(PRODUCE_KEY, _FLEXIBLE_SINCE, 0, client_id)
    (whole,) = encode_request_segments(header, empty.declared())
    assert isinstance(whole, bytes)
    return whole[_HEAD.size : -2]  # without the count of topics and the tags


@lru_cache(maxsize=1024)
def _compact(text: str) -> bytes:
    encoded = text.encode()
    return encode_uvarint(len(encoded) + 1) + encoded
