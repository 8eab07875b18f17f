"""Records as bytes for people and programs: kcat's format strings and its JSON envelope.

A renderer makes one piece of output of a whole batch, because the cost per record decides how fast a topic can be
searched: for plain formats, C runs one `%` of bytes for each record. Records with null values, or with values that must
be converted first, are rendered field by field. Start at `TextRenderer` and `JsonRenderer`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from kafkaraw.cli.serdes import AnyRecord, ToText
from kafkaraw.client.sharing.batch import ShareBatch, ShareRecord
from kafkaraw.errors import UsageError
from kafkaraw.records import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Batch, Header

Records: TypeAlias = Batch | ShareBatch
"""Records of one partition."""

Part: TypeAlias = bytes | str | Callable[[AnyRecord], bytes]
"""A part of a format: literal bytes, the letter of a token, or a function for a value without a token."""

TOKENS: Final = {
    "s": "value",
    "S": "length of the value, -1 for null",
    "R": "the same as 4 bytes, big-endian",
    "k": "key",
    "K": "length of the key, -1 for null",
    "T": "timestamp in milliseconds since 1970 UTC",
    "h": "headers, as name=value,name=value",
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "d": "delivery count, with --share-group",
}

_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|0[0-7]{0,3}|[1-9][0-9]{0,2}|.)", re.DOTALL)
_LETTERS: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "x": b"x"}
_PLAIN: Final = {
    "s": ("value", b"%b"),
    "k": ("key", b"%b"),
    "T": ("timestamp_ms", b"%d"),
    "o": ("offset", b"%d"),
    "d": ("delivery_count", b"%d"),
}
_ROW: Final = attrgetter("offset", "timestamp_type", "timestamp_ms", "headers", "key", "value")
_KINDS: Final = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "logappend"}


class Renderer(Protocol):
    """Renders batches."""

    def render(self, batch: Records) -> tuple[bytes, int]:
        """Return the bytes to write, and how many records they show."""


def unescape(text: str) -> bytes:
    r"""Return bytes for text with `\n`, `\t`, `\r`, `\xNN`, `\0OO` (octal) and `\NNN` (decimal); any other `\c` is c.

    Raises:
        UsageError: a number above 255.
    """
    parts = []
    at = 0
    for found in _ESCAPE.finditer(text):
        parts += [text[at : found.start()].encode(), _escaped(found[1])]
        at = found.end()
    return b"".join([*parts, text[at:].encode()])


def _escaped(body: str) -> bytes:
    if not body[0].isdigit() and (body[0] != "x" or len(body) == 1):
        return _LETTERS.get(body, body.encode())
    number = int(body[1:], 16) if body[0] == "x" else int(body, 8 if body[0] == "0" else 10)
    if number > 255:
        raise UsageError(f"\\{body} is {number}: a byte has at most 255")
    return bytes([number])


def parse_format(text: str) -> list[Part]:
    """Read a format string: literal bytes, and the letters of tokens, in order.

    Raises:
        UsageError: an unknown token; the known ones are listed.
    """
    parts: list[Part] = []
    for literal, token in re.findall(r"([^%]*)(%.?|$)", text, re.DOTALL):
        if literal:
            parts.append(unescape(literal))
        if token == "%%":
            parts.append(b"%")
        elif token:
            if token[1:] not in TOKENS:
                raise UsageError(
                    f"-f {text!r}: unknown token {token!r}; known are "
                    + ", ".join(f"%{letter} ({meaning})" for letter, meaning in TOKENS.items())
                    + ", and %% for a percent sign"
                )
            parts.append(token[1:])
    return parts


class TextRenderer:
    """Records by a format string.

    Args:
        parts: the result of `parse_format`.
        null: the text for null.
        key: converts keys.
        value: converts values.
    """

    def __init__(
        self, parts: Sequence[Part], *, null: bytes = b"", key: ToText | None = None, value: ToText | None = None
    ) -> None:
        self._parts = parts
        self._null = null
        self._of_key = key
        self._of_value = value
        tokens = [part for part in parts if isinstance(part, str)]
        converted = (key is not None and "k" in tokens) or (value is not None and "s" in tokens)
        simple = all(isinstance(part, bytes) or part in ("t", "p", *_PLAIN) for part in parts)
        self._is_plain = simple and not converted
        self._fields = [_PLAIN[token][0] for token in tokens if token in _PLAIN]
        self._lines = self._is_plain and len(parts) == 2 and parts[0] == "s" and isinstance(parts[1], bytes)
        self._seen_null = False
        self._templates: dict[tuple[str, int], bytes] = {}

    def render(self, batch: Records) -> tuple[bytes, int]:
        """Return the bytes to write, and how many records they show."""
        if self._lines:
            return self._values(batch)
        if self._is_plain and self._fields:
            return self._rows(batch)
        makers = [self._maker(part) for part in self._parts]
        rows = [b"".join([make(record) for make in makers]) for record in batch]
        return b"".join(rows), len(rows)

    def _rows(self, batch: Records) -> tuple[bytes, int]:
        template = self._template(batch)
        rows: Iterable[object] = map(attrgetter(*self._fields), batch)
        if not self._seen_null:
            try:
                texts = list(map(template.__mod__, rows))
                return b"".join(texts), len(texts)
            except TypeError:  # a null, which %b does not take
                self._seen_null = True
                rows = map(attrgetter(*self._fields), batch)
        columns = [*zip(*rows, strict=True)] if len(self._fields) > 1 else [tuple(rows)]
        null = self._null
        columns = [
            [null if each is None else each for each in column] if None in column else column for column in columns
        ]
        texts = list(map(template.__mod__, zip(*columns, strict=True)))
        return b"".join(texts), len(texts)

    def _values(self, batch: Records) -> tuple[bytes, int]:
        end = self._parts[1]
        assert isinstance(end, bytes)
        values = batch.values()
        null = self._null
        try:
            text = end.join(values)  # type: ignore[arg-type]  # nulls are rare, and raise a TypeError
        except TypeError:
            text = end.join([null if value is None else value for value in values])
        return (text + end if values else b""), len(values)

    def _template(self, batch: Records) -> bytes:
        found = self._templates.get(batch.topic_partition)
        if found is None:
            constants = {"t": batch.topic.encode(), "p": b"%d" % batch.partition}
            texts = [
                part.replace(b"%", b"%%")
                if isinstance(part, bytes)
                else _PLAIN[part][1]
                if part in _PLAIN
                else constants[part].replace(b"%", b"%%")
                for part in self._parts
                if not callable(part)
            ]
            found = self._templates[batch.topic_partition] = b"".join(texts)
        return found

    def _maker(self, part: Part) -> Callable[[AnyRecord], bytes]:
        if isinstance(part, bytes):
            return _constant(part)
        if callable(part):
            return part
        null, of_key, of_value = self._null, self._of_key, self._of_value
        makers: dict[str, Callable[[AnyRecord], bytes]] = {
            "s": lambda record: _shown(record, record.value, of_value, null),
            "S": lambda record: b"%d" % _length(record.value),
            "R": lambda record: struct.pack(">i", _length(record.value)),
            "k": lambda record: _shown(record, record.key, of_key, null),
            "K": lambda record: b"%d" % _length(record.key),
            "T": lambda record: b"%d" % record.timestamp_ms,
            "h": lambda record: headers_as_text(record.headers),
            "t": lambda record: record.topic.encode(),
            "p": lambda record: b"%d" % record.partition,
            "o": lambda record: b"%d" % record.offset,
            "d": lambda record: b"%d" % delivery_count_of(record),
        }
        return makers[part]


def delivery_count_of(record: AnyRecord) -> int:
    """Return how often a share group has delivered a record; 0 for one that no share group delivers."""
    return record.delivery_count if isinstance(record, ShareRecord) else 0


def headers_as_text(headers: Iterable[Header]) -> bytes:
    """`name=value,name=value`, and NULL for null, as kcat has it."""
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


def _constant(part: bytes) -> Callable[[AnyRecord], bytes]:
    return lambda record: part


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _shown(record: AnyRecord, data: bytes | None, convert: ToText | None, null: bytes) -> bytes:
    if data is None:
        return null
    if convert is None:
        return data
    return convert.at(record, data)


class JsonRenderer:
    """kcat's JSON envelope, one object for each record.

    Records of a share group have `delivery_count`, too. JSON cannot contain bytes that are not UTF-8: they are
    `key_base64` and `payload_base64` instead, and an object `{"base64": …}` among the headers.

    Args:
        end: the text after each object.
        key: converts keys.
        value: converts values.
    """

    def __init__(self, end: bytes = b"\n", *, key: ToText | None = None, value: ToText | None = None) -> None:
        self._end = end.decode()
        self._of_key = key
        self._of_value = value
        self._is_plain = key is None and value is None

    def render(self, batch: Records) -> tuple[bytes, int]:
        """Return the bytes to write, and how many records they show."""
        begin = f'{{"topic":{encode_basestring(batch.topic)},"partition":{batch.partition},"offset":'
        if self._is_plain and isinstance(batch, Batch):
            try:
                return self._plain(batch, begin)
            except UnicodeDecodeError:  # bytes that cannot stand in JSON
                pass
        rows = [begin + self._rest(record) for record in batch]
        return "".join(rows).encode(), len(rows)

    def _plain(self, batch: Batch, begin: str) -> tuple[bytes, int]:
        """Return the same for text, by the fastest way."""
        quote, end, rows = encode_basestring, self._end, []
        for offset, kind, time_ms, headers, key, value in map(_ROW, batch):
            time = f',"tstype":"{_KINDS[kind]}","ts":{time_ms}' if kind in _KINDS else ""
            if headers:
                time += f',"headers":[{",".join(map(_header, headers))}]'
            key = "null" if key is None else quote(key.decode())
            value = "null" if value is None else quote(value.decode())
            rows.append(f'{begin}{offset}{time},"key":{key},"payload":{value}}}{end}')
        return "".join(rows).encode(), len(rows)

    def _rest(self, record: AnyRecord) -> str:
        kind = _KINDS.get(record.timestamp_type)
        time = "" if kind is None else f',"tstype":"{kind}","ts":{record.timestamp_ms}'
        headers = f',"headers":[{",".join(map(_header, record.headers))}]' if record.headers else ""
        if isinstance(record, ShareRecord):
            headers += f',"delivery_count":{record.delivery_count}'
        key = _field("key", record, record.key, self._of_key)
        value = _field("payload", record, record.value, self._of_value)
        return f"{record.offset}{time}{headers},{key},{value}}}{self._end}"


def _field(name: str, record: AnyRecord, data: bytes | None, convert: ToText | None) -> str:
    if data is None:
        return f'"{name}":null'
    if convert is not None:
        text = convert.json_at(record, data)
        if text is not None:
            return f'"{name}":{text}'
    try:
        return f'"{name}":{encode_basestring(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{_base64(data)}"'


def _header(header: Header) -> str:
    name, value = header
    if value is None:
        return f"{encode_basestring(name)},null"
    try:
        return f"{encode_basestring(name)},{encode_basestring(value.decode())}"
    except UnicodeDecodeError:
        return f"{encode_basestring(name)},{json.dumps({'base64': _base64(value)})}"


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()
