"""Programs that decode Protobuf messages into columns.

`columns_of` maps a message to columns as Spark's from_protobuf does, except that unsigned numbers keep their values,
as with its option upcast.unsigned.ints: uint32 is int64, uint64 a decimal of 20 digits. A field that a record does not
have is null, whether or not it has presence, as there. Protobuf resolves schemas by the numbers of fields, so the
reader's message decodes the records of every writer. Must not read records. Start at `program_for`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import UsageError
from kafkaraw.schemas.arrow.columns import Column, Type, flattened
from kafkaraw.schemas.arrow.program import MAP, REPEATED, REQUIRED, FieldRule, Node, Op, Program

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

_COLUMNS_MAX: Final = 10_000
_NESTING_MAX: Final = 64
# Number of a type in FieldDescriptorProto.Type -> operation and type of its column.
_TYPES: Final = {
    1: (Op.PROTOBUF_RAW64, Type.FLOAT64),
    2: (Op.PROTOBUF_RAW32, Type.FLOAT32),
    3: (Op.PROTOBUF_INT64, Type.INT64),
    4: (Op.PROTOBUF_UINT64, Type.DECIMAL),
    5: (Op.PROTOBUF_INT32, Type.INT32),
    6: (Op.PROTOBUF_UFIXED64, Type.DECIMAL),
    7: (Op.PROTOBUF_UFIXED32, Type.INT64),
    8: (Op.PROTOBUF_BOOL, Type.BOOLEAN),
    9: (Op.PROTOBUF_STRING, Type.STRING),
    12: (Op.PROTOBUF_BYTES, Type.BINARY),
    13: (Op.PROTOBUF_UINT32, Type.INT64),
    14: (Op.PROTOBUF_ENUM, Type.STRING),
    15: (Op.PROTOBUF_RAW32, Type.INT32),
    16: (Op.PROTOBUF_RAW64, Type.INT64),
    17: (Op.PROTOBUF_SINT32, Type.INT32),
    18: (Op.PROTOBUF_SINT64, Type.INT64),
}
_MESSAGE: Final = 11
WELL_KNOWN_TIMES: Final = {
    "google.protobuf.Timestamp": (Op.PROTOBUF_TIMESTAMP, Type.TIMESTAMP_UTC),
    "google.protobuf.Duration": (Op.PROTOBUF_DURATION, Type.DURATION),
}
"""Messages that become one value, with operation and type of its column."""
_UNSIGNED_DIGITS: Final = 20


def message_at(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    """Return the message that a record's indexes name: the first one of the file for (0,).

    Raises:
        UsageError: there is none.
    """
    messages: Any = list(file.message_types_by_name.values())
    found = None
    for index in indexes or (0,):
        if not 0 <= index < len(messages):
            raise UsageError(f"the schema has no message with the indexes {list(indexes)}")
        found = messages[index]
        messages = found.nested_types
    return found


def columns_of(message: Descriptor, recursion_max: int = 0) -> Column:
    """Return the columns of a message; arguments and errors as for `avro_plan.columns_of`."""
    column = _Columns(recursion_max).message(message, "", "", {})
    if column is None:
        raise UsageError(f"the message {message.full_name} has no fields")
    return column.named("", nullable=True)


class _Columns:
    def __init__(self, recursion_max: int) -> None:
        self._recursion_max = recursion_max
        self._count = 0

    def message(self, message: Descriptor, name: str, path: str, inside: Mapping[str, int]) -> Column | None:
        """Return the struct of a message; None if it has no fields, or would be deeper in itself than the limit."""
        depth = inside.get(message.full_name, 0)
        if depth and self._recursion_max <= 0:
            raise UsageError(
                f"field {path}: the message {message.full_name} contains itself, and columns cannot. Set "
                "recursive_field_max_depth to the number of levels to decode"
            )
        if depth and depth >= self._recursion_max:
            return None
        deeper = {**inside, message.full_name: depth + 1}
        if sum(deeper.values()) > _NESTING_MAX:
            raise UsageError(
                f"field {path[:80]}: messages nested more than {_NESTING_MAX} deep; lower recursive_field_max_depth"
            )
        fields = [self._field(each, f"{path}.{each.name}" if path else each.name, deeper) for each in message.fields]
        kept = tuple(each for each in fields if each is not None)
        return Column(name, Type.STRUCT, children=kept) if kept else None

    def _field(self, field: Any, path: str, inside: Mapping[str, int]) -> Column | None:  # noqa: ANN401 - no types
        self._count += 1
        if self._count > _COLUMNS_MAX:
            raise UsageError(f"the message has more than {_COLUMNS_MAX:,} columns")
        if field.has_default_value and field.default_value != _natural_default(field):
            raise UsageError(f"field {path}: defaults of proto2 are not supported in columns; leave the default out")
        if is_map(field):
            key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
            value_column = self._single(value, "value", f"{path}{{}}", inside)
            if value_column is None:
                return None
            key_column = self._single(key, "key", path, inside)
            assert key_column is not None, path  # keys are never messages
            pair = Column("entries", Type.STRUCT, children=(key_column, value_column))
            return Column(field.name, Type.MAP, nullable=True, children=(pair,))
        if is_repeated(field):
            element = self._single(field, "element", f"{path}[]", inside)
            return None if element is None else Column(field.name, Type.LIST, nullable=True, children=(element,))
        found = self._single(field, field.name, path, inside)
        return None if found is None else found.named(field.name, nullable=not is_required(field))

    def _single(self, field: Any, name: str, path: str, inside: Mapping[str, int]) -> Column | None:  # noqa: ANN401
        if field.type == _MESSAGE:
            known = WELL_KNOWN_TIMES.get(field.message_type.full_name)
            return self.message(field.message_type, name, path, inside) if known is None else Column(name, known[1])
        if field.type not in _TYPES:
            raise UsageError(f"field {path}: groups are not supported in columns")
        kind = _TYPES[field.type][1]
        return Column(name, kind, precision=_UNSIGNED_DIGITS if kind is Type.DECIMAL else 0)


def program_for(message: Descriptor, columns: Column) -> Program:
    """Return the program that decodes records of a message into `columns_of(message)`."""
    plan = _Plan(columns)
    plan.program.root = plan.message(message, 0, "")
    plan.program.nodes[plan.program.root].argument = 1  # no size in front
    return plan.program


class _Plan:
    def __init__(self, columns: Column) -> None:
        self.program = Program(columns)
        self._columns = flattened(columns)

    def _add(self, node: Node) -> int:
        self.program.nodes.append(node)
        return len(self.program.nodes) - 1

    def message(self, message: Descriptor, target: int, path: str) -> int:
        """Return the node that reads a message into a struct."""
        column, first = self._columns[target]
        by_name = {each.name: each for each in message.fields}
        oneofs = {each.full_name: at for at, each in enumerate(message.oneofs, 1)}
        children: list[int] = []
        rules: list[FieldRule] = []
        for at, each in enumerate(column.children):
            field = by_name[each.name]
            inner = f"{path}.{field.name}" if path else field.name
            flags = (REPEATED if is_repeated(field) else 0) | (MAP if is_map(field) else 0)
            flags |= REQUIRED if is_required(field) else 0
            oneof = field.containing_oneof
            rules.append(FieldRule(field.number, flags, 0 if oneof is None else oneofs[oneof.full_name]))
            place = self._columns[first + at][1] if flags & REPEATED else first + at
            children.append(self._value(field, place, inner))
        node = Node(Op.PROTOBUF_MESSAGE, target, path, children=tuple(children), fields=tuple(rules))
        return self._add(node)

    def _value(self, field: Any, target: int, path: str) -> int:  # noqa: ANN401 - no types
        if field.type == _MESSAGE:
            known = WELL_KNOWN_TIMES.get(field.message_type.full_name)
            if known is not None:
                return self._add(Node(known[0], target, path))
            return self.message(field.message_type, target, path)
        op = _TYPES[field.type][0]
        if op is not Op.PROTOBUF_ENUM:
            return self._add(Node(op, target, path))
        values = field.enum_type.values
        first_names = {each.number: each.name for each in reversed(values)}  # of aliases the first one, as in Java
        texts = (*(first_names[each.number] for each in values), unknown_prefix(field.enum_type))
        return self._add(Node(op, target, path, texts=texts, numbers=tuple(each.number for each in values)))


def unknown_prefix(enum: Any) -> str:  # noqa: ANN401 - no types
    """Return what stands in front of the number of an enum's unknown value, as in Java."""
    return f"UNKNOWN_ENUM_VALUE_{enum.name}_"


def is_map(field: Any) -> bool:  # noqa: ANN401 - no types
    """Whether a field is a map."""
    return field.type == _MESSAGE and bool(field.message_type.GetOptions().map_entry) and is_repeated(field)


def is_repeated(field: Any) -> bool:  # noqa: ANN401
    """Whether a field is a list or a map."""
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def is_required(field: Any) -> bool:  # noqa: ANN401
    """Whether a field of proto2 is required."""
    return bool(field.is_required) if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED


def _natural_default(field: Any) -> object:  # noqa: ANN401
    return field.enum_type.values[0].number if field.enum_type is not None else type(field.default_value)()
