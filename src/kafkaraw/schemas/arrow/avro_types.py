"""Avro schemas as a graph of types, from their JSON text.

The graph has what decoding needs: types with their names resolved, defaults, aliases, logical types. It is not a
validator: the registry and `schemas.languages.avro` refuse schemas that are wrong; what would stop this module gets an
error with its path. Limits hold for hostile texts. Start at `load`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, field

PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED: Final = frozenset(("record", "enum", "fixed"))
_NESTING_MAX: Final = 64
_SIZE_MAX: Final = 2**31 - 1
_ABSENT: Final = object()
# Logical type -> the types that may have it. Others are ignored, as the specification requires.
_LOGICAL: Final = {
    "date": ("int",),
    "decimal": ("bytes", "fixed"),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "time-millis": ("int",),
    "time-micros": ("long",),
}


@dataclass(slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(slots=True, eq=False)
class AvroType:
    """A type; records may refer to themselves.

    Attributes:
        kind: Avro's name of the type, or "union".
        name: full name of a record, enum or fixed; "" for others.
        logical: logical type, if it is a valid one.
        fields: of a record.
        branches: of a union; the one type of the items of an array, or of the values of a map.
        symbols: of an enum.
        default: default symbol of an enum.
        aliases: other full names.
        size: of a fixed.
        precision: of a decimal.
        scale: of a decimal.
    """

    kind: str
    name: str = ""
    logical: str = ""
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    aliases: frozenset[str] = field(default=frozenset())
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


def load(text: str, references: Sequence[str] = ()) -> AvroType:
    """Return the type of a schema.

    Args:
        text: the schema as JSON.
        references: texts of the schemas that it refers to, each after those that it refers to itself.

    Raises:
        UsageError: it is no Avro schema; the message names the path.
    """
    names: dict[str, AvroType] = {}
    for reference in references:
        _Loader(names).load(_parsed(reference), "", "", 0)
    return _Loader(names).load(_parsed(text), "", "", 0)


def _parsed(text: str) -> object:
    stripped = text.strip()
    if stripped in PRIMITIVES:
        return stripped
    try:
        return json.loads(stripped)
    except RecursionError:
        raise UsageError(f"an Avro schema is nested more than {_NESTING_MAX} deep") from None
    except ValueError as error:
        raise UsageError(f"an Avro schema is not JSON: {error}; it begins with {text[:60]!r}") from None


class _Loader:
    """Converts JSON into types; `names` collects the named ones."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def load(self, given: object, namespace: str, path: str, depth: int) -> AvroType:
        if depth > _NESTING_MAX:
            raise UsageError(f"Avro schema, {path or 'root'}: nested more than {_NESTING_MAX} deep")
        if isinstance(given, str):
            return self._named(given, namespace, path)
        if isinstance(given, list):
            branches = tuple(self.load(each, namespace, f"{path}[{at}]", depth + 1) for at, each in enumerate(given))
            return AvroType("union", branches=branches)
        if not isinstance(given, Mapping):
            raise UsageError(f"Avro schema, {path or 'root'}: {given!r} is not a type")
        return self._complex(given, namespace, path, depth)

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = _full_name(name, namespace)
        found = self._names.get(full) or self._names.get(name)
        if found is None:
            raise UsageError(
                f"Avro schema, {path or 'root'}: the type {full!r} is unknown; define it before its use, or register "
                "it and name it in the schema's references"
            )
        return found

    def _complex(self, given: Mapping[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        kind = given.get("type")
        if isinstance(kind, str) and kind in PRIMITIVES:
            return _with_logical(AvroType(str(kind)), given)
        match kind:
            case "array" | "map":
                key = "items" if kind == "array" else "values"
                item = self.load(given.get(key), namespace, f"{path}.{key}", depth + 1)
                return AvroType(kind, branches=(item,))
            case "record" | "error" | "enum" | "fixed":
                return self._definition(given, namespace, path, depth)
            case str() | list() | Mapping():
                return self.load(kind, namespace, path, depth + 1)
        raise UsageError(f"Avro schema, {path or 'root'}: {kind!r} is not a type")

    def _definition(self, given: Mapping[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        space = given.get("namespace", namespace) or ""
        name = given.get("name")
        if not isinstance(name, str) or not _is_text(name) or (space and not _is_text(space)):
            raise UsageError(f"Avro schema, {path or 'root'}: a {given['type']} needs a name")
        full = _full_name(name, space)
        space = full.rpartition(".")[0]
        aliases = frozenset(_full_name(each, space) for each in _texts(given, "aliases", path))
        kind = "record" if given["type"] == "error" else str(given["type"])
        made = AvroType(kind, full, aliases=aliases)
        if full in self._names:
            raise UsageError(f"Avro schema, {path or 'root'}: the type {full!r} is defined twice")
        self._names[full] = made
        match kind:
            case "enum":
                default = given.get("default")
                made.symbols, made.default = _texts(given, "symbols", path), default if _is_text(default) else None
            case "fixed":
                made.size = _count(given.get("size"), path)
                _with_logical(made, given)
            case _:
                fields = given.get("fields", ())
                if not isinstance(fields, list | tuple):
                    raise UsageError(f"Avro schema, {path or 'root'}: the fields of a record are a list")
                made.fields = tuple(self._field(each, space, path, depth) for each in fields)
        return made

    def _field(self, given: object, namespace: str, path: str, depth: int) -> AvroField:
        if not isinstance(given, Mapping) or not _is_text(given.get("name")) or "type" not in given:
            raise UsageError(f"Avro schema, {path or 'root'}: a field needs a name and a type, it is {given!r:.80}")
        name = str(given["name"])
        kind = self.load(given["type"], namespace, f"{path}.{name}" if path else name, depth + 1)
        default = given.get("default", _ABSENT)
        aliases = _texts(given, "aliases", f"{path}.{name}" if path else name)
        return AvroField(name, kind, aliases, None if default is _ABSENT else default, default is not _ABSENT)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_text(given: object) -> bool:
    """Whether it is text, not empty, that UTF-8 can have; JSON can have half of a surrogate pair."""
    if not isinstance(given, str):
        return False
    return bool(given) and (given.isascii() or not any("\ud800" <= each <= "\udfff" for each in given))


def _texts(given: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
    found = given.get(key, ())
    if not isinstance(found, list | tuple) or not all(map(_is_text, found)):
        raise UsageError(f"Avro schema, {path or 'root'}: {key} are a list of texts, not {found!r:.80}")
    return tuple(found)


def _count(given: object, path: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= _SIZE_MAX:
        raise UsageError(f"Avro schema, {path or 'root'}: a size of {given!r} is not a number of bytes up to 2 GiB")
    return given


def _with_logical(made: AvroType, given: Mapping[str, Any]) -> AvroType:
    """Add the logical type, unless it is unknown or invalid."""
    logical = given.get("logicalType")
    if not isinstance(logical, str) or made.kind not in _LOGICAL.get(logical, ()):
        return made
    if logical == "decimal":
        precision, scale = given.get("precision"), given.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
            return made
        if made.kind == "fixed" and precision > _digits_of(made.size):
            return made
        made.precision, made.scale = precision, scale
    made.logical = logical
    return made


def _digits_of(size: int) -> int:
    """Return the number of decimal digits that `size` bytes in two's complement always hold."""
    return len(str(2 ** (8 * size - 1) - 1)) - 1 if 0 < size <= 64 else 0 if not size else size * 2
