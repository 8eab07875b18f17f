"""What is fuzzed, and what must hold for any bytes; shared by the fuzzer, its fallback and the kept findings.

An input is two bytes that choose a message and its version, then the bytes to decode. The rules: decoding gives a value
or a ProtocolError with its place; the annotating walk agrees with the fast decoder; a value that was read can be
written, and what was written reads and writes the same again.
"""

from __future__ import annotations

import random
import struct

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import (
    ResponseHeader,
    decode_message,
    decode_request,
    decode_response,
    encode_message,
    encode_request,
    encode_response,
)
from kafkaraw.protocol.annotate import annotate_message
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, api_of
from kafkaraw.protocol.declare import Direction, header_of
from kafkaraw.protocol.describe import embedded_messages, embedded_modules
from kafkaraw.protocol.frames import RequestHeader
from tests.protocol.message_values import random_message

CHOICE = struct.Struct(">H")
VERSIONED = [
    (cls, version)
    for cls in (
        *(cls for api in API_TABLE for cls in (api.request, api.response)),
        *(cls for module in embedded_modules() for cls in embedded_messages(module)),
    )
    for version in range(header_of(cls).versions.min, header_of(cls).versions.max + 1)
]


def choice(data: bytes) -> tuple[type[object], int, bytes]:
    """The message, the version and the bytes that an input stands for."""
    cls, version = VERSIONED[CHOICE.unpack_from(data)[0] % len(VERSIONED)]
    return cls, version, data[CHOICE.size :]


def check(data: bytes) -> None:
    """Hold one input to the rules; an AssertionError, or any error but ProtocolError, is a finding."""
    if len(data) >= CHOICE.size:
        check_all(*choice(data))


def check_all(cls: type[object], version: int, body: bytes) -> None:
    """Hold bytes to the rules as the body of a message, and as a whole frame."""
    check_body(cls, version, body)
    direction = header_of(cls).direction
    if direction is Direction.REQUEST:
        check_request(body)
        check_request(struct.pack(">hh", api_of(cls).key, version) + body)
    elif direction is Direction.RESPONSE:
        check_response(body, api_of(cls).key, version)


def check_body(cls: type[object], version: int, body: bytes) -> None:
    """The body of a message, or an embedded structure."""
    root, error = annotate_message(cls, version, memoryview(body))
    assert 0 <= root.end <= len(body)
    try:
        message = decode_message(cls, version, body)
    except ProtocolError as refused:
        assert "cannot be decoded" not in str(refused), "the walk found nothing wrong"
        assert 0 <= refused.offset <= len(body)
        assert error is not None or root.end < len(body), "the walk found nothing wrong"
        return
    assert error is None, f"the walk says {error}"
    assert root.end == len(body)
    written = encode_message(message, version)
    assert encode_message(decode_message(cls, version, written), version) == written


def check_request(frame: bytes) -> None:
    """A whole request."""
    try:
        header, message = decode_request(frame)
    except ProtocolError:
        return
    written = encode_request(header, message)
    again, same = decode_request(written)
    assert again == header
    assert encode_request(again, same) == written
    assert API_BY_KEY[header.api_key].request is type(message)


def check_response(frame: bytes, api_key: int, version: int) -> None:
    """A whole response."""
    try:
        header, message = decode_response(frame, api_key, version)
    except ProtocolError:
        return
    written = encode_response(header, message, version)
    again, same = decode_response(written, api_key, version)
    assert again == header
    assert encode_response(again, same, version) == written


def seed_input(chosen: int, rng: random.Random) -> bytes:
    """A good input for one message and version: its body, and for some the whole frame."""
    cls, version = VERSIONED[chosen]
    message = random_message(cls, version, rng)
    direction = header_of(cls).direction
    if direction is Direction.DATA or rng.random() < 0.5:
        body = encode_message(message, version)
    elif direction is Direction.REQUEST:
        client_id = rng.choice((None, "", "client"))
        body = encode_request(RequestHeader(api_of(cls).key, version, 7, client_id), message)
    else:
        body = encode_response(ResponseHeader(7), message, version)
    return CHOICE.pack(chosen) + body


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The input with a few changes of the kinds that find faults: flips, cuts, repeats, and telling values."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(CHOICE.size, len(changed) + 1)
        size = rng.choice((0, 1, 1, 2, 4, 8))
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([rng.choice((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, rng.randrange(256)))])
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = changed[at : at + size * 2]
            case 3:
                changed[at : at + size] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80\x01", b"\0"))
            case _:
                changed[at : at + size] = rng.randbytes(size)
    return bytes(changed)
