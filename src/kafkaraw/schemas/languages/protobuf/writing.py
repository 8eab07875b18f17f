"""Write a `.proto` file: as Confluent's registry stores it, and normalized.

The stored text has the elements of the file in one order and layout (`ProtobufSchemaUtils.toString` of Confluent): of a
message reserved numbers, options, fields, oneofs, groups, extensions, messages and enums. The normalized text
(`normalize=true`) also sorts imports, options, fields by number and reserved numbers, and writes full names of types.
Must not do I/O. Start at `write_proto` and `write_normalized_proto`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

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

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}
_ESCAPED: Final = re.compile(r"""[\a\b\f\n\r\t\v\\'"]""")
_Numbered = TypeVar("_Numbered", Field, Group)
_NUMERIC: Final = SCALARS - {"bool", "string"}


def write_proto(file: File) -> str:
    """Return the text that the registry stores."""
    return _Writer(None, {}, frozenset()).file(file)


def write_normalized_proto(file: File, types: dict[str, Message | Enum | None], extensions: frozenset[str]) -> str:
    """Return the normalized text.

    Args:
        file: the file.
        types: full names of all types of the file and its imports, and the elements of those that are known.
        extensions: full names of the extension fields of the file and its imports.

    Raises:
        SchemaParseError: a type is not there.
    """
    return _Writer(file.package or "", types, extensions).file(file)


def quoted(text: str) -> str:
    """Return a string with quotes and escapes."""
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


def escaped_bytes(text: str) -> str:
    """Return a value of bytes, one character for each, with C's escapes, as descriptors have it."""
    return "".join(
        _ESCAPES.get(one) or (one if " " <= one <= "~" else f"\\{ord(one):03o}") for one in text if ord(one) < 256
    )


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


class _Writer:
    """Writes elements; normalized if `scope` is not None."""

    def __init__(self, scope: str | None, types: dict[str, Message | Enum | None], extensions: frozenset[str]) -> None:
        self._normalized = scope is not None
        self._scope = scope or ""
        self._types = types
        self._extensions = extensions
        self._proto3 = False

    def file(self, file: File) -> str:
        self._proto3 = file.syntax == "proto3"
        parts: list[str] = []
        if file.edition is not None:
            parts.append(f'edition = "{file.edition}";\n')
        elif file.syntax is not None and (not self._normalized or file.syntax == "proto3"):
            parts.append(f'syntax = "{file.syntax}";\n')
        if file.package is not None:
            parts.append(f"package {file.package};\n")
        imports = self._sorted_names([*file.imports, *([] if self._normalized else file.weak_imports)])
        public = self._sorted_names(file.public_imports)
        if imports or public:
            parts.append("\n")
            parts += [f'import "{name}";\n' for name in imports]
            parts += [f'import public "{name}";\n' for name in public]
        self._section(parts, [f"option {self.option(one)};\n" for one in self._options(file.options)], indent=False)
        self._section(parts, self._types_of(file.types), indent=False)
        self._section(parts, [self.extend(one) for one in self._extends(file.extends)], indent=False)
        self._section(parts, [self._service(one) for one in file.services], indent=False)
        return "".join(parts)

    def _sorted_names(self, names: Sequence[str]) -> Sequence[str]:
        return sorted(set(names)) if self._normalized else names

    @staticmethod
    def _section(parts: list[str], texts: Sequence[str], *, indent: bool = True) -> None:
        if texts:
            parts.append("\n")
            parts += [_indented(text) if indent else text for text in texts]

    def _types_of(self, types: Iterable[Message | Enum]) -> list[str]:
        messages = [one for one in types if isinstance(one, Message)]
        if self._normalized:
            messages = [one for one in messages if not one.is_map_entry]
        enums = [one for one in types if isinstance(one, Enum)]
        return [*(self._inside(one.name, partial(self.message, one)) for one in messages), *map(self.enum, enums)]

    def _inside(self, name: str, write: Callable[[], str]) -> str:
        outer = self._scope
        self._scope = f"{outer}.{name}" if outer else name
        try:
            return write()
        finally:
            self._scope = outer

    def message(self, message: Message) -> str:
        parts = [f"message {message.name} {{"]
        self._message_parts(parts, message)
        parts.append("}\n")
        return "".join(parts)

    def _message_parts(self, parts: list[str], message: Message) -> None:
        self._section(parts, [f"reserved {self._range_texts(one)};\n" for one in self._reserved(message.reserved)])
        self._section(parts, [f"option {self.option(one)};\n" for one in self._options(message.options)])
        self._section(parts, [self.field(one) for one in self._by_number(message.fields)])
        oneofs = message.oneofs
        if self._normalized:
            oneofs = sorted(
                (one for one in oneofs if one.fields), key=lambda one: min(each.number for each in one.fields)
            )
        self._section(parts, [self._oneof(one) for one in oneofs])
        self._section(parts, [self._group(one) for one in self._by_number(message.groups)])
        self._section(parts, [self._extensions_text(one) for one in self._extension_ranges(message.extensions)])
        self._section(parts, [self.extend(one) for one in self._extends(message.extends)])
        self._section(parts, self._types_of(message.types))

    def _by_number(self, elements: list[_Numbered]) -> Sequence[_Numbered]:
        return sorted(elements, key=lambda one: one.number) if self._normalized else elements

    def _reserved(self, reserved: list[list[Range]]) -> list[list[Range]]:
        if not self._normalized:
            return reserved
        single = [[one] for ranges in reserved for one in ranges]
        return sorted(single, key=lambda ranges: _range_key(ranges[0]))

    def _extension_ranges(self, extensions: list[Extensions]) -> list[Extensions]:
        if not self._normalized:
            return extensions
        single = [Extensions([one], each.options) for each in extensions for one in each.ranges]
        return sorted(single, key=lambda each: _range_key(each.ranges[0])[0])

    def _range_texts(self, ranges: list[Range]) -> str:
        return ", ".join(map(self._range, ranges))

    def _range(self, one: Range) -> str:
        if isinstance(one, str):
            return f'"{one}"'
        if isinstance(one, int):
            return str(one)
        first, last = one
        if self._normalized and first == last:
            return str(first)
        return f"{first} to {'max' if last >= NUMBER_MAX else last}"

    def _extensions_text(self, extensions: Extensions) -> str:
        return f"extensions {self._range_texts(extensions.ranges)}{self._bracketed(extensions.options)};\n"

    def _oneof(self, oneof: OneOf) -> str:
        parts = [f"oneof {oneof.name} {{"]
        self._section(parts, [f"option {self.option(one)};\n" for one in self._options(oneof.options)])
        self._section(parts, [self.field(one) for one in self._by_number(oneof.fields)])
        self._section(parts, [self._group(one) for one in self._by_number(oneof.groups)])
        parts.append("}\n")
        return "".join(parts)

    def _group(self, group: Group) -> str:
        label = "" if group.label is None else f"{group.label} "
        parts = [f"{label}group {group.message.name} = {group.number} {{"]
        self._inside(group.message.name, lambda: self._group_parts(parts, group.message))
        parts.append("}\n")
        return "".join(parts)

    def _group_parts(self, parts: list[str], message: Message) -> str:
        self._message_parts(parts, message)
        return ""

    def _extends(self, extends: list[Extend]) -> list[Extend]:
        if not self._normalized:
            return extends
        found: dict[str, Extend] = {}
        for one in extends:
            name = self._resolved(one.name)
            known = found.setdefault(name, Extend(name))
            known.fields += one.fields
            known.groups += one.groups
        return list(found.values())

    def extend(self, extend: Extend) -> str:
        parts = [f"extend {extend.name} {{"]
        self._section(parts, [self.field(one) for one in self._by_number(extend.fields)])
        self._section(parts, [self._group(one) for one in self._by_number(extend.groups)])
        parts.append("}\n")
        return "".join(parts)

    def field(self, field: Field) -> str:
        label, type_ = field.label, field.type
        if self._normalized:
            label, type_ = self._normal_type(field)
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", _default_value(type_, field.default)))
        if field.json_name is not None:
            options.append(Option("json_name", field.json_name))
        start = "" if label is None else f"{label} "
        return f"{start}{type_} {field.name} = {field.number}{self._bracketed(options)};\n"

    def _normal_type(self, field: Field) -> tuple[str | None, str]:
        types = field.map_types
        if types is None and field.type not in SCALARS:
            name = self._resolved(field.type)
            entry = self._types.get(name[1:])
            if not isinstance(entry, Message) or not entry.is_map_entry:
                return field.label, name
            types = _entry_types(entry)
        if types is None:
            return field.label, field.type
        key, value = types
        return None, f"map<{key}, {value if value in SCALARS else self._resolved(value)}>"

    def _resolved(self, name: str) -> str:
        full = resolved_name(name, self._scope, self._types)
        if full is None:
            raise SchemaParseError(f"the type {name!r} is not defined; define it, or import the file that does")
        return f".{full}"

    def enum(self, enum: Enum) -> str:
        parts = [f"enum {enum.name} {{"]
        self._section(parts, [f"reserved {self._range_texts(one)};\n" for one in self._reserved(enum.reserved)])
        if not enum.reserved and (enum.options or enum.values):
            parts.append("\n")
        parts += [_indented(f"option {self.option(one)};\n") for one in self._options(enum.options)]
        values = enum.values
        if self._normalized:
            # Confluent sorts by number alone; but proto3 does not accept an enum whose first constant is not 0.
            values = sorted(values, key=lambda one: (self._proto3 and one.number != 0, one.number, one.name))
        parts += [_indented(self._value(one)) for one in values]
        parts.append("}\n")
        return "".join(parts)

    def _value(self, value: EnumValue) -> str:
        return f"{value.name} = {value.number}{self._bracketed(value.options)};\n"

    def _service(self, service: Service) -> str:
        parts = [f"service {service.name} {{"]
        self._section(parts, [f"option {self.option(one)};\n" for one in self._options(service.options)])
        self._section(parts, [self._rpc(one) for one in service.rpcs])
        parts.append("}\n")
        return "".join(parts)

    def _rpc(self, rpc: Rpc) -> str:
        request, response = rpc.request, rpc.response
        if self._normalized:
            request, response = self._resolved(request), self._resolved(response)
        text = (
            f"rpc {rpc.name} ({'stream ' if rpc.streams_request else ''}{request}) "
            f"returns ({'stream ' if rpc.streams_response else ''}{response})"
        )
        options = "".join(_indented(f"option {self.option(one)};\n") for one in self._options(rpc.options))
        return f"{text} {{\n{options}}};\n" if options else f"{text};\n"

    # Options.

    def _options(self, options: list[Option]) -> list[Option]:
        if not self._normalized or not options:
            return options
        resolved = [self._normal_option(one) for one in options]
        merged: dict[str, list[Option]] = {}
        for one in sorted(resolved, key=lambda one: one.name):
            known = merged.setdefault(one.name, [])
            last = known[-1] if known else None
            if one.is_extension and last is not None and isinstance(last.value, dict) and isinstance(one.value, dict):
                known[-1] = Option(one.name, _merged(last.value, one.value), is_extension=True)
            else:
                known.append(one)
        return [one for each in merged.values() for one in each]

    def _normal_option(self, option: Option) -> Option:
        if not option.is_extension:
            return option
        name = resolved_name(option.name, self._scope, self._extensions) or option.name
        return Option(name, _as_map(option.value), is_extension=True)

    def option(self, option: Option) -> str:
        name = f"({option.name})" if option.is_extension else option.name
        value = option.value
        if isinstance(value, Option):
            return f"{name}.{self.option(value)}"
        if isinstance(value, list):
            return f"{name} = {self._listed(value)}"
        return f"{name} = {self._value_text(value)}"

    def _bracketed(self, options: list[Option]) -> str:
        options = self._options(options)
        return f" {self._listed(options)}" if options else ""

    def _listed(self, values: Sequence[OptionValue]) -> str:
        if len(values) == 1:
            return f"[{self._value_text(values[0])}]"
        return "[\n" + "".join(_indented(text) for text in _with_commas(map(self._value_text, values))) + "]"

    def _value_text(self, value: OptionValue) -> str:
        if isinstance(value, Option):
            return self.option(value)
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, Literal):
            return _normal_number(value.text) if self._normalized and value.kind == "NUMBER" else value.text
        if isinstance(value, dict):
            items = [f"{name}: {self._value_text(one)}" for name, one in self._map_items(value)]
            return "{\n" + "".join(_indented(text) for text in _with_commas(items)) + "}"
        if self._normalized and len(value) == 1:
            return self._value_text(value[0])
        return "[\n" + "".join(_indented(text) for text in _with_commas(map(self._value_text, value))) + "]"

    def _map_items(self, value: dict[str, OptionValue]) -> list[tuple[str, OptionValue]]:
        if not self._normalized:
            return list(value.items())
        found: dict[str, OptionValue] = {}
        for name, one in value.items():
            if isinstance(one, list) and not one:
                continue
            if name.startswith("["):
                full = resolved_name(name[1:-1], self._scope, self._extensions)
                name = f"[{full}]" if full else name
            found[name] = one
        return sorted(found.items())


def _with_commas(texts: Iterable[str]) -> list[str]:
    listed = list(texts)
    return [f"{text}," for text in listed[:-1]] + listed[-1:]


def _range_key(one: Range) -> tuple[int, str]:
    if isinstance(one, str):
        return (1 << 31) - 1, one
    return (one, str(one)) if isinstance(one, int) else (one[0], f"{one[0]}..{one[1]}")


def _default_value(type_: str, text: str) -> OptionValue:
    if type_ == "string":
        return text
    if type_ == "bytes":  # Confluent writes them without quotes, which nothing can read
        return Literal("ENUM", f'"{escaped_bytes(text)}"')
    return Literal("BOOLEAN" if type_ == "bool" else "NUMBER" if type_ in _NUMERIC else "ENUM", text)


def _entry_types(entry: Message) -> tuple[str, str]:
    types = {one.name: one.type for one in entry.fields}
    return types.get("key", "string"), types.get("value", "string")


def _as_map(value: OptionValue) -> OptionValue:
    """Return `(a).b = 1` as `(a) = {b: 1}`."""
    return {value.name: _as_map(value.value)} if isinstance(value, Option) else value


def _merged(one: dict[str, OptionValue], other: dict[str, OptionValue]) -> dict[str, OptionValue]:
    found = dict(one)
    for name, value in other.items():
        if name not in found:
            found[name] = value
            continue
        known = found[name]
        values = [*(known if isinstance(known, list) else [known])]
        for each in value if isinstance(value, list) else [value]:
            if each not in values:
                values.append(each)
        found[name] = values
    return found


def _normal_number(text: str) -> str:
    try:
        number = float(text) if any(one in text for one in ".eE") and "x" not in text.lower() else int(text, 0)
    except ValueError:
        return text
    if isinstance(number, int):
        return str(number)
    shown = f"{number:.3f}".rstrip("0").rstrip(".")  # Java's DecimalFormat has at most 3 digits of a fraction
    return shown or "0"
