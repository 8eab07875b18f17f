"""Write an Avro schema as text: as the registry stores it, and normalized.

The registry stores what Java's `Schema.toString` returns: the attributes of each type in one order, a namespace only
where it changes, each named type in full where it is first used and by its name after that. Normalizing
(`AvroSchemaUtils.toNormalizedString` of Confluent) also sorts aliases and the attributes that Avro does not know, gives
logical types one form, and drops empty documentation. Must not do I/O. Start at `write`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Any, Final

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.avro.nodes import (
    NAMED,
    PRIMITIVES,
    Container,
    Enum,
    Field,
    Fixed,
    Named,
    Node,
    Record,
    Union,
)
from kafkaraw.schemas.languages.limits import DEPTH_MAX, Json, json_string, json_text

_TYPE_NAMES: Final = PRIMITIVES | NAMED | {"array", "map", "union"}


def write(node: Node, known: Iterable[str] = ()) -> str:
    """Return the text of a type.

    Args:
        node: the type.
        known: full names of types that references define, which are written as names only.

    Raises:
        SchemaParseError: the types are nested too deep.
    """
    return _Writer(set(known)).text(node, None, 0)


class _Writer:
    def __init__(self, known: set[str]) -> None:
        self._known = known

    def text(self, node: Node, space: str | None, depth: int) -> str:
        check_depth(node, depth)
        if isinstance(node, Union):
            return f"[{','.join([self.text(branch, space, depth + 1) for branch in node.branches])}]"
        if isinstance(node, Named):
            return self._named(node, space, depth)
        if isinstance(node, Container):
            part = "items" if node.kind == "array" else "values"
            inner = self.text(node.items, space, depth + 1)
            return f'{{"type":"{node.kind}","{part}":{inner}{_attributes(node.props)}}}'
        if not node.props:
            return f'"{node.kind}"'
        return f'{{"type":"{node.kind}"{_attributes(node.props)}}}'

    def _named(self, node: Named, space: str | None, depth: int) -> str:
        if node.full_name in self._known:
            return json_string(_qualified(node.name, node.space, space))
        self._known.add(node.full_name)
        kind = "error" if isinstance(node, Record) and node.is_error else node.kind
        parts = [f'{{"type":"{kind}","name":{json_string(node.name)}']
        if node.space != space:
            parts.append(f',"namespace":{json_string(node.space or "")}')
        if node.doc is not None:
            parts.append(f',"doc":{json_string(node.doc)}')
        if isinstance(node, Record):
            parts.append(f',"fields":[{",".join([self._field(one, node.space, depth + 1) for one in node.fields])}]')
        elif isinstance(node, Enum):
            parts.append(f',"symbols":{json_text(node.symbols)}')
            if node.default is not None:
                parts.append(f',"default":{json_string(node.default)}')
        elif isinstance(node, Fixed):
            parts.append(f',"size":{node.size}')
        parts.append(_attributes(node.props))
        if node.aliases:
            aliases = [_qualified(name, alias_space, node.space) for name, alias_space in node.aliases]
            parts.append(f',"aliases":{json_text(aliases)}')
        parts.append("}")
        return "".join(parts)

    def _field(self, field: Field, space: str | None, depth: int) -> str:
        parts = [f'{{"name":{json_string(field.name)},"type":{self.text(field.type, space, depth)}']
        if field.doc is not None:
            parts.append(f',"doc":{json_string(field.doc)}')
        if field.has_default:
            parts.append(f',"default":{json_text(field.default)}')
        if field.order != "ascending":
            parts.append(f',"order":"{field.order}"')
        if field.aliases:
            parts.append(f',"aliases":{json_text(field.aliases)}')
        parts.append(_attributes(field.props))
        parts.append("}")
        return "".join(parts)


def check_depth(node: Node, depth: int) -> None:
    """Refuse types that are nested too deep after names are replaced by their definitions.

    Raises:
        SchemaParseError: they are.
    """
    if depth > DEPTH_MAX:
        raise SchemaParseError(
            f"the types are nested deeper than {DEPTH_MAX} levels, at {node.type_name!r}; make the nesting flatter"
        )


def _qualified(name: str, space: str | None, current: str | None) -> str:
    if space is None or (space == current and name not in _TYPE_NAMES):
        return name
    return f"{space}.{name}"


def _attributes(props: dict[str, Any]) -> str:
    return "".join([f",{json_string(name)}:{json_text(value)}" for name, value in props.items()])


def write_normalized(node: Node, known: Iterable[str] = ()) -> str:
    """Return the normalized text, which must be read and written once more to have the registry's form.

    Raises:
        SchemaParseError: the types are nested too deep.
    """
    return _Normalizer(set(known)).text(node, 0)


class _Normalizer:
    def __init__(self, known: set[str]) -> None:
        self._known = known

    def text(self, node: Node, depth: int) -> str:
        check_depth(node, depth)
        if isinstance(node, Union):
            return f"[{','.join([self.text(branch, depth + 1) for branch in node.branches])}]"
        if isinstance(node, Named):
            return self._named(node, depth)
        if isinstance(node, Container):
            part = "items" if node.kind == "array" else "values"
            return f'{{"type":"{node.kind}","{part}":{self.text(node.items, depth + 1)}{_normal_attributes(node)}}}'
        attributes = _normal_attributes(node)
        return f'{{"type":"{node.kind}"{attributes}}}' if attributes else f'"{node.kind}"'

    def _named(self, node: Named, depth: int) -> str:
        name = json_string(node.full_name)
        if node.full_name in self._known:
            return name
        self._known.add(node.full_name)
        # Confluent writes `record` for an error, too.
        parts = [f'{{"name":{name},"type":"{node.kind}"']
        if node.space is None:
            parts.append(',"namespace":""')
        if isinstance(node, Record):
            parts.append(f',"fields":[{",".join([self._field(one, depth + 1) for one in node.fields])}]')
        elif isinstance(node, Enum):
            parts.append(f',"symbols":{json_text(node.symbols)}')
        elif isinstance(node, Fixed):
            parts.append(f',"size":{node.size}')
        if node.doc:
            parts.append(f',"doc":{json_string(node.doc)}')
        if node.aliases:
            parts.append(f',"aliases":{json_text(sorted(set(node.alias_names)))}')
        if isinstance(node, Enum) and node.default is not None:
            parts.append(f',"default":{json_string(node.default)}')
        parts.append(_normal_attributes(node))
        parts.append("}")
        return "".join(parts)

    def _field(self, field: Field, depth: int) -> str:
        parts = [f'{{"name":{json_string(field.name)},"type":{self.text(field.type, depth)},"order":"{field.order}"']
        if field.doc is not None:
            parts.append(f',"doc":{json_string(field.doc)}')
        if field.aliases:
            parts.append(f',"aliases":{json_text(sorted(set(field.aliases)))}')
        if field.has_default:
            parts.append(f',"default":{json_text(_typed(field.type, field.default))}')
        parts.append(_attributes(_sorted(field.props)))
        parts.append("}")
        return "".join(parts)


def _typed(node: Node, value: Json) -> Json:
    """Return a default as its type has it: numbers of the type's kind, objects with sorted names."""
    if isinstance(node, Union):
        fitting = [branch for branch in node.branches if _might_be(branch, value)]
        return _typed((fitting or node.branches)[0], value) if node.branches else value
    if node.kind in {"float", "double"} and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _Float(value) if node.kind == "float" else float(value)
        except OverflowError:
            return value
    if isinstance(value, list):
        inner = node.items if isinstance(node, Container) else None
        return [_typed(inner, item) if inner is not None else _sorted_value(item) for item in value]
    if isinstance(value, dict):
        if isinstance(node, Record):
            return {
                name: _typed(node.by_name[name].type, item) if name in node.by_name else _sorted_value(item)
                for name, item in sorted(value.items())
            }
        if isinstance(node, Container):
            return {name: _typed(node.items, item) for name, item in sorted(value.items())}
    return _sorted_value(value)


def _might_be(node: Node, value: Json) -> bool:
    kinds = {
        bool: ("boolean",),
        type(None): ("null",),
        int: ("int", "long", "float", "double"),
        float: ("float", "double"),
        str: ("string", "bytes", "enum", "fixed"),
        list: ("array",),
        dict: ("record", "map"),
    }
    return node.kind in kinds.get(type(value), ())


class _Float(float):
    """A 32-bit float, with the shortest digits that read back as the same 32 bits."""

    def __repr__(self) -> str:
        if math.isinf(self):
            return super().__repr__()
        packed = struct.pack("f", self)
        for digits in range(1, 10):
            text = f"{float(self):.{digits}g}"
            if struct.pack("f", float(text)) == packed:
                return float.__repr__(float(text))
        return float.__repr__(self)


def _sorted(props: dict[str, Any]) -> dict[str, Any]:
    return {name: _sorted_value(props[name]) for name in sorted(props)}


def _sorted_value(value: Json) -> Json:
    if isinstance(value, dict):
        return _sorted(value)
    if isinstance(value, list):
        return [_sorted_value(item) for item in value]
    return value


def _normal_attributes(node: Node) -> str:
    """Return a type's attributes: the logical type first, if it is one, then all of them sorted.

    Those of the logical type are among the sorted ones, too: the second of two equal names keeps the first's place.
    """
    first: dict[str, Any] = {}
    logical = node.props.get("logicalType")
    if isinstance(logical, str) and is_logical_type(node):
        first["logicalType"] = logical
        if logical == "decimal":
            first["precision"] = node.props["precision"]
            if node.props.get("scale", 0) != 0:
                first["scale"] = node.props["scale"]
    return _attributes(first | _sorted(node.props))


_LOGICAL_TYPES: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "big-decimal": ("bytes",),
}


def is_logical_type(node: Node) -> bool:
    """Return whether the attribute `logicalType` is valid for the type; readers ignore an invalid one."""
    logical = node.props.get("logicalType")
    if logical == "decimal":
        return _is_decimal(node)
    if logical == "duration":
        return isinstance(node, Fixed) and node.size == 12
    if logical == "uuid":
        return node.kind == "string" or (isinstance(node, Fixed) and node.size == 16)
    return isinstance(logical, str) and node.kind in _LOGICAL_TYPES.get(logical, ())


def _is_decimal(node: Node) -> bool:
    precision, scale = node.props.get("precision"), node.props.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or bool in (type(precision), type(scale)):
        return False
    if isinstance(node, Fixed):
        precision_max = math.floor(math.log10(2) * (8 * node.size - 1))
    else:
        precision_max = (1 << 31) - 1 if node.kind == "bytes" else 0
    return 0 < precision <= precision_max and 0 <= scale <= precision
