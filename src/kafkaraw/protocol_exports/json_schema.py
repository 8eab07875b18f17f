"""Write a JSON Schema of decoded frames: what `kafkaraw wire decode --json` prints for each message.

The tree of a frame consists of nodes with the same members. For each message the schema says which nodes its body has,
at which place, and which values. This module must not decode. Start at `json_schema`.

Source: https://json-schema.org/draft/2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeAlias

from kafkaraw.protocol.annotate import kind_name
from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, header_of, spec_of
from kafkaraw.protocol.describe import field_docs, structures_within, summary_of
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, Primitive

Schema: TypeAlias = dict[str, object]

FILE: Final = "kafka.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
NUMBER: Final[Schema] = {"type": "integer", "minimum": 0}
TEXT: Final[Schema] = {"type": "string"}
HEX: Final[Schema] = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
BROKEN: Final[Schema] = {"$ref": "#/$defs/broken"}
NODE: Final[Schema] = {
    "description": "A field, element, structure or section, with its bytes.",
    "type": "object",
    "required": ["name", "path", "type", "start", "end", "hex"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "path": TEXT,
        "type": TEXT,
        "start": NUMBER,
        "end": NUMBER,
        "hex": {"description": "Its own bytes, without those of its children.", **HEX},
        "offsets_in": {"const": "decompressed records"},
        "value": {"type": ["integer", "number", "string", "boolean", "null"]},
        "meaning": TEXT,
        "problem": TEXT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
}


def json_schema(apis: Iterable[Api]) -> dict[str, str]:
    """Return the schema of some APIs: the text of one file, by its name."""
    return {FILE: json.dumps(schema_of(apis), indent=1, ensure_ascii=False) + "\n"}


def schema_of(apis: Iterable[Api]) -> Schema:
    """Return the schema as data."""
    apis = list(apis)
    definitions: Schema = {
        "node": NODE,
        "broken": {
            "description": "The node at which the reading of an invalid frame stopped.",
            "$ref": "#/$defs/node",
            "required": ["problem"],
        },
    }
    rules: list[Schema] = []
    for api in apis:
        for cls, direction in ((api.request, "request"), (api.response, "response")):
            definitions |= _message(cls)
            rules.append(_rule(api, cls.__name__, direction))
    return {
        "$schema": DIALECT,
        "title": "A frame of Apache Kafka's protocol, decoded by kafkaraw",
        "type": "object",
        "required": ["api", "api_key", "version", "direction", "size_bytes", "whole", "error", "problems", "tree"],
        "properties": {
            "api": {"enum": [None, *(api.name for api in apis)]},
            "api_key": {"enum": [None, *(api.key for api in apis)]},
            "version": {"type": ["integer", "null"]},
            "direction": {"enum": [None, "request", "response"]},
            "size_bytes": NUMBER,
            "whole": {"type": "boolean"},
            "canonical": {"type": ["boolean", "null"]},
            "error": {"type": ["object", "null"]},
            "problems": {"type": "array", "items": {"type": "object"}},
            "candidates": {"type": "array", "items": {"type": "object"}},
            "tree": {"$ref": "#/$defs/node"},
        },
        "allOf": rules,
        "$defs": definitions,
    }


def _rule(api: Api, message: str, direction: str) -> Schema:
    """Return what holds for the frames of one message."""
    parts = [{"properties": {"name": {"enum": ["size", "header"]}}}, {"$ref": f"#/$defs/{message}"}]
    return {
        "if": {"properties": {"api": {"const": api.name}, "direction": {"const": direction}}},
        "then": {
            "properties": {
                "api_key": {"const": api.key},
                "version": {"minimum": api.versions.min, "maximum": api.versions.max},
                "tree": {"properties": {"children": {"items": {"anyOf": parts}}}},
            }
        },
    }


def _message(cls: type[object]) -> Schema:
    """Return the definitions of a message: its body, and the structures within it."""
    name = cls.__name__
    made: Schema = {f"{name}.{inner.__name__}": _structure(spec_of(inner), name) for inner in structures_within(cls)}
    body = _structure(spec_of(cls), name)
    versions = header_of(cls).versions
    types = [f"{name} v{version}" for version in range(versions.min, versions.max + 1)]
    body["properties"] = {**body["properties"], "name": {"const": "body"}, "type": {"enum": types}}  # type: ignore[dict-item]
    return {**made, name: {"description": summary_of(cls), **body}}


def _structure(spec: Spec, message: str) -> Schema:
    docs = field_docs(spec.cls)
    plain, tagged = [], []
    for field in spec.fields:
        schema = _field(field, message, docs.get(field.name, ""))
        if field.tag is not None:
            tagged.append(schema)
        if field.tag is None or field.tagged.min > field.versions.min:
            plain.append(schema)
    tags: Schema = {
        "properties": {
            "name": {"const": "tagged fields"},
            "children": {"items": {"properties": {"children": {"items": {"anyOf": [*tagged, BROKEN]}}}}},
        }
    }
    return {
        "$ref": "#/$defs/node",
        "properties": {"children": {"items": {"anyOf": [*plain, tags, BROKEN]}}},
    }


def _field(field: FieldSpec, message: str, doc: str) -> Schema:
    made = _value(field.kind, message, nullable=field.nullable.min <= field.nullable.max)
    made["properties"] = {"name": {"const": field.name}, **made["properties"]}  # type: ignore[dict-item]
    return {"description": doc, **made} if doc else made


def _value(kind: Kind, message: str, *, nullable: bool) -> Schema:
    """Return the schema of a node that has a value of this kind."""
    if isinstance(kind, StructOf):
        name = kind.cls.__name__
        return {"$ref": f"#/$defs/{message}.{name}", "properties": {"type": {"const": name}, "value": {"type": "null"}}}
    words = kind_name(kind)
    if isinstance(kind, ArrayOf):
        element = _value(kind.element, message, nullable=False)
        element["properties"] = {"name": {"pattern": r"^\[\d+\]$"}, **element["properties"]}  # type: ignore[dict-item]
        types = [words, f"compact {words}"]
        children: Schema = {"items": {"anyOf": [element, BROKEN]}}
        return {"properties": {"type": {"enum": types}, "value": _or_null(NUMBER, nullable), "children": children}}
    if kind.size:
        return {"properties": {"type": {"const": words}, "value": _scalar(kind)}, "required": ["value"]}
    properties: Schema = {"type": {"enum": [words, f"compact {words}"]}, "value": _or_null(_scalar(kind), nullable)}
    return {"properties": properties}  # bytes that were opened have children, and no value


def _scalar(kind: Primitive) -> Schema:
    if kind in (BYTES, RECORDS):
        return HEX
    if kind is STRING:
        return TEXT
    if kind is UUID:
        return {"type": "string", "pattern": "^[A-Za-z0-9_-]{22}$"}
    if kind is BOOLEAN:
        return {"type": "boolean"}
    if kind is FLOAT64:
        return {"anyOf": [{"type": "number"}, {"const": "NaN"}]}
    bits = 8 * kind.size
    is_signed = not kind.name.startswith("u")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return {"type": "integer", "minimum": low, "maximum": high}


def _or_null(schema: Schema, nullable: bool) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if nullable else schema
