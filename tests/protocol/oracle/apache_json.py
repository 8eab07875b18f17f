"""Our values in the form of Apache's JSON converters, so that names and meanings are compared, not bytes alone."""

from __future__ import annotations

import base64
from typing import Any

from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, spec_of
from kafkaraw.protocol.types import BYTES, FLOAT64, RECORDS, UUID, Primitive


def camel(name: str) -> str:
    """`leader_id` as Apache's JSON spells it: `leaderId`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def holds_records(spec: Spec) -> bool:
    """Whether record batches lie in it: Apache's JSON tells only their size."""
    return any(_kind_holds_records(field.kind) for field in spec.fields)


def _kind_holds_records(kind: Kind) -> bool:
    if isinstance(kind, ArrayOf):
        return _kind_holds_records(kind.element)
    return kind is RECORDS if isinstance(kind, Primitive) else holds_records(spec_of(kind.cls))


def to_apache(message: object, version: int) -> dict[str, Any]:
    """A message as Apache's JSON converter would write it."""
    out: dict[str, Any] = {}
    for field in spec_of(type(message)).fields:
        value = getattr(message, field.name)
        if not field.versions.includes(version) or (field.is_tagged(version) and _is_default(field, value)):
            continue
        out[camel(field.name)] = None if value is None else _value(field.kind, value, version)
    return out


def _is_default(field: FieldSpec, value: Any) -> bool:
    if isinstance(field.kind, ArrayOf):
        return bool(value == []) if field.default is not None else value is None
    if isinstance(field.kind, StructOf) and field.default is not None:
        return bool(value == field.kind.cls())
    return bool(value == field.default)


def _value(kind: Kind, value: Any, version: int) -> Any:
    if isinstance(kind, StructOf):
        return to_apache(value, version)
    if isinstance(kind, ArrayOf):
        return [_value(kind.element, element, version) for element in value]
    if kind is UUID:
        return str(value)
    if kind is BYTES:
        return base64.b64encode(value).decode()
    return float(value) if kind is FLOAT64 else value
