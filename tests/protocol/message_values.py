"""Random values for any declared message, from a seed: the same seed gives the same value."""

from __future__ import annotations

import random

from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, spec_of
from kafkaraw.protocol.types import BYTES, FLOAT64, RECORDS, STRING, UUID, Primitive, Uuid

STRINGS = ("", "a", "topic-1", "x" * 127, "y" * 128, "grüße", "主题", "z" * 300)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}


def random_message(cls: type[object], version: int, rng: random.Random) -> object:
    """A message whose fields are all random, with nulls, empty and longer arrays, and unknown tags."""
    spec = spec_of(cls)
    return _structure(spec, version, spec.header.flexible.includes(version), rng)


def _structure(spec: Spec, version: int, flexible: bool, rng: random.Random) -> object:
    values = {
        field.name: _field(field, version, flexible, rng) for field in spec.fields if field.versions.includes(version)
    }
    missing = {field.name: _zero(field) for field in spec.fields if not field.versions.includes(version)}
    message = spec.cls(**missing, **values)
    if flexible and rng.random() < 0.3:
        known = {field.tag for field in spec.fields if field.tag is not None}
        tags = {tag for tag in (rng.randrange(0, 40), rng.randrange(1000, 100_000)) if tag not in known}
        message.unknown_tagged_fields = {tag: rng.randbytes(rng.choice((0, 1, 5, 200))) for tag in tags} or None
    return message


def _zero(field: FieldSpec) -> object:
    if field.default is None:
        return None
    if isinstance(field.kind, ArrayOf):
        return []
    if isinstance(field.kind, StructOf):
        return field.kind.cls()
    return field.default


def _field(field: FieldSpec, version: int, flexible: bool, rng: random.Random) -> object:
    if field.nullable.includes(version) and rng.random() < 0.2:
        return None
    if field.is_tagged(version) and rng.random() < 0.3:
        return _zero(field)
    return _value(field.kind, version, flexible, rng)


def _value(kind: Kind, version: int, flexible: bool, rng: random.Random) -> object:
    if isinstance(kind, StructOf):
        return _structure(spec_of(kind.cls), version, flexible, rng)
    if isinstance(kind, ArrayOf):
        simple = isinstance(kind.element, Primitive)
        count = rng.choice((0, 1, 2, 3, 20, 200) if simple else (0, 0, 1, 1, 2, 3))
        return [_value(kind.element, version, flexible, rng) for _ in range(count)]
    return _primitive(kind, rng)


def _primitive(kind: Primitive, rng: random.Random) -> object:
    if kind is STRING:
        return rng.choice(STRINGS)
    if kind in (BYTES, RECORDS):
        return rng.randbytes(rng.choice((0, 1, 126, 127, 128, 1000)))
    if kind is UUID:
        return Uuid(rng.randbytes(16))
    if kind is FLOAT64:
        return rng.uniform(-1e9, 1e9)
    if kind.name in INTEGER_BITS:
        half = 1 << INTEGER_BITS[kind.name] - 1
        return rng.choice((0, -1, 1, half - 1, -half, rng.randrange(-half, half)))
    if kind.name in UNSIGNED_BITS:
        return rng.randrange(0, 1 << UNSIGNED_BITS[kind.name])
    return rng.random() < 0.5
