"""Turn (message class, version) into flat encode and decode functions.

The source is generated on first use, compiled, and kept in `linecache`, so a traceback or a debugger shows it;
`source_of` prints it. Generated code is optimistic: it keeps no field path and lets Python's own errors out. The
callers in `codec` turn those into a `ProtocolError` by walking the message once more with `annotate`.
This module must not read sockets, frames or headers. Start at `compile_decoder` and `compile_encoder`.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from kafkaraw.errors import UnsupportedVersionError
from kafkaraw.protocol.declare import (
    UNKNOWN_TAGGED_FIELDS,
    ArrayOf,
    Direction,
    FieldSpec,
    Kind,
    Spec,
    StructOf,
    spec_of,
)
from kafkaraw.protocol.types import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    UUID_SIZE,
    FileSlice,
    Primitive,
    RecordBytes,
    Uuid,
    decode_uvarint,
    encode_uvarint,
)

Decoder: TypeAlias = Callable[[Any, int], tuple[Any, int]]
Encoder: TypeAlias = Callable[[Any, Callable[[Any], None]], None]

# Arrays of fewer numbers are read and written by a ready-made Struct; longer ones build a format.
SMALL_ARRAY = 16
NULL_STRUCT = b"\xff"
NULL_TAGGED_STRUCT = b"\0"
SINGLE_BYTES = tuple(bytes([i]) for i in range(128))

_DECODERS: dict[tuple[type[object], int], Decoder] = {}
_ENCODERS: dict[tuple[type[object], int], Encoder] = {}
_MAKERS: dict[type[object], Callable[[], object]] = {}  # each makes an object whose fields are not set yet


class CodecError(ValueError):
    """Raised by generated code; always translated before it leaves the package."""


def uvarint(value: int) -> bytes:
    """An unsigned varint, from a table when it is one byte."""
    return SINGLE_BYTES[value] if value < 128 else encode_uvarint(value)


def write_tags(write: Callable[[Any], None], tags: dict[int, bytes]) -> None:
    """Write a tag section: ascending, each with its byte length (KIP-482)."""
    write(uvarint(len(tags)))
    for tag in sorted(tags):
        value = tags[tag]
        write(encode_uvarint(tag))
        write(uvarint(len(value)))
        write(value)


def read_tag(buffer: bytes | memoryview, at: int, size: int) -> tuple[int, int, int]:
    """Read a tag and its length: tag, position of the value, position after it."""
    tag, at = decode_uvarint(buffer, at)
    length, at = decode_uvarint(buffer, at)
    if at + length > size:
        raise CodecError("tagged field leaves the message")
    return tag, at, at + length


def read_numbers(buffer: bytes | memoryview, at: int, count: int, fmt: str) -> tuple[list[Any], int]:
    """Read a long array of fixed-size values: the values, and the position after them."""
    size = count * struct.calcsize(">" + fmt)
    if not 0 <= size <= len(buffer) - at:
        raise CodecError("more elements than bytes, or null where it is not allowed")
    return [*struct.unpack_from(f">{count}{fmt}", buffer, at)], at + size


def check_versions(spec: Spec, version: int) -> None:
    """Refuse a version that is not declared.

    Raises:
        UnsupportedVersionError: it is not.
    """
    declared = spec.header.versions
    if not declared.includes(version):
        raise UnsupportedVersionError(f"{spec.name} has versions {declared}, not {version}")


def compile_decoder(cls: type[object], version: int) -> Decoder:
    """Make `decode(buffer, at) -> (message, position after it)` for one version of a message.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    decoder = _DECODERS.get((cls, version))
    if decoder is None:
        decoder = _DECODERS[cls, version] = _DecoderWriter(cls, version).build("decode")
    return decoder


def compile_encoder(cls: type[object], version: int) -> Encoder:
    """Make `encode(message, write)`, which calls `write` with pieces of bytes, for one version of a message.

    Raises:
        UnsupportedVersionError: the class does not declare that version.
    """
    encoder = _ENCODERS.get((cls, version))
    if encoder is None:
        encoder = _ENCODERS[cls, version] = _EncoderWriter(cls, version).build("encode")
    return encoder


def source_of(cls: type[object], version: int) -> str:
    """The generated source of both functions of one version, for people to read."""
    return _DecoderWriter(cls, version).source() + "\n\n" + _EncoderWriter(cls, version).source()


def size_min(kind: Kind, version: int, flexible: bool) -> int:
    """The fewest bytes that a non-null value of `kind` takes: the bound that a claimed array length is held to."""
    if isinstance(kind, Primitive):
        return kind.size or (1 if flexible else 2 if kind is STRING else 4)
    if isinstance(kind, ArrayOf):
        return 1 if flexible else 4
    return struct_size_min(spec_of(kind.cls), version, flexible)


def struct_size_min(spec: Spec, version: int, flexible: bool) -> int:
    """The same for a structure."""
    total = 1 if flexible else 0
    for field in spec.fields:
        if field.versions.includes(version) and not field.is_tagged(version):
            nullable_struct = isinstance(field.kind, StructOf) and field.nullable.includes(version)
            total += 1 if nullable_struct else size_min(field.kind, version, flexible)
    return total


class _Writer:
    """Lines of source with indentation, and the constants that they refer to."""

    kind = ""
    signature = ""

    def __init__(self, cls: type[object], version: int) -> None:
        self.spec = spec_of(cls)
        check_versions(self.spec, version)
        self.version = version
        self.flexible = self.spec.header.flexible.includes(version)
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, object] = {}
        self.counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, stem: str, value: object) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = stem if stem not in self.names else self.fresh(stem + "_")
        self.names[name] = value
        return name

    def struct_method(self, formats: str, method: str) -> str:
        name = f"{method}_{formats.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def fields(self, spec: Spec) -> tuple[list[FieldSpec], list[FieldSpec], list[FieldSpec]]:
        """The fields that are plain, tagged and absent in this version."""
        plain: list[FieldSpec] = []
        tagged: list[FieldSpec] = []
        absent: list[FieldSpec] = []
        for field in spec.fields:
            if not field.versions.includes(self.version):
                absent.append(field)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                plain.append(field)
        return plain, sorted(tagged, key=lambda field: field.tag or 0), absent

    def body(self) -> None:
        raise NotImplementedError

    def source(self) -> str:
        if not self.lines:
            self.body()
        return "\n".join([self.signature, *self.lines]) + "\n"

    def build(self, function: str) -> Any:  # noqa: ANN401 -- a Decoder or an Encoder
        text = self.source()
        filename = f"<kafkaraw {self.spec.name} v{self.version} {self.kind}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        namespace: dict[str, Any] = dict(self.names)
        exec(compile(text, filename, "exec"), namespace)
        return namespace[function]


def _has_records(spec: Spec) -> bool:
    def holds(kind: Kind) -> bool:
        if isinstance(kind, ArrayOf):
            return holds(kind.element)
        return kind is RECORDS if isinstance(kind, Primitive) else _has_records(spec_of(kind.cls))

    return any(holds(field.kind) for field in spec.fields)


class _DecoderWriter(_Writer):
    kind = "decoder"
    signature = "def decode(buf, pos):"

    def body(self) -> None:
        self.names.update(CodecError=CodecError, varint=decode_uvarint, read_tag=read_tag, read_numbers=read_numbers)
        # Slices of bytes are cheapest, but records must stay views into the frame: no copy of those.
        self.as_bytes = not _has_records(self.spec)
        self.run: list[tuple[str, str]] = []
        if self.as_bytes:
            self.emit("if type(buf) is not bytes: buf = bytes(buf)")
        else:
            self.emit("if type(buf) is not memoryview: buf = memoryview(buf)")
        self.emit("size = len(buf)")
        self.structure(self.spec, "message")
        self.emit("return message, pos")

    def structure(self, spec: Spec, target: str) -> None:
        """Emit the decoding of one structure into a new object named `target`."""
        plain, tagged, absent = self.fields(spec)
        self.blank(spec, target, [*absent, *tagged])
        for field in plain:
            self.value(field.kind, f"{target}.{field.name}", field.nullable.includes(self.version))
        if self.flexible:
            self.tags(target, tagged)
        else:
            self.flush()

    def blank(self, spec: Spec, target: str, fields: Sequence[FieldSpec]) -> None:
        """Emit a new object named `target` with `fields` at their defaults, without the cost of its `__init__`."""
        new = self.constant(f"new_{spec.name}", _MAKERS.setdefault(spec.cls, partial(object.__new__, spec.cls)))
        self.emit(f"{target} = {new}()")
        for field in fields:
            if isinstance(field.kind, StructOf) and field.default is not None:
                inner = self.fresh("struct")
                inner_spec = spec_of(field.kind.cls)
                self.blank(inner_spec, inner, inner_spec.fields)
                self.emit(f"{target}.{field.name} = {inner}")
            else:
                self.emit(f"{target}.{field.name} = {self.default(field)}")
        self.emit(f"{target}.{UNKNOWN_TAGGED_FIELDS} = None")

    def default(self, field: FieldSpec) -> str:
        if field.default is None:
            return "None"
        if isinstance(field.kind, ArrayOf):
            return "[]"
        if isinstance(field.default, Uuid):
            return self.constant("zero_uuid", field.default)
        return repr(field.default)

    def tags(self, target: str, tagged: list[FieldSpec]) -> None:
        count, tag, end = self.fresh("count"), self.fresh("tag"), self.fresh("end")
        self.byte(count)
        self.emit(f"if {count}:")
        self.indent += 1
        self.emit(f"{count}, pos = varint(buf, pos - 1)")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        self.emit(f"{tag}, pos, {end} = read_tag(buf, pos, size)")
        for i, field in enumerate(tagged):
            self.emit(f"{'el' if i else ''}if {tag} == {field.tag}:")
            self.indent += 1
            self.value(field.kind, f"{target}.{field.name}", field.nullable.includes(self.version), tagged=True)
            self.flush()
            self.emit(f"if pos != {end}: raise CodecError('tagged field has another length than it says')")
            self.indent -= 1
        unknown = f"{target}.{UNKNOWN_TAGGED_FIELDS}"
        if tagged:
            self.emit("else:")
            self.indent += 1
        self.emit(f"if {unknown} is None: {unknown} = {{}}")
        self.emit(f"{unknown}[{tag}] = bytes(buf[pos:{end}])")
        self.emit(f"pos = {end}")
        self.indent -= 3 if tagged else 2

    def flush(self, *extra: tuple[str, str]) -> None:
        """Emit one `unpack_from` for the fixed-size fields gathered so far."""
        run = [*self.run, *extra]
        self.run = []
        if not run:
            return
        formats = "".join(fmt for _, fmt in run)
        unpack = self.struct_method(formats, "unpack_from")
        self.emit(
            f"{', '.join(name for name, _ in run)}, = {unpack}(buf, pos); pos += {struct.calcsize('>' + formats)}"
        )
        for name, fmt in run:
            if fmt == UUID.format:
                self.emit(f"{name} = {self.constant('Uuid', Uuid)}({name})")

    def byte(self, name: str) -> None:
        """Emit reading one byte, which is a whole varint mostly, together with the fixed-size fields before it."""
        if self.run:
            self.flush((name, "B"))
        else:
            self.emit(f"{name} = buf[pos]; pos += 1")

    def value(self, kind: Kind, target: str, nullable: bool, tagged: bool = False) -> None:
        if isinstance(kind, StructOf):
            self.nested(kind, target, nullable, tagged)
        elif isinstance(kind, ArrayOf):
            self.array(kind, target, nullable)
        elif kind.size:
            self.run.append((target, kind.format))
        else:
            self.text(kind, target, nullable)

    def nested(self, kind: StructOf, target: str, nullable: bool, tagged: bool) -> None:
        self.flush()
        inner = self.fresh("struct")
        if nullable:
            present = self.fresh("present")
            self.flush((present, "b"))
            # Kafka's generator marks a null structure by -1, but by an unsigned 0 when it is a tagged field.
            self.emit(f"if {present} < {int(tagged)}: {target} = None")
            self.emit("else:")
            self.indent += 1
        self.structure(spec_of(kind.cls), inner)
        self.emit(f"{target} = {inner}")
        self.indent -= nullable

    def length(self, fmt: str) -> str:
        """Emit reading a length; -1 means null in both forms."""
        n = self.fresh("n")
        if not self.flexible:
            self.flush((n, fmt))
            return n
        self.byte(n)
        self.emit(f"if {n} > 127: {n}, pos = varint(buf, pos - 1)")
        self.emit(f"{n} -= 1")
        return n

    def null(self, n: str, target: str, nullable: bool) -> None:
        """Emit the branch for a negative length where it may be null; what follows is emitted in its `else`."""
        if not nullable:
            return
        self.emit(f"if {n} < 0:")
        if not self.flexible:
            self.emit(f"    if {n} != -1: raise CodecError('negative length')")
        self.emit(f"    {target} = None")
        self.emit("else:")
        self.indent += 1

    def text(self, kind: Primitive, target: str, nullable: bool) -> None:
        n = self.length("h" if kind is STRING else "i")
        self.null(n, target, nullable)
        self.emit(f"{n} += pos")
        self.emit(f"if not pos <= {n} <= size: raise CodecError('length leaves the message, or null is not allowed')")
        piece = f"buf[pos:{n}]"
        if kind is STRING:
            piece = f"{piece}.decode()" if self.as_bytes else f"str({piece}, 'utf-8')"
        elif kind is BYTES and not self.as_bytes:
            piece = f"bytes({piece})"
        self.emit(f"{target} = {piece}; pos = {n}")
        self.indent -= nullable

    def array(self, kind: ArrayOf, target: str, nullable: bool) -> None:
        element = kind.element
        if isinstance(element, Primitive) and element.size and element is not UUID:
            self.numbers(element, target, nullable)
            return
        n = self.length("i")
        self.null(n, target, nullable)
        bound = max(1, size_min(element, self.version, self.flexible))
        self.emit(f"if not 0 <= {n} * {bound} <= size - pos: raise CodecError('more elements than bytes, or null')")
        self.elements(element, target, n)
        self.indent -= nullable

    def numbers(self, element: Primitive, target: str, nullable: bool) -> None:
        """Emit reading an array of fixed-size values: short ones first, as most are, by what is on the wire."""
        n, zero = self.fresh("n"), int(self.flexible)  # zero: the length on the wire of an empty array
        if self.flexible:
            self.byte(n)
        else:
            self.flush((n, "i"))
        table = f"unpack_array_{element.name}"
        self.names[table] = (None,) * zero + tuple(
            struct.Struct(f">{i}{element.format}").unpack_from for i in range(SMALL_ARRAY)
        )
        size = f"{n} * {element.size}" if not zero else f"({n} - 1) * {element.size}"
        self.emit(f"if {zero} < {n} < {SMALL_ARRAY}: {target} = [*{table}[{n}](buf, pos)]; pos += {size}")
        self.emit(f"elif {n} == {zero}: {target} = []")
        if nullable:
            self.emit(f"elif {n} == {zero - 1}: {target} = None")
        self.emit("else:")
        self.indent += 1
        if self.flexible:
            self.emit(f"if {n} > 127: {n}, pos = varint(buf, pos - 1)")
        self.emit(f"{target}, pos = read_numbers(buf, pos, {n} - {zero}, {element.format!r})")
        self.indent -= 1

    def elements(self, element: Kind, target: str, n: str) -> None:
        items, append, item = self.fresh("items"), self.fresh("append"), self.fresh("item")
        self.emit(f"{items} = []; {append} = {items}.append")
        self.emit(f"for _ in range({n}):")
        self.indent += 1
        if isinstance(element, StructOf):
            self.structure(spec_of(element.cls), item)
        else:
            self.value(element, item, nullable=False)
            self.flush()
        self.emit(f"{append}({item})")
        self.indent -= 1
        self.emit(f"{target} = {items}")


class _EncoderWriter(_Writer):
    kind = "encoder"
    signature = "def encode(message, write):"

    def body(self) -> None:
        self.names.update(CodecError=CodecError, uvarint=uvarint, write_tags=write_tags)
        self.run: list[tuple[str, str]] = []
        self.structure(self.spec, "message")
        if not self.lines:
            self.emit("pass")

    def structure(self, spec: Spec, source: str, write: str = "write") -> None:
        """Emit the encoding of the structure in variable `source`."""
        plain, tagged, absent = self.fields(spec)
        for field in absent:
            if not field.ignorable:
                self.emit(f"if {self.differs(field, source)}: raise CodecError({field.name!r})")
        for field in plain:
            self.value(field.kind, f"{source}.{field.name}", field.nullable.includes(self.version), write)
        self.flush(write)
        if self.flexible:
            self.tags(source, tagged, write)
        elif spec.header.direction is not Direction.STRUCT:
            self.emit(f"if {source}.{UNKNOWN_TAGGED_FIELDS}: raise CodecError('tags need a flexible version')")

    def differs(self, field: FieldSpec, source: str) -> str:
        """An expression that tells whether a field is not at its default."""
        value = f"{source}.{field.name}"
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.kind, ArrayOf):
            return f"{value} is None or len({value})"
        if isinstance(field.kind, StructOf):
            return f"{value} != {self.constant(field.kind.cls.__name__, field.kind.cls)}()"
        if isinstance(field.default, Uuid):
            return f"{value} != {self.constant('zero_uuid', field.default)}"
        return f"{value} != {field.default!r}"

    def tags(self, source: str, tagged: list[FieldSpec], write: str) -> None:
        unknown = f"{source}.{UNKNOWN_TAGGED_FIELDS}"
        if not tagged:
            self.emit(f"if {unknown}: write_tags({write}, {unknown})")
            self.emit(f"else: {write}(b'\\0')")
            return
        tags, parts = self.fresh("tags"), self.fresh("parts")
        self.emit(f"{tags} = dict({unknown} or ())")
        for field in tagged:
            self.emit(f"if {self.differs(field, source)}:")
            self.indent += 1
            self.emit(f"{parts} = []; write_{parts} = {parts}.append")
            nullable = field.nullable.includes(self.version)
            self.value(field.kind, f"{source}.{field.name}", nullable, f"write_{parts}", tagged=True)
            self.flush(f"write_{parts}")
            self.emit(f"{tags}[{field.tag}] = b''.join({parts})")
            self.indent -= 1
        self.emit(f"write_tags({write}, {tags})")

    def flush(self, write: str, *extra: tuple[str, str]) -> None:
        """Emit one `pack` for the fixed-size values gathered so far."""
        run = [*self.run, *extra]
        self.run = []
        if run:
            pack = self.struct_method("".join(fmt for _, fmt in run), "pack")
            self.emit(f"{write}({pack}({', '.join(expression for expression, _ in run)}))")

    def value(self, kind: Kind, source: str, nullable: bool, write: str, tagged: bool = False) -> None:
        if isinstance(kind, StructOf):
            self.nested(kind, source, nullable, write, tagged)
        elif isinstance(kind, ArrayOf):
            self.array(kind, source, nullable, write)
        elif kind.size:
            if kind is UUID:
                self.emit(f"if len({source}) != {UUID_SIZE}: raise CodecError('a UUID has 16 bytes')")
            self.run.append((source, kind.format))
        else:
            self.text(kind, source, nullable, write)

    def nested(self, kind: StructOf, source: str, nullable: bool, write: str, tagged: bool) -> None:
        self.flush(write)
        inner = self.fresh("struct")
        self.emit(f"{inner} = {source}")
        if nullable:
            self.emit(f"if {inner} is None: {write}({NULL_TAGGED_STRUCT if tagged else NULL_STRUCT!r})")
            self.emit("else:")
            self.indent += 1
            self.emit(f"{write}(b'\\x01')")
        self.structure(spec_of(kind.cls), inner, write)
        self.indent -= nullable

    def null(self, variable: str, nullable: bool, fmt: str, write: str) -> None:
        """Emit writing a null; what follows is emitted in its `else`."""
        if nullable:
            self.flush(write)
            null = b"\0" if self.flexible else b"\xff" * struct.calcsize(">" + fmt)
            self.emit(f"if {variable} is None: {write}({null!r})")
            self.emit("else:")
            self.indent += 1

    def length(self, n: str, fmt: str, write: str) -> None:
        if self.flexible:
            self.flush(write)
            self.emit(f"{write}(uvarint({n} + 1))")
        else:
            self.flush(write, (n, fmt))

    def text(self, kind: Primitive, source: str, nullable: bool, write: str) -> None:
        piece, fmt = self.fresh("piece"), "h" if kind is STRING else "i"
        self.emit(f"{piece} = {source}")
        self.null(piece, nullable, fmt, write)
        size = f"len({piece})"
        if kind is STRING:
            self.emit(f"{piece} = {piece}.encode()")
            if self.flexible:
                self.emit(f"if len({piece}) > 32767: raise CodecError('string is longer than 32767 bytes')")
        elif kind is RECORDS:
            self.names["buffer_size"] = buffer_size
            size = f"buffer_size({piece})"
        self.length(size, fmt, write)
        self.emit(f"{write}({piece})")
        self.indent -= nullable

    def array(self, kind: ArrayOf, source: str, nullable: bool, write: str) -> None:
        items, element = self.fresh("items"), kind.element
        self.emit(f"{items} = {source}")
        self.null(items, nullable, "i", write)
        if isinstance(element, Primitive) and element.size and element is not UUID:
            self.numbers(element, items, write)
        else:
            self.length(f"len({items})", "i", write)
            item = self.fresh("item")
            self.emit(f"for {item} in {items}:")
            self.indent += 1
            if isinstance(element, StructOf):
                before = len(self.lines)
                self.structure(spec_of(element.cls), item, write)
                if len(self.lines) == before:
                    self.emit("pass")
            else:
                self.value(element, item, False, write)
                self.flush(write)
            self.indent -= 1
        self.indent -= nullable

    def numbers(self, element: Primitive, items: str, write: str) -> None:
        """Emit writing an array of fixed-size values; the length of a short one is packed together with them."""
        self.flush(write)
        n, table = self.fresh("n"), f"pack_array_{element.name}"
        length_format = "B" if self.flexible else "i"
        self.names[table] = tuple(
            struct.Struct(f">{length_format}{i}{element.format}").pack for i in range(SMALL_ARRAY)
        )
        self.names["pack"] = struct.pack
        length = f"{n} + 1" if self.flexible else n
        self.emit(f"{n} = len({items})")
        self.emit(f"if {n} < {SMALL_ARRAY}: {write}({table}[{n}]({length}, *{items}))")
        self.emit("else:")
        self.indent += 1
        self.length(n, "i", write)
        self.emit(f"{write}(pack('>%d{element.format}' % {n}, *{items}))")
        self.indent -= 1


def buffer_size(piece: RecordBytes) -> int:
    """Bytes of something that can stand for records: a buffer, or a slice of a file."""
    return piece.size if isinstance(piece, FileSlice) else memoryview(piece).nbytes
