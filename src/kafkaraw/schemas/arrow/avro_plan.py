"""Programs that decode records of one Avro schema into the columns of another one.

`columns_of` maps a reader's schema to columns as Spark's from_avro does (`SchemaConverters.toSqlType`). `program_for`
resolves a writer's schema against the reader's by the rules of the Avro specification, once, before any record is
read: promotions, fields by name and alias, defaults, enum defaults, unions. Where a writer's branch has no counterpart,
only records with this branch are bad. Must not read records. Start at `program_for`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.schemas.arrow.avro_types import AvroField, AvroType
from kafkaraw.schemas.arrow.columns import DECIMAL_PRECISION_MAX, Column, Type, flattened
from kafkaraw.schemas.arrow.program import Node, Op, Program

_COLUMNS_MAX: Final = 10_000
_NODES_MAX: Final = 100_000
NESTING_MAX: Final = 128
"""Of columns in columns. A chain of named types, or recursion, can be deeper than the text of the schema."""
_TIMES: Final = frozenset(
    f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp", "time") for unit in ("millis", "micros", "nanos")
)
_PLAIN: Final = {
    "null": Type.NULL,
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "enum": Type.STRING,
    "bytes": Type.BINARY,
    "fixed": Type.BINARY,
}
_LOGICAL_TYPES: Final = {
    "date": Type.DATE,
    "timestamp-millis": Type.TIMESTAMP_UTC,
    "timestamp-micros": Type.TIMESTAMP_UTC,
    "local-timestamp-millis": Type.TIMESTAMP_LOCAL,
    "local-timestamp-micros": Type.TIMESTAMP_LOCAL,
}


class UnresolvedError(UsageError):
    """The writer's schema cannot be resolved to the reader's; the message names the field."""


# -- columns


def columns_of(schema: AvroType, recursion_max: int = 0) -> Column:
    """Return the columns of a reader's schema.

    Args:
        schema: the reader's schema.
        recursion_max: how often a record may be inside itself; a field that would go deeper is left out. With 0, a
            recursive schema is refused, as by Spark's `recursiveFieldMaxDepth`.

    Raises:
        UsageError: the schema has no counterpart in Arrow and Spark.
    """
    column = _Columns(recursion_max).of(schema, "", "", {})
    if column is None:
        raise UsageError("Avro schema: nothing is left of it without its recursion; set recursive_field_max_depth")
    return column.named("", nullable=True)


class _Columns:
    def __init__(self, recursion_max: int) -> None:
        self._recursion_max = recursion_max
        self._count = 0
        self._depth = 0

    def of(self, schema: AvroType, name: str, path: str, inside: Mapping[str, int]) -> Column | None:
        """Return the column of a type; None if it would be deeper in itself than the limit."""
        if self._depth >= NESTING_MAX:
            raise UsageError(
                f"Avro schema: columns nested more than {NESTING_MAX} deep; choose a smaller reader schema, or a lower "
                "recursive_field_max_depth"
            )
        self._depth += 1
        found = self._of(schema, name, path, inside)
        self._depth -= 1
        return found

    def _of(self, schema: AvroType, name: str, path: str, inside: Mapping[str, int]) -> Column | None:
        self._count += 1
        if self._count > _COLUMNS_MAX:
            raise UsageError(f"Avro schema: it has more than {_COLUMNS_MAX:,} columns; choose a smaller reader schema")
        match schema.kind:
            case "record":
                return self._record(schema, name, path, inside)
            case "union":
                return self._union(schema, name, path, inside)
            case "array":
                item = self.of(schema.branches[0], "element", f"{path}[]", inside)
                return None if item is None else Column(name, Type.LIST, children=(item,))
            case "map":
                value = self.of(schema.branches[0], "value", f"{path}{{}}", inside)
                return None if value is None else _map_column(name, value)
        if schema.logical == "decimal":
            if schema.precision > DECIMAL_PRECISION_MAX:
                raise UsageError(
                    f"Avro schema, {path or 'root'}: decimals of {schema.precision} digits; columns have at most "
                    f"{DECIMAL_PRECISION_MAX}. Give a reader schema that leaves the field out"
                )
            return Column(name, Type.DECIMAL, precision=schema.precision, scale=schema.scale)
        kind = _LOGICAL_TYPES.get(schema.logical, _PLAIN[schema.kind])
        return Column(name, kind, nullable=kind is Type.NULL)

    def _record(self, schema: AvroType, name: str, path: str, inside: Mapping[str, int]) -> Column | None:
        depth = inside.get(schema.name, 0)
        if depth and self._recursion_max <= 0:
            raise UsageError(
                f"Avro schema, {path}: the record {schema.name} contains itself, and columns cannot. Set "
                "recursive_field_max_depth to the number of levels to decode, or give a reader schema without it"
            )
        if depth and depth >= self._recursion_max:
            return None
        deeper = {**inside, schema.name: depth + 1}
        found = [self.of(each.type, each.name, _joined(path, each.name), deeper) for each in schema.fields]
        return Column(name, Type.STRUCT, children=tuple(each for each in found if each is not None))

    def _union(self, schema: AvroType, name: str, path: str, inside: Mapping[str, int]) -> Column | None:
        rest = [each for each in schema.branches if each.kind != "null"]
        nullable = len(rest) < len(schema.branches)
        if not rest:
            return Column(name, Type.NULL, nullable=True)
        number = common_number(rest)
        if number is not None:
            return Column(name, _PLAIN[number], nullable)
        if len(rest) == 1:
            found = self.of(rest[0], name, path, inside)
            return None if found is None else found.named(name, nullable=nullable or found.nullable)
        members = [self.of(each, f"member{at}", path, inside) for at, each in enumerate(rest)]
        fields = tuple(each.named(each.name, nullable=True) for each in members if each is not None)
        return Column(name, Type.STRUCT, nullable, fields)


def _map_column(name: str, value: Column) -> Column:
    pair = Column("entries", Type.STRUCT, children=(Column("key", Type.STRING), value))
    return Column(name, Type.MAP, children=(pair,))


def common_number(branches: list[AvroType]) -> str | None:
    """Return the number that two branches have in common: as Spark, int and long are long, float and double double."""
    kinds = [each.kind for each in branches]
    if len(kinds) == 2 and set(kinds) == {"int", "long"}:
        return "long"
    return "double" if len(kinds) == 2 and set(kinds) == {"float", "double"} else None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# -- programs


def program_for(writer: AvroType, reader: AvroType, columns: Column) -> Program:
    """Return the program that decodes records of `writer` into the columns of `reader`.

    Args:
        writer: the schema with which the records were written.
        reader: the schema of the columns.
        columns: `columns_of(reader)`.

    Raises:
        UnresolvedError: no record of the writer can be read with the reader's schema.
    """
    resolution = _Resolution(columns)
    program = resolution.program
    try:
        program.root = resolution.resolve(writer, reader, 0, "")
    except RecursionError:
        raise UnresolvedError("Avro schema: the types of the writer are nested too deep in each other") from None
    return program


_LEAVES: Final = {
    ("null", Type.NULL): Op.NULL,
    ("boolean", Type.BOOLEAN): Op.BOOLEAN,
    ("float", Type.FLOAT32): Op.FLOAT_FLOAT32,
    ("float", Type.FLOAT64): Op.FLOAT_FLOAT64,
    ("double", Type.FLOAT64): Op.DOUBLE_FLOAT64,
}


class _Resolution:
    """Makes the nodes of one program."""

    def __init__(self, columns: Column) -> None:
        self.program = Program(columns)
        self._columns = flattened(columns)
        self._skips: dict[int, int] = {}

    def _node(self, op: Op, target: int, path: str, **values: object) -> int:
        nodes = self.program.nodes
        if len(nodes) >= _NODES_MAX:
            raise UnresolvedError(f"Avro schema: decoding it takes more than {_NODES_MAX:,} steps")
        nodes.append(Node(op, target, path, **values))  # type: ignore[arg-type]  # by name
        return len(nodes) - 1

    def resolve(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        """Return the node that reads a value of `writer` into a column of `reader`."""
        if writer.kind == "union":
            return self._from_union(writer, reader, target, path)
        if reader.kind == "union":
            return self._to_union(writer, reader, target, path)
        match writer.kind, reader.kind:
            case "record", "record":
                return self._record(writer, reader, target, path)
            case "array", "array":
                item = self.resolve(writer.branches[0], reader.branches[0], self._child(target), f"{path}[]")
                return self._node(Op.ARRAY, target, path, children=(item,))
            case "map", "map":
                pair = self._child(target)
                value = self.resolve(writer.branches[0], reader.branches[0], self._child(pair, 1), f"{path}{{}}")
                return self._node(Op.MAP, target, path, children=(value,))
            case "enum", "enum" if _same_name(writer, reader):
                return self._enum(writer, reader, target, path)
            case "fixed", "fixed" if _same_name(writer, reader) and writer.size == reader.size:
                return self._leaf(writer, reader, target, path)
            case _:
                if not _is_promoted(writer.kind, reader.kind):
                    raise UnresolvedError(
                        f"{_at(path)}the writer's {_named(writer)} is not the reader's {_named(reader)}"
                    )
                return self._leaf(writer, reader, target, path)

    def _child(self, target: int, index: int = 0) -> int:
        return self._columns[target][1] + index

    # -- unions

    def _from_union(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        children: list[int] = []
        failures: list[str] = []
        for branch in writer.branches:
            try:
                children.append(self.resolve(branch, reader, target, path))
            except UnresolvedError as error:
                failures.append(str(error))
                children.append(self._node(Op.FAIL, target, path, texts=(str(error),)))
        if len(failures) == len(writer.branches):
            raise UnresolvedError(failures[0] if failures else f"{_at(path)}the writer's union is empty")
        return self._node(Op.UNION, target, path, children=tuple(children))

    def _to_union(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        chosen = self._branch(writer, reader, path)
        if chosen.kind == "null":
            return self._node(Op.NULL, target, path)
        rest = [each for each in reader.branches if each.kind != "null"]
        if len(rest) == 1:
            return self.resolve(writer, chosen, target, path)
        number = common_number(rest)
        if number is not None:
            return self._leaf(writer, AvroType(number), target, path)
        names = [each.name for each in self._columns[target][0].children]
        member = f"member{rest.index(chosen)}"
        if member not in names:  # too deep in itself: all members are null
            return self._node(Op.MEMBER, target, path, children=(self._skip(writer),), argument=-1)
        at = names.index(member)
        child = self.resolve(writer, chosen, self._child(target, at), path)
        return self._node(Op.MEMBER, target, path, children=(child,), argument=at)

    def _branch(self, writer: AvroType, reader: AvroType, path: str) -> AvroType:
        """Return the branch of the reader's union: one of the same type and name, or the first one that resolves."""
        same = [each for each in reader.branches if each.kind == writer.kind and _same_name(writer, each, full=True)]
        same += [each for each in reader.branches if each.kind == writer.kind and _same_name(writer, each)]
        for branch in (*same, *reader.branches):
            if _matches(writer, branch, branch in same):
                return branch
        kinds = ", ".join(_named(each) for each in reader.branches)
        raise UnresolvedError(f"{_at(path)}the writer's {_named(writer)} is none of the reader's union [{kinds}]")

    # -- records

    def _record(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        places = {each.name: at for at, each in enumerate(self._columns[target][0].children)}
        by_writer = _fields_by_writer(writer, reader)
        steps: list[int] = []
        read: set[str] = set()
        for each in writer.fields:
            field = by_writer.get(each.name)
            if field is not None:
                read.add(field.name)
            if field is None or field.name not in places:
                steps.append(self._skip(each.type))
            else:
                to = self._child(target, places[field.name])
                steps.append(self.resolve(each.type, field.type, to, _joined(path, each.name)))
        steps += [
            self._default(field, self._child(target, places[field.name]), _joined(path, field.name))
            for field in reader.fields
            if field.name not in read and field.name in places
        ]
        return self._node(Op.RECORD, target, path, children=tuple(steps))

    def _default(self, field: AvroField, target: int, path: str) -> int:
        if not field.has_default:
            raise UnresolvedError(
                f"{_at(path)}the writer does not have it, and the reader's schema has no default for it"
            )
        data = bytearray()
        _encode_default(field.type, field.default, data, path)
        child = self.resolve(field.type, field.type, target, path)
        return self._node(Op.DEFAULT, target, path, children=(child,), data=bytes(data))

    def _enum(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        known = set(reader.symbols)
        default = reader.default if reader.default in known else None
        texts = tuple(each if each in known else default for each in writer.symbols)
        return self._node(Op.ENUM, target, path, texts=texts)

    # -- leaves

    def _leaf(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        _check_logical(writer, reader, path)
        column = self._columns[target][0]
        if column.type is Type.DECIMAL:
            if writer.kind == "fixed":
                size = writer.size
                return self._node(Op.DECIMAL_FIXED, target, path, argument=column.precision, size=size)
            return self._node(Op.DECIMAL_BYTES, target, path, argument=column.precision)
        if writer.kind == "fixed":
            return self._node(Op.FIXED, target, path, argument=writer.size)
        if writer.kind in ("int", "long"):
            return self._integer(writer, reader, target, path)
        op = _LEAVES.get((writer.kind, column.type), Op.STRING if column.type is Type.STRING else Op.BYTES)
        return self._node(op, target, path)

    def _integer(self, writer: AvroType, reader: AvroType, target: int, path: str) -> int:
        bits = 32 if writer.kind == "int" else 64
        match self._columns[target][0].type:
            case Type.INT32 | Type.DATE:
                op = Op.INT_INT32
            case Type.FLOAT32:
                op = Op.LONG_FLOAT32
            case Type.FLOAT64:
                op = Op.LONG_FLOAT64
            case Type.TIMESTAMP_UTC | Type.TIMESTAMP_LOCAL if reader.logical.endswith("millis"):
                op = Op.LONG_TIMES_1000
            case _:
                op = Op.LONG_INT64
        return self._node(op, target, path, argument=bits)

    # -- what the reader does not have

    def _skip(self, writer: AvroType) -> int:
        """Return the node that skips a value; the same for each use of a type, so that recursion ends."""
        known = self._skips.get(id(writer))
        if known is not None:
            return known
        match writer.kind:
            case "record" | "union":
                at = self._node(Op.SKIP_RECORD if writer.kind == "record" else Op.SKIP_UNION, -1, "")
                self._skips[id(writer)] = at
                parts = [each.type for each in writer.fields] if writer.kind == "record" else writer.branches
                self.program.nodes[at].children = tuple(self._skip(each) for each in parts)
                return at
            case "array" | "map":
                at = self._node(Op.SKIP_ARRAY if writer.kind == "array" else Op.SKIP_MAP, -1, "")
                self._skips[id(writer)] = at
                self.program.nodes[at].children = (self._skip(writer.branches[0]),)
                return at
            case "int" | "long" | "enum":
                at = self._node(Op.SKIP_VARINT, -1, "")
            case "bytes" | "string":
                at = self._node(Op.SKIP_BYTES, -1, "")
            case _:
                size = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(writer.kind, writer.size)
                at = self._node(Op.SKIP_FIXED, -1, "", argument=size)
        self._skips[id(writer)] = at
        return at


# -- rules of the specification


_PROMOTIONS: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}


def _is_promoted(writer: str, reader: str) -> bool:
    return reader in _PROMOTIONS.get(writer, (writer,)) and writer not in ("enum", "fixed")


def _same_name(writer: AvroType, reader: AvroType, *, full: bool = False) -> bool:
    if writer.name == reader.name or writer.name in reader.aliases:
        return True
    return not full and writer.short_name == reader.short_name


def _matches(writer: AvroType, reader: AvroType, same: bool) -> bool:
    """Whether a writer's type may be read as a branch of a reader's union."""
    if writer.kind == "fixed" == reader.kind:
        return same and writer.size == reader.size
    if writer.kind in ("record", "enum") or reader.kind in ("record", "enum"):
        return same
    return writer.kind == reader.kind or _is_promoted(writer.kind, reader.kind)


def _check_logical(writer: AvroType, reader: AvroType, path: str) -> None:
    """Refuse what would be read with a wrong unit or scale.

    Avro's own classes ignore the writer's logical type, so that they read milliseconds as microseconds.
    """
    if writer.logical == reader.logical:
        if writer.logical == "decimal" and (writer.scale != reader.scale or writer.precision > reader.precision):
            raise UnresolvedError(
                f"{_at(path)}the writer's decimal({writer.precision},{writer.scale}) is not the reader's "
                f"decimal({reader.precision},{reader.scale})"
            )
    elif writer.logical in _TIMES and reader.logical in _TIMES:
        raise UnresolvedError(f"{_at(path)}the writer's {writer.logical} is not the reader's {reader.logical}")


def _fields_by_writer(writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
    """Return the reader's field for each writer's field: that of the same name, else that with such an alias."""
    names = {each.name for each in writer.fields}
    found = {each.name: each for each in reader.fields if each.name in names}
    for field in reader.fields:
        if field.name not in names:
            alias = next((each for each in field.aliases if each in names and each not in found), None)
            if alias is not None:
                found[alias] = field
    return found


def _at(path: str) -> str:
    return f"field {path}: " if path else ""


def _named(schema: AvroType) -> str:
    described = f"{schema.kind} {schema.name}".rstrip()
    return f"{described} of {schema.size} bytes" if schema.kind == "fixed" else described


# -- defaults


def _encode_default(schema: AvroType, value: object, data: bytearray, path: str) -> None:
    """Append the default of a field, as JSON in the schema, in Avro's binary encoding.

    Raises:
        UnresolvedError: it is not a value of the type.
    """
    try:
        _encode(schema, value, data)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError, struct.error) as error:
        text = json.dumps(value)[:80]
        raise UnresolvedError(f"{_at(path)}the default {text} is not a {_named(schema)}: {error}") from None
    except RecursionError:
        raise UnresolvedError(f"{_at(path)}the default of {_named(schema)} contains itself without an end") from None


def _encode(schema: AvroType, value: object, data: bytearray) -> None:
    match schema.kind, value:
        case "null", None:
            return
        case "boolean", bool():
            data.append(value)
        case (("int" | "long"), int()) if not isinstance(value, bool):
            bits = 31 if schema.kind == "int" else 63
            if not -(1 << bits) <= value < 1 << bits:
                raise ValueError("out of range")
            _varint(value, data)
        case "float", int() | float() if not isinstance(value, bool):
            data += struct.pack("<f", value)
        case "double", int() | float() if not isinstance(value, bool):
            data += struct.pack("<d", value)
        case "string", str():
            _sized(value.encode(), data)
        case "bytes", str():
            _sized(value.encode("latin-1"), data)
        case "fixed", str() if len(value) == schema.size:
            data += value.encode("latin-1")
        case "enum", str():
            _varint(schema.symbols.index(value), data)
        case "array" | "map" | "record" | "union", _:
            _encode_nested(schema, value, data)
        case _:
            raise ValueError("another type")


def _encode_nested(schema: AvroType, value: object, data: bytearray) -> None:
    match schema.kind, value:
        case "array", list():
            if value:
                _varint(len(value), data)
            for each in value:
                _encode(schema.branches[0], each, data)
            data.append(0)
        case "map", dict():
            if value:
                _varint(len(value), data)
            for key, each in value.items():
                _sized(key.encode(), data)
                _encode(schema.branches[0], each, data)
            data.append(0)
        case "record", dict():
            for field in schema.fields:
                if field.name not in value and not field.has_default:
                    raise ValueError(f"it has no {field.name}")
                _encode(field.type, value.get(field.name, field.default), data)
        case "union", _:
            for at, branch in enumerate(schema.branches):
                part = bytearray()
                try:
                    _encode(branch, value, part)
                except (TypeError, ValueError, KeyError, OverflowError, AttributeError, struct.error):
                    continue
                _varint(at, data)
                data += part
                return
            raise ValueError("no branch has it")
        case _:
            raise ValueError("another type")


def _varint(value: int, data: bytearray) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)


def _sized(text: bytes, data: bytearray) -> None:
    _varint(len(text), data)
    data += text
