"""Limits against hostile schemas, and reading and writing JSON under them.

Every language checks the size of the texts, the number of references and the depth of nesting before it does work that
grows faster than the text. Must not do I/O. Start at `check_bundle` and `load_json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, DecimalException
from typing import Any, Final, TypeAlias

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.json_codec import refuse_constant
from kafkaraw.schemas.model import SchemaBundle

Json: TypeAlias = Any
"""A JSON value: dictionaries, lists, strings, numbers, booleans and None."""
TEXT_CHARACTERS_MAX: Final = 1 << 20
"""Of one schema. A record of `_schemas` holds 1 MB by default."""
BUNDLE_CHARACTERS_MAX: Final = 8 << 20
"""Of a schema and everything that it references."""
REFERENCES_MAX: Final = 1_000
REFERENCE_DEPTH_MAX: Final = 100
EXPONENT_MAX: Final = 100_000
"""Of a number in a JSON schema."""
DEPTH_MAX: Final = 160
"""Levels of nesting of a text, and of a schema with its named types in place of their names."""


def check_bundle(bundle: SchemaBundle) -> tuple[tuple[str, SchemaBundle], ...]:
    """Return every referenced schema once, each after the schemas that it references.

    Raises:
        SchemaParseError: the texts are too long, or the references are too many, too deep or form a circle.
    """
    _check_text(bundle.schema.text, "")
    total = len(bundle.schema.text)
    ordered: dict[str, SchemaBundle] = {}
    path: list[str] = []
    iterators: list[Iterator[tuple[str, SchemaBundle]]] = [iter(bundle.references.items())]
    open_bundles: list[SchemaBundle] = [bundle]
    while iterators:
        found = next(iterators[-1], None)
        if found is None:
            iterators.pop()
            done = open_bundles.pop()
            if path:
                ordered.setdefault(path.pop(), done)
            continue
        name, child = found
        if name in ordered:
            continue
        if name in path or any(child is other for other in open_bundles):
            raise SchemaParseError(
                f"the references form a circle: {' -> '.join([*path, name])}; remove one of them", path=name
            )
        total += len(child.schema.text)
        if len(ordered) + len(path) >= REFERENCES_MAX or len(path) >= REFERENCE_DEPTH_MAX:
            raise SchemaParseError(
                f"more than {REFERENCES_MAX} references, or {REFERENCE_DEPTH_MAX} levels of them; merge schemas",
                path=name,
            )
        _check_text(child.schema.text, name)
        if total > BUNDLE_CHARACTERS_MAX:
            raise SchemaParseError(
                f"the schema and its references have more than {BUNDLE_CHARACTERS_MAX} characters; split them",
                path=name,
            )
        path.append(name)
        open_bundles.append(child)
        iterators.append(iter(child.references.items()))
    return tuple(ordered.items())


def _check_text(text: str, where: str) -> None:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise SchemaParseError(
            f"the schema has {len(text)} characters, more than {TEXT_CHARACTERS_MAX}; split it with references",
            path=where,
        )
    if not text.strip():
        raise SchemaParseError("the schema is empty; pass its text", path=where)


def load_json(text: str, *, comments: bool = False, decimals: bool = False) -> Json:
    """Read a schema that is JSON.

    Args:
        text: the schema.
        comments: accept comments as Apache Avro does, `//` and `/* */`.
        decimals: read numbers with a fraction or an exponent as Decimal, which keeps their digits.

    Raises:
        SchemaParseError: the text is not JSON (with line and column), or nested too deep.
    """
    try:
        value = json.loads(text, parse_constant=refuse_constant, parse_float=_decimal if decimals else None)
    except json.JSONDecodeError as error:
        if comments and "/" in text:
            return load_json(without_comments(text))
        raise SchemaParseError(
            f"this is not JSON: {error.msg}; fix the text", line=error.lineno, column=error.colno
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # NaN, or an integer of more than 4,300 digits
        raise SchemaParseError(
            f"the schema has a number that JSON does not allow or that is too long: {error}"
        ) from None
    _check_depth(value)
    return value


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except DecimalException:
        raise ValueError(f"the exponent of {text[:60]} is too large") from None
    if abs(value.adjusted()) > EXPONENT_MAX:
        raise ValueError(f"the exponent of {text[:60]} is too large")
    return value if value else abs(value)  # Java's decimals have no negative zero


def _too_deep() -> SchemaParseError:
    return SchemaParseError(f"the schema is nested deeper than {DEPTH_MAX} levels; use named types or references")


def _check_depth(value: Json) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep()


_COMMENT_OR_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


def without_comments(text: str) -> str:
    """Replace comments outside of strings by spaces; line breaks stay, so that positions stay right."""

    def replaced(found: re.Match[str]) -> str:
        part = found[0]
        return part if part[0] == '"' else re.sub(r"[^\n]", " ", part)

    return _COMMENT_OR_STRING.sub(replaced, text)


# JSON as Jackson writes it, which is what the registry stores and compares.

_ESCAPES: Final = {chr(code): f"\\u{code:04X}" for code in range(32)} | {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')


def json_string(text: str) -> str:
    """Return a JSON string as Jackson writes it."""
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


def json_text(value: Json) -> str:
    """Return compact JSON as Jackson writes it: Java's doubles, and no escapes but the necessary ones."""
    if isinstance(value, str):
        return json_string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_string(key)}:{json_text(item)}" for key, item in value.items()) + "}"
    return str(value)  # a Decimal


def java_double(value: float) -> str:
    """Return what Java's `Double.toString` returns (since JDK 19: the shortest digits that read back the same)."""
    if value != value or value in (float("inf"), float("-inf")):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    text = repr(abs(value))
    sign = "-" if repr(value)[0] == "-" else ""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{sign}{text}"
    digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
    power = int(exponent or 0) + (len(whole) - 1 if whole != "0" else -1 - (len(fraction) - len(fraction.lstrip("0"))))
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def check_encodable(text: str) -> None:
    """Refuse strings with half of a surrogate pair, which UTF-8 cannot express.

    Raises:
        SchemaParseError: the text has one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaParseError(
            f"the schema has half of a surrogate pair (U+{ord(text[error.start]):04X}); use a complete character"
        ) from None
