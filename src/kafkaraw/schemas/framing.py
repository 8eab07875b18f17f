"""How bytes name their schema: a prefix, or a header of the record. Pure; no registry is asked.

Prefix: `00`, the id as 4 bytes, then the payload; in front of a Protobuf payload the indexes that choose a message of
the schema. Header: `__key_schema_id` or `__value_schema_id` is `01` and the GUID as 16 bytes, or `00` and the id; the
Protobuf indexes follow there, and the record holds the bare payload. Start at `read_frame`; `describe` says what bytes
look like that have neither.

Source: Confluent's SchemaId (package io.confluent.kafka.serializers.schema.id); its wire format documentation.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.errors import FramingError

MAGIC_ID: Final = 0
MAGIC_GUID: Final = 1
PREFIX_SIZE: Final = 5
GUID_SIZE: Final = 17
INDEXES_MAX: Final = 100
"""Most nested messages that indexes may go down; protoc refuses deeper schemas."""
HEADER_NAMES: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
_FIRST_MESSAGE: Final = (0,)


class Framing(StrEnum):
    """Where the id of a schema is."""

    PREFIX = "prefix"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Framed:
    """The parts of framed bytes.

    Attributes:
        framing: where the id was found.
        schema_id: the id; None if a GUID was found.
        guid: the GUID; None if an id was found.
        message_indexes: path to the Protobuf message in its file, (0,) for the first one; None for other languages.
        payload: the encoded object.
    """

    framing: Framing
    schema_id: int | None
    guid: str | None
    message_indexes: tuple[int, ...] | None
    payload: memoryview


def write_prefix(schema_id: int, message_indexes: Sequence[int] | None = None) -> bytes:
    """Return what stands in front of a payload.

    Args:
        schema_id: id of the schema.
        message_indexes: for Protobuf, the path to the message.
    """
    return b"\0" + schema_id.to_bytes(4, "big") + write_indexes(message_indexes)


def write_header(guid: str, message_indexes: Sequence[int] | None = None) -> bytes:
    """Return the value of the header that names a schema by its GUID; arguments as `write_prefix`."""
    return b"\1" + uuid.UUID(guid).bytes + write_indexes(message_indexes)


def write_indexes(indexes: Sequence[int] | None) -> bytes:
    """Return Protobuf's message indexes as the wire has them: a count, then the numbers, as zigzag varints."""
    if indexes is None:
        return b""
    if tuple(indexes) == _FIRST_MESSAGE:
        return b"\0"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def _varint(number: int) -> bytes:
    rest = number << 1  # zigzag of a number that is not negative
    made = bytearray()
    while rest > 127:
        made.append(rest & 127 | 128)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def header_of(headers: Iterable[tuple[str, bytes | None]], field: str) -> bytes | None:
    """Return the header that names the schema of a key or a value; None if the record has none."""
    name = HEADER_NAMES[field]
    for key, value in headers:
        if key == name:
            return value
    return None


def read_frame(
    data: bytes | memoryview, header: bytes | None = None, *, with_indexes: bool = False, source: str = "the bytes"
) -> Framed:
    """Split framed bytes. A header counts more than a prefix.

    Args:
        data: key or value of a record.
        header: value of the record's header that names the schema; None if there is none.
        with_indexes: Protobuf: read the message indexes, too.
        source: names the bytes in errors.

    Raises:
        FramingError: neither header nor prefix; says what the bytes look like.
    """
    view = memoryview(data)
    if header is not None:
        schema_id, guid, size = _read_id(memoryview(header), f"the header of {source}")
        indexes, end = read_indexes(header, size, f"the header of {source}") if with_indexes else (None, size)
        if end != len(header):
            raise FramingError(
                f"the header of {source} has {len(header) - end} bytes behind the schema's id: {header[:40].hex(' ')}"
            )
        return Framed(Framing.HEADER, schema_id, guid, indexes, view)
    if len(view) < PREFIX_SIZE or view[0] > MAGIC_GUID or (view[0] == MAGIC_GUID and len(view) < GUID_SIZE):
        raise FramingError(f"{source} have no schema id in front, and the record no header with one: {describe(data)}")
    schema_id, guid, size = _read_id(view, source)
    indexes, end = read_indexes(view, size, source) if with_indexes else (None, size)
    return Framed(Framing.PREFIX, schema_id, guid, indexes, view[end:])


def _read_id(data: memoryview, source: str) -> tuple[int | None, str | None, int]:
    if len(data) >= PREFIX_SIZE and data[0] == MAGIC_ID:
        return int.from_bytes(data[1:PREFIX_SIZE], "big"), None, PREFIX_SIZE
    if len(data) >= GUID_SIZE and data[0] == MAGIC_GUID:
        return None, str(uuid.UUID(bytes=bytes(data[1:GUID_SIZE]))), GUID_SIZE
    raise FramingError(
        f"{source} must be 00 and an id of 4 bytes, or 01 and a GUID of 16 bytes; found "
        f"{data[:20].hex(' ') or 'nothing'}"
    )


def read_indexes(data: bytes | memoryview, at: int, source: str = "the bytes") -> tuple[tuple[int, ...], int]:
    """Read Protobuf's message indexes.

    Returns:
        the indexes, and the position behind them.

    Raises:
        FramingError: they end too early, are too many or negative.
    """
    count, at = _read_varint(data, at, source)
    if count == 0:
        return _FIRST_MESSAGE, at
    if count > INDEXES_MAX:
        raise FramingError(f"{source} have {count} message indexes in front; at most {INDEXES_MAX} make sense")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at, source)
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(data: bytes | memoryview, at: int, source: str) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise FramingError(f"{source} end within the message indexes of Protobuf; another language wrote them")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number & 1:
                raise FramingError(f"{source} have a negative message index; another language than Protobuf wrote them")
            return number >> 1, at
    raise FramingError(f"{source} have a message index of more than 5 bytes; another language than Protobuf wrote them")


# -- what unframed bytes look like


def describe(data: bytes | memoryview) -> str:
    """Say what bytes look like that are not framed, and what to do. A guess from the bytes alone."""
    start = bytes(data[:64])
    shown = start[:16].hex(" ") + (" ..." if len(data) > 16 else "")
    if not start:
        return "there are no bytes at all"
    guess = _guess(bytes(data), start)
    return f"{guess}; the {len(data)} bytes begin with {shown}"


def _guess(data: bytes, start: bytes) -> str:
    text = start.lstrip()
    if text[:1] in (b"{", b"[") and _is_text(start):
        return "they look like JSON text without framing; use a deserializer for plain JSON, such as json.loads"
    if start[:4] == b"Obj\x01":
        return "they look like an Avro file with its own schema inside; read it with fastavro.reader"
    if start[:2] == b"\xc3\x01" and len(data) >= 10:
        return (
            "they look like Avro's single object encoding, with a fingerprint of the schema "
            f"({start[2:10][::-1].hex()}) and no id of a registry"
        )
    if start[0] in (3, 5) and start[1:2] in (b"\0", b"\5") and len(data) >= 18:
        return (
            "they look like AWS Glue's framing (03, compression, UUID of the schema's version), which is not supported"
        )
    if start[0] == 0 and len(data) < PREFIX_SIZE:
        return f"they begin like a prefix and end after {len(data)} bytes; a prefix has 5"
    if _is_text(start):
        return "they look like plain text; use a deserializer such as bytes.decode"
    if looks_like_protobuf(data):
        return "they look like a Protobuf message without framing; parse them with the message's class"
    return "they look like bare Avro or another binary format without framing"


def looks_apicurio(data: bytes | memoryview) -> bool:
    """Whether bytes may have the 8-byte id of old Apicurio serializers: then the 4-byte id read from them is tiny."""
    return len(data) >= 9 and data[0] == 0 and bytes(data[1:5]) == b"\0\0\0\0" and bytes(data[5:9]) != b"\0\0\0\0"


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 3:
            return False
        text = start[: error.start].decode()
    return bool(text) and all(character.isprintable() or character in "\t\r\n" for character in text)


def looks_like_protobuf(data: bytes | memoryview) -> bool:
    """Whether bytes are a sequence of Protobuf fields; looks at no more than 64 of them."""
    at, size = 0, len(data)
    for _ in range(64):
        if at >= size:
            return at == size and size > 0
        tag, at = _plain_varint(data, at)
        kind, number = tag & 7, tag >> 3
        if not 0 < number < 1 << 29:
            return False
        if kind == 0:
            _, at = _plain_varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, at = _plain_varint(data, at)
            at += length
        elif kind == 5:
            at += 4
        else:
            return False
    return at <= size


def _plain_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, len(data) + 1
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            break
    return number, at
