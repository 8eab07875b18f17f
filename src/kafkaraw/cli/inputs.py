"""The input of `kafkaraw produce`: messages from streams and files, many at a time.

The system returns input in pieces; all messages of a piece are made in one call. A terminal returns input line by line.
Start at `Lines` and `messages_of`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, cast

from kafkaraw.cli.serdes import ToBytes
from kafkaraw.errors import UsageError
from kafkaraw.records import Header

_PIECE_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct(">i")


class Source(Protocol):
    """A stream of bytes, as `sys.stdin.buffer`."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return the available bytes, up to a limit; wait for some; return none at the end."""


class Message(NamedTuple):
    """One record to send.

    Attributes:
        value: None is null.
        key: None is null.
        headers: None for those of all messages.
        timestamp_ms: None is now.
    """

    value: bytes | None
    key: bytes | None = None
    headers: list[Header] | None = None
    timestamp_ms: int | None = None


def lines(source: Source, delimiter: bytes, size_max: int) -> Iterator[list[bytes]]:
    """The messages between delimiters; the last delimiter may be missing.

    Args:
        source: the stream.
        delimiter: not empty.
        size_max: more bytes without a delimiter are an error, because they cannot be one message.

    Raises:
        UsageError: no delimiter within `size_max` bytes.
    """
    rest = b""
    while piece := source.read1(_PIECE_BYTES):
        found = (rest + piece).split(delimiter)
        rest = found.pop()
        if found:
            yield found
        if len(rest) > size_max:
            raise UsageError(
                f"the input has {len(rest)} bytes without the delimiter {delimiter!r}: a message may have {size_max} "
                f"(-X max.request.size=…); give another -D, or send files without -l, each as one message"
            )
    if rest:
        yield [rest]


def length_prefixed(source: Source, size_max: int) -> Iterator[list[bytes | None]]:
    """The messages after their lengths of 4 bytes, big-endian; -1 is null. `consume -f %R%s` writes this form.

    Args:
        source: the stream.
        size_max: a longer message is an error.

    Raises:
        UsageError: an impossible length, or the input ends within a message.
    """
    rest, passed = b"", 0
    while piece := source.read1(_PIECE_BYTES):
        data = rest + piece
        found: list[bytes | None] = []
        at = 0
        while len(data) - at >= _LENGTH.size:
            size = _LENGTH.unpack_from(data, at)[0]
            if not -1 <= size <= size_max:
                raise UsageError(
                    f"the length at byte {passed + at} of the input is {size}: must be -1 (null) to {size_max} "
                    f"(-X max.request.size=…); is the input length-prefixed, with 4 bytes, big-endian?"
                )
            end = at + _LENGTH.size + max(size, 0)
            if end > len(data):
                break
            found.append(None if size < 0 else data[at + _LENGTH.size : end])
            at = end
        rest, passed = data[at:], passed + at
        if found:
            yield found
    if rest:
        raise UsageError(f"the input ends within the message that begins at byte {passed}")


@dataclass(frozen=True)
class HeadersOfLines:
    """The form of headers at the start of a line, as in `h1:v1,h2:v2` and a tab.

    Attributes:
        delimiter: the text after the headers.
        separator: the text between two headers.
        key_separator: the text between name and value.
    """

    delimiter: bytes = b"\t"
    separator: bytes = b","
    key_separator: bytes = b":"

    def read(self, text: bytes, null_marker: bytes | None, *, is_strict: bool) -> list[Header]:
        """Return the headers of a text.

        Raises:
            ValueError: one has no value, and that is an error.
        """
        if text == null_marker:
            return []
        headers: list[Header] = []
        for pair in text.split(self.separator):
            name, found, value = pair.partition(self.key_separator)
            if not found and is_strict:
                raise ValueError(f"the header {pair.decode()!r} has no {self.key_separator.decode()!r}")
            headers.append((name.decode(), value if found and value != null_marker else None))
        return headers


@dataclass(frozen=True)
class Lines:
    """How lines become messages.

    Attributes:
        key_delimiter: the text between key and value; None if there are no keys.
        key: the key of lines that have none.
        headers: the form of headers; None if there are none.
        is_strict: a line without the delimiters is an error.
        empty_is_null: empty keys and values are null.
        null_marker: the text for null.
        convert_key: converts a key's text to bytes.
        convert_value: converts a value's text to bytes.
    """

    key_delimiter: bytes | None = None
    key: bytes | None = None
    headers: HeadersOfLines | None = None
    is_strict: bool = False
    empty_is_null: bool = False
    null_marker: bytes | None = None
    convert_key: ToBytes | None = None
    convert_value: ToBytes | None = None

    @property
    def are_values(self) -> bool:
        """Whether a line is a value without conversion."""
        return self == Lines()

    def message(self, line: bytes | None) -> Message:
        """Return the message of a line.

        Raises:
            ValueError: it cannot be converted.
        """
        if line is None:
            return Message(None, self.key)
        headers, key, value = None, self.key, line
        if self.headers is not None:
            before, found, after = value.partition(self.headers.delimiter)
            if self._is_there(found, self.headers.delimiter, "headers"):
                headers, value = self.headers.read(before, self.null_marker, is_strict=self.is_strict), after
        if self.key_delimiter is not None:
            before, found, after = value.partition(self.key_delimiter)
            if self._is_there(found, self.key_delimiter, "key"):
                key, value = self._converted(before, self.convert_key), after
        return Message(self._converted(value, self.convert_value), key, headers)

    def _is_there(self, found: bytes, delimiter: bytes, behind: str) -> bool:
        if self.is_strict and not found:
            raise ValueError(f"no {delimiter.decode(errors='replace')!r} after the {behind}")
        return bool(found)

    def _converted(self, text: bytes | None, convert: ToBytes | None) -> bytes | None:
        if text is None or text == self.null_marker or (self.empty_is_null and not text):
            return None
        return text if convert is None else convert(text)


def json_message(line: bytes | None) -> Message | None:
    """Return the message of a JSON object of `consume --json`; None for an empty line. Topic and partition are ignored.

    Raises:
        ValueError: it is not such an object.
    """
    if line is None or not line.strip():
        return None
    given = json.loads(line)
    if not isinstance(given, dict):
        raise ValueError('must be an object, as in {"key": "k", "payload": "v"}')
    unknown = given.keys() - _KNOWN
    if unknown or not given.keys() & _VALUES:
        what = f"unknown field {min(unknown)!r}" if unknown else "no field 'payload'"
        raise ValueError(f"{what}; fields are {', '.join(sorted(_KNOWN))}")
    timestamp = given.get("ts")
    if timestamp is not None and not isinstance(timestamp, int):
        raise ValueError(f"ts is {timestamp!r}: must be milliseconds since 1970 UTC")
    value = "value" if "value" in given else "payload"
    return Message(_field(given, value), _field(given, "key"), _headers(given.get("headers")), timestamp)


_VALUES: Final = frozenset({"payload", "payload_base64", "value", "value_base64"})
_KNOWN: Final = _VALUES | {"key", "key_base64", "headers", "ts", "tstype", "topic", "partition", "offset", "broker"}


def _field(given: dict[str, object], name: str) -> bytes | None:
    coded = given.get(f"{name}_base64")
    return _bytes({"base64": coded}) if coded is not None else _bytes(given.get(name))


def _bytes(value: object) -> bytes | None:
    """Return the bytes of a JSON value: text as it is, {"base64": …} decoded, and anything else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(str(value["base64"]), validate=True)
        except binascii.Error as error:
            raise ValueError(f"base64: {error}") from error
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(given: object) -> list[Header] | None:
    """Return names and values, from a list in turn as kcat writes them, or from an object."""
    if given is None:
        return None
    if isinstance(given, dict):
        return [(str(name), _bytes(value)) for name, value in given.items()]
    if not isinstance(given, list) or len(given) % 2 or not all(isinstance(name, str) for name in given[::2]):
        raise ValueError('headers must be ["name", "value", …], or {"name": "value", …}')
    return [(cast("str", name), _bytes(value)) for name, value in zip(given[::2], given[1::2], strict=True)]


def messages_of(
    pieces: Iterable[list[bytes] | list[bytes | None]], message: Callable[[bytes | None], Message | None]
) -> Iterator[list[Message]]:
    """Yield the messages of lines, in the same portions.

    Raises:
        UsageError: a line cannot be read; the message names it.
    """
    number = 0
    for piece in pieces:
        found: list[Message] = []
        for line in piece:
            number += 1
            try:
                made = message(line)
            except (ValueError, struct.error) as error:
                yield found  # messages before the error are sent
                raise UsageError(f"message {number} of the input, {_start_of(line)}: {error}") from error
            if made is not None:
                found.append(made)
        yield found


def _start_of(line: bytes | None) -> str:
    return "null" if line is None else repr(line[:40]) + ("…" if len(line) > 40 else "")
