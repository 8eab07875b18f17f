"""What a JSON schema says about the shape of documents: a tree of `JsonType`, and the columns that it becomes.

Must not read documents. Start at `load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.arrow.columns import Column, Type
from kafkaraw.schemas.languages.json_schema import JsonSchema
from kafkaraw.schemas.languages.json_schema.documents import looked_up
from kafkaraw.schemas.languages.limits import Json

if TYPE_CHECKING:
    from referencing._core import Resolver

_COLUMNS_MAX: Final = 10_000
_DEPTH_MAX: Final = 100
"""Nested types; schemas are nested less deep in practice, and Python's stack must suffice."""


class JsonKind(Enum):
    """What a JSON value is in a column."""

    OBJECT = auto()
    """A struct of the properties."""
    MAP = auto()
    """A map of strings to the schema of `additionalProperties`."""
    ARRAY = auto()
    STRING = auto()
    INTEGER = auto()
    """int64."""
    INT32 = auto()
    """An integer with Connect's int8, int16 or int32."""
    NUMBER = auto()
    """float64."""
    BOOLEAN = auto()
    BYTES = auto()
    """Base64 of bytes, as Connect writes them."""
    DATE = auto()
    """Days since 1970, Connect's Date."""
    TIMESTAMP = auto()
    """Milliseconds since 1970, Connect's Timestamp."""
    TEXT = auto()
    """Anything: its JSON as text."""


_COLUMN_TYPES: Final = {
    JsonKind.OBJECT: Type.STRUCT,
    JsonKind.MAP: Type.MAP,
    JsonKind.ARRAY: Type.LIST,
    JsonKind.STRING: Type.STRING,
    JsonKind.INTEGER: Type.INT64,
    JsonKind.INT32: Type.INT32,
    JsonKind.NUMBER: Type.FLOAT64,
    JsonKind.BOOLEAN: Type.BOOLEAN,
    JsonKind.BYTES: Type.BINARY,
    JsonKind.DATE: Type.DATE,
    JsonKind.TIMESTAMP: Type.TIMESTAMP_UTC,
    JsonKind.TEXT: Type.STRING,
}
CONNECT_TITLES: Final = {
    JsonKind.DATE: "org.apache.kafka.connect.data.Date",
    JsonKind.TIMESTAMP: "org.apache.kafka.connect.data.Timestamp",
}
"""Titles of Connect's logical types."""


@dataclass(frozen=True, slots=True)
class JsonType:
    """The shape of a value.

    Attributes:
        kind: what it is in a column.
        nullable: whether it can be null, or be missing.
        names: of an object: its properties.
        children: of an object: the types of its properties; of an array or a map: that of its items.
        required: of an object: the properties that it must have; others are left out rather than null.
    """

    kind: JsonKind
    nullable: bool = False
    names: tuple[str, ...] = ()
    children: tuple[JsonType, ...] = ()
    required: tuple[str, ...] = ()

    def or_null(self) -> JsonType:
        """Return the same type, nullable."""
        return JsonType(self.kind, True, self.names, self.children, self.required)


TEXT: Final = JsonType(JsonKind.TEXT, nullable=True)


def columns_of(kind: JsonType, name: str = "") -> Column:
    """Return the column of a type."""
    match kind.kind:
        case JsonKind.OBJECT:
            pairs = zip(kind.children, kind.names, strict=True)
            children = tuple(columns_of(each, inner) for each, inner in pairs)
        case JsonKind.ARRAY:
            children = (columns_of(kind.children[0], "element"),)
        case JsonKind.MAP:
            pair = (Column("key", Type.STRING), columns_of(kind.children[0], "value"))
            children = (Column("entries", Type.STRUCT, children=pair),)
        case _:
            children = ()
    return Column(name, _COLUMN_TYPES[kind.kind], kind.nullable, children)


def load(parsed: JsonSchema, recursion_max: int = 0) -> JsonType:
    """Return the type of a schema's documents; a document may be null, as a tombstone is.

    Args:
        parsed: the schema.
        recursion_max: how often a schema may contain itself; deeper ones are text.

    Raises:
        UsageError: the schema has too many columns.
        SchemaParseError: a `$ref` refers to nothing.
    """
    loader = _Loader(recursion_max)
    return loader.type_of(parsed.documents.root, parsed.documents.resolver(), {}, 0).or_null()


class _Loader:
    def __init__(self, recursion_max: int) -> None:
        self._recursion_max = recursion_max
        self._count = 0

    def type_of(self, schema: Json, resolver: Resolver[Any], inside: Mapping[int, int], depth: int) -> JsonType:
        """Return the type of a schema; `inside` counts the schemas around it, by their identity."""
        self._count += 1
        if self._count > _COLUMNS_MAX:
            raise UsageError(f"the schema has more than {_COLUMNS_MAX:,} columns")
        around = inside.get(id(schema), 0)
        if not isinstance(schema, dict) or depth > _DEPTH_MAX or around > self._recursion_max:
            return TEXT
        inside = {**inside, id(schema): around + 1}
        if isinstance(schema.get("$ref"), str):
            found, there = looked_up(resolver, schema["$ref"], "#")
            return self.type_of(found, there, inside, depth + 1)
        if "enum" in schema or "const" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            if isinstance(values, list) and all(isinstance(each, str | None) for each in values) and any(values):
                return JsonType(JsonKind.STRING, None in values)
        names = schema.get("type", "object" if "properties" in schema else None)
        if names is None:
            return self._combined(schema, resolver, inside, depth)
        return self._typed(names if isinstance(names, list) else [names], schema, resolver, inside, depth)

    def _typed(
        self, names: list[Any], schema: dict[str, Any], resolver: Resolver[Any], inside: Mapping[int, int], depth: int
    ) -> JsonType:
        rest = {each for each in names if each != "null"}
        if rest == {"integer", "number"}:
            rest = {"number"}
        if len(rest) != 1:
            return TEXT
        match rest.pop():
            case "object":
                found = self._object(schema, resolver, inside, depth)
            case "array":
                items = schema.get("items", True)
                inner = True if "prefixItems" in schema else items
                found = JsonType(JsonKind.ARRAY, False, (), (self.type_of(inner, resolver, inside, depth + 1),))
            case "boolean":
                found = JsonType(JsonKind.BOOLEAN)
            case "string":
                found = JsonType(JsonKind.BYTES if schema.get("connect.type") == "bytes" else JsonKind.STRING)
            case "number":
                found = JsonType(JsonKind.NUMBER)
            case _:
                found = JsonType(_integer(schema))
        return found.or_null() if "null" in names else found

    def _object(
        self, schema: dict[str, Any], resolver: Resolver[Any], inside: Mapping[int, int], depth: int
    ) -> JsonType:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            required = schema.get("required")
            needed = required if isinstance(required, list) else []
            types = {name: self.type_of(each, resolver, inside, depth + 1) for name, each in properties.items()}
            children = tuple(each if name in needed else each.or_null() for name, each in types.items())
            return JsonType(
                JsonKind.OBJECT, False, tuple(types), children, tuple(each for each in types if each in needed)
            )
        if isinstance(others, dict) and "patternProperties" not in schema:
            return JsonType(JsonKind.MAP, False, (), (self.type_of(others, resolver, inside, depth + 1),))
        return TEXT

    def _combined(
        self, schema: dict[str, Any], resolver: Resolver[Any], inside: Mapping[int, int], depth: int
    ) -> JsonType:
        """Return the type of a schema without `type`: of X and null, or of X alone; else text."""
        words = [word for word in ("oneOf", "anyOf", "allOf") if word in schema]
        parts = schema[words[0]] if len(words) == 1 else []
        rest = [each for each in parts if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(rest) != 1 or (words[0] == "allOf" and len(parts) != 1):
            return TEXT
        found = self.type_of(rest[0], resolver, inside, depth + 1)
        return found.or_null() if len(parts) > 1 else found


def _integer(schema: dict[str, Any]) -> JsonKind:
    match schema.get("title"), schema.get("connect.type"):
        case (title, "int32") if title == CONNECT_TITLES[JsonKind.DATE]:
            return JsonKind.DATE
        case (title, "int64") if title == CONNECT_TITLES[JsonKind.TIMESTAMP]:
            return JsonKind.TIMESTAMP
        case (_, "int8" | "int16" | "int32"):
            return JsonKind.INT32
    return JsonKind.INTEGER
