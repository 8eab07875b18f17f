"""Generates the source of the function that decodes one version of a message, and has the functions that it calls.

The generated code reads runs of fixed-size fields with one `unpack_from`, and does not catch Python's own errors; its
caller explains them (see `annotate`). Start at `DecoderWriter.body`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

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
from kafkaraw.protocol.source_writer import SMALL_ARRAY, CodecError, SourceWriter, TooManyElementsError
from kafkaraw.protocol.types import BYTES, RECORDS, STRING, UUID, Primitive, Uuid, decode_uvarint

ELEMENTS_MAX: Final = 1 << 18
"""Maximum number of structures, strings and tagged fields in the arrays of one request, or of data inside records.

An element takes at least one byte on the wire, and up to 140 bytes and a microsecond when it is decoded. This limit,
34 MB and a quarter of a second, is enough for 100,000 partitions of 100,000 topics. Four numbers count as one element.
"""
RESPONSE_ELEMENTS_MAX: Final = 1 << 21
"""The same for a response: it may describe all topics of a cluster, and the client has chosen the broker."""

_MAKERS: dict[type[object], Callable[[], object]] = {}  # each makes an object with unset fields


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


def elements_max(spec: Spec) -> int:
    """Return the maximum number of elements in all arrays of a message."""
    return RESPONSE_ELEMENTS_MAX if spec.header.direction is Direction.RESPONSE else ELEMENTS_MAX


def too_many(spec: Spec, version: int) -> str:
    """Return the error message for more elements than that."""
    return f"{spec.name} v{version} has more than {elements_max(spec)} elements in its arrays"


def size_min(kind: Kind, version: int, flexible: bool) -> int:
    """Return the smallest size of a non-null value of `kind`: the upper bound of an array's length follows from it."""
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


def _has_records(spec: Spec) -> bool:
    def holds(kind: Kind) -> bool:
        if isinstance(kind, ArrayOf):
            return holds(kind.element)
        return kind is RECORDS if isinstance(kind, Primitive) else _has_records(spec_of(kind.cls))

    return any(holds(field.kind) for field in spec.fields)


class DecoderWriter(SourceWriter):
    """Writes `decode(buf, pos) -> (message, position after it)`."""

    kind = "decoder"
    signature = "def decode(buf, pos):"

    def body(self) -> None:
        """Write the function's lines."""
        self.names.update(CodecError=CodecError, TooManyElementsError=TooManyElementsError)
        self.names.update(varint=decode_uvarint, read_tag=read_tag, read_numbers=read_numbers)
        # Slices of bytes are cheapest, but records must stay views into the frame: no copy of those.
        self._as_bytes = not _has_records(self.spec)
        self._run: list[tuple[str, str]] = []
        if self._as_bytes:
            self.emit("if type(buf) is not bytes: buf = bytes(buf)")
        else:
            self.emit("if type(buf) is not memoryview: buf = memoryview(buf)")
        self.emit(f"size = len(buf); left = {elements_max(self.message)}")
        self._structure(self.spec, "message")
        self.emit("return message, pos")

    def _structure(self, spec: Spec, target: str) -> None:
        """Emit the decoding of one structure into a new object named `target`."""
        plain, tagged, absent = self.fields(spec)
        self._blank(spec, target, [*absent, *tagged])
        for field in plain:
            self._value(field.kind, f"{target}.{field.name}", field.nullable.includes(self.version))
        if self.flexible:
            self._tags(target, tagged)
        else:
            self._flush()

    def _blank(self, spec: Spec, target: str, fields: Sequence[FieldSpec]) -> None:
        """Emit a new object named `target` with `fields` at their defaults, without the cost of its `__init__`."""
        new = self.constant(f"new_{spec.name}", _MAKERS.setdefault(spec.cls, partial(object.__new__, spec.cls)))
        self.emit(f"{target} = {new}()")
        for field in fields:
            if isinstance(field.kind, StructOf) and field.default is not None:
                inner = self.fresh("struct")
                inner_spec = spec_of(field.kind.cls)
                self._blank(inner_spec, inner, inner_spec.fields)
                self.emit(f"{target}.{field.name} = {inner}")
            else:
                self.emit(f"{target}.{field.name} = {self._default(field)}")
        self.emit(f"{target}.{UNKNOWN_TAGGED_FIELDS} = None")

    def _default(self, field: FieldSpec) -> str:
        if field.default is None:
            return "None"
        if isinstance(field.kind, ArrayOf):
            return "[]"
        if isinstance(field.default, Uuid):
            return self.constant("zero_uuid", field.default)
        return repr(field.default)

    def _tags(self, target: str, tagged: list[FieldSpec]) -> None:
        count, tag, end = self.fresh("count"), self.fresh("tag"), self.fresh("end")
        self._byte(count)
        self.emit(f"if {count}:")
        self.indent += 1
        self.emit(f"{count}, pos = varint(buf, pos - 1)")
        self._charge(count)
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        self.emit(f"{tag}, pos, {end} = read_tag(buf, pos, size)")
        for i, field in enumerate(tagged):
            self.emit(f"{'el' if i else ''}if {tag} == {field.tag}:")
            self.indent += 1
            self._value(field.kind, f"{target}.{field.name}", field.nullable.includes(self.version), tagged=True)
            self._flush()
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

    def _flush(self, *extra: tuple[str, str]) -> None:
        """Emit one `unpack_from` for the fixed-size fields gathered so far."""
        run = [*self._run, *extra]
        self._run = []
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

    def _byte(self, name: str) -> None:
        """Emit reading one byte, which is a whole varint mostly, together with the fixed-size fields before it."""
        if self._run:
            self._flush((name, "B"))
        else:
            self.emit(f"{name} = buf[pos]; pos += 1")

    def _value(self, kind: Kind, target: str, nullable: bool, tagged: bool = False) -> None:
        if isinstance(kind, StructOf):
            self._nested(kind, target, nullable, tagged)
        elif isinstance(kind, ArrayOf):
            self._array(kind, target, nullable)
        elif kind.size:
            self._run.append((target, kind.format))
        else:
            self._text(kind, target, nullable)

    def _nested(self, kind: StructOf, target: str, nullable: bool, tagged: bool) -> None:
        self._flush()
        inner = self.fresh("struct")
        if nullable:
            present = self.fresh("present")
            self._flush((present, "b"))
            # Kafka's generator marks a null structure by -1, but by an unsigned 0 when it is a tagged field.
            self.emit(f"if {present} < {int(tagged)}: {target} = None")
            self.emit("else:")
            self.indent += 1
        self._structure(spec_of(kind.cls), inner)
        self.emit(f"{target} = {inner}")
        self.indent -= nullable

    def _length(self, fmt: str) -> str:
        """Emit reading a length; -1 means null in both forms."""
        n = self.fresh("n")
        if not self.flexible:
            self._flush((n, fmt))
            return n
        self._byte(n)
        self.emit(f"if {n} > 127: {n}, pos = varint(buf, pos - 1)")
        self.emit(f"{n} -= 1")
        return n

    def _null(self, n: str, target: str, nullable: bool) -> None:
        """Emit the branch for a negative length where it may be null; what follows is emitted in its `else`."""
        if not nullable:
            return
        self.emit(f"if {n} < 0:")
        if not self.flexible:
            self.emit(f"    if {n} != -1: raise CodecError('negative length')")
        self.emit(f"    {target} = None")
        self.emit("else:")
        self.indent += 1

    def _text(self, kind: Primitive, target: str, nullable: bool) -> None:
        n = self._length("h" if kind is STRING else "i")
        self._null(n, target, nullable)
        self.emit(f"{n} += pos")
        self.emit(f"if not pos <= {n} <= size: raise CodecError('length leaves the message, or null is not allowed')")
        piece = f"buf[pos:{n}]"
        if kind is STRING:
            piece = f"{piece}.decode()" if self._as_bytes else f"str({piece}, 'utf-8')"
        elif kind is BYTES and not self._as_bytes:
            piece = f"bytes({piece})"
        self.emit(f"{target} = {piece}; pos = {n}")
        self.indent -= nullable

    def _array(self, kind: ArrayOf, target: str, nullable: bool) -> None:
        element = kind.element
        if isinstance(element, Primitive) and element.size and element is not UUID:
            self._numbers(element, target, nullable)
            return
        n = self._length("i")
        self._null(n, target, nullable)
        bound = max(1, size_min(element, self.version, self.flexible))
        self.emit(f"if not 0 <= {n} * {bound} <= size - pos: raise CodecError('more elements than bytes, or null')")
        self._charge(n)
        self._elements(element, target, n)
        self.indent -= nullable

    def _charge(self, count: str) -> None:
        """Emit the subtraction of this number of elements from those that the message may still have."""
        self.emit(f"left -= {count}")
        self.emit("if left < 0: raise TooManyElementsError")

    def _numbers(self, element: Primitive, target: str, nullable: bool) -> None:
        """Emit reading an array of fixed-size values: short ones first, as most are, by what is on the wire."""
        n, zero = self.fresh("n"), int(self.flexible)  # zero: the length on the wire of an empty array
        if self.flexible:
            self._byte(n)
        else:
            self._flush((n, "i"))
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
        self._charge(f"{n} >> 2")
        self.emit(f"{target}, pos = read_numbers(buf, pos, {n} - {zero}, {element.format!r})")
        self.indent -= 1

    def _elements(self, element: Kind, target: str, n: str) -> None:
        items, append, item = self.fresh("items"), self.fresh("append"), self.fresh("item")
        self.emit(f"{items} = []; {append} = {items}.append")
        self.emit(f"for _ in range({n}):")
        self.indent += 1
        if isinstance(element, StructOf):
            self._structure(spec_of(element.cls), item)
        else:
            self._value(element, item, nullable=False)
            self._flush()
        self.emit(f"{append}({item})")
        self.step()
        self.indent -= 1
        self.emit(f"{target} = {items}")
