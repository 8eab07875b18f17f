"""Programs that encode columns as Protobuf messages: the inverse of `protobuf_plan`.

Fields are written in the order of their numbers, as protobuf's runtime writes them. Null leaves a field out; so does
zero where the field has no presence. Must not read columns. Start at `encode_program_for`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkaraw.schemas.arrow.columns import Column, Type
from kafkaraw.schemas.arrow.encode_program import EncodeOp, EncodePlan, EncodeProgram, Presence
from kafkaraw.schemas.arrow.protobuf_plan import WELL_KNOWN_TIMES, is_map, is_repeated, is_required, unknown_prefix

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_MESSAGE: Final = 11
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # wire types
# Number of a type in FieldDescriptorProto.Type -> operation and wire type.
_TYPES: Final = {
    1: (EncodeOp.PROTOBUF_RAW64, _FIXED64),
    2: (EncodeOp.PROTOBUF_RAW32, _FIXED32),
    3: (EncodeOp.PROTOBUF_INT64, _VARINT),
    4: (EncodeOp.PROTOBUF_UINT64, _VARINT),
    5: (EncodeOp.PROTOBUF_INT32, _VARINT),
    6: (EncodeOp.PROTOBUF_UFIXED64, _FIXED64),
    7: (EncodeOp.PROTOBUF_UFIXED32, _FIXED32),
    8: (EncodeOp.PROTOBUF_BOOL, _VARINT),
    9: (EncodeOp.PROTOBUF_BYTES, _SIZED),
    _MESSAGE: (EncodeOp.PROTOBUF_MESSAGE, _SIZED),
    12: (EncodeOp.PROTOBUF_BYTES, _SIZED),
    13: (EncodeOp.PROTOBUF_UINT32, _VARINT),
    14: (EncodeOp.PROTOBUF_ENUM, _VARINT),
    15: (EncodeOp.PROTOBUF_RAW32, _FIXED32),
    16: (EncodeOp.PROTOBUF_RAW64, _FIXED64),
    17: (EncodeOp.PROTOBUF_SINT32, _VARINT),
    18: (EncodeOp.PROTOBUF_SINT64, _VARINT),
}
_TIMES: Final = {Type.TIMESTAMP_UTC: EncodeOp.PROTOBUF_TIMESTAMP, Type.DURATION: EncodeOp.PROTOBUF_DURATION}


def writable(column: Column) -> Column:
    """Return columns in which each value may be null: the program decides what null means."""
    children = tuple(writable(each) for each in column.children)
    return Column(column.name, column.type, True, children, column.precision, column.scale)


def encode_program_for(message: Descriptor, columns: Column) -> EncodeProgram:
    """Return the program that encodes rows of `columns_of(message)` as messages."""
    plan = _Plan(columns)
    plan.program.root = plan.message(message, 0, "", 0, Presence.EXPLICIT)
    return plan.program


class _Plan(EncodePlan):
    def message(self, message: Descriptor, source: int, path: str, tag: int, presence: Presence) -> int:
        """Return the node that writes a struct as a message."""
        column, first = self.flat[source]
        sources = {each.name: first + at for at, each in enumerate(column.children)}
        children = []
        for oneof in message.oneofs:
            members = tuple(sources[each.name] for each in oneof.fields if each.name in sources)
            if len(members) > 1:
                inner = f"{path}.{oneof.name}" if path else oneof.name
                children.append(self.add(EncodeOp.PROTOBUF_ONEOF, source, inner, branches=members))
        for field in sorted(message.fields, key=lambda each: int(each.number)):
            if field.name in sources:  # a message without fields, or too deep in itself, has no column
                inner = f"{path}.{field.name}" if path else field.name
                children.append(self._field(field, sources[field.name], inner))
        return self.add(
            EncodeOp.PROTOBUF_MESSAGE, source, path, children=tuple(children), argument=tag, presence=presence
        )

    def _field(self, field: Any, source: int, path: str) -> int:  # noqa: ANN401 - no types
        first = self.flat[source][1]
        if is_map(field):
            key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
            entry = self.flat[first][1]
            children = (
                self._value(key, entry, path, Presence.REQUIRED),
                self._value(value, entry + 1, f"{path}{{}}", Presence.REQUIRED),
            )
            tag = field.number << 3 | _SIZED
            return self.add(EncodeOp.PROTOBUF_MAP, source, path, children=children, argument=tag)
        if is_repeated(field):
            packed = _is_packed(field)
            item = self._value(field, first, f"{path}[]", Presence.REQUIRED, has_tag=not packed)
            if not packed:
                return self.add(EncodeOp.PROTOBUF_REPEATED, source, path, children=(item,))
            tag = field.number << 3 | _SIZED
            return self.add(EncodeOp.PROTOBUF_PACKED, source, path, children=(item,), argument=tag)
        presence = Presence.EXPLICIT if field.has_presence else Presence.IMPLICIT
        return self._value(field, source, path, Presence.REQUIRED if is_required(field) else presence)

    def _value(
        self,
        field: Any,  # noqa: ANN401 - no types
        source: int,
        path: str,
        presence: Presence,
        *,
        has_tag: bool = True,
    ) -> int:
        op, wire = _TYPES[field.type]
        tag = field.number << 3 | wire if has_tag else 0
        if field.type == _MESSAGE:
            if field.message_type.full_name not in WELL_KNOWN_TIMES:
                return self.message(field.message_type, source, path, tag, presence)
            op = _TIMES[self.flat[source][0].type]
        if op is not EncodeOp.PROTOBUF_ENUM:
            return self.add(op, source, path, argument=tag, presence=presence)
        values = field.enum_type.values
        texts = (*(each.name for each in values), unknown_prefix(field.enum_type))
        numbers = tuple(each.number for each in values)
        return self.add(op, source, path, argument=tag, presence=presence, texts=texts, branches=numbers)


def _is_packed(field: Any) -> bool:  # noqa: ANN401 - no types
    if _TYPES[field.type][1] == _SIZED:
        return False
    if hasattr(field, "is_packed"):
        return bool(field.is_packed)
    options = field.GetOptions()  # protobuf before 6.31
    if options.HasField("packed"):
        return bool(options.packed)
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    field.file.CopyToProto(file)
    return bool(file.syntax == "proto3")
