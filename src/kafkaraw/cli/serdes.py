"""Keys and values that are not text: how `consume -s` shows them, and `produce -s` reads them.

One table of names, those of Java's serializers, and kcat's pack strings for showing. Both directions convert between
the bytes in Kafka and text. Start at `showing` and `reading`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from kafkaraw.client.sharing.batch import ShareRecord
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import Record

OF_SCHEMAS: Final = ("avro", "json-schema", "protobuf")
"""Names that need a registry; `cli.schema_serdes` has their converters."""
AnyRecord: TypeAlias = Record | ShareRecord
"""A record of a consumer, or of a share consumer."""
ToBytes: TypeAlias = Callable[[bytes], bytes]
"""Converts text to the bytes that are sent."""


@dataclass(frozen=True)
class ToText:
    """Shows the bytes of keys, or of values.

    Attributes:
        field: "key" or "value".
        name: the user's name for the conversion.
        convert: bytes to text.
        is_json: the text is JSON, and is copied into a JSON envelope as it is.
    """

    field: str
    name: str
    convert: Callable[[bytes], bytes]
    is_json: bool

    def at(self, record: AnyRecord, data: bytes) -> bytes:
        """Return the text.

        Raises:
            KafkaError: the bytes are invalid; the message says where, and what to try.
        """
        try:
            return self.convert(data)
        except (ValueError, struct.error) as error:
            where = f"{record.topic} [{record.partition}] at offset {record.offset}"
            seen = f"{data[:16].hex(' ')}{' …' if len(data) > 16 else ''}"
            raise KafkaError(
                f"the {self.field} of {where} is not {self.name}: {error} ({len(data)} bytes: {seen}); "
                f"leave out -s, or use -s {self.field}=hex to see the bytes"
            ) from error

    def json_at(self, record: AnyRecord, data: bytes) -> str | None:
        """Return the text as JSON for an envelope; None if the bytes themselves belong there.

        Raises:
            KafkaError: as `at`.
        """
        text = self.at(record, data).decode()
        return text if self.is_json else encode_basestring(text)


@dataclass(frozen=True)
class _Serde:
    show: Callable[[bytes], bytes]
    read: ToBytes
    is_json: bool = False


def _number(code: str) -> _Serde:
    packer = struct.Struct(f">{code}")
    parse: Callable[[bytes], float] = float if code in "fd" else int

    def read(text: bytes) -> bytes:
        try:
            return packer.pack(parse(text))
        except (struct.error, OverflowError) as error:
            raise ValueError(str(error)) from error

    return _Serde(lambda data: json.dumps(packer.unpack(data)[0]).encode(), read, is_json=True)


def _same_text(data: bytes) -> bytes:
    data.decode()
    return data


def _same_json(data: bytes) -> bytes:
    json.loads(data)
    return data


def _compact_json(data: bytes) -> bytes:
    """Return the text on one line, so that it fits on a line of output."""
    return json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":")).encode()


def _boolean(data: bytes) -> bytes:
    names = {b"\x00": b"false", b"\x01": b"true"}
    if data not in names:
        raise ValueError("a boolean is one byte, 00 or 01")
    return names[data]


def _of_boolean(text: bytes) -> bytes:
    bits = {b"false": b"\x00", b"true": b"\x01"}
    if text not in bits:
        raise ValueError("a boolean is true or false")
    return bits[text]


def _hex(text: bytes) -> bytes:
    return bytes.fromhex(text.decode("ascii"))


def _base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


_INTEGER: Final = _number("i")
_SERDES: Final = {
    "bytes": None,
    "string": _Serde(_same_text, _same_text),
    "json": _Serde(_compact_json, _same_json, is_json=True),
    "short": _number("h"),
    "integer": _INTEGER,
    "int": _INTEGER,
    "long": _number("q"),
    "float": _number("f"),
    "double": _number("d"),
    "boolean": _Serde(_boolean, _of_boolean, is_json=True),
    "uuid": _Serde(
        lambda data: str(uuid.UUID(data.decode())).encode(), lambda text: str(uuid.UUID(text.decode())).encode()
    ),
    "hex": _Serde(lambda data: data.hex().encode(), _hex),
    "base64": _Serde(base64.b64encode, _base64),
}
_PACK_SIZES: Final = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "c": 1}


def showing(
    texts: tuple[str, ...], of_schemas: Callable[[str, str], ToText] | None = None
) -> tuple[ToText | None, ToText | None]:
    """Return the converters for keys and values that `-s` selects for consuming.

    Args:
        texts: `key=NAME`, `value=NAME`, or `NAME` for both.
        of_schemas: returns the converter for a field and a name of `OF_SCHEMAS`; None refuses these names.

    Raises:
        UsageError: an unknown name.
    """
    chosen: dict[str, ToText | None] = {"key": None, "value": None}
    for field, name in _named(texts):
        if name in _SERDES:
            serde = _SERDES[name]
            chosen[field] = None if serde is None else ToText(field, name, serde.show, serde.is_json)
        elif name in OF_SCHEMAS and of_schemas is not None:
            chosen[field] = of_schemas(field, name)
        else:
            chosen[field] = ToText(field, f"of the form {name!r}", _unpacking(name), False)
    return chosen["key"], chosen["value"]


def reading(
    texts: tuple[str, ...], of_schemas: Callable[[str, str], ToBytes] | None = None
) -> tuple[ToBytes | None, ToBytes | None]:
    """Return the converters for keys and values that `-s` selects for producing.

    Args:
        texts: as for `showing`.
        of_schemas: as for `showing`.

    Raises:
        UsageError: an unknown name.
    """
    chosen: dict[str, ToBytes | None] = {"key": None, "value": None}
    for field, name in _named(texts):
        if name in OF_SCHEMAS and of_schemas is not None:
            chosen[field] = of_schemas(field, name)
            continue
        if name not in _SERDES:
            raise UsageError(f"-s {name}: unknown; known are {', '.join((*_SERDES, *OF_SCHEMAS))}")
        serde = _SERDES[name]
        chosen[field] = None if serde is None else serde.read
    return chosen["key"], chosen["value"]


def _named(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        field, equals, name = text.partition("=")
        if equals and field not in ("key", "value"):
            raise UsageError(f"-s {text}: must be key=NAME, value=NAME, or NAME for both")
        found += [(field, name)] if equals else [("key", text), ("value", text)]
    return found


def _unpacking(form: str) -> Callable[[bytes], bytes]:
    """Return the converter of a kcat pack string: numbers and characters one after the other, to text.

    Raises:
        UsageError: it is neither a pack string nor a name.
    """
    if not form or not set(form) <= {*_PACK_SIZES, *" <>s$"}:
        raise UsageError(
            f"-s {form}: unknown; known are {', '.join((*_SERDES, *OF_SCHEMAS))}, and pack strings of "
            f"< > b B h H i I q Q c s $ and spaces"
        )

    def unpack(data: bytes) -> bytes:
        out, at, order = [], 0, ">"
        for code in form:
            if code in "<>":
                order = code
            elif code == " ":
                out.append(b" ")
            elif code == "s":
                out.append(data[at:])
                at = len(data)
            elif code == "$":
                if at < len(data):
                    raise ValueError(f"{len(data) - at} bytes are left where the end should be")
            else:
                piece = data[at : at + _PACK_SIZES[code]]
                at += _PACK_SIZES[code]
                out.append(piece if code == "c" and piece else str(struct.unpack(order + code, piece)[0]).encode())
        return b"".join(out)

    return unpack
