"""Annotate one frame whose kind is known: size prefix, header, body, and all that lies within.

This module must not guess; `guess` does. Start at `annotate_frame`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from kafkaraw.errors import KafkaError, ProtocolError, UsageError
from kafkaraw.inspect.batches import annotate_records
from kafkaraw.inspect.embedded import annotate_fields
from kafkaraw.protocol import decode_request, decode_response, encode_request, encode_response
from kafkaraw.protocol.annotate import Node, annotate_message
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, Api
from kafkaraw.protocol.frames import (
    request_header_version,
    response_header_version,
)
from kafkaraw.protocol.types import RECORDS, decode_uvarint

SIZE_PREFIX = 4


class FrameKind(StrEnum):
    """What a frame is."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read some bytes.

    Attributes:
        kind: request or response.
        api: the API it belongs to.
        version: version of that API.
        prefixed: whether the bytes begin with the size of the frame.
    """

    kind: FrameKind
    api: Api
    version: int
    prefixed: bool

    def __str__(self) -> str:
        return f"{self.api.name} {self.kind} v{self.version}"


@dataclass(slots=True)
class Annotated:
    """A frame read in one way.

    Attributes:
        reading: the way.
        root: tree of everything that could be read.
        error: what stopped the reading, or None.
        canonical: whether encoding the value again gives the same bytes; None when there is no whole value.
    """

    reading: Reading
    root: Node
    error: ProtocolError | None
    canonical: bool | None


def annotate_frame(data: memoryview, reading: Reading) -> Annotated:
    """Read a frame in the given way, as far as it makes sense."""
    root = Node(str(reading), "frame", 0, len(data))
    at = 0
    error: ProtocolError | None = None
    if reading.prefixed:
        at, error = _size_prefix(root, data)
    frame_end = len(data) if error is None or len(data) < SIZE_PREFIX else min(len(data), _claimed_end(data))
    if at:
        body_error = _header_and_body(root, data[:frame_end], at, reading)
        error = _worse(error, body_error)
    elif not reading.prefixed:
        error = _header_and_body(root, data, 0, reading)
    canonical = None if error is not None else _is_canonical(data[at:], reading)
    return Annotated(reading, root, error, canonical)


def _claimed_end(data: memoryview) -> int:
    return SIZE_PREFIX + int.from_bytes(data[:SIZE_PREFIX])


def _worse(size_error: ProtocolError | None, body_error: ProtocolError | None) -> ProtocolError | None:
    """When a frame is cut short, the field at which it ends says more than the size does; tell both."""
    if size_error is None or body_error is None:
        return size_error or body_error
    message = f"{body_error.message}; {size_error.message}"
    return ProtocolError(message, path=body_error.path, offset=body_error.offset)


def _size_prefix(root: Node, data: memoryview) -> tuple[int, ProtocolError | None]:
    if len(data) < SIZE_PREFIX:
        message = f"a size prefix has {SIZE_PREFIX} bytes, have {len(data)}"
        return 0, ProtocolError(message, path="size", offset=len(data))
    (size,) = struct.unpack_from(">i", data)
    node = Node("size", "int32", 0, SIZE_PREFIX, size, ["bytes of the frame that follow this prefix"])
    root.children.append(node)
    have = len(data) - SIZE_PREFIX
    if size == have:
        return SIZE_PREFIX, None
    what = "the frame is cut short" if have < size else "bytes are left over"
    offset = len(data) if have < size else SIZE_PREFIX + size
    return SIZE_PREFIX, ProtocolError(f"declared {size} bytes, have {have}: {what}", path="size", offset=offset)


def _header_and_body(root: Node, data: memoryview, at: int, reading: Reading) -> ProtocolError | None:
    header = Node("header", "", at, at)
    root.children.append(header)
    read_header = _request_header if reading.kind is FrameKind.REQUEST else _response_header
    try:
        body_at = read_header(header, data, at, reading)
    except ProtocolError as error:
        header.end = len(data)
        return error
    header.end = body_at
    cls = reading.api.request if reading.kind is FrameKind.REQUEST else reading.api.response
    body, body_error = annotate_message(cls, reading.version, data, body_at)
    body.name = "body"
    root.children.append(body)
    annotate_fields(body)
    _open_records(body, data)
    if body_error is None and body.end != len(data):
        left = len(data) - body.end
        return ProtocolError(f"the message ends here, {left} bytes are left over", path="body", offset=body.end)
    return body_error


def _request_header(header: Node, data: memoryview, at: int, reading: Reading) -> int:
    version = request_header_version(reading.api.key, reading.version)
    header.kind = f"request header v{version}"
    if len(data) - at < 8:
        raise ProtocolError(
            f"a request header has at least 8 bytes, {len(data) - at} are left", path="header", offset=at
        )
    for name, fmt in (("api_key", "h"), ("api_version", "h"), ("correlation_id", "i")):
        at = _fixed(header, data, at, name, fmt)
    header.children[2].notes.append("comes back in the response")
    if version > 0:
        at = _client_id(header, data, at)
    if version > 1:
        at = _header_tags(header, data, at)
    return at


def _response_header(header: Node, data: memoryview, at: int, reading: Reading) -> int:
    version = response_header_version(reading.api.key, reading.version)
    header.kind = f"response header v{version}"
    if len(data) - at < 4:
        raise ProtocolError(f"correlation_id needs 4 bytes, {len(data) - at} are left", path="header", offset=at)
    at = _fixed(header, data, at, "correlation_id", "i")
    header.children[0].notes.append("that of the request")
    if version == 1:
        at = _header_tags(header, data, at)
    return at


def _fixed(header: Node, data: memoryview, at: int, name: str, fmt: str) -> int:
    size = struct.calcsize(">" + fmt)
    (value,) = struct.unpack_from(">" + fmt, data, at)
    header.children.append(Node(name, f"int{8 * size}", at, at + size, value))
    return at + size


def _client_id(header: Node, data: memoryview, at: int) -> int:
    if len(data) - at < 2:
        raise ProtocolError("the frame ends here", path="header.client_id", offset=len(data))
    size: int = struct.unpack_from(">h", data, at)[0]
    left = len(data) - at - 2
    if size > left or size < -1:
        raise ProtocolError(f"string declared {size} bytes, {left} are left", path="header.client_id", offset=at)
    end = at + 2 + max(size, 0)
    try:
        value = None if size < 0 else str(data[at + 2 : end], "utf-8")
    except UnicodeDecodeError as error:
        offset = at + 2 + error.start
        raise ProtocolError(f"not UTF-8: {error.reason}", path="header.client_id", offset=offset) from None
    note = "length -1 means null" if size < 0 else f"length {size}; never compact, not even here"
    header.children.append(Node("client_id", "string", at, end, value, [note]))
    return end


def _header_tags(header: Node, data: memoryview, at: int) -> int:
    section = Node("tagged fields", "tag section", at, at)
    header.children.append(section)
    try:
        count, at = decode_uvarint(data, at)
        for _ in range(count):
            start = at
            tag, at = decode_uvarint(data, at)
            size, at = decode_uvarint(data, at)
            if size > len(data) - at:
                raise ValueError(f"tag {tag} declared {size} bytes, {len(data) - at} are left")
            value = bytes(data[at : at + size])
            at += size
            section.children.append(Node(f"tag {tag}", "unknown tagged field", start, at, value))
    except (IndexError, ValueError) as error:
        message = f"tagged fields: {error if str(error) else 'the frame ends here'}"
        raise ProtocolError(message, path="header", offset=at) from None
    section.value, section.end = count, at
    return at


def _open_records(node: Node, data: memoryview, topic: str = "") -> None:
    """Open every records field below a node, telling it whose topic it is."""
    for child in node.children:
        if child.name in ("topic", "name") and isinstance(child.value, str):
            topic = child.value
    for child in node.children:
        if child.spec is not None and child.spec.kind is RECORDS:
            annotate_records(child, data, topic)
        else:
            _open_records(child, data, topic)


def _is_canonical(frame: memoryview, reading: Reading) -> bool:
    """Whether the frame is what we would write for the same value."""
    try:
        if reading.kind is FrameKind.REQUEST:
            request_header, request = decode_request(frame)
            return encode_request(request_header, request) == frame
        response_header, response = decode_response(frame, reading.api.key, reading.version)
        return encode_response(response_header, response, reading.version) == frame
    except KafkaError:
        return False


def api_named(name: str | int) -> Api:
    """Find an API by key or by name, whatever its case.

    Raises:
        UsageError: there is none; names the nearest.
    """
    if isinstance(name, int) or name.isdigit():
        api = API_BY_KEY.get(int(name))
        if api is None:
            raise UsageError(f"there is no API with key {name}; keys go from 0 to {max(API_BY_KEY)}")
        return api
    by_folded = {known.lower(): api for known, api in API_BY_NAME.items()}
    folded = name.lower().replace("_", "").replace("-", "").removesuffix("request").removesuffix("response")
    if folded in by_folded:
        return by_folded[folded]
    near = get_close_matches(folded, by_folded, n=1)
    hint = f"; did you mean {by_folded[near[0]].name}?" if near else ""
    raise UsageError(f"there is no API named {name!r}{hint}")
