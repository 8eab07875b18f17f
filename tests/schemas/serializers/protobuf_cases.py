"""Random Protobuf files with nested messages, and messages that fit them."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import strategies as st

from tests.schemas.serializers import avro_cases


def proto_file(name, package, messages, imports=()):
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=list(imports))
    for message in messages:
        file.message_type.append(message)
    return file


def message(name, fields=(), nested=()):
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, kind, type_name, repeated) in enumerate(fields, 1):
        made.field.add(name=field, number=number, type=kind, type_name=type_name or None, label=3 if repeated else 1)
    for inner in nested:
        made.nested_type.append(inner)
    return made


F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    F.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    F.TYPE_SINT64: st.integers(-(2**63), 2**63 - 1),
    F.TYPE_FIXED64: st.integers(0, 2**64 - 1),
    F.TYPE_DOUBLE: st.floats(allow_nan=False),
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_STRING: avro_cases.TEXT,
    F.TYPE_BYTES: st.binary(max_size=5),
}


@st.composite
def proto_messages(draw, name="M", depth=2):
    fields = [
        (f"f{number}", draw(st.sampled_from(list(SCALARS))), "", draw(st.booleans()))
        for number in range(draw(st.integers(0, 4)))
    ]
    nested = []
    if depth:
        nested = [draw(proto_messages(f"{name}{letter}", depth - 1)) for letter in "AB"[: draw(st.integers(0, 2))]]
    return message(name, fields, nested)


def classes_of(pool, file):
    found = []
    rest = list(pool.FindFileByName(file).message_types_by_name.values())
    while rest:
        descriptor = rest.pop()
        found.append(message_factory.GetMessageClass(descriptor))
        rest.extend(descriptor.nested_types)
    return sorted(found, key=lambda kind: kind.DESCRIPTOR.full_name)


def fill(draw, kind):
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        values = SCALARS[field.type]
        if hasattr(getattr(made, field.name), "extend"):  # repeated
            getattr(made, field.name).extend(draw(st.lists(values, max_size=3)))
        else:
            setattr(made, field.name, draw(values))
    return made


@st.composite
def files(draw):
    """A pool with a file of up to three messages, and the file."""
    names = [f"M{number}" for number in range(draw(st.integers(1, 3)))]
    file = proto_file("orders.proto", "shop", [draw(proto_messages(name)) for name in names])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool, file
