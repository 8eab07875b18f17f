"""Avro schemas for Arrow types, as Spark's to_avro derives them. Start at `avro_schema_of`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def avro_schema_of(kind: pa.DataType, name: str, *, nullable: bool = False) -> str:
    """Return the schema of a column, as text.

    Source: Spark's `SchemaConverters.toAvroType`; a nullable value is a union [type, null] there, and [null, type] with
    the default null here, so that a field can be left out by later versions.

    Args:
        kind: type of the column.
        name: name of the record; records inside have their paths behind it, so that no two are the same: `Order.line`.
        nullable: whether the column's values may be null.

    Raises:
        UsageError: Avro has no such type.
    """
    return json.dumps(_optional(_type(kind, name, ""), nullable))


def _optional(schema: Any, nullable: bool) -> Any:  # noqa: ANN401 - JSON
    return ["null", schema] if nullable and schema != "null" else schema


def _type(kind: pa.DataType, name: str, path: str) -> Any:  # noqa: ANN401 - JSON
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind):
        return _record(kind, name, path)
    if t.is_map(kind):
        if not (t.is_string(kind.key_type) or t.is_large_string(kind.key_type)):
            raise UsageError(f"field {path}: the keys of an Avro map are strings, not {kind.key_type}")
        value = _type(kind.item_type, f"{name}.value", f"{path}{{}}")
        return {"type": "map", "values": _optional(value, kind.item_field.nullable)}
    if t.is_list(kind) or t.is_large_list(kind):
        item = _type(kind.value_type, f"{name}.item", f"{path}[]")
        return {"type": "array", "items": _optional(item, kind.value_field.nullable)}
    if t.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if t.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if t.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    plain = {
        pa.null(): "null",
        pa.bool_(): "boolean",
        pa.int8(): "int",
        pa.int16(): "int",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.uint8(): "int",
        pa.uint16(): "int",
        pa.uint32(): "long",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.binary(): "bytes",
        pa.large_binary(): "bytes",
    }
    if kind not in plain:
        raise UsageError(f"field {path or name}: Avro has no type for {kind}; cast the column first")
    return plain[kind]


def _record(kind: pa.StructType, name: str, path: str) -> dict[str, Any]:
    fields: list[dict[str, Any]] = []
    for each in kind:
        if any(each.name == other["name"] for other in fields):
            raise UsageError(f"field {path or name}: it has more than one field {each.name!r}; rename one")
        inner = f"{path}.{each.name}" if path else each.name
        schema = _optional(_type(each.type, f"{name}.{each.name}", inner), each.nullable)
        fields.append({"name": each.name, "type": schema} | ({"default": None} if isinstance(schema, list) else {}))
    return {"type": "record", "name": name, "fields": fields}
