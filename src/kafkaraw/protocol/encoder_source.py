"""Generates the source of the function that encodes one version of a message, and has the functions that it calls.

The generated code packs runs of fixed-size fields, and the one-byte length or the empty tag section after them, with
one `pack`. It does not catch Python's own errors; its caller explains them (see `explain`). Start at
`EncoderWriter.body`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

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
from kafkaraw.protocol.source_writer import SMALL_ARRAY, CodecError, SourceWriter
from kafkaraw.protocol.types import (
    RECORDS,
    STRING,
    UUID,
    UUID_SIZE,
    FileSlice,
    Primitive,
    RecordBytes,
    Uuid,
    encode_uvarint,
)

CONSTANTS = {"0": 0, "-1": -1}  # constants that the writer itself puts into a run
NULL_STRUCT = b"\xff"
NULL_TAGGED_STRUCT = b"\0"
SINGLE_BYTES = tuple(bytes([i]) for i in range(128))


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


class EncoderWriter(SourceWriter):
    """Writes `encode(message, write)`, which calls `write` with pieces of bytes."""

    kind = "encoder"
    signature = "def encode(message, write):"

    def body(self) -> None:
        """Write the function's lines."""
        self.names.update(CodecError=CodecError, uvarint=uvarint, single_bytes=SINGLE_BYTES, write_tags=write_tags)
        self._run: list[tuple[str, str]] = []
        self._structure(self.spec, "message")
        if not self.lines:
            self.emit("pass")

    def _structure(self, spec: Spec, source: str, write: str = "write") -> None:
        """Emit the encoding of the structure in variable `source`."""
        plain, tagged, absent = self.fields(spec)
        for field in absent:
            if not field.ignorable:
                self.emit(f"if {self._differs(field, source)}: raise CodecError({field.name!r})")
        for field in plain:
            self._value(field.kind, f"{source}.{field.name}", field.nullable.includes(self.version), write)
        if self.flexible:
            self._tags(source, tagged, write)
            return
        self._flush(write)
        if spec.header.direction is not Direction.STRUCT:
            self.emit(f"if {source}.{UNKNOWN_TAGGED_FIELDS}: raise CodecError('tags need a flexible version')")

    def _differs(self, field: FieldSpec, source: str) -> str:
        """Return an expression that is true if a field is not at its default."""
        value = f"{source}.{field.name}"
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.kind, ArrayOf):
            return f"{value} is None or len({value})"
        if isinstance(field.kind, StructOf):
            inner, spec = self.fresh("struct"), spec_of(field.kind.cls)
            within = [self._differs(each, inner) for each in spec.fields]
            return " or ".join([f"({inner} := {value}) is None", *within, f"{inner}.{UNKNOWN_TAGGED_FIELDS}"])
        if isinstance(field.default, Uuid):
            return f"{value} != {self.constant('zero_uuid', field.default)}"
        return f"{value} != {field.default!r}"

    def _tags(self, source: str, tagged: list[FieldSpec], write: str) -> None:
        """Emit the tag section: it is mostly empty, and then one byte, packed with the fields before it."""
        unknown = f"{source}.{UNKNOWN_TAGGED_FIELDS}"
        run = self._run
        self.emit(f"if {' or '.join([unknown, *[self._differs(field, source) for field in tagged]])}:")
        self.indent += 1
        self._flush(write)
        tags = self._tagged(source, tagged) if tagged else unknown
        self.emit(f"write_tags({write}, {tags})")
        self.indent -= 1
        self.emit(f"else: {write}({self._packed([*run, ('0', 'B')])})")

    def _tagged(self, source: str, tagged: list[FieldSpec]) -> str:
        """Emit gathering the tags of a structure; return the variable that holds them."""
        tags, parts = self.fresh("tags"), self.fresh("parts")
        self.emit(f"{tags} = dict({source}.{UNKNOWN_TAGGED_FIELDS} or ())")
        for field in tagged:
            self.emit(f"if {self._differs(field, source)}:")
            self.indent += 1
            self.emit(f"{parts} = []; write_{parts} = {parts}.append")
            nullable = field.nullable.includes(self.version)
            self._value(field.kind, f"{source}.{field.name}", nullable, f"write_{parts}", tagged=True)
            self._flush(f"write_{parts}")
            self.emit(f"{tags}[{field.tag}] = b''.join({parts})")
            self.indent -= 1
        return tags

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """The expression for fixed-size values, one after the other."""
        if len(run) == 1 and run[0][0] in CONSTANTS:
            return repr(struct.pack(">" + run[0][1], CONSTANTS[run[0][0]]))
        pack = self.struct_method("".join(fmt for _, fmt in run), "pack")
        return f"{pack}({', '.join(expression for expression, _ in run)})"

    def _flush(self, write: str, *extra: tuple[str, str]) -> None:
        """Emit one `pack` for the fixed-size values gathered so far."""
        run = [*self._run, *extra]
        self._run = []
        if run:
            self.emit(f"{write}({self._packed(run)})")

    def _value(self, kind: Kind, source: str, nullable: bool, write: str, tagged: bool = False) -> None:
        if isinstance(kind, StructOf):
            self._nested(kind, source, nullable, write, tagged)
        elif isinstance(kind, ArrayOf):
            self._array(kind, source, nullable, write)
        elif kind.size:
            if kind is UUID:
                self.emit(f"if len({source}) != {UUID_SIZE}: raise CodecError('a UUID has 16 bytes')")
            self._run.append((source, kind.format))
        else:
            self._text(kind, source, nullable, write)

    def _nested(self, kind: StructOf, source: str, nullable: bool, write: str, tagged: bool) -> None:
        self._flush(write)
        inner = self.fresh("struct")
        self.emit(f"{inner} = {source}")
        if nullable:
            self.emit(f"if {inner} is None: {write}({NULL_TAGGED_STRUCT if tagged else NULL_STRUCT!r})")
            self.emit("else:")
            self.indent += 1
            self.emit(f"{write}(b'\\x01')")
        self._structure(spec_of(kind.cls), inner, write)
        self.indent -= nullable

    def _null(self, variable: str, nullable: bool, fmt: str, write: str) -> None:
        """Emit writing a null; what follows is emitted in its `else`, the values gathered so far included."""
        if nullable:
            null = ("0", "B") if self.flexible else ("-1", fmt)
            self.emit(f"if {variable} is None: {write}({self._packed([*self._run, null])})")
            self.emit("else:")
            self.indent += 1

    def _length(self, size: str, fmt: str, write: str) -> None:
        """Emit writing a length, together with the values gathered so far."""
        if not self.flexible:
            self._flush(write, (size, fmt))
            return
        run, self._run = self._run, []
        n = self.fresh("n")
        self.emit(f"{n} = {size} + 1")
        if run:
            short, long = self._packed([*run, (n, "B")]), f"{self._packed(run)} + uvarint({n})"
        else:
            short, long = f"single_bytes[{n}]", f"uvarint({n})"
        self.emit(f"{write}({short} if {n} < 128 else {long})")

    def _text(self, kind: Primitive, source: str, nullable: bool, write: str) -> None:
        piece, fmt = self.fresh("piece"), "h" if kind is STRING else "i"
        self.emit(f"{piece} = {source}")
        self._null(piece, nullable, fmt, write)
        size = f"len({piece})"
        if kind is STRING:
            self.emit(f"{piece} = {piece}.encode()")
            if self.flexible:
                self.emit(f"if len({piece}) > 32767: raise CodecError('string is longer than 32767 bytes')")
        elif kind is RECORDS:
            self.names["buffer_size"] = buffer_size
            size = f"buffer_size({piece})"
        self._length(size, fmt, write)
        self.emit(f"{write}({piece})")
        self.indent -= nullable

    def _array(self, kind: ArrayOf, source: str, nullable: bool, write: str) -> None:
        items, element = self.fresh("items"), kind.element
        self.emit(f"{items} = {source}")
        self._null(items, nullable, "i", write)
        if isinstance(element, Primitive) and element.size and element is not UUID:
            self._numbers(element, items, write)
        else:
            self._length(f"len({items})", "i", write)
            item = self.fresh("item")
            self.emit(f"for {item} in {items}:")
            self.indent += 1
            if isinstance(element, StructOf):
                before = len(self.lines)
                self._structure(spec_of(element.cls), item, write)
                if len(self.lines) == before:
                    self.emit("pass")
            else:
                self._value(element, item, False, write)
                self._flush(write)
            self.step()
            self.indent -= 1
        self.indent -= nullable

    def _numbers(self, element: Primitive, items: str, write: str) -> None:
        """Emit writing an array of fixed-size values; the length of a short one is packed together with them."""
        self._flush(write)
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
        self._length(n, "i", write)
        self.emit(f"{write}(pack('>%d{element.format}' % {n}, *{items}))")
        self.indent -= 1


def buffer_size(piece: RecordBytes) -> int:
    """Return the bytes of a value for a records field: a buffer, or a slice of a file."""
    return piece.size if isinstance(piece, FileSlice) else memoryview(piece).nbytes
