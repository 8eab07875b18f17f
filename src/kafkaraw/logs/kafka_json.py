"""Messages as JSON, in the text that Kafka's generated JSON converters and Jackson write. Start at `render`.

Source: org.apache.kafka.message.JsonConverterGenerator, com.fasterxml.jackson.databind.JsonNode.toString.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, StructOf, spec_of
from kafkaraw.protocol.types import BYTES, UUID

Json = Any
"""A value that `json.dumps` takes."""

_PLAIN_MIN: Final = 1e-3
_PLAIN_END: Final = 1e7
"""Java writes numbers outside of these limits with an exponent."""
_CONTROL: Final = re.compile(r"\\u00[01][0-9a-f]")
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def render(value: Json) -> str:
    """Return the text of a JSON value, as Jackson writes it: without spaces, escapes in upper case."""
    text = _encode(value)
    if "\\u00" in text:
        text = _CONTROL.sub(lambda found: "\\u" + found[0][2:].upper(), text)
    return text


def render_floats(value: Json) -> str:
    """Return the text of a JSON value that may have floats: those have the form of Java's `Double.toString`."""
    if isinstance(value, dict):
        members = ",".join(f"{render(name)}:{render_floats(member)}" for name, member in value.items())
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{','.join(map(render_floats, value))}]"
    return java_double(value) if isinstance(value, float) else render(value)


def java_double(value: float) -> str:
    """Return what Java's `Double.toString` returns since JDK 19; JSON has quotes around numbers that are not finite."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    size = abs(value)
    if size == 0 or _PLAIN_MIN <= size < _PLAIN_END:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"


def to_json(message: object, version: int, bytes_json: Callable[[FieldSpec, bytes], Json] | None = None) -> Json:
    """Return a message as Kafka's JSON converter does.

    Args:
        message: an instance of a declared class.
        version: its version: fields of other versions are left out, and so are tagged fields with default values.
        bytes_json: returns the value for a bytes field; base64 if None.
    """
    found: dict[str, Json] = {}
    for field in spec_of(type(message)).fields:
        value = getattr(message, field.name)
        if not field.versions.includes(version) or (field.is_tagged(version) and _is_default(field, value)):
            continue
        if value is None:
            found[_camel_case(field.name)] = None
        elif field.kind is BYTES and bytes_json is not None:
            found[_camel_case(field.name)] = bytes_json(field, value)
        else:
            found[_camel_case(field.name)] = _value(field.kind, value, version, bytes_json)
    return found


def base64_text(data: bytes) -> str:
    """Return the text of a bytes field."""
    return base64.b64encode(data).decode()


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _is_default(field: FieldSpec, value: Json) -> bool:
    if isinstance(field.kind, ArrayOf):
        return bool(value == []) if field.default is not None else value is None
    if isinstance(field.kind, StructOf) and field.default is not None:
        return bool(value == field.kind.cls())
    return bool(value == field.default)


def _value(kind: Kind, value: Json, version: int, bytes_json: Callable[[FieldSpec, bytes], Json] | None) -> Json:
    if isinstance(kind, StructOf):
        return to_json(value, version, bytes_json)
    if isinstance(kind, ArrayOf):
        return [_value(kind.element, element, version, bytes_json) for element in value]
    if kind is UUID:
        return str(value)
    return base64_text(value) if kind is BYTES else value
