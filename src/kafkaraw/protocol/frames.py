"""Frames: the size prefix, request and response headers, and whole messages to and from bytes.

`FrameReader` cuts a stream of bytes into frames, and reads the four-byte size prefix; everything else here is passed
frames without it. Nothing here does I/O. Start at `FrameReader`, `decode_request`, `decode_response`, `encode_request`
and `encode_response`.

Header versions follow from the message (KIP-482, KIP-511): a flexible request has header v2, others v1 (v0 for
ControlledShutdown v0); a flexible response has header v1, others v0, and ApiVersions has v0 always, because a client
that asks for it does not know yet what the broker speaks. The client id of a request header is never compact.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from kafkaraw.errors import ProtocolError, UnsupportedVersionError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.apis import API_BY_KEY, Api, api_of
from kafkaraw.protocol.buffers import Memory, SpareBuffers
from kafkaraw.protocol.compile import compile_decoder, compile_encoder, compile_step_decoder, compile_step_encoder
from kafkaraw.protocol.declare import R_co, Request, Response, spec_of
from kafkaraw.protocol.decoder_source import read_tag, too_many
from kafkaraw.protocol.encoder_source import write_tags
from kafkaraw.protocol.source_writer import TooManyElementsError
from kafkaraw.protocol.types import FileSlice, decode_uvarint

T = TypeVar("T")
Buffer: TypeAlias = bytes | bytearray | memoryview
Segment: TypeAlias = bytes | bytearray | memoryview | FileSlice

API_VERSIONS_KEY: Final = 18
CONTROLLED_SHUTDOWN_KEY: Final = 7
REQUEST_HEADER_SIZE_MIN: Final = 8
"""Bytes of the shortest request header, version 0: API key, API version and correlation id."""
# Errors that compiled code may raise on hostile bytes or wrong values; any other is a defect.
DECODE_FAILURES: Final = (struct.error, IndexError, ValueError)
ENCODE_FAILURES: Final = (struct.error, AttributeError, TypeError, ValueError)

_REQUEST_FIXED = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")
_JOINED_SIZE_MAX: Final = 4096
_ELEMENTS_PER_STEP: Final = 64
_HEADER_TAGS_MAX: Final = 1000  # none is defined so far


@dataclass(slots=True)
class RequestHeader:
    """The header of a request.

    Attributes:
        correlation_id: chosen by the client; the broker returns it in the response header.
        client_id: a name for logs and quotas; null is allowed.
        unknown_tagged_fields: tags of a flexible header; none are defined so far.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    unknown_tagged_fields: dict[int, bytes] | None = None


@dataclass(slots=True)
class ResponseHeader:
    """The header of a response."""

    correlation_id: int
    unknown_tagged_fields: dict[int, bytes] | None = None


@lru_cache(maxsize=1024)  # bounded, because peers choose the arguments
def request_header_version(api_key: int, api_version: int) -> int:
    """Return the version of the request header: 0, 1 or 2. For an API that is not declared: 1."""
    if api_key == CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    api = API_BY_KEY.get(api_key)
    return 2 if api is not None and api.is_flexible(api_version) else 1


@lru_cache(maxsize=1024)
def response_header_version(api_key: int, api_version: int) -> int:
    """Return the version of the response header: 0 or 1."""
    return 1 if api_key != API_VERSIONS_KEY and _known(api_key).is_flexible(api_version) else 0


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Read the header of a request, of known and unknown APIs and versions alike.

    Returns:
        The header and the byte offset of the body.

    Raises:
        ProtocolError: the frame ends within the header, or the client id is not text.
    """
    view = memoryview(frame)
    if len(view) < REQUEST_HEADER_SIZE_MIN:
        text = f"a request header has at least {REQUEST_HEADER_SIZE_MIN} bytes, got {len(view)}"
        raise ProtocolError(text, path="header", offset=len(view))
    api_key, api_version, correlation_id = struct.unpack_from(">hhi", view)
    header = RequestHeader(api_key, api_version, correlation_id)
    version = request_header_version(api_key, api_version)
    if version == 0:
        return header, 8
    header.client_id, at = _decode_client_id(view)
    if version == 2:
        header.unknown_tagged_fields, at = _decode_tags(view, at)
    return header, at


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request[Response]]:
    """Decode a whole request.

    Raises:
        UnsupportedVersionError: its API or version is not declared.
        ProtocolError: invalid bytes, or bytes left over; names the field path and byte offset.
    """
    header, at = decode_request_header(frame)
    message = decode_message(_known(header.api_key).request, header.api_version, frame, at)
    return header, message


def decode_response(
    frame: Buffer, api_key: int, api_version: int, *, allow_trailing_bytes: bool = False
) -> tuple[ResponseHeader, Response]:
    """Decode a whole response to a request of that API and version.

    Args:
        frame: the response, header included.
        api_key: API key of the request.
        api_version: version of the request.
        allow_trailing_bytes: ignore bytes after the message, as Kafka's Java clients do.

    Raises:
        UnsupportedVersionError: the API or version is not declared.
        ProtocolError: invalid bytes, or bytes left over; names the field path and byte offset.
    """
    view = memoryview(frame)
    if len(view) < _CORRELATION_ID.size:
        raise ProtocolError(f"a response has at least 4 bytes, got {len(view)}", path="header", offset=len(view))
    header = ResponseHeader(_CORRELATION_ID.unpack_from(view)[0])
    at = _CORRELATION_ID.size
    if response_header_version(api_key, api_version) == 1:
        header.unknown_tagged_fields, at = _decode_tags(view, at)
    response = _known(api_key).response
    return header, decode_message(response, api_version, view, at, allow_trailing_bytes=allow_trailing_bytes)


def decode_message(cls: type[T], version: int, buffer: Buffer, at: int = 0, *, allow_trailing_bytes: bool = False) -> T:
    """Decode the body of a message, which must reach to the end of `buffer`.

    Args:
        cls: the class of the message.
        version: its version.
        buffer: the frame, or other bytes that hold the body.
        at: where the body starts.
        allow_trailing_bytes: ignore bytes after the message, as Kafka's brokers do: librdkafka (seen in 2.16) sends
            three too many when it asks for all topics with a flexible version of Metadata.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
        ProtocolError: invalid bytes, or bytes left over; names the field path and byte offset.
    """
    decoder = compile_decoder(cls, version)
    try:
        message: T
        message, end = decoder(buffer, at)
    except TooManyElementsError:
        raise ProtocolError(too_many(spec_of(cls), version), offset=at) from None
    except DECODE_FAILURES:
        from kafkaraw.protocol.annotate import explain_decode  # only after a failure

        raise explain_decode(cls, version, memoryview(buffer), at) from None
    if end != len(buffer) and not allow_trailing_bytes:
        raise ProtocolError(f"{cls.__name__} v{version} ends here, {len(buffer) - end} bytes are left over", offset=end)
    return message


def decode_in_steps(cls: type[T], version: int, buffer: Buffer, at: int = 0) -> Generator[None, None, T]:
    """Decode the body of a large message, with a stop after every few elements; bytes after it are ignored.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
        ProtocolError: invalid bytes; names the field path and byte offset.
    """
    steps = compile_step_decoder(cls, version)(buffer, at)
    message: T
    try:
        while True:
            for _ in range(_ELEMENTS_PER_STEP):
                next(steps)
            yield
    except StopIteration as end:
        message, _ = end.value
    except TooManyElementsError:
        raise ProtocolError(too_many(spec_of(cls), version), offset=at) from None
    except DECODE_FAILURES:
        from kafkaraw.protocol.annotate import explain_decode  # only after a failure

        raise explain_decode(cls, version, memoryview(buffer), at) from None
    return message


def encode_message(message: object, version: int) -> bytes:
    """Encode the body of a message, without header.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
        ProtocolError: a value does not fit; names the field path.
    """
    return join_segments(_encode_body(message, version, []))


def encode_request(header: RequestHeader, message: Request[Response]) -> bytes:
    """Encode a whole request.

    Raises:
        UnsupportedVersionError: `header.api_version` is not declared.
        ProtocolError: a value does not fit, or the version lacks a field that is not at its default.
    """
    return join_segments(encode_request_segments(header, message))


def encode_response(header: ResponseHeader, message: Response, api_version: int) -> bytes:
    """Encode a whole response; raises as `encode_request`."""
    return join_segments(encode_response_segments(header, message, api_version))


def encode_request_segments(header: RequestHeader, message: Request[Response]) -> list[Segment]:
    """Encode a request as pieces for `net`, so that record batches are never copied."""
    api = api_of(message)
    if api.key != header.api_key or not isinstance(message, api.request):
        raise ProtocolError(f"header says API {header.api_key}, the message is a {type(message).__name__}")
    version = request_header_version(header.api_key, header.api_version)
    parts: list[Segment] = []
    if version == 0:
        parts.append(struct.pack(">hhi", header.api_key, header.api_version, header.correlation_id))
    else:
        client_id = None if header.client_id is None else header.client_id.encode()
        size = -1 if client_id is None else len(client_id)
        try:
            parts.append(_REQUEST_FIXED.pack(header.api_key, header.api_version, header.correlation_id, size))
        except struct.error as error:
            raise ProtocolError(f"{header}: {error}", path="header") from None
        parts.append(client_id or b"")
    if version == 2:
        write_tags(parts.append, header.unknown_tagged_fields or {})
    return _encode_body(message, header.api_version, parts)


def encode_response_segments(header: ResponseHeader, message: Response, api_version: int) -> list[Segment]:
    """Encode a response as pieces for `net`; record batches and file slices stay as they are."""
    api = api_of(message)
    parts: list[Segment] = [_CORRELATION_ID.pack(header.correlation_id)]
    if response_header_version(api.key, api_version) == 1:
        write_tags(parts.append, header.unknown_tagged_fields or {})
    return _encode_body(message, api_version, parts)


def encode_response_in_steps(
    header: ResponseHeader, message: Response, api_version: int
) -> Generator[None, None, list[Segment]]:
    """Encode a large response as `encode_response_segments`, with a stop after every few elements.

    Raises:
        ProtocolError: a value does not fit; names the field path.
    """
    parts: list[Segment] = [_CORRELATION_ID.pack(header.correlation_id)]
    if response_header_version(api_of(message).key, api_version) == 1:
        write_tags(parts.append, header.unknown_tagged_fields or {})
    segments: list[Segment] = []
    try:
        for number, _ in enumerate(compile_step_encoder(type(message), api_version)(message, parts.append)):
            if number % _ELEMENTS_PER_STEP == 0:
                segments += _joined(parts)
                parts.clear()
                yield
    except ENCODE_FAILURES:
        from kafkaraw.protocol.explain import explain_encode  # only after a failure

        raise explain_encode(message, api_version) from None
    return segments + _joined(parts)


def segments_size(segments: Sequence[Segment]) -> int:
    """Return the number of bytes in the segments."""
    size = 0
    for segment in segments:
        if type(segment) is bytes:  # nearly all are
            size += len(segment)
        elif isinstance(segment, memoryview):
            size += segment.nbytes
        else:
            size += segment.size if isinstance(segment, FileSlice) else len(segment)
    return size


def join_segments(segments: Sequence[Segment]) -> bytes:
    """Join segments into one frame.

    Raises:
        ProtocolError: one is a file slice, which only `net` can send.
    """
    try:
        return b"".join(segments)  # type: ignore[arg-type]
    except TypeError:
        # To check the segments beforehand would cost half as much as encoding them did.
        if any(isinstance(segment, FileSlice) for segment in segments):
            raise ProtocolError("a file slice has no bytes in memory: send the segments, do not join them") from None
        raise


def _encode_body(message: object, version: int, parts: list[Segment]) -> list[Segment]:
    encoder = compile_encoder(type(message), version)
    try:
        encoder(message, parts.append)
    except ENCODE_FAILURES:
        from kafkaraw.protocol.explain import explain_encode  # only after a failure

        raise explain_encode(message, version) from None
    return _joined(parts)


def _joined(parts: list[Segment]) -> list[Segment]:
    """Join the pieces between large ones: an encoder makes one for each field, and every reader looks at each."""
    apart = [index for index, part in enumerate(parts) if type(part) is not bytes or len(part) > _JOINED_SIZE_MAX]
    segments: list[Segment] = []
    at = 0
    for index in (*apart, len(parts)):
        if index > at:
            segments.append(b"".join(parts[at:index]))  # type: ignore[arg-type]  # the others are in `apart`
        if index < len(parts):
            segments.append(parts[index])
        at = index + 1
    return segments


def _known(api_key: int) -> Api:
    api = API_BY_KEY.get(api_key)
    if api is None:
        raise UnsupportedVersionError(f"API key {api_key} is not declared")
    return api


def _decode_client_id(view: memoryview) -> tuple[str | None, int]:
    if len(view) < _REQUEST_FIXED.size:
        raise ProtocolError("the frame ends here", path="header.client_id", offset=len(view))
    size = _REQUEST_FIXED.unpack_from(view)[3]
    start = _REQUEST_FIXED.size
    if size == -1:
        return None, start
    if size < 0 or start + size > len(view):
        left = len(view) - start
        raise ProtocolError(f"string declared {size} bytes, {left} are left", path="header.client_id", offset=8)
    try:
        return str(view[start : start + size], "utf-8"), start + size
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error.reason}", path="header.client_id", offset=start + error.start) from None


def _decode_tags(view: memoryview, at: int) -> tuple[dict[int, bytes] | None, int]:
    if at < len(view) and not view[at]:  # always true so far
        return None, at + 1
    start = at
    tags: dict[int, bytes] = {}
    try:
        count, at = decode_uvarint(view, at)
        if count > _HEADER_TAGS_MAX:
            raise ValueError(f"{count} of them, the limit is {_HEADER_TAGS_MAX}")
        for _ in range(count):
            tag, value_at, at = read_tag(view, at, len(view))
            tags[tag] = bytes(view[value_at:at])
    except DECODE_FAILURES as error:
        raise ProtocolError(f"tagged fields of the header: {error}", path="header", offset=start) from None
    return tags or None, at


class HandWritten(Request[R_co]):
    """A request that writes its own bytes, and reads its response, instead of being encoded by its declaration.

    It is for the few requests that are sent so often that the cost of the general encoder matters. The engine sends
    both kinds; they are equal on the wire. A test must compare a class of this kind with its declaration.

    Attributes:
        api: the API of the request.
    """

    __slots__ = ()
    api: Api

    def segments(self, version: int, correlation_id: int, client_id: str | None) -> list[Segment]:
        """Return the whole frame, as `encode_request_segments` does; raises the same errors."""
        raise NotImplementedError

    def read(self, frame: memoryview, version: int) -> R_co:
        """Read the response in that version; raises the errors of `decode_response`. Bytes after it are ignored."""
        raise NotImplementedError


SIZE_PREFIX = struct.Struct(">i")
# A buffer grows towards the claimed size as bytes arrive: a claim alone allocates no more than this, or than a frame
# before it has had. So only the first large frame of a connection is copied as it grows, and a peer that claims much
# and sends nothing, on very many connections, costs little.
FIRST_BUFFER_SIZE = 1 << 16
# Bytes that can be read at once between frames. Each connection keeps this much: about as much as most requests need.
ENTRANCE_SIZE = 1 << 13
# And this much after the first longer frame, if several of that size fit: two reads for each cost more than a copy.
# Larger frames are better read into their own buffers.
LARGER_ENTRANCE_SIZE = 1 << 16
# First bytes of other protocols, read as a size: the usual result of a connection to a wrong port.
STRANGERS: dict[bytes, str] = {
    b"HTTP": "the other side speaks HTTP, not Kafka",
    b"GET ": "the other side sent an HTTP request, not a Kafka frame",
    b"POST": "the other side sent an HTTP request, not a Kafka frame",
    b"PROX": "the other side sent the PROXY protocol of a load balancer, not a Kafka frame",
    b"SSH-": "the other side speaks SSH, not Kafka",
    b"\x15\x03": "the other side speaks TLS and sent an alert: this port wants TLS (security_protocol SSL or SASL_SSL)",
    b"\x16\x03": "the other side sent a TLS handshake to a port without TLS",
}


class FrameReader:
    """Sans-I/O framing with Kafka's four-byte size prefix, which does not count itself.

    Shaped for `asyncio.BufferedProtocol`: `get_buffer` returns the buffer for the next bytes, `buffer_updated` sets how
    many were received, `next_frame` returns the frames that are whole. Between frames the buffer is a small one for
    prefixes and short frames, several with one read; the rest of a long frame is read into the frame's own buffer. Each
    frame has its own buffer, because records stay views into it; a large one is reused when no view is left.

    Args:
        limit: largest frame to accept, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entrance = memoryview(bytearray(ENTRANCE_SIZE))
        self._start = self._end = 0  # the bytes in the entrance that are not yet cut into frames
        self._frame: Memory | None = None
        self._size = 0
        self._filled = 0
        self._size_max = FIRST_BUFFER_SIZE  # size of the largest frame so far, if that is larger
        self._spares = SpareBuffers()

    @property
    def is_between_frames(self) -> bool:
        """Whether no byte of an unfinished frame has been read: only then a stream may end without an error."""
        return self._frame is None and self._start == self._end

    @property
    def progress(self) -> str:
        """How much of the unfinished frame was received, for error messages."""
        if self._frame is None:
            return f"{self._end - self._start} of {SIZE_PREFIX.size} bytes of a size prefix"
        return f"{self._filled} of {self._size} bytes of a frame"

    @property
    def missing(self) -> int:
        """How many bytes of an unfinished frame are missing, once its size is known; 0 between frames."""
        return 0 if self._frame is None else self._size - self._filled

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return the buffer for the next bytes; a memoryview, as a bytearray breaks asyncio's TLS (cpython 156275).

        Call it when `next_frame` has returned None.
        """
        if self._frame is not None:
            if self._filled == len(self._frame):
                self._grow()
            return memoryview(self._frame)[self._filled : self._size]
        if self._start:
            left = self._end - self._start
            self._entrance[:left] = self._entrance[self._start : self._end]
            self._start, self._end = 0, left
        return self._entrance[self._end :]

    def buffer_updated(self, count: int) -> None:
        """Register `count` new bytes in the buffer that `get_buffer` returned."""
        if self._frame is None:
            self._end += count
        else:
            self._filled += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, without its size prefix; None if more bytes are needed.

        Raises:
            ProtocolError: the size is negative, above the limit, or the start of another protocol.
        """
        if self._frame is not None:
            if self._filled < self._size:
                return None
            frame, self._frame = self._frame, None
            self._size_max = max(self._size_max, self._size)
            return memoryview(frame)[: self._size]
        start, end = self._start + SIZE_PREFIX.size, self._end
        if end < start:
            return None
        size = self._claimed_size()
        if start + size <= end:
            self._start = start + size
            return memoryview(bytearray(self._entrance[start : start + size]))
        self._frame = self._spares.take(size) or self._spares.make(min(size, self._size_max))
        self._size, self._filled = size, end - start
        self._frame[: self._filled] = self._entrance[start:end]
        self._start = self._end = 0
        if size <= LARGER_ENTRANCE_SIZE // 2 and len(self._entrance) < LARGER_ENTRANCE_SIZE:
            self._entrance = memoryview(bytearray(LARGER_ENTRANCE_SIZE))
        return None

    def feed(self, data: bytes | memoryview) -> list[memoryview]:
        """Take bytes from another buffer; return every frame that is whole now.

        Raises:
            ProtocolError: as for `next_frame`.
        """
        frames = []
        view = memoryview(data)
        while len(view):
            buffer = self.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.buffer_updated(count)
            while (frame := self.next_frame()) is not None:
                frames.append(frame)
        return frames

    def _claimed_size(self) -> int:
        size: int = SIZE_PREFIX.unpack_from(self._entrance, self._start)[0]
        if not 0 <= size <= self.limit:
            prefix = bytes(self._entrance[self._start : self._start + SIZE_PREFIX.size])
            raise ProtocolError(explain_size(prefix, size, self.limit), offset=0)
        return size

    def _grow(self) -> None:
        # A view on the old buffer may still be held by the event loop, which forbids resizing in place.
        assert self._frame is not None
        larger = self._spares.make(min(self._size, 4 * len(self._frame)))
        larger[: self._filled] = self._frame
        self._spares.forget(self._frame)
        self._frame = larger


def explain_size(prefix: bytes, size: int, limit: int) -> str:
    """Return why a size prefix cannot be one, in words: another protocol, a negative number, or above the limit."""
    for start, meaning in STRANGERS.items():
        if prefix.startswith(start):
            return meaning
    if size < 0:
        return f"negative frame size {size}: the other side does not speak Kafka, or the stream is out of step"
    return f"frame of {size} bytes, the limit is {limit}"
