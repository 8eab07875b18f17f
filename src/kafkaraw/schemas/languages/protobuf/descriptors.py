"""Turn elements of a `.proto` file into descriptors of the protobuf package, and back.

`FileBuilder` resolves the names of types and writes the fields of descriptors that protoc writes; protobuf's own
descriptor pool then checks the file. Options of extensions, such as `(confluent.field_meta)`, are written with the
messages of that pool, so that they are in the descriptors as protoc has them. Must not do I/O. Start at `Pool`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.protobuf.elements import (
    NUMBER_MAX,
    SCALARS,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    Literal,
    Message,
    OneOf,
    Option,
    OptionValue,
    Range,
    Rpc,
    Service,
    resolved_name,
)
from kafkaraw.schemas.languages.protobuf.reading import unescaped
from kafkaraw.schemas.languages.protobuf.writing import escaped_bytes, quoted

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

_LABELS: Final = {None: 1, "optional": 1, "required": 2, "repeated": 3}
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_RESERVED_NUMBERS: Final = range(19_000, 20_000)  # protobuf's own


class Pool:
    """A descriptor pool with the files of one schema: imports first, then the schema."""

    def __init__(self) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool

        self.pool: DescriptorPool = DescriptorPool()
        self.kinds: dict[str, str] = {}
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, descriptor: FileDescriptorProto) -> None:
        """Add a file whose imports are there.

        Raises:
            SchemaParseError: protobuf refuses the file.
        """
        if descriptor.name in self._names:
            return
        try:
            self.pool.Add(descriptor)
            self.pool.FindFileByName(descriptor.name)
        except (TypeError, ValueError, KeyError) as error:
            reason = str(error).replace("Couldn't build proto file into descriptor pool: ", "")
            if "Message size exceeded" in reason:
                reason = f"{reason[:400]}; split messages of more than about 4,000 fields"
            raise SchemaParseError(f"protobuf refuses the schema: {reason[:500]}", path=descriptor.name) from None
        self._names.add(descriptor.name)
        for name, kind in _declared(descriptor):
            self.kinds[name] = kind

    def add_elements(self, file: File, name: str) -> FileDescriptorProto:
        """Add a file that was read from a text, and return its descriptor."""
        builder = FileBuilder(file, name, self.kinds)
        descriptor = builder.descriptor
        if builder.extension_options:
            first = Pool()
            for other in self._files():
                first.add(other)
            bare = type(descriptor)()
            bare.CopyFrom(descriptor)
            first.add(bare)
            builder.set_extension_options(first.pool)
        self.add(descriptor)
        return descriptor

    def _files(self) -> Iterable[FileDescriptorProto]:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        found: dict[str, FileDescriptorProto] = {}

        def visit(file: FileDescriptor) -> None:
            if file.name not in found:
                for one in file.dependencies:
                    visit(one)
                found[file.name] = FileDescriptorProto.FromString(file.serialized_pb)

        for name in self._names:
            visit(self.pool.FindFileByName(name))
        return found.values()


def _declared(file: FileDescriptorProto) -> Iterable[tuple[str, str]]:
    waiting = [(file.package, file.message_type, file.enum_type)]
    while waiting:
        scope, messages, enums = waiting.pop()
        start = f"{scope}." if scope else ""
        yield from ((start + one.name, "enum") for one in enums)
        for message in messages:
            yield start + message.name, "message"
            waiting.append((start + message.name, message.nested_type, message.enum_type))


class FileBuilder:
    """Builds the descriptor of a file.

    Args:
        file: the elements.
        name: the name of the file.
        imported: `message` or `enum` by the full names of the types of imported files.

    Raises:
        SchemaParseError: a type is not defined, or numbers or names are wrong.
    """

    def __init__(self, file: File, name: str, imported: Mapping[str, str]) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        self._kinds = dict(imported)
        self._proto3 = file.syntax == "proto3"
        self.extension_options: list[tuple[Any, list[Option], str]] = []
        self.descriptor: FileDescriptorProto = FileDescriptorProto(name=name)
        self._build(file)

    def _build(self, file: File) -> None:
        proto = self.descriptor
        if file.package:
            proto.package = file.package
        if file.edition is not None:
            proto.syntax = "editions"
            proto.edition = int(file.edition) - 2023 + 1000
        elif self._proto3:
            proto.syntax = "proto3"
        for imported in dict.fromkeys(file.all_imports):
            if imported in file.public_imports:
                proto.public_dependency.append(len(proto.dependency))
            elif imported in file.weak_imports:
                proto.weak_dependency.append(len(proto.dependency))
            proto.dependency.append(imported)
        self._declare(file.types, file.package or "")
        scope = file.package or ""
        self._set_options(proto, file.options, scope)
        for one in file.types:
            if isinstance(one, Message):
                self._message(proto.message_type.add(), one, scope)
            else:
                self._enum(proto.enum_type.add(), one, scope)
        for extend in file.extends:
            self._extend(proto.extension, proto.message_type, extend, scope)
        for service in file.services:
            self._service(proto.service.add(), service, scope)

    def _declare(self, types: list[Message | Enum], scope: str) -> None:
        for one in types:
            name = f"{scope}.{one.name}" if scope else one.name
            self._kinds[name] = "enum" if isinstance(one, Enum) else "message"
            if isinstance(one, Message):
                groups = [*one.groups, *(group for oneof in one.oneofs for group in oneof.groups)]
                self._declare([*one.types, *(group.message for group in groups)], name)

    def _message(self, proto: DescriptorProto, message: Message, outer: str) -> None:
        scope = f"{outer}.{message.name}" if outer else message.name
        proto.name = message.name
        self._set_options(proto, message.options, scope)
        for oneof in message.oneofs:
            added = proto.oneof_decl.add(name=oneof.name)
            self._set_options(added, oneof.options, scope)
        for field in message.fields:
            self._field(proto.field.add(), field, scope, proto)
        for index, oneof in enumerate(message.oneofs):
            for field in oneof.fields:
                added_field = proto.field.add()
                self._field(added_field, field, scope, proto)
                added_field.oneof_index = index
            for group in oneof.groups:
                self._group(proto.field.add(oneof_index=index), group, scope, proto.nested_type)
        for group in message.groups:
            self._group(proto.field.add(), group, scope, proto.nested_type)
        for one in message.types:
            if isinstance(one, Message):
                self._message(proto.nested_type.add(), one, scope)
            else:
                self._enum(proto.enum_type.add(), one, scope)
        for extend in message.extends:
            self._extend(proto.extension, proto.nested_type, extend, scope)
        self._numbers(proto, message)
        self._optional_fields(proto, message)
        _check_message(proto, message)

    def _numbers(self, proto: DescriptorProto, message: Message) -> None:
        for ranges in message.reserved:
            for one in ranges:
                if isinstance(one, str):
                    proto.reserved_name.append(one)
                else:
                    first, last = (one, one) if isinstance(one, int) else one
                    proto.reserved_range.add(start=first, end=last + 1)
        for extensions in message.extensions:
            for one in extensions.ranges:
                first, last = (one, one) if isinstance(one, int) else (0, 0) if isinstance(one, str) else one
                proto.extension_range.add(start=first, end=last + 1)

    def _optional_fields(self, proto: DescriptorProto, message: Message) -> None:
        """Give fields of proto3 with the label `optional` the oneofs that protoc invents for them."""
        if not self._proto3:
            return
        optional = {field.name for field in message.fields if field.label == "optional"}
        taken = {one.name for one in (*proto.field, *proto.oneof_decl)}
        for field in proto.field:
            if field.name in optional:
                name = f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.proto3_optional = True
                field.oneof_index = len(proto.oneof_decl)
                proto.oneof_decl.add(name=name)

    def _field(self, proto: FieldDescriptorProto, field: Field, scope: str, holder: DescriptorProto | None) -> None:
        proto.name = field.name
        proto.number = _number(field.number, scope, field.name)
        types = field.map_types
        if types is None:
            proto.label = _LABELS[field.label]
            self._set_type(proto, field.type, scope)
        elif holder is None:
            raise SchemaParseError(f"the extension {field.name!r} may not be a map; use a repeated message", path=scope)
        else:
            self._map(proto, types, scope, holder)
        if field.default is not None:
            proto.default_value = _default_text(field)
        if field.json_name is not None:
            proto.json_name = field.json_name
        self._set_options(proto, field.options, scope)

    def _map(self, proto: FieldDescriptorProto, types: tuple[str, str], scope: str, holder: DescriptorProto) -> None:
        name = "".join(part[:1].upper() + part[1:] for part in proto.name.split("_")) + "Entry"
        if types[0] not in SCALARS - {"double", "float", "bytes"}:
            raise SchemaParseError(
                f"the keys of the map {proto.name!r} may not be {types[0]!r}; use a string", path=scope
            )
        entry = holder.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, type_) in enumerate(zip(("key", "value"), types, strict=True), 1):
            added = entry.field.add(name=part, number=number, label=1)
            self._set_type(added, type_, scope)
        proto.label = 3
        proto.type = _MESSAGE
        proto.type_name = f".{scope}.{name}"

    def _set_type(self, proto: FieldDescriptorProto, type_: str, scope: str) -> None:
        from google.protobuf.descriptor_pb2 import FieldDescriptorProto

        if type_ in SCALARS:
            proto.type = FieldDescriptorProto.Type.Value(f"TYPE_{type_.upper()}")
            return
        full = self._resolved(type_, scope)
        proto.type = _ENUM if self._kinds[full] == "enum" else _MESSAGE
        proto.type_name = f".{full}"

    def _resolved(self, name: str, scope: str) -> str:
        full = resolved_name(name, scope, self._kinds)
        if full is None:
            raise SchemaParseError(
                f"the type {name!r} is not defined; define it, or import the file that does", path=scope
            )
        return full

    def _group(self, proto: FieldDescriptorProto, group: Group, scope: str, messages: Any) -> None:  # noqa: ANN401
        proto.name = group.message.name.lower()
        proto.number = _number(group.number, scope, group.message.name)
        proto.label = _LABELS[group.label]
        proto.type = _GROUP
        proto.type_name = f".{scope}.{group.message.name}" if scope else f".{group.message.name}"
        self._message(messages.add(), group.message, scope)

    def _extend(self, extensions: Any, messages: Any, extend: Extend, scope: str) -> None:  # noqa: ANN401
        extendee = f".{self._resolved(extend.name, scope)}"
        for field in extend.fields:
            added = extensions.add(extendee=extendee)
            self._field(added, field, scope, None)
            if self._proto3 and field.label == "optional":
                added.proto3_optional = True
        for group in extend.groups:
            self._kinds[f"{scope}.{group.message.name}" if scope else group.message.name] = "message"
            self._group(extensions.add(extendee=extendee), group, scope, messages)

    def _enum(self, proto: Any, enum: Enum, outer: str) -> None:  # noqa: ANN401
        scope = f"{outer}.{enum.name}" if outer else enum.name
        proto.name = enum.name
        self._set_options(proto, enum.options, scope)
        if not enum.values:
            raise SchemaParseError("an enum must have at least one constant; add one", path=scope)
        if self._proto3 and enum.values[0].number != 0:
            raise SchemaParseError(
                "the first constant of an enum of proto3 must be 0; put one with 0 first", path=scope
            )
        for value in enum.values:
            if not -(1 << 31) <= value.number < 1 << 31:
                raise SchemaParseError(f"the number {value.number} does not fit 32 bits; use another", path=scope)
            added = proto.value.add(name=value.name, number=value.number)
            self._set_options(added, value.options, scope)
        for ranges in enum.reserved:
            for one in ranges:
                if isinstance(one, str):
                    proto.reserved_name.append(one)
                else:
                    first, last = (one, one) if isinstance(one, int) else one
                    last = (1 << 31) - 1 if last == NUMBER_MAX else last
                    if not -(1 << 31) <= first <= last < 1 << 31:
                        raise SchemaParseError(f"the reserved range {first} to {last} does not fit 32 bits", path=scope)
                    proto.reserved_range.add(start=first, end=last)

    def _service(self, proto: Any, service: Service, outer: str) -> None:  # noqa: ANN401
        scope = f"{outer}.{service.name}" if outer else service.name
        proto.name = service.name
        self._set_options(proto, service.options, scope)
        for rpc in service.rpcs:
            added = proto.method.add(
                name=rpc.name,
                input_type=f".{self._resolved(rpc.request, outer)}",
                output_type=f".{self._resolved(rpc.response, outer)}",
            )
            if rpc.streams_request:
                added.client_streaming = True
            if rpc.streams_response:
                added.server_streaming = True
            self._set_options(added, rpc.options, scope)

    # Options.

    def _set_options(self, proto: Any, options: list[Option], scope: str) -> None:  # noqa: ANN401
        if not options:
            return
        from google.protobuf import text_format

        extensions = [one for one in options if one.is_extension]
        if extensions:
            self.extension_options.append((proto, extensions, scope))
        text = "\n".join(_option_text(one, one.name) for one in options if not one.is_extension)
        try:
            text_format.Merge(text, proto.options)
        except (text_format.ParseError, RecursionError) as error:
            raise SchemaParseError(f"an option is wrong: {error}; fix or remove it", path=scope) from None

    def set_extension_options(self, pool: DescriptorPool) -> None:
        """Set the options that are extensions, with the messages of a pool that has them.

        Raises:
            SchemaParseError: an option is not defined, or has a wrong value.
        """
        from google.protobuf import message_factory, text_format

        for proto, options, scope in self.extension_options:
            kind = proto.options.DESCRIPTOR.full_name
            try:
                holder = message_factory.GetMessageClass(pool.FindMessageTypeByName(kind))()
            except KeyError:
                raise SchemaParseError(
                    f"the option ({options[0].name}) is not defined; import the file that does", path=scope
                ) from None
            for option in options:
                name = _extension_name(pool, option.name, scope)
                try:
                    text_format.Merge(_option_text(option, f"[{name}]"), holder, descriptor_pool=pool)
                except (text_format.ParseError, RecursionError) as error:
                    raise SchemaParseError(
                        f"the option ({option.name}) is wrong or not defined: {error}; import the file that defines it",
                        path=scope,
                    ) from None
            proto.options.MergeFromString(holder.SerializeToString())


def _extension_name(pool: DescriptorPool, name: str, scope: str) -> str:
    name = name.removeprefix(".")
    parts = scope.split(".") if scope else []
    for length in range(len(parts), -1, -1):
        full = ".".join((*parts[:length], name))
        try:
            pool.FindExtensionByName(full)
        except KeyError:
            continue
        return full
    return name


def _option_text(option: Option, name: str) -> str:
    """Return an option in protobuf's text format."""
    value = option.value
    if isinstance(value, Option):
        return f"{name} {{ {_option_text(value, f'[{value.name}]' if value.is_extension else value.name)} }}"
    return f"{name}: {_value_text(value)}"


def _value_text(value: OptionValue) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, dict):
        parts: list[str] = []
        for name, one in value.items():
            parts.append(f"{name}: {_value_text(one)}")
        return f"{{ {' '.join(parts)} }}"
    return f"[{', '.join(map(_value_text, value))}]"


def _default_text(field: Field) -> str:
    """Return a default as protoc writes it into descriptors."""
    text = field.default or ""
    if field.type == "bytes":
        return escaped_bytes(text)
    if field.type in {"float", "double"}:
        shown = repr(_parsed_float(text))
        return shown.removesuffix(".0")
    if field.type in SCALARS - {"bool", "string"}:
        digits = text.lstrip("+-")
        octal = digits.startswith("0") and digits.isdigit()
        try:
            return str(int(text, 8 if octal else 0))
        except ValueError:
            return text
    return text


def _parsed_float(text: str) -> float:
    try:
        return float(text.rstrip("fF") if "n" not in text.lower() else text.replace(" ", ""))
    except ValueError:
        raise SchemaParseError(f"the default {text[:40]!r} is not a number; write one") from None


def _number(number: int, scope: str, name: str) -> int:
    if not 1 <= number <= NUMBER_MAX or number in _RESERVED_NUMBERS:
        raise SchemaParseError(
            f"the number {number} of the field {name!r} must be 1 to {NUMBER_MAX}, and not 19000 to 19999", path=scope
        )
    return number


def _check_message(proto: DescriptorProto, message: Message) -> None:
    """Refuse what protoc refuses and the descriptor pool does not."""
    seen: dict[int, str] = {}
    for field in proto.field:
        if field.number in seen:
            raise SchemaParseError(
                f"the fields {seen[field.number]!r} and {field.name!r} have the same number {field.number}; change one",
                path=proto.name,
            )
        seen[field.number] = field.name
        if field.name in proto.reserved_name:
            raise SchemaParseError(f"the name of the field {field.name!r} is reserved; use another", path=proto.name)
    for reserved in proto.reserved_range:
        for number, name in seen.items():
            if reserved.start <= number < reserved.end:
                raise SchemaParseError(
                    f"the number {number} of the field {name!r} is reserved; use another", path=proto.name
                )
    for oneof in message.oneofs:
        if not oneof.fields and not oneof.groups:
            raise SchemaParseError(f"the oneof {oneof.name!r} has no fields; add one", path=proto.name)


# From descriptors to elements.


def decoded_descriptor(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that a text is the base64 of, as other clients' serializers register it; else None."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text.strip(), validate=True)
        found = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


_FILE_OPTIONS: Final = [
    "java_package",
    "java_outer_classname",
    "java_multiple_files",
    "java_generate_equals_and_hash",
    "java_string_check_utf8",
    "optimize_for",
    "go_package",
    "cc_generic_services",
    "java_generic_services",
    "py_generic_services",
    "deprecated",
    "cc_enable_arenas",
    "objc_class_prefix",
    "csharp_namespace",
    "swift_prefix",
    "php_class_prefix",
    "php_namespace",
    "php_metadata_namespace",
    "ruby_package",
    "features",
]
_MESSAGE_OPTIONS: Final = [
    "message_set_wire_format",
    "no_standard_descriptor_accessor",
    "deprecated",
    "map_entry",
    "features",
]
_FIELD_OPTIONS: Final = [
    "ctype",
    "packed",
    "jstype",
    "lazy",
    "deprecated",
    "weak",
    "debug_redact",
    "retention",
    "targets",
    "edition_defaults",
    "features",
]
_ENUM_OPTIONS: Final = ["allow_alias", "deprecated", "features"]
_VALUE_OPTIONS: Final = ["deprecated", "features", "debug_redact"]
_META: Final = {
    "FileOptions": "file_meta",
    "MessageOptions": "message_meta",
    "FieldOptions": "field_meta",
    "EnumOptions": "enum_meta",
    "EnumValueOptions": "enum_value_meta",
}


def indexes_of(descriptor: Any) -> tuple[int, ...]:  # noqa: ANN401 - no types
    """Return the path to a message in its file: numbers of the messages, from the outermost one."""
    path = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.append([sibling.full_name for sibling in siblings].index(descriptor.full_name))
        descriptor = outer
    return tuple(reversed(path))


def elements_of(file: FileDescriptorProto) -> File:
    """Return the elements of a file that is given as a descriptor."""
    result = File(package=file.package or None)
    if file.syntax == "editions":
        result.edition = str(file.edition - 1000 + 2023)
    else:
        result.syntax = file.syntax or None
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    for index, name in enumerate(file.dependency):
        target = result.public_imports if index in public else result.weak_imports if index in weak else result.imports
        target.append(name)
    result.options = _options_of(file, _FILE_OPTIONS)
    result.types = [_message_of(one, file) for one in file.message_type]
    result.types += [_enum_of(one) for one in file.enum_type]
    result.extends = _extends_of(file.extension, file)
    result.services = [_service_of(one) for one in file.service]
    return result


def _message_of(message: DescriptorProto, file: FileDescriptorProto) -> Message:
    oneofs = [OneOf(one.name, options=_options_of(one, ["features"])) for one in message.oneof_decl]
    result = Message(message.name)
    groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == _GROUP}
    for field in message.field:
        in_oneof = field.HasField("oneof_index") and not field.proto3_optional
        fields = oneofs[field.oneof_index].fields if in_oneof else result.fields
        if field.type == _GROUP:
            inner = next(one for one in message.nested_type if one.name == field.type_name.rpartition(".")[2])
            group = Group(None if in_oneof else _label_of(field, file), field.number, _message_of(inner, file))
            (oneofs[field.oneof_index].groups if in_oneof else result.groups).append(group)
        else:
            fields.append(_field_of(field, file, in_oneof=in_oneof))
    result.oneofs = [one for one in oneofs if one.fields or one.groups]
    result.types = [_message_of(one, file) for one in message.nested_type if one.name not in groups]
    result.types += [_enum_of(one) for one in message.enum_type]
    result.reserved = [[(one.start, one.end - 1)] for one in message.reserved_range]
    result.reserved += [[name] for name in message.reserved_name]
    result.extensions = [Extensions([(one.start, one.end - 1)]) for one in message.extension_range]
    result.options = _options_of(message, _MESSAGE_OPTIONS)
    result.extends = _extends_of(message.extension, file)
    return result


def _field_of(field: FieldDescriptorProto, file: FileDescriptorProto, *, in_oneof: bool) -> Field:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    type_ = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    result = Field(None if in_oneof else _label_of(field, file), type_, field.name, field.number)
    result.options = _options_of(field, _FIELD_OPTIONS)
    if file.syntax != "proto3" and field.HasField("default_value"):
        result.default = unescaped(field.default_value) if type_ == "bytes" else field.default_value
    if field.HasField("json_name"):
        result.json_name = field.json_name
    return result


def _label_of(field: FieldDescriptorProto, file: FileDescriptorProto) -> str | None:
    if field.proto3_optional:
        return "optional"
    if field.label == _LABELS["repeated"]:
        return "repeated"
    if file.syntax in {"proto3", "editions"}:
        return None
    return "required" if field.label == _LABELS["required"] else "optional"


def _enum_of(enum: Any) -> Enum:  # noqa: ANN401
    values = [EnumValue(one.name, one.number, _options_of(one, _VALUE_OPTIONS)) for one in enum.value]
    reserved: list[list[Range]] = [[(one.start, one.end)] for one in enum.reserved_range]
    reserved += [[name] for name in enum.reserved_name]
    return Enum(enum.name, values, _options_of(enum, _ENUM_OPTIONS), reserved)


def _extends_of(extensions: Any, file: FileDescriptorProto) -> list[Extend]:  # noqa: ANN401
    found: dict[str, Extend] = {}
    for one in extensions:
        if one.type != _GROUP:
            found.setdefault(one.extendee, Extend(one.extendee)).fields.append(_field_of(one, file, in_oneof=False))
    return list(found.values())


def _service_of(service: Any) -> Service:  # noqa: ANN401
    rpcs = [
        Rpc(
            one.name,
            one.input_type,
            one.output_type,
            one.client_streaming,
            one.server_streaming,
            _options_of(one, ["deprecated", "idempotency_level", "features"]),
        )
        for one in service.method
    ]
    return Service(service.name, rpcs, _options_of(service, ["deprecated", "features"]))


def _options_of(holder: Any, names: Iterable[str]) -> list[Option]:  # noqa: ANN401
    if not holder.HasField("options"):
        return []
    options = holder.options
    fields = options.DESCRIPTOR.fields_by_name
    found: list[Option] = []
    for name in names:
        field = fields.get(name)
        if field is None:
            continue
        value = getattr(options, name)
        if _is_repeated(field):
            found += [Option(name, _value_of(one, field)) for one in value]
        elif options.HasField(name):
            found.append(Option(name, _value_of(value, field)))
    return found


def _is_repeated(field: Any) -> bool:  # noqa: ANN401
    repeated = getattr(field, "is_repeated", None)  # since protobuf 6.31; `label` is gone in 7
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _value_of(value: Any, field: Any) -> OptionValue:  # noqa: ANN401
    if field.type == field.TYPE_MESSAGE:
        return {one.name: _value_of(inner, one) for one, inner in value.ListFields()}
    if field.type == field.TYPE_ENUM:
        return Literal("ENUM", field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return Literal("BOOLEAN", "true" if value else "false")
    return value if isinstance(value, str) else Literal("NUMBER", str(value))
