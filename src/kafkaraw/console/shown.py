"""Bytes of keys, values and headers as text that is safe to look at, with fields masked, and in bounded time.

What is in records is hostile: it may be huge, nested a million deep, invalid UTF-8, or text that reorders what stands
around it. Must not make HTML: templates escape. Start at `Decoder.shown`.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.console.packed import may_be_packed, unpacked
from kafkaraw.errors import KafkaError
from kafkaraw.readable import duration_text as duration_text
from kafkaraw.readable import size_text as size_text
from kafkaraw.readable import time_text as utc_text

if TYPE_CHECKING:
    from kafkaraw.schemas.client import AsyncRegistry

FORMATS: Final = ("auto", "json", "msgpack", "text", "hex", "schema")
MASK: Final = "•••"
PREVIEW_CHARACTERS: Final = 400
WHOLE_CHARACTERS: Final = 200_000
_PARSED_MAX_BYTES: Final = 4 << 20
_PREVIEWED_MAX_BYTES: Final = 64 << 10
"""Larger values are parsed on their own page only, and where fields are masked."""
_BEGINNING_BYTES: Final = 2_000
_NESTED_MAX: Final = 200
_HEX_BYTES: Final = 4_096
_HEX_ROW: Final = 16
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_FRAME: Final = b"\x00"
_FRAME_BYTES: Final = 5


class UnreadableJsonError(ValueError):
    """Bytes are no JSON, or more than is parsed."""


@dataclass(frozen=True)
class Shown:
    """A key, a value, or the value of a header.

    Attributes:
        kind: "null", "empty", "json", "msgpack", "text", "hex", "schema" or "hidden".
        text: at most as long as was asked for.
        size_bytes: the size of all of it.
        is_cut: whether the text is only the beginning.
        note: what the reader should know, such as why it does not decode.
    """

    kind: str
    text: str
    size_bytes: int
    is_cut: bool = False
    note: str = ""


def parsed(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return bytes as JSON.

    Raises:
        UnreadableJsonError: they are none, or too large or too deep.
    """
    if len(data) > _PARSED_MAX_BYTES:
        raise UnreadableJsonError(f"more than {_PARSED_MAX_BYTES >> 20} MiB are not parsed")
    try:
        found = json.loads(data)
    except RecursionError:
        raise UnreadableJsonError("nested too deep") from None
    except ValueError as error:
        raise UnreadableJsonError(str(error)) from None
    if len(data) > 2 * _NESTED_MAX and _is_deep(found):
        raise UnreadableJsonError(f"nested deeper than {_NESTED_MAX}")
    return found


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_NESTED_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def masked(value: Any, masks: frozenset[str]) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON without the contents of masked fields, at any depth; names are compared without case.

    A text that has the name of a masked field as JSON, XML or properties have names is masked as a whole.
    """
    if not masks:
        return value
    if isinstance(value, dict):
        return {name: MASK if str(name).lower() in masks else masked(each, masks) for name, each in value.items()}
    if isinstance(value, list):
        return [masked(each, masks) for each in value]
    if isinstance(value, str) and any(sign in value for sign in "{<=:"):
        lower = value.lower()
        return MASK if any(each in lower for each in masks) else value
    return value


def hides(data: bytes, masks: frozenset[str]) -> bool:
    """Return whether bytes that no format has decoded are not shown, since they could show masked fields.

    Those are all bytes that are no plain text, and text that could have fields, whole or not.
    """
    if not masks:
        return False
    if any(sign in data for sign in (b"{", b"<", b"=", b":")) or _BINARY.search(data):
        return True
    try:
        lower = data.decode().lower()
    except UnicodeDecodeError:
        return True
    return any(each in lower for each in masks)


def visible(text: str) -> str:
    """Return text with control characters, and those that reorder or hide text, as escapes."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def dumped(value: Any, *, is_pretty: bool) -> str:  # noqa: ANN401 - any JSON
    """Return JSON as text; what JSON does not have, such as bytes in Avro, as Python writes it."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if is_pretty else None, default=_as_json)
    return visible(text)


def _as_json(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def hex_dump(data: bytes, limit_bytes: int = _HEX_BYTES) -> str:
    """Return rows of offset, bytes and ASCII."""
    rows = []
    for start in range(0, min(len(data), limit_bytes), _HEX_ROW):
        part = data[start : start + _HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        rows.append(f"{start:06x}  {part.hex(' '):<{3 * _HEX_ROW - 1}}  {letters}")
    return "\n".join(rows)


class Decoder:
    """Decodes the keys and values of a topic.

    Args:
        form: one of `FORMATS`.
        masks: names of fields and headers whose contents are not shown, in lower case.
        registry: for values with schemas; None if there is none.
    """

    def __init__(self, form: str, masks: frozenset[str], registry: AsyncRegistry | None) -> None:
        self._form = form if form in FORMATS else "auto"
        self._masks = masks
        self._registry = registry
        self._deserializers: dict[int, Any] = {}

    @property
    def form(self) -> str:
        """How values are decoded, one of `FORMATS`."""
        return self._form

    @property
    def masks(self) -> frozenset[str]:
        """The names that are masked."""
        return self._masks

    async def shown(self, topic: str, field: str, data: bytes | None, *, is_whole: bool = False) -> Shown:
        """Return a key or value.

        Args:
            topic: of the record.
            field: "key" or "value".
            data: the bytes.
            is_whole: as much as a page may have, over several lines; otherwise the beginning, in one line.
        """
        if data is None:
            return Shown("null", "null", 0)
        if not data:
            return Shown("empty", "", 0)
        if not is_whole and not self._masks and len(data) > _PREVIEWED_MAX_BYTES and self._form != "schema":
            beginning = self._beginning(data)
            if beginning is not None:
                return beginning
        return await self._shown(topic, field, data, is_whole=is_whole)

    async def _shown(self, topic: str, field: str, data: bytes, *, is_whole: bool) -> Shown:
        note = ""
        if self._form in ("auto", "schema") and data[:1] == _FRAME and len(data) >= _FRAME_BYTES:
            value, note = await self.with_schema(topic, field, data)
            if not note:
                return self._json(value, len(data), "schema", is_whole=is_whole)
        elif self._form == "schema":
            note = "no schema's id is in front of it"
        if self._form == "msgpack" or (self._form == "auto" and may_be_packed(data)):
            try:
                return self._json(unpacked(data), len(data), "msgpack", is_whole=is_whole)
            except ValueError as error:
                note = f"no MessagePack: {error}" if self._form == "msgpack" else note
        if self._form in ("auto", "json", "text"):
            try:
                value = parsed(data)
            except UnreadableJsonError as error:
                note = note or (f"no JSON: {error}" if self._form == "json" else "")
                if hides(data, self._masks):
                    return Shown(
                        "hidden", MASK, len(data), note="fields are masked here, and this value does not parse"
                    )
            else:
                is_json = isinstance(value, dict | list) or self._form == "json"
                if (is_json and self._form != "text") or (self._masks and isinstance(value, dict | list | str)):
                    return self._json(value, len(data), "json", is_whole=is_whole)
            text = self._text(data)
            if text is not None:
                return _cut(visible(text), "text", len(data), note, is_whole=is_whole)
            note = note or "no UTF-8"
        return self._hexadecimal(data, note, is_whole=is_whole)

    def _beginning(self, data: bytes) -> Shown | None:
        """Return the beginning of a large text or MessagePack, which is not parsed for a line; None for others."""
        if self._form in ("auto", "json", "text") and not _BINARY.search(data, 0, _BEGINNING_BYTES):
            with contextlib.suppress(UnicodeDecodeError):
                text = codecs.getincrementaldecoder("utf-8")().decode(data[:_BEGINNING_BYTES])
                kind = "json" if data[:1] in (b"{", b"[") and self._form != "text" else "text"
                return Shown(kind, visible(text)[:PREVIEW_CHARACTERS], len(data), True)
        if self._form == "msgpack" or (self._form == "auto" and may_be_packed(data)):
            return self._hexadecimal(data, "large: its own page decodes it", is_whole=False)
        return None

    def _hexadecimal(self, data: bytes, note: str, *, is_whole: bool) -> Shown:
        if self._masks and (self._form in ("hex", "msgpack") or hides(data, self._masks)):
            return Shown("hidden", MASK, len(data), note="fields are masked here, and these bytes could show them")
        limit = WHOLE_CHARACTERS if is_whole else PREVIEW_CHARACTERS
        return Shown("hex", data[: limit // 3].hex(" "), len(data), len(data) > limit // 3, note)

    def header(self, name: str, data: bytes | None) -> Shown:
        """Return the value of a header."""
        if name.lower() in self._masks:
            return Shown("hidden", MASK, len(data or b""))
        if data is None:
            return Shown("null", "null", 0)
        text = self._text(data)
        if hides(data, self._masks):
            try:
                text = dumped(masked(parsed(data), self._masks), is_pretty=False)
            except UnreadableJsonError:
                return Shown("hidden", MASK, len(data))
        if text is None:
            return _cut(data[:WHOLE_CHARACTERS].hex(" "), "hex", len(data), "", is_whole=False)
        return _cut(visible(text), "text", len(data), "", is_whole=False)

    async def with_schema(self, topic: str, field: str, data: bytes) -> tuple[Any, str]:
        """Return the object in framed bytes, and why there is none."""
        if self._registry is None:
            return None, "it looks framed with a schema's id, and no registry is given (-r URL)"
        schema_id = int.from_bytes(data[1:_FRAME_BYTES], "big")
        try:
            deserializer = self._deserializers.get(schema_id)
            if deserializer is None:
                deserializer = await self._deserializer(schema_id)
                self._deserializers[schema_id] = deserializer
            return await deserializer(data, topic, field), ""
        except (KafkaError, ValueError, TypeError, KeyError, RecursionError) as error:
            return None, f"schema {schema_id}: {str(error)[:300]}"

    async def _deserializer(self, schema_id: int) -> Any:  # noqa: ANN401 - a function
        from kafkaraw.client.deserializers import DeserializationContext
        from kafkaraw.schemas.serializers.avro import AvroDeserializer
        from kafkaraw.schemas.serializers.json_schema import JsonSchemaDeserializer
        from kafkaraw.schemas.serializers.protobuf import ProtobufDeserializer

        assert self._registry is not None
        registered = await self._registry.schema_by_id(schema_id)
        makers: dict[str, Any] = {
            "AVRO": AvroDeserializer,
            "JSON": JsonSchemaDeserializer,
            "PROTOBUF": ProtobufDeserializer,
        }
        made = makers[registered.schema.schema_type.value](self._registry, ignore_rules=True)

        async def deserialize(data: bytes, topic: str, field: str) -> Any:  # noqa: ANN401
            context = DeserializationContext(topic, field, [])  # type: ignore[arg-type]
            found = made(data, context)
            found = await found if hasattr(found, "__await__") else found
            if hasattr(found, "DESCRIPTOR"):
                from google.protobuf.json_format import MessageToDict

                return MessageToDict(found, preserving_proto_field_name=True)
            return found

        return deserialize

    def _json(self, value: Any, size: int, kind: str, *, is_whole: bool) -> Shown:  # noqa: ANN401
        try:
            text = dumped(masked(value, self._masks), is_pretty=is_whole)
        except (RecursionError, ValueError, TypeError) as error:
            return Shown("hidden", MASK, size, note=f"cannot be shown: {error}")
        return _cut(text, kind, size, "", is_whole=is_whole)

    @staticmethod
    def _text(data: bytes) -> str | None:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None


def _cut(text: str, kind: str, size: int, note: str, *, is_whole: bool) -> Shown:
    limit = WHOLE_CHARACTERS if is_whole else PREVIEW_CHARACTERS
    return Shown(kind, text[:limit], size, len(text) > limit, note)


def time_text(milliseconds: int) -> str:
    """Return a timestamp in UTC; one that no calendar has as its number."""
    found = utc_text(milliseconds)
    return found if found.endswith("ms") else f"{found}Z" if found else "none"


def first(names: Iterable[object], count: int = 5) -> str:
    """Return the first few names, and how many there are more."""
    found: Sequence[object] = list(names)
    more = len(found) - count
    return ", ".join(map(str, found[:count])) + (f" and {more} more" if more > 0 else "")
