"""Write the protocol as a Kaitai Struct format: one type for each message, which takes the version as a parameter.

The root is a stream of requests with their size prefixes, since a request says what it is. A response does not: the
type `response` takes the API key and the version of its request. Field names are those of the declarations.

This module must not know what Kaitai's compiler makes of it. Start at `kaitai_struct`.

Source: https://doc.kaitai.io/ksy_reference.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from kafkaraw.protocol.apis import API_TABLE, Api
from kafkaraw.protocol.declare import (
    VERSION_MAX,
    ArrayOf,
    FieldSpec,
    Kind,
    Spec,
    StructOf,
    VersionRange,
    header_of,
    spec_of,
)
from kafkaraw.protocol.describe import field_docs, structures_within, summary_of
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, INT16, RECORDS, STRING, UUID, Primitive
from kafkaraw.protocol_exports.names import snake_case

Node: TypeAlias = "dict[str, Node] | list[Node] | str | int | bool"
Type: TypeAlias = dict[str, Node]

FILE: Final = "kafka.ksy"
NO_VERSION: Final = 127
VERSION: Final[Node] = {"id": "message_version", "type": "s4"}
FLEXIBLE: Final[Node] = {"id": "is_flexible", "type": "bool"}
WHOLE_BATCH: Final = "not is_cut_short"

COMMON: Final[Type] = {
    "sized_request": {
        "seq": [{"id": "size", "type": "s4"}, {"id": "message", "type": "request", "size": "size"}],
    },
    "request": {
        "seq": [
            {"id": "api_key", "type": "s2"},
            {"id": "api_version", "type": "s2"},
            {"id": "correlation_id", "type": "s4"},
            {"id": "client_id", "type": "text(false)", "if": "not (api_key == 7 and api_version == 0)"},
            {"id": "tagged_fields", "type": "unknown_tags", "if": "versions.is_flexible"},
            {"id": "body", "size-eos": True},
        ],
        "instances": {"versions": {"type": "known_versions(api_key, api_version)", "pos": 0}},
    },
    "response": {
        "doc": "The answer to a request of an API and version, without its size prefix.",
        "params": [{"id": "api_key", "type": "s4"}, {"id": "api_version", "type": "s4"}],
        "seq": [
            {"id": "correlation_id", "type": "s4"},
            {"id": "tagged_fields", "type": "unknown_tags", "if": "versions.is_flexible and api_key != 18"},
            {"id": "body", "size-eos": True},
        ],
        "instances": {
            "first_error": {"pos": 4, "type": "s2", "if": "api_key == 18"},
            "body_version": {
                "value": "api_key == 18 and first_error == 35 ? 0 : api_version",
                "doc": "A broker that does not have the version of ApiVersions answers in version 0 (KIP-511).",
            },
            "versions": {"type": "known_versions(api_key, api_version)", "pos": 0},
        },
    },
    "known_versions": {
        "doc": "Whether a version has a schema here, and whether it has compact lengths and tagged fields (KIP-482).",
        "params": [{"id": "api_key", "type": "s4"}, {"id": "api_version", "type": "s4"}],
    },
    "varint": {
        "doc": "An unsigned number in groups of 7 bits, the lowest first.",
        "seq": [{"id": "groups", "type": "u1", "repeat": "until", "repeat-until": "_ < 128 or _index == 4"}],
        "instances": {
            "value": {
                "value": "(groups[0] & 127)"
                + "".join(f" + (groups.size > {i} ? (groups[{i}] & 127) << {7 * i} : 0)" for i in range(1, 5))
            }
        },
    },
    "zigzag": {
        "doc": "A signed number in groups of 7 bits: 0, 1, 2, 3 stand for 0, -1, 1, -2.",
        "seq": [{"id": "groups", "type": "u1", "repeat": "until", "repeat-until": "_ < 128 or _index == 9"}],
        "instances": {
            "raw": {
                "value": "(groups[0] & 127)"
                + "".join(f" + (groups.size > {i} ? (groups[{i}] & 127) << {7 * i} : 0)" for i in range(1, 10))
            },
            "value": {"value": "(raw >> 1) ^ -(raw & 1)"},
        },
    },
    "length": {
        "doc": "A length or number of elements, -1 for null: an int32, or in flexible versions one more as a varint.",
        "params": [FLEXIBLE],
        "seq": [
            {"id": "compact", "type": "varint", "if": "is_flexible"},
            {"id": "plain", "type": "s4", "if": "not is_flexible"},
        ],
        "instances": {
            "value": {"value": "is_flexible ? compact.value - 1 : plain"},
            "count": {"value": "value < 0 ? 0 : value"},
        },
    },
    "text": {
        "doc": "A string; it has no `value` if it is null.",
        "params": [FLEXIBLE],
        "seq": [
            {"id": "compact", "type": "varint", "if": "is_flexible"},
            {"id": "plain", "type": "s2", "if": "not is_flexible"},
            {"id": "value", "type": "str", "encoding": "UTF-8", "size": "size", "if": "size >= 0"},
        ],
        "instances": {"size": {"value": "is_flexible ? compact.value - 1 : plain"}},
    },
    "data": {
        "doc": "Bytes; they have no `value` if they are null.",
        "params": [FLEXIBLE],
        "seq": [
            {"id": "size", "type": "length(is_flexible)"},
            {"id": "value", "size": "size.value", "if": "size.value >= 0"},
        ],
    },
    "records": {
        "doc": "Record batches; they have no `value` if they are null.",
        "params": [FLEXIBLE],
        "seq": [
            {"id": "size", "type": "length(is_flexible)"},
            {"id": "value", "type": "record_batches", "size": "size.value", "if": "size.value >= 0"},
        ],
    },
    "unknown_tags": {
        "seq": [
            {"id": "count", "type": "varint"},
            {"id": "fields", "type": "unknown_tag", "repeat": "expr", "repeat-expr": "count.value"},
        ],
    },
    "unknown_tag": {
        "seq": [
            {"id": "tag", "type": "varint"},
            {"id": "size", "type": "varint"},
            {"id": "value", "size": "size.value"},
        ],
    },
    "record_batches": {"seq": [{"id": "batches", "type": "record_batch", "repeat": "eos"}]},
    "record_batch": {
        "doc": "A batch. The last one of a response may be cut short; readers ignore it.",
        "seq": [
            {"id": "rest", "size-eos": True, "if": "is_cut_short"},
            {"id": "base_offset", "type": "s8", "if": WHOLE_BATCH},
            {"id": "batch_length", "type": "s4", "if": WHOLE_BATCH},
            {
                "id": "body",
                "size": "batch_length",
                "type": "batch_content",
                "if": WHOLE_BATCH,
            },
        ],
        "instances": {
            "left": {"value": "_io.size - _io.pos"},
            "length_ahead": {"pos": "_io.pos + 8", "type": "s4"},
            "is_cut_short": {"value": "left < 17 or length_ahead + 12 > left"},
        },
    },
    "batch_content": {
        "seq": [
            {
                "id": "content",
                "size-eos": True,
                "type": {"switch-on": "magic", "cases": {"2": "batch_body", "_": "message_body"}},
            }
        ],
        "instances": {"magic": {"pos": 4, "type": "s1"}},
    },
    "batch_body": {
        "doc": "The format since Kafka 0.11 (magic 2, KIP-98).",
        "seq": [
            {"id": "partition_leader_epoch", "type": "s4"},
            {"id": "magic", "type": "s1"},
            {"id": "crc", "type": "u4"},
            {"id": "attributes", "type": "s2"},
            {"id": "last_offset_delta", "type": "s4"},
            {"id": "base_timestamp", "type": "s8"},
            {"id": "max_timestamp", "type": "s8"},
            {"id": "producer_id", "type": "s8"},
            {"id": "producer_epoch", "type": "s2"},
            {"id": "base_sequence", "type": "s4"},
            {"id": "records_count", "type": "s4"},
            {"id": "compressed", "size-eos": True, "if": "codec != 0"},
            {
                "id": "records",
                "type": "record",
                "repeat": "expr",
                "repeat-expr": "records_count",
                "if": "codec == 0",
            },
        ],
        "instances": {
            "codec": {"value": "attributes & 7", "doc": "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"},
            "is_log_append_time": {"value": "(attributes & 8) != 0"},
            "is_transactional": {"value": "(attributes & 16) != 0"},
            "is_control": {"value": "(attributes & 32) != 0"},
            "has_delete_horizon": {"value": "(attributes & 64) != 0"},
        },
    },
    "record": {
        "seq": [{"id": "size", "type": "zigzag"}, {"id": "body", "type": "record_body", "size": "size.value"}],
    },
    "record_body": {
        "seq": [
            {"id": "attributes", "type": "s1"},
            {"id": "timestamp_delta", "type": "zigzag"},
            {"id": "offset_delta", "type": "zigzag"},
            {"id": "key", "type": "record_data"},
            {"id": "value", "type": "record_data"},
            {"id": "headers_count", "type": "zigzag"},
            {"id": "headers", "type": "record_header", "repeat": "expr", "repeat-expr": "headers_count.value"},
        ],
    },
    "record_header": {"seq": [{"id": "key", "type": "record_data"}, {"id": "value", "type": "record_data"}]},
    "record_data": {
        "seq": [
            {"id": "size", "type": "zigzag"},
            {"id": "value", "size": "size.value", "if": "size.value >= 0"},
        ],
    },
    "message_body": {
        "doc": "A message of the formats before Kafka 0.11 (magic 0 and 1); a compressed one holds others.",
        "seq": [
            {"id": "crc", "type": "u4"},
            {"id": "magic", "type": "s1"},
            {"id": "attributes", "type": "s1"},
            {"id": "timestamp", "type": "s8", "if": "magic == 1"},
            {"id": "key", "type": "data(false)"},
            {"id": "value", "type": "data(false)"},
        ],
    },
}


def kaitai_struct(apis: Iterable[Api]) -> dict[str, str]:
    """Return the format of some APIs: the text of one file, by its name."""
    return {FILE: "\n".join(_yaml(format_of(apis), 0)) + "\n"}


def format_of(apis: Iterable[Api]) -> Type:
    """Return the format as data, as Kaitai's compiler takes it."""
    apis = list(apis)
    types: Type = dict(json.loads(json.dumps(COMMON)))
    types["known_versions"] = _known_versions(apis)
    for direction, version in (("request", "api_version"), ("response", "body_version")):
        cases: Node = {str(api.key): f"{snake_case(api.name)}_{direction}({version})" for api in apis}
        holder: Type = types[direction]  # type: ignore[assignment]
        seq: list[Type] = holder["seq"]  # type: ignore[assignment]
        seq[-1]["type"] = {"switch-on": "versions.schema", "cases": cases}
    for api in apis:
        types[f"{snake_case(api.name)}_request"] = _message(api.request)
        types[f"{snake_case(api.name)}_response"] = _message(api.response)
    errors: Node = {str(code): error_name(code).lower() for code in sorted(ERROR_TABLE)}
    return {
        "meta": {"id": "kafka", "title": "Apache Kafka's protocol", "endian": "be", "ks-version": "0.10"},
        "doc": "A stream of requests. A response is read by the type `response`, which takes its API key and version.",
        "seq": [{"id": "requests", "type": "sized_request", "repeat": "eos"}],
        "types": types,
        "enums": {"error": errors},
    }


def _known_versions(apis: list[Api]) -> Type:
    """The type that says what has a schema, from tables by API key."""
    by_key = {api.key: api for api in apis}
    keys = range(max(API_TABLE, key=lambda api: api.key).key + 1)
    low = [by_key[key].versions.min if key in by_key else NO_VERSION for key in keys]
    high = [by_key[key].versions.max if key in by_key else 0 for key in keys]
    flexible = [_flexible_from(by_key[key]) if key in by_key else NO_VERSION for key in keys]
    known: Type = dict(COMMON["known_versions"])  # type: ignore[arg-type]
    in_table = f"api_key >= 0 and api_key < {len(keys)}"
    known["instances"] = {
        "lowest": {"value": str(low)},
        "highest": {"value": str(high)},
        "flexible_from": {"value": str(flexible)},
        "has_schema": {"value": f"{in_table} and api_version >= lowest[api_key] and api_version <= highest[api_key]"},
        "is_flexible": {"value": "has_schema and api_version >= flexible_from[api_key]"},
        "schema": {"value": "has_schema ? api_key : -1"},
    }
    return known


def _flexible_from(api: Api) -> int:
    flexible = header_of(api.request).flexible
    return flexible.min if flexible.min <= flexible.max else NO_VERSION


def _message(cls: type[object]) -> Type:
    spec = spec_of(cls)
    types: Type = {}
    for structure in structures_within(cls):
        types[snake_case(structure.__name__)] = {"params": [VERSION, FLEXIBLE], **_structure(spec_of(structure), types)}
    made: Type = {"doc": summary_of(cls), "params": [VERSION], **_structure(spec, types)}
    flexible = _includes(spec.header.flexible, spec.header.versions)
    made["instances"] = {"is_flexible": {"value": flexible or "true"}}
    if types:
        made["types"] = types
    return made


def _structure(spec: Spec, types: Type) -> Type:
    """Return the fields of a structure; the types of its tagged fields are added to `types`."""
    docs = field_docs(spec.cls)
    seq: list[Node] = []
    tagged = []
    for field in spec.fields:
        if field.tag is not None:
            tagged.append(field)
        in_plain = VersionRange(field.versions.min, min(field.versions.max, field.tagged.min - 1))
        versions = field.versions if field.tag is None else in_plain
        if versions.min <= versions.max:
            condition = _includes(versions, VersionRange(0, VERSION_MAX))
            seq += _field(field, condition, "is_flexible", docs.get(field.name, ""))
    tags = "unknown_tags"
    if tagged:
        prefix = snake_case(spec.name)
        tags = f"{prefix}_tags(message_version)"
        types |= _tag_types(prefix, tagged, docs)
    seq.append({"id": "tagged_fields", "type": tags, "if": "is_flexible"})
    return {"seq": seq}


def _tag_types(prefix: str, tagged: list[FieldSpec], docs: dict[str, str]) -> Type:
    made: Type = {
        f"{prefix}_tags": {
            "params": [VERSION],
            "seq": [
                {"id": "count", "type": "varint"},
                {
                    "id": "fields",
                    "type": f"{prefix}_tag(message_version)",
                    "repeat": "expr",
                    "repeat-expr": "count.value",
                },
            ],
        }
    }
    known = " or ".join(f"tag.value == {field.tag}{_and(_tagged_in(field))}" for field in tagged)
    made[f"{prefix}_tag"] = {
        "params": [VERSION],
        "seq": [
            {"id": "tag", "type": "varint"},
            {"id": "size", "type": "varint"},
            {
                "id": "value",
                "size": "size.value",
                "type": {
                    "switch-on": "known_tag",
                    "cases": {str(field.tag): f"{prefix}_{field.name}_value(message_version)" for field in tagged},
                },
            },
        ],
        "instances": {"known_tag": {"value": f"({known}) ? tag.value : -1"}},
    }
    for field in tagged:
        made[f"{prefix}_{field.name}_value"] = {
            "params": [VERSION],
            "seq": _field(field, "", "true", docs.get(field.name, ""), tagged=True),
        }
    return made


def _tagged_in(field: FieldSpec) -> str:
    versions = VersionRange(max(field.versions.min, field.tagged.min), min(field.versions.max, field.tagged.max))
    return _includes(versions, VersionRange(0, VERSION_MAX))


def _field(field: FieldSpec, condition: str, flexible: str, doc: str, *, tagged: bool = False) -> list[Node]:
    """Return the entries of one field: an array has its length before it, a nullable structure its marker."""
    kind = field.kind
    element = kind.element if isinstance(kind, ArrayOf) else kind
    entry: Type = {"id": field.name, **_type(element, flexible)}
    if element is INT16 and field.name.endswith("error_code"):
        entry["enum"] = "error"
    if doc:
        entry["doc"] = doc
    before: list[Type] = []
    if isinstance(kind, ArrayOf):
        before.append({"id": f"{field.name}_count", "type": f"length({flexible})"})
        entry |= {"repeat": "expr", "repeat-expr": f"{field.name}_count.count"}
    elif isinstance(kind, StructOf) and field.nullable.min <= field.nullable.max:
        nullable = _includes(field.nullable, field.versions)
        marker: Type = {"id": f"{field.name}_marker", "type": "s1"}
        marker |= {"if": " and ".join(part for part in (condition, nullable) if part)} if condition or nullable else {}
        present = f"{field.name}_marker {'>' if tagged else '>='} 0"
        entry["if"] = condition + _and(f"(not ({nullable}) or {present})" if nullable else present, bool(condition))
        return [marker, entry]
    for one in (*before, entry):
        if condition:
            one["if"] = condition
    return [*before, entry]


def _and(condition: str, has_first: bool = True) -> str:
    return f" and {condition}" if condition and has_first else condition


def _type(kind: Kind, flexible: str) -> Type:
    if isinstance(kind, StructOf):
        return {"type": f"{snake_case(kind.cls.__name__)}(message_version, {flexible})"}
    assert isinstance(kind, Primitive), "the protocol has no arrays of arrays"
    if kind is UUID:
        return {"size": UUID.size}
    if kind is BOOLEAN:
        return {"type": "u1"}
    if kind is FLOAT64:
        return {"type": "f8"}
    for sized, name in ((STRING, "text"), (BYTES, "data"), (RECORDS, "records")):
        if kind is sized:
            return {"type": f"{name}({flexible})"}
    return {"type": f"{'u' if kind.name.startswith('u') else 's'}{kind.size}"}


def _includes(versions: VersionRange, all_versions: VersionRange) -> str:
    """Return the condition that a version is in a range; empty if all versions are."""
    if versions.min > versions.max:
        return "false"
    parts = []
    if versions.min > all_versions.min:
        parts.append(f"message_version >= {versions.min}")
    if versions.max < all_versions.max:
        parts.append(f"message_version <= {versions.max}")
    return " and ".join(parts)


def _yaml(node: Node, depth: int) -> Iterator[str]:
    """Write data as YAML in block style, with strings as JSON has them."""
    indent = "  " * depth
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, (dict, list)) and value:
                yield f"{indent}{key}:"
                yield from _yaml(value, depth + 1)
            else:
                yield f"{indent}{key}: {_scalar(value)}"
    elif isinstance(node, list):
        for value in node:
            lines = list(_yaml(value, depth + 1)) if isinstance(value, dict) else [f"{indent}  {_scalar(value)}"]
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]


def _scalar(value: Node) -> str:
    if isinstance(value, str) and value.isidentifier() and value not in ("true", "false", "null", "yes", "no", "on"):
        return value
    return json.dumps(value, ensure_ascii=False)
