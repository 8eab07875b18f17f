"""Read the text of a `.proto` file: proto2, proto3 and editions.

A reader of our own, because a registry must read texts from memory, in bounded time, and must keep what a compiler
drops: Confluent's registry stores the text that it makes of the elements as they are written (`writing`). The grammar
is the one of protobuf.dev; what Square's Wire, which Confluent uses, accepts beyond it is accepted here, too.
Must not do I/O. Start at `read_proto`.
"""

from __future__ import annotations

import re
from typing import Final

from kafkaraw.schemas.errors import SchemaParseError
from kafkaraw.schemas.languages.limits import DEPTH_MAX
from kafkaraw.schemas.languages.protobuf.elements import (
    NUMBER_MAX,
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
)

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s++|//[^\n]*+|/\*.*?\*/)
  | (?P<name>\.?[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+)
  | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]++|(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)[fF]?+|-[ \t]*+(?:inf|nan)\b)
  | (?P<string>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
  | (?P<symbol>[{}\[\]()<>=;:,./-])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LABELS: Final = frozenset(("optional", "required", "repeated"))
_END: Final = ("end", "the end of the text", -1)
_Token = tuple[str, str, int]


def read_proto(text: str) -> File:
    """Return the elements of a `.proto` file.

    Raises:
        SchemaParseError: the text is wrong (with line and column), or nested too deep.
    """
    return _Reader(text).file()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(text, at, f"unexpected {text[at]!r}; fix the text")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, match[0], at))
        at = match.end()
    return found


def _error(text: str, at: int, message: str) -> SchemaParseError:
    at = len(text) if at < 0 else at
    line = text.count("\n", 0, at) + 1
    return SchemaParseError(message, line=line, column=at - text.rfind("\n", 0, at))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    # Tokens.

    def _peek(self, ahead: int = 0) -> _Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _END

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def _fail(self, expected: str, token: _Token) -> SchemaParseError:
        shown = token[1] if len(token[1]) <= 40 else token[1][:37] + "..."
        return _error(self._text, token[2], f"expected {expected}, not {shown}; fix the text")

    def _take(self, symbol: str) -> bool:
        if self._peek()[1] == symbol and self._peek()[0] != "string":
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        token = self._next()
        if token[1] != symbol or token[0] == "string":
            raise self._fail(repr(symbol), token)

    def _name(self, what: str, *, dots: bool = False) -> str:
        token = self._next()
        if token[0] != "name" or (not dots and "." in token[1]):
            raise self._fail(what, token)
        return token[1]

    def _integer(self, what: str) -> int:
        token = self._next()
        if token[0] != "number" or len(token[1]) > 20:
            raise self._fail(what, token)
        text = token[1].lower()
        try:
            if text.lstrip("+-").startswith("0") and text.lstrip("+-").isdigit():
                return int(text, 8)
            return int(text, 16 if "x" in text else 10)
        except ValueError:
            raise self._fail(what, token) from None

    def _string(self) -> str:
        token = self._next()
        if token[0] != "string":
            raise self._fail("a string", token)
        parts = [unescaped(token[1][1:-1])]
        while self._peek()[0] == "string":
            parts.append(unescaped(self._next()[1][1:-1]))
        return "".join(parts)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX // 2:
            raise _error(
                self._text,
                self._peek()[2],
                f"the schema is nested deeper than {DEPTH_MAX // 2} levels; make it flatter",
            )

    # Files.

    def file(self) -> File:
        file = File()
        while self._peek() is not _END:
            if self._take(";"):
                continue
            token = self._peek()
            word = self._name("a declaration", dots=True)
            if word in {"syntax", "edition"}:
                self._expect("=")
                self._read_syntax(file, word, token)
            elif word == "package":
                file.package = self._name("the name of the package", dots=True)
                self._expect(";")
            elif word == "import":
                kind = self._next()[1] if self._peek()[1] in {"public", "weak", "option"} else ""
                imports = {"public": file.public_imports, "weak": file.weak_imports}.get(kind, file.imports)
                imports.append(self._string())
                self._expect(";")
            elif word == "option":
                file.options.append(self._option_statement())
            elif word == "message":
                file.types.append(self._message())
            elif word == "enum":
                file.types.append(self._enum())
            elif word == "extend":
                file.extends.append(self._extend())
            elif word == "service":
                file.services.append(self._service())
            else:
                raise self._fail("syntax, package, import, option, message, enum, extend or service", token)
        return file

    def _read_syntax(self, file: File, word: str, token: _Token) -> None:
        value = self._string()
        self._expect(";")
        if word == "syntax" and value in {"proto2", "proto3"}:
            file.syntax = value
        elif word == "edition" and value in {"2023", "2024"}:
            file.edition = value
        else:
            raise _error(
                self._text,
                token[2],
                f"{word} {value[:40]!r} is not known; use proto2 or proto3, or edition 2023 or 2024",
            )

    # Messages.

    def _message(self) -> Message:
        message = Message(self._name("the name of the message"))
        self._message_body(message)
        return message

    def _message_body(self, message: Message) -> None:
        self._enter()
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            self._message_part(message)
        self._depth -= 1

    def _message_part(self, message: Message) -> None:
        kind, word, _ = self._peek()
        following = self._peek(1)
        # A word is a declaration if what follows is that of one: `message message = 1;` is a field.
        declares = kind == "name" and self._peek(2)[1] != "="
        if word == "message" and declares:
            self._at += 1
            message.types.append(self._message())
        elif word == "enum" and declares:
            self._at += 1
            message.types.append(self._enum())
        elif word == "oneof" and declares:
            self._at += 1
            message.oneofs.append(self._oneof())
        elif word == "extend" and declares:
            self._at += 1
            message.extends.append(self._extend())
        elif word == "option" and (following[0] == "name" or following[1] == "("):
            self._at += 1
            message.options.append(self._option_statement())
        elif word == "reserved" and (following[0] in {"number", "string"} or self._peek(2)[1] in {";", ","}):
            self._at += 1
            message.reserved.append(self._ranges(names=True))
            self._expect(";")
        elif word == "extensions" and following[0] == "number":
            self._at += 1
            message.extensions.append(Extensions(self._ranges(names=False), self._field_options()))
            self._expect(";")
        else:
            found = self._field_or_group()
            if isinstance(found, Group):
                message.groups.append(found)
            else:
                message.fields.append(found)

    def _field_or_group(self) -> Field | Group:
        label = None
        if self._peek()[1] in _LABELS and self._peek(1)[0] == "name" and self._peek(2)[1] != "=":
            label = self._next()[1]
        type_ = self._type()
        name = self._name("the name of a field")
        self._expect("=")
        number = self._integer("the number of the field")
        options = self._field_options()
        if type_ == "group" and self._peek()[1] == "{":
            message = Message(name)
            self._message_body(message)
            message.options = [*options, *message.options]
            return Group(label, number, message)
        self._expect(";")
        return _field(label, type_, name, number, options)

    def _type(self) -> str:
        name = self._name("a type", dots=True)
        if name != "map" or not self._take("<"):
            return name
        key = self._name("the type of the map's keys", dots=True)
        self._expect(",")
        value = self._name("the type of the map's values", dots=True)
        self._expect(">")
        return f"map<{key}, {value}>"

    def _oneof(self) -> OneOf:
        oneof = OneOf(self._name("the name of the oneof"))
        self._enter()
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            if self._peek()[1] == "option" and self._peek(2)[1] != "=":
                self._at += 1
                oneof.options.append(self._option_statement())
                continue
            if self._peek()[1] == "option" and self._peek(1)[0] == "name" and self._peek(3)[0] != "number":
                self._at += 1
                oneof.options.append(self._option_statement())
                continue
            found = self._field_or_group()
            if isinstance(found, Group):
                oneof.groups.append(found)
            else:
                oneof.fields.append(found)
        self._depth -= 1
        return oneof

    def _extend(self) -> Extend:
        extend = Extend(self._name("the name of the message to extend", dots=True))
        self._enter()
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            found = self._field_or_group()
            if isinstance(found, Group):
                extend.groups.append(found)
            else:
                extend.fields.append(found)
        self._depth -= 1
        return extend

    def _ranges(self, *, names: bool) -> list[Range]:
        ranges: list[Range] = []
        while True:
            if names and self._peek()[0] == "string":
                ranges.append(self._string())
            elif names and self._peek()[0] == "name":
                ranges.append(self._name("a reserved name"))
            else:
                first = self._integer("a number or a range")
                if self._take("to"):
                    last = NUMBER_MAX if self._take("max") else self._integer("the end of the range")
                    ranges.append((first, last))
                else:
                    ranges.append(first)
            if not self._take(","):
                return ranges

    def _enum(self) -> Enum:
        enum = Enum(self._name("the name of the enum"))
        self._enter()
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            word = self._peek()[1]
            if word == "option" and self._peek(1)[1] != "=":
                self._at += 1
                enum.options.append(self._option_statement())
            elif word == "reserved" and self._peek(1)[1] != "=":
                self._at += 1
                enum.reserved.append(self._ranges(names=True))
                self._expect(";")
            else:
                name = self._name("the name of a constant")
                self._expect("=")
                number = self._integer("the number of the constant")
                enum.values.append(EnumValue(name, number, self._field_options()))
                self._expect(";")
        self._depth -= 1
        return enum

    def _service(self) -> Service:
        service = Service(self._name("the name of the service"))
        self._expect("{")
        while not self._take("}"):
            if self._take(";"):
                continue
            token = self._peek()
            word = self._name("rpc or option")
            if word == "option":
                service.options.append(self._option_statement())
            elif word == "rpc":
                service.rpcs.append(self._rpc())
            else:
                raise self._fail("rpc or option", token)
        return service

    def _rpc(self) -> Rpc:
        name = self._name("the name of the method")
        streams_request, request = self._rpc_type()
        if self._name("returns") != "returns":
            raise self._fail("returns", self._peek(-1))
        streams_response, response = self._rpc_type()
        rpc = Rpc(name, request, response, streams_request, streams_response)
        if self._take("{"):
            while not self._take("}"):
                if not self._take(";"):
                    if self._name("option") != "option":
                        raise self._fail("option", self._peek(-1))
                    rpc.options.append(self._option_statement())
            self._take(";")
        else:
            self._expect(";")
        return rpc

    def _rpc_type(self) -> tuple[bool, str]:
        self._expect("(")
        streams = self._peek()[1] == "stream" and self._peek(1)[0] == "name"
        if streams:
            self._at += 1
        name = self._name("the name of a message", dots=True)
        self._expect(")")
        return streams, name

    # Options.

    def _option_statement(self) -> Option:
        option = self._option()
        self._expect(";")
        return option

    def _field_options(self) -> list[Option]:
        options: list[Option] = []
        if self._take("["):
            while not self._take("]"):
                options.append(self._option())
                if not self._take(",") and self._peek()[1] != "]":
                    raise self._fail("',' or ']'", self._peek())
        return options

    def _option(self) -> Option:
        is_extension = self._take("(")
        name = self._name("the name of an option", dots=True)
        path: list[str] = []
        if is_extension:
            self._expect(")")
        elif "." in name:
            name, *path = name.split(".")
        while self._peek()[1] in {".", "("} or (self._peek()[0] == "name" and self._peek()[1].startswith(".")):
            if self._take("("):
                path.append(f"({self._name('the name of an extension', dots=True)})")
                self._expect(")")
            elif not self._take("."):
                path += self._name("a part of the option's name", dots=True)[1:].split(".")
        self._expect("=")
        if len(path) > DEPTH_MAX // 2:
            raise _error(
                self._text, self._peek()[2], f"an option's name has more than {DEPTH_MAX // 2} parts; shorten it"
            )
        value = self._option_value()
        for part in reversed(path):
            value = Option(part.strip("()"), value, part.startswith("("))
        return Option(name, value, is_extension)

    def _option_value(self) -> OptionValue:
        kind, word, _ = self._peek()
        if kind == "string":
            return self._string()
        if word == "{":
            return self._option_map("}")
        if word == "<":
            return self._option_map(">")
        if word == "[":
            return self._option_list()
        token = self._next()
        if kind == "number":
            return Literal("NUMBER", word)
        if kind != "name":
            raise self._fail("the value of an option", token)
        return Literal("BOOLEAN" if word in {"true", "false"} else "ENUM", word)

    def _option_list(self) -> list[OptionValue]:
        self._enter()
        self._expect("[")
        found: list[OptionValue] = []
        while not self._take("]"):
            found.append(self._option_value())
            if not self._take(",") and self._peek()[1] != "]":
                raise self._fail("',' or ']'", self._peek())
        self._depth -= 1
        return found

    def _option_map(self, end: str) -> dict[str, OptionValue]:
        self._enter()
        self._at += 1
        found: dict[str, OptionValue] = {}
        while not self._take(end):
            if self._take("["):
                name = self._name("the name of an extension or a URL", dots=True)
                while self._take("/"):
                    name += "/" + self._name("the rest of the URL", dots=True)
                self._expect("]")
                name = f"[{name}]"
            else:
                name = self._name("the name of a field", dots=True)
            if not self._take(":") and self._peek()[1] not in {"{", "<"}:
                raise self._fail("':'", self._peek())
            value = self._option_value()
            known = found.get(name)
            if name not in found:
                found[name] = value
            elif isinstance(known, list):
                known.append(value)
            else:
                found[name] = [known, value]
            if not self._take(","):
                self._take(";")
        self._depth -= 1
        return found


def _field(label: str | None, type_: str, name: str, number: int, options: list[Option]) -> Field:
    """Return a field; `default` and `json_name` are not among its options."""
    field = Field(label, type_, name, number)
    for option in options:
        if option.name == "default" and not option.is_extension:
            field.default = option.value.text if isinstance(option.value, Literal) else str(option.value)
        elif option.name == "json_name" and not option.is_extension and isinstance(option.value, str):
            field.json_name = option.value
        else:
            field.options.append(option)
    return field


def unescaped(text: str) -> str:
    """Return a string without its escapes."""
    if "\\" not in text:
        return text

    def character(found: re.Match[str]) -> str:
        hexadecimal, octal, short, long, other = found.groups()
        if hexadecimal or short or long:
            code = int(hexadecimal or short or long, 16)
            return chr(code) if code <= 0x10FFFF else "\ufffd"
        return chr(int(octal, 8)) if octal else _ESCAPES.get(other, other)

    return _ESCAPE.sub(character, text)
