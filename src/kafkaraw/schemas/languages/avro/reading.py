"""Read an Avro schema: names, namespaces, definitions used before they are written, defaults, limits.

The rules are those of Apache Avro 1.12 (`org.apache.avro.Schema.Parser`), which the registry uses. A schema that is
newly registered must have names of ASCII letters, digits and `_`, and defaults that fit their types
(`validate=True`); schemas that were registered before may have names of other letters and any defaults. Must not do
I/O. Start at `AvroReader.read`.
"""

from __future__ import annotations

import re
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
    Unresolved,
)
from kafkaraw.schemas.languages.limits import DEPTH_MAX, Json, json_text, load_json

_SCHEMA_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_STRICT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS: Final = ("ascending", "descending", "ignore")
_FIXED_BYTES_MAX: Final = (1 << 31) - 9  # what Java's Avro allows


class AvroReader:
    """Reads schemas that may use the names of those read before, as a schema does with its references.

    Args:
        validate: the schema is to be registered: check names strictly, and defaults.
    """

    def __init__(self, *, validate: bool = True) -> None:
        self._validate = validate
        self._known: dict[str, Named] = {}
        self._parents: list[Node] = []
        self._defaults: list[tuple[Field, str]] = []
        self.has_field_aliases: bool = False

    def read(self, text: str) -> Node:
        """Return the type that the text describes.

        Raises:
            SchemaParseError: the text is not JSON, or not an Avro schema, or exceeds a limit.
        """
        value = load_json(text, comments=True)
        self._parents, self._defaults = [], []
        holder = Container("root", self._type(value, None, ""))
        self._parents.append(holder)
        self._resolve()
        if self._validate:
            for field, path in self._defaults:
                self._check_default(field, path)
        return holder.items

    def _type(self, value: Json, space: str | None, path: str) -> Node:
        if isinstance(value, str):
            return self._find(value, space, path)
        if isinstance(value, list):
            return self._union(value, space, path)
        if not isinstance(value, dict):
            raise SchemaParseError(f"a type must be a name, an object or an array, not {_shown(value)}", path=path)
        kind = value.get("type")
        if not isinstance(kind, str):
            raise SchemaParseError(
                f'"type" must be the name of a type, not {_shown(kind)}; write the inner type directly', path=path
            )
        if kind in PRIMITIVES:
            node = Node(kind)
        elif kind in {"record", "error"}:
            return self._record(value, space, path)
        elif kind in NAMED:
            return self._enum(value, space, path) if kind == "enum" else self._fixed(value, space, path)
        elif kind in {"array", "map"}:
            part = "items" if kind == "array" else "values"
            if part not in value:
                raise SchemaParseError(f'the {kind} has no "{part}"; add the type of its {part}', path=path)
            node = Container(kind, self._type(value[part], space, f"{path}.{part}" if path else part))
            self._parents.append(node)
        else:
            return self._find(kind, space, path)
        node.props = _props(value, _SCHEMA_RESERVED)
        return node

    def _find(self, name: str, space: str | None, path: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        full_name = f"{space}.{name}" if space is not None and "." not in name else name
        return self._known.get(full_name) or self._known.get(name) or Unresolved(full_name, path)

    def _union(self, value: list[Any], space: str | None, path: str) -> Node:
        node = Union([self._type(branch, space, f"{path}[{index}]") for index, branch in enumerate(value)])
        self._parents.append(node)
        _check_branches(node, path)
        return node

    def _name(self, value: dict[str, Any], space: str | None, path: str) -> tuple[str, str | None, str | None]:
        name = value.get("name")
        if not isinstance(name, str):
            raise SchemaParseError(f'the {value["type"]} has no "name"; add one', path=path)
        given = value.get("namespace")
        name, space = self._split_name(name, given if isinstance(given, str) else space, path)
        if space is not None and self._validate:
            for part in space.split("."):
                self._check_name(part, path)
        if space is None and name in PRIMITIVES:
            raise SchemaParseError(f"a type may not be named {name!r} as a primitive type; rename it", path=path)
        doc = value.get("doc")
        return name, space, doc if isinstance(doc, str) else None

    def _split_name(self, name: str, space: str | None, path: str) -> tuple[str, str | None]:
        if "." in name:
            space, name = name.rsplit(".", 1)
        self._check_name(name, path)
        return name, space or None

    def _check_name(self, name: Json, path: str) -> None:
        if not isinstance(name, str) or not name:
            raise SchemaParseError(f"a name must be a string of at least one character, not {_shown(name)}", path=path)
        if self._validate:
            fits = _STRICT_NAME.fullmatch(name) is not None
        else:
            fits = (name[0].isalpha() or name[0] == "_") and all(one.isalnum() or one == "_" for one in name)
        if not fits:
            raise SchemaParseError(
                f"the name {_shown(name)} must start with a letter or _ and have only letters, digits and _", path=path
            )

    def _finish(self, node: Named, value: dict[str, Any], reserved: frozenset[str], path: str) -> Node:
        """Set what all named types have, and make the name known."""
        node.props = _props(value, reserved)
        node.aliases = tuple(
            dict.fromkeys(self._split_name(alias, node.space, path) for alias in _aliases(value, path))
        )
        known = self._known.setdefault(node.full_name, node)
        if known is not node and not _same_definition(known, node):
            raise SchemaParseError(
                f"{node.full_name!r} is defined twice, and differently; rename one, or use the name alone", path=path
            )
        return known

    def _record(self, value: dict[str, Any], space: str | None, path: str) -> Node:
        name, space, doc = self._name(value, space, path)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise SchemaParseError(f'the record {name!r} has no array "fields"; add one', path=path)
        node = Record(name, space, doc, is_error=value["type"] == "error")
        self._parents.append(node)
        found: list[Field] = []
        for index, given in enumerate(fields):
            field = self._field(given, space, f"{path}.fields[{index}]" if path else f"fields[{index}]")
            if field.name in node.by_name:
                raise SchemaParseError(
                    f"the record {name!r} has two fields {field.name!r}; rename one", path=f"{path}.fields[{index}]"
                )
            field.position = index
            node.by_name[field.name] = field
            found.append(field)
        node.fields = tuple(found)
        node.aliased = tuple(field for field in found if field.aliases)
        return self._finish(node, value, _SCHEMA_RESERVED, path)

    def _field(self, value: Json, space: str | None, path: str) -> Field:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise SchemaParseError('a field must be an object with a "name"', path=path)
        self._check_name(value["name"], path)
        if "type" not in value:
            raise SchemaParseError(f'the field {value["name"]!r} has no "type"; add one', path=path)
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise SchemaParseError(f'"order" must be one of {", ".join(_ORDERS)}, not {_shown(order)}', path=path)
        type_ = self._type(value["type"], space, f"{path}.type")
        doc = value.get("doc")
        field = Field(value["name"], type_, doc if isinstance(doc, str) else None, order.lower())
        if "default" in value:
            field.has_default = True
            field.default = _default_of(type_, value["default"], path)
            self._defaults.append((field, f"{path}.default"))
        field.props = _props(value, _FIELD_RESERVED)
        field.aliases = tuple(dict.fromkeys(_aliases(value, path)))
        self.has_field_aliases |= bool(field.aliases)
        return field

    def _enum(self, value: dict[str, Any], space: str | None, path: str) -> Node:
        name, space, doc = self._name(value, space, path)
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise SchemaParseError(f'the enum {name!r} has no array "symbols"; add one', path=path)
        for symbol in symbols:
            self._check_name(symbol, f"{path}.symbols")
        if len(set(symbols)) != len(symbols):
            twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
            raise SchemaParseError(f"the enum {name!r} has the symbol {twice!r} twice; remove one", path=path)
        node = Enum(name, space, doc, tuple(symbols))
        default = value.get("default")
        if isinstance(default, str):
            if default not in symbols:
                raise SchemaParseError(
                    f"the default {default!r} of the enum {name!r} is none of its symbols; add it to them", path=path
                )
            node.default = default
        return self._finish(node, value, _SCHEMA_RESERVED | {"default"}, path)

    def _fixed(self, value: dict[str, Any], space: str | None, path: str) -> Node:
        name, space, doc = self._name(value, space, path)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_BYTES_MAX:
            raise SchemaParseError(
                f'"size" of the fixed {name!r} must be a number of bytes, not {_shown(size)}', path=path
            )
        return self._finish(Fixed(name, space, doc, size), value, _SCHEMA_RESERVED, path)

    def _resolve(self) -> None:
        """Put definitions in place of names that were used before them."""
        for parent in self._parents:
            if isinstance(parent, Record):
                for field in parent.fields:
                    field.type = self._resolved(field.type)
            elif isinstance(parent, Container):
                parent.items = self._resolved(parent.items)
            elif isinstance(parent, Union) and any(isinstance(branch, Unresolved) for branch in parent.branches):
                parent.branches = [self._resolved(branch) for branch in parent.branches]
                _check_branches(parent, "")

    def _resolved(self, node: Node) -> Node:
        if not isinstance(node, Unresolved):
            return node
        found = self._known.get(node.full_name)
        if found is None:
            raise SchemaParseError(
                f"the type {node.full_name!r} is not defined; define it, or add a reference to its schema",
                path=node.path,
            )
        return found

    def _check_default(self, field: Field, path: str) -> None:
        if not _fits(field.type, field.default, DEPTH_MAX):
            raise SchemaParseError(
                f"the default {_shown(field.default)} of the field {field.name!r} does not fit its type "
                f"{field.type.type_name!r}; change one of them",
                path=path,
            )


def _check_branches(node: Union, path: str) -> None:
    names = [branch.type_name for branch in node.branches]
    if "union" in names:
        raise SchemaParseError("a union may not contain a union; put all branches into one", path=path)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaParseError(f"the union has the type {twice!r} twice; remove one", path=path)


def _props(value: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in reserved}


def _aliases(value: dict[str, Any], path: str) -> list[str]:
    aliases = value.get("aliases")
    if aliases is None and "aliases" not in value:
        return []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise SchemaParseError(f'"aliases" must be an array of strings, not {_shown(aliases)}', path=path)
    return aliases


def _default_of(type_: Node, value: Json, path: str) -> Json:
    if type_.kind in {"float", "double"} and isinstance(value, str):  # Java's Avro takes "1.5" for a number
        try:
            return float(value)
        except ValueError:
            raise SchemaParseError(f"the default {_shown(value)} is not a number", path=path) from None
    return value


def _fits(node: Node, value: Json, depth: int) -> bool:
    """Return whether the value can be the default of a field of this type. Any branch of a union will do."""
    if depth == 0:
        raise SchemaParseError(
            f"defaults of {node.type_name!r} contain each other; give the inner field another default"
        )
    kind = node.kind
    if kind in {"int", "long"}:
        bits = 31 if kind == "int" else 63
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    if kind in {"float", "double"}:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    if isinstance(node, Container):
        items = value if kind == "array" else value.values() if isinstance(value, dict) else None
        return isinstance(value, list if kind == "array" else dict) and all(
            _fits(node.items, item, depth - 1) for item in items or ()
        )
    if isinstance(node, Union):
        return any(_fits(branch, value, depth - 1) for branch in node.branches)
    if isinstance(node, Record):
        return (
            isinstance(value, dict)
            and all(
                _fits(field.type, value.get(field.name, field.default), depth - 1)
                for field in node.fields
                if field.name in value or field.has_default
            )
            and all(field.name in value or field.has_default for field in node.fields)
        )
    return isinstance(value, str)


def _same_definition(one: Node, other: Node) -> bool:
    """Return whether two types mean the same, as Java's `Schema.equals`; documentation and aliases do not matter."""
    if one is other or one.kind == "unresolved" or other.kind == "unresolved":
        return one.type_name == other.type_name
    if one.kind != other.kind or one.type_name != other.type_name or one.props != other.props:
        return False
    if isinstance(one, Enum) and isinstance(other, Enum):
        return one.symbols == other.symbols
    if isinstance(one, Fixed) and isinstance(other, Fixed):
        return one.size == other.size
    if isinstance(one, Record) and isinstance(other, Record):
        return len(one.fields) == len(other.fields) and all(map(_same_field, one.fields, other.fields))
    mine, others = one.children(), other.children()
    return len(mine) == len(others) and all(map(_same_inside, mine, others))


def _same_field(one: Field, other: Field) -> bool:
    return (
        (one.name, one.order, one.has_default, one.props) == (other.name, other.order, other.has_default, other.props)
        and json_text(one.default) == json_text(other.default)
        and _same_inside(one.type, other.type)
    )


def _same_inside(one: Node, other: Node) -> bool:
    """As `_same_definition`; of a named type inside there is only one definition, so its name is enough."""
    if one.kind in NAMED or other.kind in NAMED or "unresolved" in (one.kind, other.kind):
        return one.type_name == other.type_name
    return _same_definition(one, other)


def _shown(value: Json) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else text[:57] + "..."
