"""Classes as records: dataclasses, TypedDicts and pydantic models, as values and as the source of a schema.

`schema_of` derives an Avro schema, `json_schema_of` a JSON schema; `as_data` turns instances into what a schema
describes, and `maker_of` turns that back. Must not know a registry.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import re
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from kafkaraw.errors import ConfigError, SerializationError
from kafkaraw.schemas.model import Schema, SchemaType

T = TypeVar("T")
_PLAIN: Final = (str, int, float, bool, bytes, type(None))
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEPTH_MAX: Final = 200


# -- instances


def as_data(value: Any, depth: int = 0) -> Any:
    """Return what a schema describes: dictionaries for instances, symbols for members of an Enum; others unchanged."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEPTH_MAX:
        raise SerializationError(f"the value is nested more than {_DEPTH_MAX} deep, or contains itself")
    if isinstance(value, Enum):
        return symbol_of(value)
    if kind is list:
        return [as_data(item, depth + 1) for item in value]
    if kind is dict:
        return {key: as_data(item, depth + 1) for key, item in value.items()}
    if kind is tuple:
        return tuple(as_data(item, depth + 1) for item in value)
    if dataclasses.is_dataclass(kind):
        return {field.name: as_data(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if _is_pydantic(kind):
        return {name: as_data(getattr(value, name), depth + 1) for name in kind.model_fields}
    return value


def as_json(value: Any, depth: int = 0) -> Any:
    """As `as_data`, with what JSON has no type for as text: times, `Decimal`, `UUID`."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > _DEPTH_MAX:
        raise SerializationError(f"the value is nested more than {_DEPTH_MAX} deep, or contains itself")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {key: as_json(item, depth + 1) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return {field.name: as_json(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if _is_pydantic(kind):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    return value


def symbol_of(member: Enum) -> str:
    """Return the Avro symbol of a member: its value if all values are valid symbols, else its name."""
    return str(member.value) if _values_are_symbols(type(member)) else member.name


def _values_are_symbols(kind: type[Enum]) -> bool:
    return all(isinstance(member.value, str) and _NAME.match(member.value) for member in kind)


def _is_pydantic(kind: type) -> bool:
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_fields")


# -- back to instances


def maker_of(kind: type[T]) -> Callable[[Any], T]:
    """Return the function that makes an instance of a class from a dictionary.

    Raises:
        ConfigError: the class is neither a dataclass, nor a TypedDict, nor a pydantic model.
    """
    if _is_pydantic(kind):
        validate: Callable[[Any], T] = kind.model_validate  # type: ignore[attr-defined] # of pydantic
        return validate
    if typing.is_typeddict(kind):
        return lambda made: typing.cast("T", made)
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(f"{kind!r} is neither a dataclass, nor a TypedDict, nor a pydantic model")
    makers: dict[type, Callable[[Any], Any]] = {}
    return _dataclass_maker(kind, makers)


def _dataclass_maker(kind: type, makers: dict[type, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    if kind in makers:
        return lambda made: makers[kind](made)
    hints = typing.get_type_hints(kind)
    convert: dict[str, Callable[[Any], Any] | None] = {}

    def make(made: Any) -> Any:
        if not isinstance(made, dict):
            return made
        given = {}
        for name, maker in convert.items():
            if name in made:
                value = made[name]
                given[name] = value if maker is None or value is None else maker(value)
        return kind(**given)

    makers[kind] = make
    for field in dataclasses.fields(kind):
        if field.init:
            convert[field.name] = _value_maker(hints[field.name], makers)
    return make


def _value_maker(hint: Any, makers: dict[type, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    """Return what converts a value to a type hint; None if it stays as it is."""
    hint, _ = _without_annotations(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = [maker for maker in (_value_maker(part, makers) for part in arguments) if maker is not None]
        return (
            found[0] if len(found) == 1 and len([part for part in arguments if part is not type(None)]) == 1 else None
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _value_maker(arguments[1], makers)
        return None if inner is None else partial(_map_of, inner)
    if origin in (tuple, set, frozenset):
        inner = _value_maker(arguments[0], makers)
        return origin if inner is None else partial(_items_of, origin, inner)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = _value_maker(arguments[0], makers)
        return None if inner is None else partial(_items_of, list, inner)
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Enum):
        by_symbol = {symbol_of(member): member for member in hint}
        return lambda made: by_symbol[made]
    if dataclasses.is_dataclass(hint):
        return _dataclass_maker(hint, makers)
    return hint.model_validate if _is_pydantic(hint) else None  # type: ignore[attr-defined] # of pydantic


def _map_of(inner: Callable[[Any], Any], made: Mapping[str, Any]) -> dict[str, Any]:
    return {key: inner(item) for key, item in made.items()}


def _items_of(kind: Callable[[Any], Any], inner: Callable[[Any], Any], made: Any) -> Any:
    return kind(map(inner, made))


# -- schemas


def schema_of(kind: type, *, namespace: str | None = None) -> Schema:
    """Derive an Avro schema from a dataclass, a TypedDict or a pydantic model.

    int is long, float double, str string, `datetime` timestamp-micros, `X | None` a union with null, an Enum an enum,
    and a nested class a record. `Annotated[int, {"type": "int"}]` sets another Avro type; a `Decimal` needs one, such
    as `Annotated[Decimal, {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]`. Defaults become
    the schema's.

    Args:
        kind: the class.
        namespace: of the record; None for `__avro_namespace__` of the class, if it has one.

    Raises:
        ConfigError: a field's type has no counterpart in Avro; says which field.
    """
    if not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or _is_pydantic(kind)):
        raise ConfigError(f"{kind!r} is neither a dataclass, nor a TypedDict, nor a pydantic model")
    made = _AvroTypes().record(kind)
    space = namespace or getattr(kind, "__avro_namespace__", None)
    if space is not None:
        made = {"type": "record", "name": made["name"], "namespace": space, "fields": made["fields"]}
    return Schema(json.dumps(made), SchemaType.AVRO)


_AVRO: Final[dict[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    bytearray: "bytes",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_MISSING: Final = object()


class _AvroTypes:
    def __init__(self) -> None:
        self._named: dict[type, str] = {}

    def record(self, kind: type) -> dict[str, Any]:
        self._named[kind] = kind.__name__
        fields = []
        for name, hint, default in _fields(kind):
            avro = self.of(hint, f"{kind.__name__}.{name}")
            field: dict[str, Any] = {"name": name, "type": avro}
            if default is not _MISSING:
                self._set_default(field, default)
            fields.append(field)
        return {"type": "record", "name": kind.__name__, "fields": fields}

    def _set_default(self, field: dict[str, Any], default: Any) -> None:
        """Add a field's default, if Avro can express it; the branch of a union that it is of comes first."""
        default = as_data(default)
        avro = field["type"]
        if isinstance(avro, list):
            first = [branch for branch in avro if (branch == "null") == (default is None)]
            avro = field["type"] = first + [branch for branch in avro if branch not in first]
        if default is None or isinstance(default, str | bool | int | float):
            logical = isinstance(avro, dict) and "logicalType" in avro
            if not logical:
                field["default"] = default
        elif isinstance(default, bytes):
            field["default"] = default.decode("latin-1")
        elif isinstance(default, list | dict) and not default:
            field["default"] = default

    def of(self, hint: Any, where: str) -> Any:
        hint, given = _without_annotations(hint)
        if given is not None:
            return given["type"] if list(given) == ["type"] else given
        if hint in _AVRO:
            return _AVRO[hint]
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return [self.of(part, where) for part in arguments]
        if origin is typing.Literal and all(isinstance(part, str) for part in arguments):
            return "string"
        if isinstance(origin, type) and issubclass(origin, Mapping):
            if arguments[0] is not str:
                raise ConfigError(f"{where}: the keys of an Avro map are texts, not {arguments[0]!r}")
            return {"type": "map", "values": self.of(arguments[1], where)}
        if isinstance(origin, type) and (issubclass(origin, Sequence) or origin in (set, frozenset)):
            if origin is tuple and arguments[1:] != (...,):
                raise ConfigError(f"{where}: an Avro array has items of one type; use tuple[X, ...] or a list")
            return {"type": "array", "items": self.of(arguments[0], where)}
        if isinstance(hint, type):
            return self._class(hint, where)
        raise ConfigError(f"{where}: {hint!r} has no counterpart in Avro; annotate it: Annotated[..., {{'type': ...}}]")

    def _class(self, hint: type, where: str) -> Any:
        if hint in self._named:
            return self._named[hint]
        if issubclass(hint, Enum):
            self._named[hint] = hint.__name__
            return {"type": "enum", "name": hint.__name__, "symbols": [symbol_of(member) for member in hint]}
        if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or _is_pydantic(hint):
            return self.record(hint)
        raise ConfigError(
            f"{where}: {hint.__name__} has no counterpart in Avro; annotate it: Annotated[{hint.__name__}, "
            f"{{'type': ...}}]"
        )


def _without_annotations(hint: Any) -> tuple[Any, dict[str, Any] | None]:
    """Return a hint without Annotated, Required and so on, and the Avro type that an annotation gives."""
    given = None
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            for extra in typing.get_args(hint)[1:]:
                if isinstance(extra, dict) and "type" in extra:
                    given = extra
            hint = typing.get_args(hint)[0]
        elif origin in (typing.Required, typing.NotRequired):
            hint = typing.get_args(hint)[0]
        else:
            return hint, given


def _fields(kind: type) -> list[tuple[str, Any, Any]]:
    """Return name, type hint and default of each field."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        return [(field.name, hints[field.name], _default_of(field)) for field in dataclasses.fields(kind)]
    if _is_pydantic(kind):
        found = []
        for name, info in kind.model_fields.items():  # type: ignore[attr-defined] # of pydantic
            default = _MISSING
            if not info.is_required():
                default = info.get_default(call_default_factory=True)
            found.append((name, hints[name], default))
        return found
    return [
        (name, hint, _MISSING) if _is_required(kind, name, hint) else (name, typing.Optional[hint], None)  # noqa: UP045
        for name, hint in hints.items()
    ]


def _is_required(kind: type, name: str, hint: Any) -> bool:
    """Whether a TypedDict must have a key; its own answer is wrong where annotations are texts."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in getattr(kind, "__required_keys__", ())


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _MISSING


def json_schema_of(kind: type) -> Schema:
    """Derive a JSON schema from a dataclass, a TypedDict or a pydantic model.

    Raises:
        ConfigError: a field's type has no counterpart in JSON; says which field.
    """
    if _is_pydantic(kind):
        made = kind.model_json_schema()  # type: ignore[attr-defined] # of pydantic
    elif dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        made = _JsonTypes().document(kind)
    else:
        raise ConfigError(f"{kind!r} is neither a dataclass, nor a TypedDict, nor a pydantic model")
    return Schema(json.dumps(made), SchemaType.JSON)


_JSON: Final[dict[Any, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    decimal.Decimal: {"type": "string"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    Any: {},
}


class _JsonTypes:
    def __init__(self) -> None:
        self._definitions: dict[str, Any] = {}

    def document(self, kind: type) -> dict[str, Any]:
        made = {"$schema": "http://json-schema.org/draft-07/schema#", "title": kind.__name__, **self._object(kind)}
        if self._definitions:
            made["definitions"] = self._definitions
        return made

    def _object(self, kind: type) -> dict[str, Any]:
        fields = _fields(kind)
        return {
            "type": "object",
            "properties": {name: self.of(hint, f"{kind.__name__}.{name}") for name, hint, _ in fields},
            "required": [name for name, _, default in fields if default is _MISSING],
        }

    def of(self, hint: Any, where: str) -> Any:
        hint, _ = _without_annotations(hint)
        if hint in _JSON:
            return dict(_JSON[hint])
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return {"oneOf": [self.of(part, where) for part in arguments]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1], where)}
        if isinstance(origin, type) and (issubclass(origin, Sequence) or origin in (set, frozenset)):
            return {"type": "array", "items": self.of(arguments[0], where)}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [member.value for member in hint]}
        if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)):
            if hint.__name__ not in self._definitions:
                self._definitions[hint.__name__] = {}
                self._definitions[hint.__name__] = self._object(hint)
            return {"$ref": f"#/definitions/{hint.__name__}"}
        raise ConfigError(f"{where}: {hint!r} has no counterpart in JSON Schema; write the schema yourself")
