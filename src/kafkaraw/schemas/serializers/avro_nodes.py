"""Avro schemas, as fastavro parses them, into the `Node`s that the codec runs: for one schema, or writer and reader.

`encoder` and `decoder` walk a schema once; the codec then looks at no schema any more. A schema that refers to itself
becomes a graph with a circle. Resolution follows the specification and Java where fastavro differs: a reader's union
takes the branch of the same type before one that needs a promotion, and the reader's logical type decides what Python
type a value gets. Must not read or write data. Start at `decoder`.

Source: Apache Avro 1.12 specification, "Schema Resolution"; Java's Resolver and ResolvingGrammarGenerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from kafkaraw.schemas.serializers.avro_codec import codec as codec_in_use

PRIMITIVES: Final = {
    "null": ("NULL", 0),
    "boolean": ("BOOLEAN", 1),
    "int": ("INT", 1),
    "long": ("LONG", 1),
    "float": ("FLOAT", 4),
    "double": ("DOUBLE", 8),
    "bytes": ("BYTES", 1),
    "string": ("STRING", 1),
}
LOGICAL: Final = {
    ("long", "timestamp-millis"): "TIMESTAMP_MILLIS",
    ("long", "timestamp-micros"): "TIMESTAMP_MICROS",
    ("long", "local-timestamp-millis"): "LOCAL_TIMESTAMP_MILLIS",
    ("long", "local-timestamp-micros"): "LOCAL_TIMESTAMP_MICROS",
    ("int", "date"): "DATE",
    ("int", "time-millis"): "TIME_MILLIS",
    ("long", "time-micros"): "TIME_MICROS",
    ("bytes", "decimal"): "DECIMAL",
    ("fixed", "decimal"): "DECIMAL",
    ("string", "uuid"): "UUID",
    ("fixed", "uuid"): "UUID",
}
_NAMED: Final = ("record", "error", "enum", "fixed")
_LEAST_MAX: Final = 1 << 40
_PROMOTIONS: Final = {
    ("int", "long"): "",
    ("int", "float"): "TO_FLOAT",
    ("int", "double"): "TO_DOUBLE",
    ("long", "float"): "TO_FLOAT",
    ("long", "double"): "TO_DOUBLE",
    ("float", "double"): "",
    ("string", "bytes"): "TO_BYTES",
    ("bytes", "string"): "TO_TEXT",
}
_FAMILIES: Final = (
    frozenset({"timestamp-millis", "timestamp-micros"}),
    frozenset({"local-timestamp-millis", "local-timestamp-micros"}),
    frozenset({"time-millis", "time-micros"}),
)

Node = Any
"""`codec.Node`."""


def type_of(schema: Any) -> str:
    """Return the type of a parsed schema: "union", "record", a primitive, or the full name of a named type."""
    if isinstance(schema, list):
        return "union"
    found = schema if isinstance(schema, str) else schema["type"]
    return found if isinstance(found, str) else type_of(found)


def names_in(schema: Any) -> dict[str, Any]:
    """Return the named types that a parsed schema defines, by full name."""
    found: dict[str, Any] = {}
    rest = [schema]
    while rest:
        part = rest.pop()
        if isinstance(part, list):
            rest.extend(part)
        elif isinstance(part, dict):
            found.update(part.get("__named_schemas", {}))
            kind = part.get("type")
            if kind in _NAMED:
                if part["name"] in found and found[part["name"]] is part:
                    continue
                found[part["name"]] = part
                rest.extend(field["type"] for field in part.get("fields", ()))
            elif kind == "array":
                rest.append(part["items"])
            elif kind == "map":
                rest.append(part["values"])
            elif not isinstance(kind, str):
                rest.append(kind)
    return found


def encoder(schema: Any, codec: ModuleType = codec_in_use) -> Node:
    """Return the node that writes objects of a schema."""
    return _Builder(codec, logical_types=True, tagged=False).single(schema)


def decoder(
    writer: Any,
    reader: Any = None,
    *,
    logical_types: bool = True,
    tagged: bool = False,
    codec: ModuleType = codec_in_use,
) -> Node:
    """Return the node that reads what was written with `writer`, as `reader` says if there is one.

    Args:
        writer: the parsed schema of the bytes.
        reader: the parsed schema of the objects; None for the writer's.
        logical_types: whether logical types become Python objects, or stay numbers, bytes and texts.
        tagged: whether a record in a union becomes (full name, record).
        codec: the codec that runs the node.

    Raises:
        UnresolvableError: the reader's schema cannot read what the writer's schema writes.
    """
    builder = _Builder(codec, logical_types=logical_types, tagged=tagged)
    return builder.single(writer) if reader is None or reader == writer else builder.resolved(writer, reader)


class UnresolvableError(Exception):
    """The reader's schema cannot read what the writer's schema writes."""


class _Builder:
    def __init__(self, codec: ModuleType, *, logical_types: bool, tagged: bool) -> None:
        self._codec = codec
        self._logical_types = logical_types
        self._tagged = tagged
        self._named: dict[str, Node] = {}
        self._pairs: dict[tuple[int, int], Node] = {}
        self._writer_names: dict[str, Any] = {}
        self._reader_names: dict[str, Any] = {}
        self._made: list[Node] = []

    def single(self, schema: Any) -> Node:
        self._writer_names = names_in(schema)
        node = self._node(schema)
        self._set_least()
        return node

    def resolved(self, writer: Any, reader: Any) -> Node:
        self._writer_names, self._reader_names = names_in(writer), names_in(reader)
        node = self._pair(writer, reader, "")
        self._set_least()
        return node

    # -- one schema

    def _new(self, kind: str, name: str, least: int = 0) -> Node:
        node = self._codec.Node(self._codec.NUMBERS[kind], name)
        node.least = least
        self._made.append(node)
        return node

    def _node(self, schema: Any) -> Node:
        kind = type_of(schema)
        if kind not in PRIMITIVES and kind not in ("union", "array", "map", *_NAMED):
            made = self._named.get(kind)
            return made if made is not None else self._node(self._writer_names[kind])
        if isinstance(schema, dict) and not isinstance(schema["type"], str):
            return self._node(schema["type"])
        if kind in PRIMITIVES:
            return self._logical(schema, kind, self._new(*_first(PRIMITIVES[kind], kind)))
        if kind in _NAMED:
            made = self._named.get(schema["name"])
            return made if made is not None else self._define(schema, kind)
        if kind == "union":
            return self._union(schema)
        node = self._new("ARRAY" if kind == "array" else "MAP", kind, 1)
        node.nodes = [self._node(schema["items" if kind == "array" else "values"])]
        return node

    def _define(self, schema: Mapping[str, Any], kind: str) -> Node:
        name = schema["name"]
        if kind == "enum":
            node = self._named[name] = self._new("ENUM", name, 1)
            node.symbols = list(schema["symbols"])
            node.index = {symbol: at for at, symbol in enumerate(schema["symbols"])}
            return node
        if kind == "fixed":
            node = self._named[name] = self._new("FIXED", name, schema["size"])
            node.size = schema["size"]
            return self._logical(schema, kind, node)
        node = self._named[name] = self._new("RECORD", name)
        fields = schema["fields"]
        node.names = [field["name"] for field in fields]
        node.field_names = frozenset(node.names)
        node.nodes = [self._node(field["type"]) for field in fields]
        node.defaults = [
            self._default(field["type"], field["default"]) if "default" in field else self._codec.REQUIRED
            for field in fields
        ]
        return node

    def _union(self, branches: list[Any]) -> Node:
        node = self._new("UNION", "union", 1)
        node.nodes = [self._node(branch) for branch in branches]
        node.tagged = self._tagged
        nulls = [at for at, branch in enumerate(node.nodes) if branch.kind == self._codec.NUMBERS["NULL"]]
        if len(node.nodes) == 2 and len(nulls) == 1:
            node.null_at = nulls[0]
        return node

    def _logical(self, schema: Any, kind: str, node: Node) -> Node:
        logical = _logical_of(schema)
        constant = LOGICAL.get((kind, logical or ""))
        if constant is None or not self._logical_types or (logical == "uuid" and kind == "fixed" and node.size != 16):
            return node
        if logical == "decimal":
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if (
                not _is_whole(precision)
                or not _is_whole(scale)
                or not 0 < precision <= 4000
                or not 0 <= scale <= precision
            ):
                return node  # the specification: an invalid logical type is ignored
            node.precision, node.scale = precision, scale
        node.logical = self._codec.NUMBERS[constant]
        if kind != "fixed":
            node.name = kind
        return node

    def _default(self, schema: Any, default: Any) -> Any:
        """Return a field's default as an object; the JSON of bytes is text, a character for each byte."""
        return _default_object(schema, default, self._writer_names)

    # -- a pair of schemas

    def _pair(self, writer: Any, reader: Any, path: str) -> Node:
        writer, reader = _definition(writer, self._writer_names), _definition(reader, self._reader_names)
        key = (id(writer), id(reader))
        made = self._pairs.get(key) if isinstance(writer, dict) and isinstance(reader, dict) else None
        if made is not None:
            return made
        if isinstance(writer, list):
            return self._writer_union(writer, reader, path)
        if isinstance(reader, list):
            branch = self._branch_for(writer, reader)
            if branch is None:
                raise UnresolvableError(
                    f"{path or 'the schema'}: the reader's union has no branch for {_named(writer)}"
                )
            return self._pair(writer, branch, path)
        kind, wanted = type_of(writer), type_of(reader)
        if kind in ("record", "error") and wanted in ("record", "error"):
            _check_names(writer, reader, path)
            return self._record_pair(writer, reader, path, key)
        if kind in ("array", "map") and kind == wanted:
            node = self._pairs[key] = self._new("ARRAY" if kind == "array" else "MAP", kind, 1)
            part = "items" if kind == "array" else "values"
            node.nodes = [self._pair(writer[part], reader[part], f"{path}[]")]
            return node
        if kind == "enum" and wanted == "enum":
            _check_names(writer, reader, path)
            return self._enum_pair(writer, reader)
        if kind == "fixed" and wanted == "fixed":
            _check_names(writer, reader, path)
            if writer["size"] != reader["size"]:
                raise UnresolvableError(
                    f"{path or 'the schema'}: fixed {reader['name']} has {reader['size']} bytes, the writer's has "
                    f"{writer['size']}"
                )
            node = self._new("FIXED", writer["name"], writer["size"])
            node.size = writer["size"]
            return self._logical(_logical_pair(writer, reader), kind, node)
        return self._primitive_pair(writer, reader, kind, wanted, path)

    def _primitive_pair(self, writer: Any, reader: Any, kind: str, wanted: str, path: str) -> Node:
        if kind not in PRIMITIVES or (kind != wanted and (kind, wanted) not in _PROMOTIONS):
            raise UnresolvableError(
                f"{path or 'the schema'}: the reader's schema has {_named(reader)}, the writer's {_named(writer)}"
            )
        node = self._new(*_first(PRIMITIVES[kind], kind))
        promotion = _PROMOTIONS.get((kind, wanted), "")
        if promotion:
            node.promote = self._codec.NUMBERS[promotion]
            return node
        return self._logical(_logical_pair(writer, reader), kind, node)

    def _writer_union(self, writer: list[Any], reader: Any, path: str) -> Node:
        node = self._new("UNION", "union", 1)
        node.tagged = self._tagged and isinstance(reader, list)
        problems = []
        for branch in writer:
            try:
                node.nodes.append(self._pair(branch, reader, path))
            except UnresolvableError as error:
                problems.append(error)
                node.nodes.append(self._new("UNRESOLVED", _named(_definition(branch, self._writer_names)), 0))
        if len(problems) == len(writer):
            raise problems[0]
        return node

    def _branch_for(self, writer: Any, reader: list[Any]) -> Any:
        """Return the reader's branch for the writer's type: one of the same type and name, else one by promotion."""
        kind = type_of(writer)
        candidates = [_definition(branch, self._reader_names) for branch in reader]
        same = [branch for branch in candidates if type_of(branch) == kind]
        if kind in _NAMED:
            by_full_name = [branch for branch in same if branch["name"] == writer["name"]]
            same = by_full_name or [branch for branch in same if _matches(writer, branch)]
        if same:
            return next((branch for branch in same if self._resolves(writer, branch)), same[0])
        return next((branch for branch in candidates if (kind, type_of(branch)) in _PROMOTIONS), None)

    def _resolves(self, writer: Any, reader: Any) -> bool:
        if type_of(writer) not in ("array", "map"):
            return True
        try:
            self._pair(writer, reader, "")
        except UnresolvableError:
            self._pairs.pop((id(writer), id(reader)), None)
            return False
        return True

    def _record_pair(self, writer: Any, reader: Any, path: str, key: tuple[int, int]) -> Node:
        node = self._pairs[key] = self._new("RECORD", reader["name"])
        wanted = {field["name"]: field for field in reader["fields"]}
        aliases = {alias: field for field in reader["fields"] for alias in field.get("aliases", ())}
        for field in writer["fields"]:
            found = wanted.pop(field["name"], None)
            if found is None and field["name"] in aliases:
                found = wanted.pop(aliases[field["name"]]["name"], None)
            if found is None:
                node.names.append(None)
                node.nodes.append(self._node(field["type"]))
            else:
                node.names.append(found["name"])
                node.nodes.append(self._pair(field["type"], found["type"], f"{path}.{found['name']}".lstrip(".")))
        for name, field in wanted.items():
            if "default" not in field:
                raise UnresolvableError(
                    f"{path or reader['name']}: the reader's record {reader['name']} has field {name!r} without a "
                    f"default, "
                    f"and the writer's record does not have it"
                )
            default = _default_object(field["type"], field["default"], self._reader_names)
            node.fills.append((name, self._converted(field["type"], default)))
        return node

    def _converted(self, schema: Any, default: Any) -> Any:
        """Return a reader's default with its logical types as Python objects: written, then read."""
        both = _Builder(self._codec, logical_types=self._logical_types, tagged=self._tagged)
        both._writer_names = self._reader_names
        node = both._node(schema)
        both._set_least()
        try:
            return self._codec.decode(node, self._codec.encode(node, default, b""))
        except self._codec.AvroMismatchError as error:
            raise UnresolvableError(f"the default {default!r} of the reader's schema does not fit: {error}") from None

    def _enum_pair(self, writer: Mapping[str, Any], reader: Mapping[str, Any]) -> Node:
        node = self._new("ENUM", reader["name"], 1)
        known = set(reader["symbols"])
        node.symbols = [symbol if symbol in known else reader.get("default") for symbol in writer["symbols"]]
        return node

    # -- the fewest bytes of each type

    def _set_least(self) -> None:
        """Compute `least` of records, which may contain each other: the largest numbers that follow from the fields.

        A record that contains itself without a union or an array between has no finite value; its number stays low.
        """
        records = [node for node in self._made if node.kind == self._codec.NUMBERS["RECORD"]]
        for _ in range(len(records) + 1):
            changed = False
            for node in records:
                least = min(_LEAST_MAX, sum(field.least for field in node.nodes))
                changed |= least != node.least
                node.least = least
            if not changed:
                return


def _first(pair: tuple[str, int], name: str) -> tuple[str, str, int]:
    return pair[0], name, pair[1]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _logical_of(schema: Any) -> str | None:
    found = schema.get("logicalType") if isinstance(schema, dict) else None
    return found if isinstance(found, str) else None


def _logical_pair(writer: Any, reader: Any) -> Any:
    """Return the schema whose logical type counts: the reader's, in the writer's unit and scale."""
    wanted, found = _logical_of(reader), _logical_of(writer)
    if wanted is None or found is None or wanted == found:
        return writer if wanted is not None and wanted == found else reader
    return writer if any({wanted, found} <= family for family in _FAMILIES) else reader


def _definition(schema: Any, names: Mapping[str, Any]) -> Any:
    while True:
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema = names[schema]
        elif isinstance(schema, dict) and not isinstance(schema["type"], str):
            schema = schema["type"]
        elif isinstance(schema, dict) and schema["type"] in names and schema["type"] not in PRIMITIVES:
            schema = names[schema["type"]]
        else:
            return schema


def _named(schema: Any) -> str:
    kind = type_of(schema)
    return f"{kind} {schema['name']}" if kind in _NAMED else kind


def _matches(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> bool:
    aliases: Iterable[str] = reader.get("aliases", ())
    last = writer["name"].rpartition(".")[2]
    return last == reader["name"].rpartition(".")[2] or writer["name"] in aliases or last in aliases


def _check_names(writer: Mapping[str, Any], reader: Mapping[str, Any], path: str) -> None:
    if not _matches(writer, reader):
        raise UnresolvableError(
            f"{path or 'the schema'}: the reader's schema has {_named(reader)}, the writer's {_named(writer)}; "
            f"an alias of the reader's type can name the writer's"
        )


def _default_object(schema: Any, default: Any, names: Mapping[str, Any]) -> Any:
    """Return a field's default as an object; JSON has bytes as text, with one character for each byte."""
    schema = _definition(schema, names)
    kind = type_of(schema)
    if kind == "union":
        for branch in schema:
            found = _default_object(branch, default, names)
            if found is not default:
                return found
        return default
    if kind in ("bytes", "fixed") and isinstance(default, str):
        try:
            return default.encode("latin-1")
        except UnicodeEncodeError:
            return default
    if kind == "array" and isinstance(default, list):
        return [_default_object(schema["items"], item, names) for item in default]
    if kind == "map" and isinstance(default, dict):
        return {key: _default_object(schema["values"], item, names) for key, item in default.items()}
    if kind in ("record", "error") and isinstance(default, dict):
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        return {
            key: _default_object(fields[key], item, names) if key in fields else item for key, item in default.items()
        }
    return default
