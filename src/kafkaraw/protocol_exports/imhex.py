"""Write the protocol as a pattern for the hex editor ImHex: one struct template for each message and structure.

The pattern reads requests, with their size prefixes, from the first byte to the last. For a response, the user sets
`is_response`, and the API key and version of its request, in the editor.

This module must not know how the editor shows a pattern. Start at `imhex_pattern`.

Source: https://docs.werwolv.net/pattern-language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafkaraw.protocol.apis import Api
from kafkaraw.protocol.declare import (
    VERSION_MAX,
    ArrayOf,
    FieldSpec,
    Kind,
    StructOf,
    VersionRange,
    header_of,
    spec_of,
)
from kafkaraw.protocol.describe import structures_within, summary_of
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name
from kafkaraw.protocol.types import BOOLEAN, BYTES, FLOAT64, INT16, RECORDS, STRING, UUID, Primitive

FILE: Final = "kafka.hexpat"

KEYWORDS: Final = frozenset(
    {
        "match",
        "is",
        "from",
        "as",
        "in",
        "out",
        "ref",
        "null",
        "parent",
        "this",
        "version",
        "flexible",
        "import",
        "using",
    }
    | {
        "const",
        "struct",
        "union",
        "enum",
        "namespace",
        "signed",
        "unsigned",
        "return",
        "try",
        "catch",
        "le",
        "be",
        "fn",
    }
    | {"if", "else", "for", "while", "break", "continue", "true", "false", "auto", "padding", "str", "char", "bool"}
)
"""Words that no field may have as its name in a pattern."""

HEAD: Final = """\
#pragma description Apache Kafka's protocol
#pragma endian big
#pragma array_limit 1000000
#pragma pattern_limit 10000000

bool is_response in;
s16 response_api_key in;
s16 response_api_version in;

// A varint without sign, shown as its value.
struct Uvarint {
    u8 bytes[while($ == addressof(this) || builtin::std::mem::read_unsigned($ - 1, 1, 0) & 0x80 != 0)] [[hidden]];
} [[sealed, format("uvarint_text"), transform("uvarint_value")]];

fn value_of(ref auto bytes) {
    u64 value = 0;
    for (u8 i = 0, i < sizeof(bytes), i = i + 1)
        value = value | u64(bytes[i] & 0x7f) << (7 * i);
    return value;
};

fn uvarint_value(ref auto varint) {
    return value_of(varint.bytes);
};

fn uvarint_text(ref auto varint) {
    return builtin::std::format("{}", value_of(varint.bytes));
};

struct Length<auto flexible> {
    s64 value = -1;
    if (flexible) {
        Uvarint compact;
        if (compact > 0)
            value = compact - 1;
    } else {
        s32 plain;
        value = plain;
    }
    s64 count = value < 0 ? 0 : value;
};

struct String<auto flexible> {
    s64 size = -1;
    if (flexible) {
        Uvarint compact;
        if (compact > 0)
            size = compact - 1;
    } else {
        s16 plain;
        size = plain;
    }
    if (size > 0)
        char value[size];
};

struct Uuid {
    u8 value[16];
};

struct Bytes<auto flexible> {
    Length<flexible> size;
    if (size.count > 0)
        u8 value[size.count];
};

struct UnknownTag {
    Uvarint tag;
    Uvarint size;
    if (size > 0)
        u8 value[size];
};

struct UnknownTags {
    Uvarint count;
    if (count > 0)
        UnknownTag fields[count];
};

struct RecordBatch {
    s64 base_offset;
    s32 batch_length;
    s32 partition_leader_epoch;
    s8 magic;
    if (magic == 2) {
        u32 crc;
        s16 attributes; // compression, then timestamp type, transactional, control, delete horizon
        u8 codec = attributes & 7 [[export]];
        s32 last_offset_delta;
        s64 base_timestamp;
        s64 max_timestamp;
        s64 producer_id;
        s16 producer_epoch;
        s32 base_sequence;
        s32 records_count;
        if (batch_length > 49)
            u8 records[batch_length - 49];
    } else {
        u8 message[batch_length - 5];
    }
};

struct Records<auto flexible> {
    Length<flexible> size;
    u64 end = $ + size.count;
    RecordBatch batches[while($ + 17 <= end && $ + 12 + builtin::std::mem::read_signed($ + 8, 4, 1) <= end)];
    if ($ < end)
        u8 cut_short[end - $];
};
"""

FRAMES: Final = """\
struct RequestFrame {{
    s32 size;
    u64 end = $ + size;
    s16 api_key;
    s16 api_version;
    s32 correlation_id;
    if (api_key != 7 || api_version != 0)
        String<false> client_id;
    if (is_flexible(api_key, api_version))
        UnknownTags tagged_fields;
    match (api_key) {{
{requests}        (_): {{}}
    }}
    if ($ < end)
        u8 rest[end - $];
}};

struct ResponseFrame<auto api_key, auto api_version> {{
    s32 size;
    u64 end = $ + size;
    s32 correlation_id;
    if (is_flexible(api_key, api_version) && api_key != 18)
        UnknownTags tagged_fields;
    match (api_key) {{
{responses}        (_): {{}}
    }}
    if ($ < end)
        u8 rest[end - $];
}};

struct Frames {{
    if (is_response)
        ResponseFrame<response_api_key, response_api_version> responses[while($ < builtin::std::mem::size())];
    else
        RequestFrame requests[while($ < builtin::std::mem::size())];
}};

Frames frames @ 0x00;
"""


INDENT: Final = " " * 12
REFUSED: Final = "api_version > 0 && builtin::std::mem::read_signed($, 2, 1) == 35"


def imhex_pattern(apis: Iterable[Api]) -> dict[str, str]:
    """Return the pattern of some APIs: the text of one file, by its name."""
    apis = list(apis)
    errors = "".join(f"    {error_name(code)} = {code},\n" for code in sorted(ERROR_TABLE))
    parts = [HEAD, f"enum ErrorCode : s16 {{\n{errors}}};\n", _is_flexible(apis)]
    for api in apis:
        parts += [_message(api.request), _message(api.response)]
    frames = FRAMES.format(requests="".join(_cases(apis, "Request")), responses="".join(_cases(apis, "Response")))
    return {FILE: "\n".join([*parts, frames])}


def _is_flexible(apis: list[Api]) -> str:
    lines = [
        f"    if (api_key == {api.key})\n        return api_version >= {header_of(api.request).flexible.min} "
        f"&& api_version <= {api.versions.max};\n"
        for api in apis
        if header_of(api.request).flexible.max >= 0
    ]
    return f"fn is_flexible(s16 api_key, s16 api_version) {{\n{''.join(lines)}    return false;\n}};\n"


def _cases(apis: list[Api], direction: str) -> Iterator[str]:
    for api in apis:
        name = f"{api.name}{direction}"
        versions = f"api_version >= {api.versions.min} && api_version <= {api.versions.max}"
        choice = f"if ({versions})\n{INDENT}    {name}<api_version, is_flexible(api_key, api_version)> body;\n"
        if name == "ApiVersionsResponse":  # a broker that lacks the version answers in version 0
            choice = f"if ({REFUSED})\n{INDENT}    {name}<0, false> body;\n{INDENT}else {choice}"
        yield f"        ({api.key}): {{\n{INDENT}{choice}        }}\n"


def _message(cls: type[object]) -> str:
    """Return the structs of a message, the inner ones first."""
    name = cls.__name__
    order = [*reversed(structures_within(cls))]
    made: dict[type[object], str] = {}
    while len(made) < len(order):
        for structure in order:  # a struct stands behind those that it holds
            if structure not in made and all(inner in made for inner in structures_within(structure)):
                made[structure] = _structure(structure, f"{name}_{structure.__name__}", name)
    return f"// {summary_of(cls)}\n" + "\n".join([*made.values(), _structure(cls, name, name)])


def _structure(cls: type[object], name: str, message: str) -> str:
    fields = spec_of(cls).fields
    lines = [line for field in fields for line in _field(field, message)]
    tagged = [field for field in fields if field.tag is not None]
    before = _tags(name, tagged, message) if tagged else ""
    tags = f"{name}_Tags<version>" if tagged else "UnknownTags"
    lines += ["if (flexible)", f"    {tags} tagged_fields;"]
    body = "".join(f"    {line}\n" for line in lines)
    return f"{before}struct {name}<auto version, auto flexible> {{\n{body}}};\n"


def _tags(name: str, tagged: list[FieldSpec], message: str) -> str:
    lines: list[str] = []
    for field in tagged:
        low, high = max(field.versions.min, field.tagged.min), min(field.versions.max, field.tagged.max)
        known = " && ".join([f"tag == {field.tag}", *_conditions(VersionRange(low, high))])
        inner = "".join(f"        {line}\n" for line in _value(field, message, "true", tagged=True))
        lines.append(f"    {'else ' * bool(lines)}if ({known}) {{\n{inner}    }}\n")
    lines.append("    else if (size > 0)\n        u8 value[size];\n")
    return (
        f"struct {name}_Tag<auto version> {{\n    Uvarint tag;\n    Uvarint size;\n{''.join(lines)}}};\n\n"
        f"struct {name}_Tags<auto version> {{\n    Uvarint count;\n    if (count > 0)\n"
        f"        {name}_Tag<version> fields[count];\n}};\n\n"
    )


def _field(field: FieldSpec, message: str) -> list[str]:
    versions = field.versions
    if field.tag is not None:
        versions = VersionRange(versions.min, min(versions.max, field.tagged.min - 1))
        if versions.min > versions.max:
            return []
    lines = _value(field, message, "flexible")
    conditions = _conditions(versions)
    if not conditions:
        return lines
    return [f"if ({' && '.join(conditions)}) {{", *(f"    {line}" for line in lines), "}"]


def _value(field: FieldSpec, message: str, flexible: str, *, tagged: bool = False) -> list[str]:
    kind, name = field.kind, _name(field)
    if isinstance(kind, ArrayOf):
        type_name = _type(kind.element, field, message, flexible)
        count = f"{name}_count"
        array = f"    {type_name} {name}[{count}.count];"
        return [f"Length<{flexible}> {count};", f"if ({count}.count > 0)", array]
    type_name = _type(kind, field, message, flexible)
    if isinstance(kind, StructOf) and field.nullable.min <= field.nullable.max:
        marker = f"{name}_marker"
        nullable = " && ".join(_conditions(field.nullable)) or "true"
        return [
            f"if ({nullable}) {{",
            f"    s8 {marker};",
            f"    if ({marker} {'>' if tagged else '>='} 0)",
            f"        {type_name} {name};",
            "} else {",
            f"    {type_name} {name};",
            "}",
        ]
    return [f"{type_name} {name};"]


def _name(field: FieldSpec) -> str:
    return f"{field.name}_" if field.name in KEYWORDS else field.name


def _type(kind: Kind, field: FieldSpec, message: str, flexible: str) -> str:
    """Return the type of a value."""
    if isinstance(kind, StructOf):
        return f"{message}_{kind.cls.__name__}<version, {flexible}>"
    assert isinstance(kind, Primitive), "the protocol has no arrays of arrays"
    if kind is UUID:
        return "Uuid"
    if kind is INT16 and field.name.endswith("error_code"):
        return "ErrorCode"
    for known, name in ((STRING, "String"), (BYTES, "Bytes"), (RECORDS, "Records")):
        if kind is known:
            return f"{name}<{flexible}>"
    if kind is BOOLEAN:
        return "bool"
    if kind is FLOAT64:
        return "double"
    return f"{'u' if kind.name.startswith('u') else 's'}{8 * kind.size}"


def _conditions(versions: VersionRange) -> list[str]:
    low = [f"version >= {versions.min}"] if versions.min > 0 else []
    return low + ([f"version <= {versions.max}"] if versions.max < VERSION_MAX else [])
