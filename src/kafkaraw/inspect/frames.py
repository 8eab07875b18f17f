"""Annotate one frame of a known kind: size prefix, header, body, and everything within.

This module must not guess; `guess` does. Start at `annotate_frame`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from kafkaraw.errors import KafkaError, ProtocolError, UsageError
from kafkaraw.inspect.batches import annotate_records
from kafkaraw.inspect.embedded import annotate_fields
from kafkaraw.inspect.records_within import Budget
from kafkaraw.protocol import decode_request, decode_response, encode_request, encode_response
from kafkaraw.protocol.annotate import Node, Walker
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, Api
from kafkaraw.protocol.declare import spec_of
from kafkaraw.protocol.frames import request_header_version, response_header_version
from kafkaraw.protocol.types import INT16, INT32, RECORDS, STRING, Primitive

SIZE_PREFIX: Final = 4


class FrameKind(StrEnum):
    """The kind of a frame."""

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

    @property
    def message(self) -> type[object]:
        """The class of the body."""
        return self.api.request if self.kind is FrameKind.REQUEST else self.api.response

    def __str__(self) -> str:
        return f"{self.api.name} {self.kind} v{self.version}"


@dataclass(slots=True)
class Annotated:
    """A frame read in one way.

    Attributes:
        reading: the way in which it was read.
        root: tree of everything that could be read.
        error: the error that stopped the reading, or None.
        canonical: whether encoding the value again returns the same bytes; None if there is no whole value.
    """

    reading: Reading
    root: Node
    error: ProtocolError | None
    canonical: bool | None


def annotate_frame(data: memoryview, reading: Reading) -> Annotated:
    """Read a frame in the given way, as far as it is valid."""
    root = Node(str(reading), "frame", 0, len(data))
    size_error = annotate_size(root, data) if reading.prefixed else None
    at = SIZE_PREFIX if reading.prefixed else 0
    if at > len(data):
        return Annotated(reading, root, size_error, None)
    frame = data[: at + claimed_size(data)] if size_error is not None else data
    error = _header_and_body(root, frame, at, reading)
    error = _both(size_error, error)
    canonical = None if error is not None else _mark_differences(root, data, at, reading)
    return Annotated(reading, root, error, canonical)


def claimed_size(data: memoryview) -> int:
    """Return the value of the size prefix; -1 if it is impossible."""
    size = int.from_bytes(data[:SIZE_PREFIX], signed=True)
    return size if len(data) >= SIZE_PREFIX and size >= 0 else -1


def annotate_size(root: Node, data: memoryview) -> ProtocolError | None:
    """Read the size prefix, and note whether as many bytes follow."""
    if len(data) < SIZE_PREFIX:
        message = f"a size prefix has {SIZE_PREFIX} bytes, have {len(data)}"
        return ProtocolError(message, path="size", offset=len(data))
    (size,) = struct.unpack_from(">i", data)
    node = Node("size", "int32", 0, SIZE_PREFIX, size, ["bytes of the frame that follow these four"])
    root.children.append(node)
    have = len(data) - SIZE_PREFIX
    if size == have:
        return None
    if have < size:
        message, offset = f"declared {size} bytes, have {have}: the frame is cut short", len(data)
    else:
        message, offset = f"declared {size} bytes, have {have}: {have - size} are left over", SIZE_PREFIX + max(size, 0)
    node.problem = message
    return ProtocolError(message, path="size", offset=offset)


def _both(size_error: ProtocolError | None, body_error: ProtocolError | None) -> ProtocolError | None:
    """Report the size and the field where a frame that was cut short ends: the field says more than the size does."""
    if size_error is None or body_error is None:
        return size_error or body_error
    return ProtocolError(f"{body_error.message}; {size_error.message}", path=body_error.path, offset=body_error.offset)


def _header_and_body(root: Node, data: memoryview, at: int, reading: Reading) -> ProtocolError | None:
    walker = Walker(data, at, reading.version, flexible=False, keep=True)
    error: ProtocolError | None = None
    try:
        walk_frame(walker, root, reading)
    except ProtocolError as stopped:
        error = stopped
        walker.close(root.children[-1], error)
    body = root.children[-1]
    annotate_fields(body)
    _open_records(body, data, Budget())
    if error is None and body.end != len(data):
        left = len(data) - body.end
        body.problem = f"the message ends here, {left} byte{' is' if left == 1 else 's are'} left over"
        error = ProtocolError(body.problem, path="body", offset=body.end)
    return error


def walk_frame(walker: Walker, root: Node, reading: Reading) -> None:
    """Read header and body into nodes below `root`, from the walker's position.

    Raises:
        ProtocolError: the bytes are invalid, or end.
    """
    header = walker.open("header", root)
    walker.path.enter("header")
    if reading.kind is FrameKind.REQUEST:
        _request_header(walker, header, reading)
    else:
        _response_header(walker, header, reading)
    walker.path.leave()
    header.end = walker.at
    body = walker.open("body", root)
    body.kind = f"{reading.message.__name__} v{reading.version}"
    body.owner = reading.message
    walker.flexible = reading.api.is_flexible(reading.version)
    walker.structure(spec_of(reading.message), body)
    body.end = walker.at


def _request_header(walker: Walker, header: Node, reading: Reading) -> None:
    version = request_header_version(reading.api.key, reading.version)
    header.kind = f"request header v{version}"
    for name, expected in (("api_key", reading.api.key), ("api_version", reading.version)):
        node = _header_field(walker, header, name, INT16)
        if node.value != expected:
            raise ProtocolError(
                f"these bytes say {node.value}, {reading} has {expected}", path=f"header.{name}", offset=node.start
            )
    node.notes.append(f"version of {reading.api.name} that the client speaks; the broker answers in the same")
    _header_field(walker, header, "correlation_id", INT32).notes.append("chosen by the client; the response repeats it")
    if version > 0:
        client_id = _header_field(walker, header, "client_id", STRING, nullable=True)
        client_id.notes.append("a name for logs and quotas")
        if version > 1:
            client_id.notes.append("never compact, not even in this header")
    if version > 1:
        _header_tags(walker, header, reading)


def _response_header(walker: Walker, header: Node, reading: Reading) -> None:
    version = response_header_version(reading.api.key, reading.version)
    header.kind = f"response header v{version}"
    _header_field(walker, header, "correlation_id", INT32).notes.append("says which request this answers")
    if version == 1:
        _header_tags(walker, header, reading)


def _header_field(walker: Walker, header: Node, name: str, kind: Primitive, *, nullable: bool = False) -> Node:
    walker.path.enter(name)
    node = walker.open(name, header)
    walker.value(kind, node, nullable)
    node.end = walker.at
    walker.path.leave()
    return node


def _header_tags(walker: Walker, header: Node, reading: Reading) -> None:
    walker.flexible = True
    walker.tags({}, spec_of(reading.message), header)  # no tags are defined for headers


def _open_records(node: Node, data: memoryview, budget: Budget, topic: str = "") -> None:
    """Open every records field below a node, and pass it its topic."""
    for child in node.children:
        if child.name in ("topic", "name") and isinstance(child.value, str):
            topic = child.value
    for child in node.children:
        if child.spec is not None and child.spec.kind is RECORDS:
            annotate_records(child, data, budget, topic)
        else:
            _open_records(child, data, budget, topic)


def _mark_differences(root: Node, data: memoryview, at: int, reading: Reading) -> bool:
    """Return whether our encoder writes the same frame for the value; if not, note the first difference."""
    frame = data[at:]
    try:
        if reading.kind is FrameKind.REQUEST:
            request_header, request = decode_request(frame)
            encoded = encode_request(request_header, request)
        else:
            response_header, response = decode_response(frame, reading.api.key, reading.version)
            encoded = encode_response(response_header, response, reading.version)
    except KafkaError:
        return False
    if encoded == frame:
        return True
    first = next((i for i, (ours, theirs) in enumerate(zip(encoded, frame, strict=False)) if ours != theirs), 0)
    node = _innermost(root, at + first)
    if not any(note.startswith("not canonical") for note in node.notes):
        node.notes.append(f"not canonical: from byte {at + first} on Kafka writes the same value in other bytes")
    return False


def _innermost(node: Node, at: int) -> Node:
    for child in node.children:
        if child.start <= at < child.end:
            return _innermost(child, at) if node.inner is None else node
    return node


def api_named(name: str | int) -> Api:
    """Find an API by key or by name in any case.

    Raises:
        UsageError: there is no such API; names the nearest.
    """
    if isinstance(name, int) or name.isdecimal():
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
