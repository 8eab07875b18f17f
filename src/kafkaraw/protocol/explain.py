"""Find the field at which a message cannot be decoded or encoded.

The compiled codecs keep no path, so that they are fast. When one fails, the message is walked once more here, slowly,
and the first wrong field becomes a `ProtocolError` with its path and byte offset. This module must not be used for
anything but explanations. Start at `explain_decode` and `explain_encode`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.compile import size_min
from kafkaraw.protocol.declare import UNKNOWN_TAGGED_FIELDS, ArrayOf, FieldSpec, Kind, Spec, StructOf, spec_of
from kafkaraw.protocol.types import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    UUID_SIZE,
    FileSlice,
    Primitive,
    decode_uvarint,
)

STRING_SIZE_MAX = 32_767
SHOWN_MAX = 40


def explain_decode(cls: type[object], version: int, buffer: memoryview, at: int) -> ProtocolError:
    """Walk a message that could not be decoded, and say where and why."""
    spec = spec_of(cls)
    walker = _DecodeWalker(buffer, at, version, spec.header.flexible.includes(version))
    try:
        walker.structure(spec)
    except ProtocolError as error:
        return error
    return ProtocolError(f"{spec.name} v{version} cannot be decoded", offset=at)


def explain_encode(message: object, version: int) -> ProtocolError:
    """Walk a message that could not be encoded, and say which value is wrong."""
    spec = spec_of(type(message))
    walker = _EncodeWalker(version, spec.header.flexible.includes(version), spec.name)
    try:
        walker.structure(spec, message)
    except ProtocolError as error:
        return error
    return ProtocolError(f"{spec.name} v{version} cannot be encoded")


class _Path:
    """The path of the field being walked, as `topics[3].partitions[0].leader_id`."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    @contextmanager
    def step(self, part: str) -> Iterator[None]:
        self.parts.append(part)
        yield
        # Deliberately not in a finally: the path must survive an error.
        self.parts.pop()

    def __str__(self) -> str:
        return "".join(part if part.startswith("[") else f".{part}" for part in self.parts).lstrip(".")


class _DecodeWalker:
    def __init__(self, buffer: memoryview, at: int, version: int, flexible: bool) -> None:
        self.buffer = buffer
        self.at = at
        self.version = version
        self.flexible = flexible
        self.path = _Path()

    def fail(self, message: str, at: int) -> ProtocolError:
        return ProtocolError(message, path=str(self.path), offset=at)

    def need(self, size: int, what: str) -> None:
        left = len(self.buffer) - self.at
        if size > left:
            raise self.fail(f"{what} needs {size} bytes, {left} are left", self.at)

    def varint(self, what: str) -> int:
        try:
            value, self.at = decode_uvarint(self.buffer, self.at)
        except IndexError:
            raise self.fail(f"the message ends within {what}", self.at) from None
        except ValueError as error:
            raise self.fail(f"{what}: {error}", self.at) from None
        return value

    def structure(self, spec: Spec) -> None:
        tagged: dict[int, FieldSpec] = {}
        for field in spec.fields:
            if not field.versions.includes(self.version):
                continue
            if field.tag is not None and field.is_tagged(self.version):
                tagged[field.tag] = field
                continue
            with self.path.step(field.name):
                self.value(field.kind, field.nullable.includes(self.version))
        if self.flexible:
            self.tags(tagged)

    def tags(self, known: dict[int, FieldSpec]) -> None:
        for _ in range(self.varint("the number of tagged fields")):
            start = self.at
            tag = self.varint("a tag")
            size = self.varint(f"the length of tag {tag}")
            self.need(size, f"the value of tag {tag}")
            end = self.at + size
            field = known.get(tag)
            if field is None:
                self.at = end
                continue
            with self.path.step(field.name):
                self.value(field.kind, field.nullable.includes(self.version), tagged=True)
                if self.at != end:
                    raise self.fail(f"tag {tag} says {size} bytes, its value has {size + self.at - end}", start)

    def value(self, kind: Kind, nullable: bool, tagged: bool = False) -> None:
        if isinstance(kind, StructOf):
            if nullable:
                self.need(1, "the presence of a structure")
                self.at += 1
                marker = self.buffer[self.at - 1]
                if marker > 127 or (tagged and marker == 0):
                    return
            self.structure(spec_of(kind.cls))
        elif isinstance(kind, ArrayOf):
            self.array(kind, nullable)
        elif kind.size:
            self.need(kind.size, kind.name)
            self.at += kind.size
        else:
            self.text(kind, nullable)

    def length(self, what: str, fmt: str, nullable: bool) -> int:
        start = self.at
        if self.flexible:
            size = self.varint(f"the length of {what}") - 1
        else:
            width = struct.calcsize(">" + fmt)
            self.need(width, f"the length of {what}")
            (size,) = struct.unpack_from(">" + fmt, self.buffer, self.at)
            self.at += width
        if size < -1 or (size < 0 and not nullable):
            raise self.fail(f"length {size} of {what}, which may {'only ' if nullable else 'not '}be null", start)
        return size

    def text(self, kind: Primitive, nullable: bool) -> None:
        start = self.at
        size = self.length(kind.name, "h" if kind is STRING else "i", nullable)
        if size < 0:
            return
        if size > len(self.buffer) - self.at:
            left = len(self.buffer) - self.at
            raise self.fail(f"{kind.name} declared {size} bytes, {left} are left", start)
        if kind is STRING:
            try:
                str(self.buffer[self.at : self.at + size], "utf-8")
            except UnicodeDecodeError as error:
                raise self.fail(f"not UTF-8: {error.reason}", self.at + error.start) from None
        self.at += size

    def array(self, kind: ArrayOf, nullable: bool) -> None:
        start = self.at
        count = self.length("an array", "i", nullable)
        bound = max(1, size_min(kind.element, self.version, self.flexible))
        left = len(self.buffer) - self.at
        if count * bound > left:
            raise self.fail(f"array declared {count} elements of at least {bound} bytes, {left} bytes are left", start)
        if isinstance(kind.element, Primitive) and kind.element.size:
            self.at += max(count, 0) * kind.element.size
            return
        for i in range(count):
            with self.path.step(f"[{i}]"):
                self.value(kind.element, nullable=False)


class _EncodeWalker:
    def __init__(self, version: int, flexible: bool, message: str) -> None:
        self.version = version
        self.flexible = flexible
        self.message = message
        self.path = _Path()

    def fail(self, message: str) -> ProtocolError:
        return ProtocolError(f"{self.message} v{self.version}: {message}", path=str(self.path))

    def structure(self, spec: Spec, source: object) -> None:
        if not isinstance(source, spec.cls):
            raise self.fail(f"expected {spec.name}, got {_shown(source)}")
        for field in spec.fields:
            with self.path.step(field.name):
                self.field(field, getattr(source, field.name))
        if not self.flexible and getattr(source, UNKNOWN_TAGGED_FIELDS):
            raise self.fail(f"{UNKNOWN_TAGGED_FIELDS} can only be sent in a flexible version")

    def field(self, field: FieldSpec, value: object) -> None:
        if field.versions.includes(self.version):
            self.value(field.kind, value, field.nullable.includes(self.version))
        elif not field.ignorable and not _is_default(field, value):
            raise self.fail(f"exists in versions {field.versions} only, and {_shown(value)} would be lost")

    def value(self, kind: Kind, value: object, nullable: bool) -> None:
        if value is None:
            if not nullable:
                raise self.fail("may not be null in this version")
        elif isinstance(kind, StructOf):
            self.structure(spec_of(kind.cls), value)
        elif isinstance(kind, ArrayOf):
            if not isinstance(value, (list, tuple)):
                raise self.fail(f"expected a list, got {_shown(value)}")
            for i, element in enumerate(value):
                with self.path.step(f"[{i}]"):
                    self.value(kind.element, element, nullable=False)
        else:
            self.primitive(kind, value)

    def primitive(self, kind: Primitive, value: object) -> None:
        expected = _PYTHON_TYPES.get(kind, int)
        if not isinstance(value, expected):
            raise self.fail(f"expected {kind.name}, got {_shown(value)}")
        if kind is STRING and isinstance(value, str):
            try:
                size = len(value.encode())
            except UnicodeEncodeError as error:
                raise self.fail(f"cannot be written as UTF-8: {error.reason}") from None
            if size > STRING_SIZE_MAX:
                raise self.fail(f"string of {size} bytes, the limit is {STRING_SIZE_MAX}")
        elif kind is UUID and isinstance(value, bytes) and len(value) != UUID_SIZE:
            raise self.fail(f"a UUID has {UUID_SIZE} bytes, got {len(value)}")
        elif kind.size:
            try:
                struct.pack(">" + kind.format, value)
            except struct.error as error:
                raise self.fail(f"{_shown(value)} does not fit {kind.name}: {error}") from None


_PYTHON_TYPES: dict[Primitive, type | tuple[type, ...]] = {
    BOOLEAN: (bool, int),
    FLOAT64: (float, int),
    UUID: bytes,
    STRING: str,
    BYTES: (bytes, bytearray, memoryview),
    RECORDS: (bytes, bytearray, memoryview, FileSlice),
}


def _is_default(field: FieldSpec, value: object) -> bool:
    if field.default is None:
        return value is None
    if isinstance(field.kind, ArrayOf):
        return value == []
    if isinstance(field.kind, StructOf):
        return value == field.kind.cls()
    return value == field.default


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
