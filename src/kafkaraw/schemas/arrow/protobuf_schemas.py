"""Protobuf schemas for Arrow types: what `decode_arrow` reads as the same columns. Start at `protobuf_schema_of`.

Every field but lists, maps and messages is `optional`, so that zero and null stay different.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_KEYS: Final = ("string", "bool", "int32", "int64", "uint32", "uint64")
"""Types of a map's keys."""


def protobuf_schema_of(kind: pa.DataType, name: str) -> str:
    """Return the schema of a column, as text.

    Args:
        kind: type of the column, a struct.
        name: name of the message; messages inside are named by their fields.

    Raises:
        UsageError: Protobuf has no such type.
    """
    import pyarrow.types as t

    if not t.is_struct(kind):
        raise UsageError(f"a Protobuf record is a message, and the column is {kind}; put it into a struct")
    body = _message(kind, name, "", "")
    imports = [
        f'import "google/protobuf/{known.rpartition(".")[2].lower()}.proto";\n'
        for known in (_TIMESTAMP, _DURATION)
        if known in body
    ]
    return f'syntax = "proto3";\n{"".join(imports)}\n{body}'


def _message(kind: pa.StructType, name: str, path: str, indent: str) -> str:
    names = [each.name for each in kind]
    for each in names:
        if not _NAME.fullmatch(each) or names.count(each) > 1:
            where = f"{path}.{each}" if path else each
            raise UsageError(
                f"field {where!r}: a Protobuf field has a name of its own of ASCII letters, digits and underscores; "
                "rename it"
            )
    taken = set(names)
    lines = []
    deeper = f"{indent}  "
    for number, each in enumerate(kind, 1):
        inner = f"{path}.{each.name}" if path else each.name
        label, type_name, nested = _field(each.type, each.name, inner, deeper, taken)
        lines.append(f"{nested}{deeper}{label}{type_name} {each.name} = {number};\n")
    return f"{indent}message {name} {{\n{''.join(lines)}{indent}}}\n"


def _field(kind: pa.DataType, name: str, path: str, indent: str, taken: set[str]) -> tuple[str, str, str]:
    """Return the label of a field, its type, and the messages that it needs."""
    import pyarrow.types as t

    if t.is_map(kind):
        key, _ = _single(kind.key_type, name, path, indent, set(taken))
        if key not in _KEYS:
            raise UsageError(f"field {path}: Protobuf has maps with keys that are {', '.join(_KEYS)}, not {key}")
        type_name, nested = _single(kind.item_type, name, f"{path}{{}}", indent, taken)
        return "", f"map<{key}, {type_name}>", nested
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return ("repeated ", *_single(kind.value_type, name, f"{path}[]", indent, taken))
    type_name, nested = _single(kind, name, path, indent, taken)
    return "" if nested or type_name in (_TIMESTAMP, _DURATION) else "optional ", type_name, nested


def _single(kind: pa.DataType, name: str, path: str, indent: str, taken: set[str]) -> tuple[str, str]:
    """Return the type of one value, and the messages that it needs."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind) and kind.num_fields:
        inner = f"{name[:1].upper()}{name[1:]}"
        while inner in taken:
            inner += "_"
        taken.add(inner)
        return inner, _message(kind, inner, path, indent)
    if t.is_timestamp(kind) and kind.tz:
        return _TIMESTAMP, ""
    if t.is_duration(kind):
        return _DURATION, ""
    plain = {
        pa.bool_(): "bool",
        pa.int8(): "int32",
        pa.int16(): "int32",
        pa.int32(): "int32",
        pa.int64(): "int64",
        pa.uint8(): "int32",
        pa.uint16(): "int32",
        pa.uint32(): "uint32",
        pa.uint64(): "uint64",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.binary(): "bytes",
        pa.large_binary(): "bytes",
    }
    if kind not in plain:
        raise UsageError(f"field {path}: Protobuf has no type for {kind}; cast the column first, or give a schema")
    return plain[kind], ""
