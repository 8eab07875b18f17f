"""Find the field because of which a message cannot be encoded.

The compiled encoders keep no path, so that they are fast. When one fails, the message is walked once more here, slowly,
and the first wrong field becomes a `ProtocolError` with its path. `annotate` does the same for decoding. This module
must not be used for anything but explanations. Start at `explain_encode`.
"""

from __future__ import annotations

import struct

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.annotate import Path
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
)

STRING_SIZE_MAX = 32_767
SHOWN_MAX = 40


def explain_encode(message: object, version: int) -> ProtocolError:
    """Walk a message that could not be encoded, and raise an error that names the wrong value."""
    spec = spec_of(type(message))
    walker = _EncodeWalker(version, spec.header.flexible.includes(version), spec.name)
    try:
        walker.structure(spec, message)
    except ProtocolError as error:
        return error
    return ProtocolError(f"{spec.name} v{version} cannot be encoded")


class _EncodeWalker:
    def __init__(self, version: int, flexible: bool, message: str) -> None:
        self.version = version
        self.flexible = flexible
        self.message = message
        self.path = Path()

    def fail(self, message: str) -> ProtocolError:
        return ProtocolError(f"{self.message} v{self.version}: {message}", path=str(self.path))

    def structure(self, spec: Spec, source: object) -> None:
        if not isinstance(source, spec.cls):
            raise self.fail(f"expected {spec.name}, got {_shown(source)}")
        for field in spec.fields:
            self.path.enter(field.name)
            self.field(field, getattr(source, field.name))
            self.path.leave()
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
                self.path.enter(f"[{i}]")
                self.value(kind.element, element, nullable=False)
                self.path.leave()
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
