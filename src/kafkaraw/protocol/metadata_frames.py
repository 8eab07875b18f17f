"""Metadata of large clusters: a response is decoded in steps, and only the topics that have changed.

A response about 100,000 partitions has 4 MiB, and decoding it takes 0.4 s of CPU, in which an event loop does nothing
else. So `LargeMetadata` leaves a large response undecoded, and `read_in_steps` decodes it with stops. Metadata has no
incremental form, but a topic without a change has the same bytes in each response of a version. Such topics are
compared, which takes a hundredth of the time, and not decoded.

Source: MetadataResponse.json of Kafka 4.3, versions 9 to 13. The general decoder reads older versions, and each
response that does not fit: it explains what is wrong. Start at `read_in_steps`.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.compile import compile_part_decoder, compile_part_step_decoder
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.frames import (
    DECODE_FAILURES,
    HandWritten,
    RequestHeader,
    decode_response,
    encode_request_segments,
)
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kafkaraw.protocol.types import decode_uvarint

if TYPE_CHECKING:
    from kafkaraw.protocol.frames import Segment

METADATA_KEY: Final = 3
LARGE_SIZE_MIN: Final = 1 << 16
"""Bytes of a response that is decoded in steps: of about 1,500 partitions, in 7 ms of CPU."""
_FLEXIBLE_SINCE: Final = 9
_CLUSTER_OPERATIONS_IN: Final = range(8, 11)
_ERROR_CODE_SINCE: Final = 13
_HEADER_SIZE: Final = 5  # the correlation id, and no tags
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


@dataclass(slots=True)
class UndecodedMetadata(Response):
    """A large response that is not decoded yet.

    Attributes:
        throttle_time_ms: as in `MetadataResponse`.
        frame: the response with its header, which has no tags.
        version: of the response, 9 or higher.
    """

    throttle_time_ms: int
    frame: bytes
    version: int


@dataclass(slots=True)
class DecodedMetadata:
    """A response, without the topics that have not changed.

    Attributes:
        response: the response, with the other topics.
        unchanged: names of the topics that have not changed.
        encoded: the bytes of each topic in `response`, by name, with the version in front; empty for small responses.
    """

    response: MetadataResponse
    unchanged: list[str] = field(default_factory=list)
    encoded: dict[str, bytes] = field(default_factory=dict)


class LargeMetadata(HandWritten["UndecodedMetadata | MetadataResponse"]):
    """A Metadata request whose response `read_in_steps` decodes.

    Args:
        request: the request.
    """

    __slots__ = ("request",)
    api: Api = API_BY_KEY[METADATA_KEY]

    def __init__(self, request: MetadataRequest) -> None:
        self.request: MetadataRequest = request

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """Return the whole frame, as `encode_request_segments` does; raises the same errors."""
        return encode_request_segments(RequestHeader(METADATA_KEY, version, correlation_id, client_id), self.request)

    def read(self, frame: memoryview, version: int) -> UndecodedMetadata | MetadataResponse:
        """Return a large response as it is, and others decoded; raises the errors of `decode_response`."""
        if version < _FLEXIBLE_SINCE or len(frame) < LARGE_SIZE_MIN or frame[_HEADER_SIZE - 1]:
            return _decoded(frame, version)
        (throttle_time_ms,) = _INT32.unpack_from(frame, _HEADER_SIZE)
        return UndecodedMetadata(throttle_time_ms, bytes(frame), version)


def read_in_steps(
    found: UndecodedMetadata | MetadataResponse, known: Mapping[str, bytes]
) -> Generator[None, None, DecodedMetadata]:
    """Decode a response, with a stop after each partition that is decoded and each topic that is not.

    Args:
        found: what `LargeMetadata` has read.
        known: as `DecodedMetadata.encoded`, from earlier responses.

    Raises:
        ProtocolError: invalid bytes; names the field path and byte offset.
    """
    if isinstance(found, MetadataResponse):
        return DecodedMetadata(found)
    decoded = DecodedMetadata(MetadataResponse(brokers=[], topics=[]))
    try:
        yield from _fill(decoded, found.frame, found.version, known)
    except DECODE_FAILURES:
        return DecodedMetadata(_decoded(found.frame, found.version))
    return decoded


def _decoded(frame: bytes | memoryview, version: int) -> MetadataResponse:
    _, response = decode_response(frame, METADATA_KEY, version, allow_trailing_bytes=True)
    assert isinstance(response, MetadataResponse)
    return response


def _fill(
    decoded: DecodedMetadata, frame: bytes, version: int, known: Mapping[str, bytes]
) -> Generator[None, None, None]:
    """Read the fields in the order in which they are declared. Bytes after the message are ignored."""
    response = decoded.response
    (response.throttle_time_ms,) = _INT32.unpack_from(frame, _HEADER_SIZE)
    count, at = decode_uvarint(frame, _HEADER_SIZE + _INT32.size)
    broker = compile_part_decoder(MetadataResponseBroker, MetadataResponse, version)
    for _ in range(count - 1):
        found, at = broker(frame, at)
        response.brokers.append(found)
    response.cluster_id, at = _text(frame, at)
    (response.controller_id,) = _INT32.unpack_from(frame, at)
    at = yield from _topics(decoded, frame, at + _INT32.size, version, known)
    if version in _CLUSTER_OPERATIONS_IN:
        (response.cluster_authorized_operations,) = _INT32.unpack_from(frame, at)
        at += _INT32.size
    if version >= _ERROR_CODE_SINCE:
        (response.error_code,) = _INT16.unpack_from(frame, at)
        at += _INT16.size
    decode_uvarint(frame, at)  # the number of tagged fields: none is defined so far


def _topics(
    decoded: DecodedMetadata, frame: bytes, at: int, version: int, known: Mapping[str, bytes]
) -> Generator[None, None, int]:
    """Read the topics; return the position after them."""
    in_steps = compile_part_step_decoder(MetadataResponseTopic, MetadataResponse, version)
    prefix = version.to_bytes(1, "big")
    count, at = decode_uvarint(frame, at)
    for _ in range(count - 1):
        name, _ = _text(frame, at + _INT16.size)
        before = known.get(name or "", b"")
        if before[:1] == prefix and frame.startswith(before[1:], at):
            assert name is not None
            decoded.unchanged.append(name)
            at += len(before) - 1
            yield
            continue
        start = at
        topic, at = yield from in_steps(frame, at)
        decoded.response.topics.append(topic)
        if name and not topic.error_code:
            decoded.encoded[name] = prefix + frame[start:at]
    return at


def _text(frame: bytes, at: int) -> tuple[str | None, int]:
    """Read a compact string: the text, and the position after it."""
    size, at = decode_uvarint(frame, at)
    end = at + size - 1
    if end > len(frame):
        raise IndexError(end)
    return (frame[at:end].decode(), end) if size else (None, at)
