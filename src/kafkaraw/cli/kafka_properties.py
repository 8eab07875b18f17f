"""Properties of Kafka's console tools: `--formatter-property print.key=true` and `--reader-property parse.key=true`.

They are the long forms of `-f`, `-K` and `-s`; only this module knows them. Start at `format_of` and `lines_of`.
Source: Kafka's DefaultMessageFormatter and LineMessageReader.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkaraw.cli.formats import Part, delivery_count_of
from kafkaraw.cli.inputs import HeadersOfLines, Lines
from kafkaraw.cli.serdes import AnyRecord, reading, showing
from kafkaraw.errors import UsageError
from kafkaraw.records import TIMESTAMP_CREATE_TIME, TIMESTAMP_NONE

_FORMATTER: Final = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.delivery": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "",
    "value.deserializer": "",
}
_NO_MARKER: Final = "\0"  # no line of text contains it
_READER: Final = {
    "parse.key": "false",
    "parse.headers": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "ignore.error": "false",
    "null.marker": _NO_MARKER,
    "key.serializer": "",
    "value.serializer": "",
}


@dataclass(frozen=True)
class Format:
    """How a record is written.

    Attributes:
        parts: for `TextRenderer`.
        null: the text for null.
        serdes: in the form of `-s`.
    """

    parts: list[Part]
    null: bytes
    serdes: tuple[str, ...]


def format_of(texts: Iterable[str]) -> Format:
    """Return the format that properties of the console consumer define.

    Args:
        texts: `name=value`, as given.

    Raises:
        UsageError: an unknown property, or deserializer.
    """
    chosen = _chosen("--formatter-property", texts, _FORMATTER)
    null, separator = chosen["null.literal"].encode(), chosen["headers.separator"].encode()
    possible: list[tuple[str, list[Part]]] = [
        ("print.timestamp", [_time]),
        ("print.partition", [b"Partition:", "p"]),
        ("print.offset", [b"Offset:", "o"]),
        ("print.delivery", [_delivery]),
        ("print.headers", [_Headers(separator, null)]),
        ("print.key", ["k"]),
        ("print.value", ["s"]),
    ]
    columns = [column for name, column in possible if _is_true(chosen[name])]
    parts: list[Part] = [chosen["line.separator"].encode()]
    for column in reversed(columns):
        parts[:0] = [*column, *([chosen["key.separator"].encode()] if len(parts) > 1 else [])]
    serdes = _serdes(chosen, "deserializer")
    showing(serdes)
    return Format(parts if columns else [], null, serdes)


def lines_of(texts: Iterable[str]) -> Lines:
    """Return the form of lines that properties of the console producer define.

    Args:
        texts: `name=value`, as given.

    Raises:
        UsageError: an unknown property, or serializer, or separators that are the same.
    """
    chosen = _chosen("--reader-property", texts, _READER)
    marks = ("headers.delimiter", "headers.separator", "headers.key.separator", "null.marker")
    for index, name in enumerate(marks):
        same = [other for other in marks[index + 1 :] if chosen[other] == chosen[name]]
        if same:
            raise UsageError(f"--reader-property: {name} and {same[0]} must differ")
    key, value = reading(_serdes(chosen, "serializer"))
    headers = HeadersOfLines(*(chosen[name].encode() for name in marks[:3]))
    return Lines(
        key_delimiter=chosen["key.separator"].encode() if _is_true(chosen["parse.key"]) else None,
        headers=headers if _is_true(chosen["parse.headers"]) else None,
        is_strict=not _is_true(chosen["ignore.error"]),
        null_marker=None if chosen["null.marker"] == _NO_MARKER else chosen["null.marker"].encode(),
        convert_key=key,
        convert_value=value,
    )


@dataclass(frozen=True)
class _Headers:
    separator: bytes
    null: bytes

    def __call__(self, record: AnyRecord) -> bytes:
        texts = (name.encode() + b":" + (self.null if value is None else value) for name, value in record.headers)
        return self.separator.join(texts) or b"NO_HEADERS"


def _delivery(record: AnyRecord) -> bytes:
    count = delivery_count_of(record)
    return b"Delivery:%d" % count if count else b"Delivery:NOT_PRESENT"


def _time(record: AnyRecord) -> bytes:
    if record.timestamp_type == TIMESTAMP_NONE:
        return b"NO_TIMESTAMP"
    kind = b"CreateTime" if record.timestamp_type == TIMESTAMP_CREATE_TIME else b"LogAppendTime"
    return b"%b:%d" % (kind, record.timestamp_ms)


def _chosen(option: str, texts: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in known or not equals:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"{option} {text}: must be one of {', '.join(known)}, with = and a value"
                + (f"; did you mean {near[0]!r}?" if near else "")
            )
        given[name] = value  # a blank may be intended
    return {**known, **given}


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _serdes(chosen: Mapping[str, str], what: str) -> tuple[str, ...]:
    """As in `-s`: a Java class is known by its name, as in org.apache.kafka.common.serialization.LongDeserializer."""
    found = []
    for field in ("key", "value"):
        if name := chosen[f"{field}.{what}"]:
            word = name.rpartition(".")[2].removesuffix(what.title()).lower()
            found.append(f"{field}={'bytes' if word in ('bytearray', 'bytebuffer') else word}")
    return tuple(found)
