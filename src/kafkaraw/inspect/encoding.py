"""Frames out of JSON: the inverse of `render.to_json`, and of a short form that is written by hand.

The long form is the tree that `kafkaraw wire decode --json` prints: the values of its nodes count, so a changed `value`
changes the frame. Bytes and records that the tree opens are taken from their `hex`. The short form names the fields:

    {"api": "Metadata", "version": 12, "direction": "request", "correlation_id": 7, "client_id": "me",
     "body": {"topics": [{"name": "orders"}]}}

Fields that are left out have Kafka's defaults. Bytes are hex, or `{"text": "..."}`; UUIDs are in Kafka's text form;
records are hex, or a list of `{"key": ..., "value": ..., "headers": [[name, value]], "timestamp": ms}`, which becomes
one batch. Start at `encode_json`. This module must not print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.inspect.frames import SIZE_PREFIX, api_named
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, StructOf, spec_of
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, RECORDS, STRING, UUID, Uuid
from kafkaraw.records.batch import encode_batch

JsonObject: TypeAlias = Mapping[str, Any]

SHORT_KEYS: Final = frozenset(
    {"api", "version", "direction", "correlation_id", "client_id", "body", "size_prefix", "unknown_tagged_fields"}
)
CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
UNKNOWN_TAGS: Final = "unknown_tagged_fields"


def encode_json(document: object) -> bytes:
    """Return the frame that a JSON document describes, with its size prefix unless the document says otherwise.

    Raises:
        UsageError: the document is in neither form, or a value does not fit its field; the message names the field.
    """
    if not isinstance(document, dict):
        raise UsageError(f"a frame is a JSON object with api, version, direction and body, not {_shown(document)}")
    return _from_tree(document) if "tree" in document else _from_short(document)


def _from_short(document: JsonObject) -> bytes:
    unknown = sorted(set(document) - SHORT_KEYS)
    if unknown:
        raise UsageError(f"a frame has no {unknown[0]!r}; it has {', '.join(sorted(SHORT_KEYS))}")
    api, version, direction = _kind_of(document)
    message = api.request if direction == "request" else api.response
    body = _structure(message, version, document.get("body", {}), "body")
    correlation_id = _number(document.get("correlation_id", 0), "correlation_id")
    tags = _tags(document.get(UNKNOWN_TAGS), UNKNOWN_TAGS)
    client_id = document.get("client_id")
    if client_id is not None and not isinstance(client_id, str):
        raise UsageError(f"client_id: a text or null, not {_shown(client_id)}")
    return _encoded(
        (api, version, direction),
        body,
        RequestHeader(api.key, version, correlation_id, client_id, tags),
        prefixed=bool(document.get("size_prefix", True)),
    )


def _kind_of(document: JsonObject) -> tuple[Api, int, str]:
    name, version, direction = (document.get(key) for key in ("api", "version", "direction"))
    if not isinstance(name, str | int):
        raise UsageError("api: the name or the key of an API is missing")
    api = api_named(name)
    if not isinstance(version, int) or not api.versions.includes(version):
        raise UsageError(f"version: {api.name} has versions {api.versions}, not {_shown(version)}")
    if direction not in ("request", "response"):
        raise UsageError(f"direction: 'request' or 'response', not {_shown(direction)}")
    return api, version, str(direction)


def _encoded(kind: tuple[Api, int, str], body: Any, header: RequestHeader, *, prefixed: bool) -> bytes:  # noqa: ANN401
    _, version, direction = kind
    try:
        if direction == "request":
            frame = encode_request(header, body)
        else:
            frame = encode_response(ResponseHeader(header.correlation_id, header.unknown_tagged_fields), body, version)
    except KafkaError as error:
        raise UsageError(str(error)) from None
    return len(frame).to_bytes(SIZE_PREFIX) + frame if prefixed else frame


def _from_tree(document: JsonObject) -> bytes:
    api, version, direction = _kind_of(document)
    parts = {str(node.get("name")): node for node in _children(document["tree"], "tree")}
    if "header" not in parts or "body" not in parts:
        raise UsageError("tree: a frame has a header and a body; only a frame that was read can be encoded again")
    fields = {str(node.get("name")): node for node in _children(parts["header"], "header")}
    header = RequestHeader(
        api.key,
        version,
        _number(_value_of(fields, "correlation_id", "header"), "header.correlation_id"),
        fields["client_id"].get("value") if "client_id" in fields else None,
        _unknown_tags_of(fields.get("tagged fields")),
    )
    message = api.request if direction == "request" else api.response
    body = _structure(message, version, _object_of(parts["body"], message, "body"), "body")
    return _encoded((api, version, direction), body, header, prefixed="size" in parts)


def _value_of(fields: Mapping[str, JsonObject], name: str, where: str) -> Any:  # noqa: ANN401 - of JSON
    if name not in fields:
        raise UsageError(f"{where}: there is no {name}")
    return fields[name].get("value")


def _children(node: object, where: str) -> list[JsonObject]:
    children = node.get("children", []) if isinstance(node, dict) else None
    if not isinstance(children, list) or not all(isinstance(child, dict) for child in children):
        raise UsageError(f"{where}: a node of a tree is an object with children")
    return children


def _object_of(node: JsonObject, cls: type[object], where: str) -> dict[str, Any]:
    """Return the fields of a structure in the tree, in the short form."""
    kinds = {field.name: field for field in spec_of(cls).fields}
    found: dict[str, Any] = {}
    for child in _children(node, where):
        name = str(child.get("name"))
        if name == "tagged fields":
            for tag in _children(child, where):
                inner = _children(tag, where)
                if inner:
                    field = kinds[str(inner[0].get("name"))]
                    found[field.name] = _plain(inner[0], field.kind, f"{where}.{field.name}")
            unknown = _unknown_tags_of(child)
            if unknown:
                found[UNKNOWN_TAGS] = {str(tag): value.hex() for tag, value in unknown.items()}
        elif name in kinds:
            found[name] = _plain(child, kinds[name].kind, f"{where}.{name}")
    return found


def _unknown_tags_of(section: JsonObject | None) -> dict[int, bytes] | None:
    found = {}
    for tag in _children(section, "tagged fields") if section is not None else []:
        if tag.get("type") == "unknown tagged field":
            name = str(tag.get("name")).removeprefix("tag ")
            found[int(name)] = _bytes(tag.get("value"), f"tag {name}")
    return found or None


def _plain(node: JsonObject, kind: Kind, where: str) -> Any:  # noqa: ANN401 - of JSON
    """Return the value of a node in the tree, in the short form."""
    if isinstance(kind, StructOf):
        children = _children(node, where)
        return _object_of(node, kind.cls, where) if children else None
    if isinstance(kind, ArrayOf):
        if node.get("value") is None:
            return None
        return [_plain(child, kind.element, f"{where}[{at}]") for at, child in enumerate(_children(node, where))]
    if kind in (BYTES, RECORDS) and "value" not in node:
        return _hex_of(node, where)
    return node.get("value")


def _hex_of(node: JsonObject, where: str) -> str:
    """Return the bytes of a field that the tree has opened, without their length: they are in the hex of all nodes."""
    size = int(node["end"]) - int(node["start"])
    data = "".join(_all_hex(node))
    if len(data) != 2 * size:
        raise UsageError(f"{where}: its nodes have {len(data) // 2} of its {size} bytes; give `value` in hex instead")
    first = min((int(child["start"]) for child in _children(node, where)), default=int(node["end"]))
    return data[2 * (first - int(node["start"])) :]


def _all_hex(node: JsonObject) -> list[str]:
    pieces = [str(node.get("hex", ""))]
    for child in _children(node, str(node.get("name"))):
        if child.get("offsets_in") is None or child.get("offsets_in") == node.get("offsets_in"):
            pieces += _all_hex(child)
    return pieces


def _structure(cls: type[Any], version: int, value: object, where: str) -> Any:  # noqa: ANN401 - an instance of it
    if not isinstance(value, dict):
        raise UsageError(f"{where}: an object with the fields of {cls.__name__}, not {_shown(value)}")
    named = {CAMEL.sub("_", str(name)).lower(): given for name, given in value.items()}
    fields = {field.name: field for field in spec_of(cls).fields}
    settings: dict[str, Any] = {}
    for name, given in named.items():
        field = fields.get(name)
        if name == UNKNOWN_TAGS:
            settings[name] = _tags(given, f"{where}.{name}")
        elif field is None or not field.versions.includes(version):
            there = ", ".join(one.name for one in fields.values() if one.versions.includes(version)) or "none"
            raise UsageError(f"{where}: {cls.__name__} version {version} has no field {name!r}; its fields: {there}")
        else:
            settings[name] = _field(field, version, given, f"{where}.{name}")
    for field in fields.values():
        if field.name not in settings:
            settings[field.name] = _default(field)
    return cls(**settings)


def _default(field: FieldSpec) -> Any:  # noqa: ANN401 - of any field
    if isinstance(field.kind, ArrayOf):
        return None if field.default is None else []
    if isinstance(field.kind, StructOf):
        return None if field.default is None else _structure(field.kind.cls, 0, {}, field.name)
    return field.default if field.default is not None or field.nullable.max >= 0 else field.kind.zero


def _field(field: FieldSpec, version: int, value: object, where: str) -> Any:  # noqa: ANN401 - of any field
    if value is None:
        if not field.nullable.includes(version):
            raise UsageError(f"{where}: it may not be null in version {version}")
        return None
    return _typed(field.kind, version, value, where)


def _typed(kind: Kind, version: int, value: object, where: str) -> Any:  # noqa: ANN401 - of any field
    if isinstance(kind, StructOf):
        return _structure(kind.cls, version, value, where)
    if isinstance(kind, ArrayOf):
        if not isinstance(value, list):
            raise UsageError(f"{where}: a list, not {_shown(value)}")
        return [_typed(kind.element, version, one, f"{where}[{at}]") for at, one in enumerate(value)]
    if kind is STRING:
        if not isinstance(value, str):
            raise UsageError(f"{where}: a text, not {_shown(value)}")
        return value
    if kind is UUID:
        try:
            return Uuid.parse(str(value))
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
    if kind is RECORDS and isinstance(value, list):
        return _records(value, where)
    if kind in (BYTES, RECORDS):
        return _bytes(value, where)
    if kind is BOOLEAN:
        if not isinstance(value, bool):
            raise UsageError(f"{where}: true or false, not {_shown(value)}")
        return value
    return float(value) if kind is FLOAT64 and isinstance(value, int | float) else _number(value, where, kind.size)


def _number(value: object, where: str, size: int = 4) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{where}: a whole number, not {_shown(value)}")
    limit = 1 << (8 * size - 1)
    if not -limit <= value < 2 * limit:
        raise UsageError(f"{where}: {value} does not fit {size} bytes")
    return value


def _bytes(value: object, where: str) -> bytes:
    if isinstance(value, dict) and set(value) == {"text"} and isinstance(value["text"], str):
        return value["text"].encode()
    if not isinstance(value, str):
        raise UsageError(f'{where}: hex, or {{"text": "..."}}, not {_shown(value)}')
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise UsageError(f'{where}: {error}; bytes are hex, or {{"text": "..."}}') from None


def _tags(value: object, where: str) -> dict[int, bytes] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(str(tag).isdecimal() for tag in value):
        raise UsageError(f"{where}: an object of tag numbers and hex, not {_shown(value)}")
    return {int(tag): _bytes(data, f"{where}.{tag}") for tag, data in value.items()}


def _records(value: list[object], where: str) -> bytes:
    """Return one uncompressed batch."""
    records = []
    for at, one in enumerate(value):
        here = f"{where}[{at}]"
        if not isinstance(one, dict) or not set(one) <= {"key", "value", "headers", "timestamp"}:
            raise UsageError(f"{here}: an object with key, value, headers and timestamp, not {_shown(one)}")
        key, content = (
            None if one.get(name) is None else _bytes(one[name], f"{here}.{name}") for name in ("key", "value")
        )
        headers = [
            (str(name), None if data is None else _bytes(data, f"{here}.headers"))
            for name, data in one.get("headers", ())
        ]
        timestamp_ms = _number(one.get("timestamp", 0), f"{here}.timestamp", 8)
        records.append((timestamp_ms, key, content, headers))
    return encode_batch(records)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
