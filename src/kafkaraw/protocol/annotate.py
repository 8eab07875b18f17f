"""Walk the bytes of a message field by field: where each field is, its value, and where the message is invalid.

The compiled codecs keep no path, so that they are fast. This walk is slow and keeps everything: it makes the tree that
the inspector prints, and it finds the place of an error for `decode_message`. This module must not print or interpret
values; `inspect` does. Start at `annotate_message`; `explain_decode` is the same walk without the tree.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.declare import ArrayOf, FieldSpec, Kind, Spec, StructOf, spec_of
from kafkaraw.protocol.decoder_source import size_min
from kafkaraw.protocol.types import (
    BOOLEAN,
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Primitive,
    Uuid,
    decode_uvarint,
    encode_uvarint,
)

EXPLAINED_ELEMENTS_MAX: Final = 10_000
"""Maximum number of array elements walked to explain why a message cannot be decoded: a tenth of a second."""


@dataclass(slots=True)
class Node:
    """One field, element, structure or section of a message.

    Attributes:
        name: field name, `[3]` for an element, or a word for a section such as `tagged fields`.
        kind: wire type, as `compact string` or the name of a structure.
        start, end: byte offsets, end exclusive.
        value: the decoded value; for arrays the number of elements, None for null and for structures.
        notes: how the bytes are to be read, as `compact length 4 means 3`.
        problem: why the bytes cannot be read any further here, or what is wrong with them; empty if they are valid.
        inner: the bytes that the offsets of children refer to, if those are not the frame's (decompressed records).
        spec: the field's declaration, if it is a declared field.
        owner: class that declares the field.
        children: the nodes within, in the order of the bytes.
    """

    name: str
    kind: str
    start: int
    end: int
    value: object = None
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    inner: memoryview | None = None
    spec: FieldSpec | None = None
    owner: type[object] | None = None
    children: list[Node] = field(default_factory=list)


class Path:
    """The path of the field being walked, as `topics[3].partitions[0].leader_id`."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def enter(self, part: str) -> None:
        """Enter a field or element. After an error no field is left, so that the path shows where it was."""
        self.parts.append(part)

    def leave(self) -> None:
        """Leave the field or element that was entered last."""
        self.parts.pop()

    def __str__(self) -> str:
        return "".join(part if part.startswith("[") else f".{part}" for part in self.parts).lstrip(".")


def annotate_message(
    cls: type[object], version: int, buffer: memoryview, at: int = 0
) -> tuple[Node, ProtocolError | None]:
    """Walk a message as far as it is valid.

    Returns:
        The tree of the part that could be read, with its `end`, and the error that stopped the walk, or None.
    """
    spec = spec_of(cls)
    walker = Walker(buffer, at, version, spec.header.flexible.includes(version), keep=True)
    root = Node(spec.name, f"{spec.name} v{version}", at, at, owner=cls)
    try:
        walker.structure(spec, root)
    except ProtocolError as error:
        walker.close(root, error)
        return root, error
    root.end = walker.at
    return root, None


def explain_decode(cls: type[object], version: int, buffer: memoryview, at: int) -> ProtocolError:
    """Walk a message that could not be decoded, and return where and why.

    The walk takes ten times as long as decoding, and the sender chose the size of the message, so the walk is limited.
    """
    spec = spec_of(cls)
    walker = Walker(buffer, at, version, spec.header.flexible.includes(version), keep=False)
    try:
        walker.structure(spec, Node(spec.name, spec.name, at, at))
    except ProtocolError as error:
        return error
    return ProtocolError(f"{spec.name} v{version} cannot be decoded", offset=at)


class Walker:
    """Reads one message.

    Args:
        buffer: the frame.
        at: where the message begins in it.
        keep: whether to build the tree; without it memory is bounded by the depth of the message.

    Attributes:
        wanted_end: after an error for lack of bytes, where the value that does not fit would end; else 0.
    """

    def __init__(self, buffer: memoryview, at: int, version: int, flexible: bool, *, keep: bool) -> None:
        self.buffer = buffer
        self.at: int = at
        self.version = version
        self.flexible = flexible
        self.keep = keep
        self.path: Path = Path()
        self.wanted_end: int = 0
        self._left = sys.maxsize if keep else EXPLAINED_ELEMENTS_MAX

    def element(self) -> None:
        """Count an element of an array, or a tagged field.

        Raises:
            ProtocolError: the limit of elements is reached.
        """
        self._left -= 1
        if self._left < 0:
            raise self.fail(
                f"cannot be decoded, for a reason behind its first {EXPLAINED_ELEMENTS_MAX} elements", self.at
            )

    def close(self, node: Node, error: ProtocolError) -> None:
        """After an error, end every open node where the walk did, and put the error on the last one."""
        while True:
            node.end = max(node.end, self.at)
            if not node.children:
                break
            node = node.children[-1]
        node.problem = error.message

    def structure(self, spec: Spec, parent: Node) -> None:
        """Read the fields of a structure into `parent`."""
        tagged: dict[int, FieldSpec] = {}
        for declared in spec.fields:
            if not declared.versions.includes(self.version):
                continue
            if declared.tag is not None and declared.is_tagged(self.version):
                tagged[declared.tag] = declared
            else:
                self.field(declared, spec, parent)
        if self.flexible:
            self.tags(tagged, spec, parent)

    def field(self, declared: FieldSpec, spec: Spec, parent: Node, *, tagged: bool = False) -> Node:
        """Read one field."""
        self.path.enter(declared.name)
        node = self.open(declared.name, parent)
        node.spec, node.owner = declared, spec.cls
        self.value(declared.kind, node, declared.nullable.includes(self.version), tagged=tagged)
        node.end = self.at
        self.path.leave()
        return node

    def open(self, name: str, parent: Node) -> Node:
        """Begin a node at the current byte."""
        node = Node(name, "", self.at, self.at)
        if self.keep:
            parent.children.append(node)
        return node

    def fail(self, message: str, at: int) -> ProtocolError:
        """Return an error at a byte of the current field."""
        return ProtocolError(message, path=str(self.path), offset=at)

    def short(self, message: str, at: int, wanted_end: int) -> ProtocolError:
        """Return an error for lack of bytes."""
        self.wanted_end = wanted_end
        return self.fail(message, at)

    def need(self, size: int, what: str) -> None:
        """Raise an error if fewer than `size` bytes are left."""
        left = len(self.buffer) - self.at
        if size > left:
            message = f"{what} needs {size} byte{'' if size == 1 else 's'}, {left} {'is' if left == 1 else 'are'} left"
            raise self.short(message, self.at, self.at + size)

    def varint(self, what: str, node: Node) -> int:
        """Read an unsigned varint, and note if it is longer than necessary."""
        start = self.at
        try:
            value, self.at = decode_uvarint(self.buffer, self.at)
        except IndexError:
            raise self.short(f"the bytes end within {what}", start, len(self.buffer) + 1) from None
        except ValueError as error:
            raise self.fail(f"{what}: {error}", start) from None
        if self.at - start > len(encode_uvarint(value)):
            node.notes.append(f"not canonical: {what} takes {self.at - start} bytes, {len(encode_uvarint(value))} do")
        return value

    def tags(self, known: dict[int, FieldSpec], spec: Spec, parent: Node) -> None:
        """Read the section of tagged fields that ends every flexible structure."""
        section = self.open("tagged fields", parent)
        section.kind = "tag section"
        self.path.enter("tagged fields")
        section.value = count = self.varint("the number of tagged fields", section)
        last = -1
        for _ in range(count):
            self.element()
            start = self.at
            node = self.open("tag", section)
            tag = self.varint("a tag", node)
            size = self.varint(f"the length of tag {tag}", node)
            self.need(size, f"the value of tag {tag}")
            node.name = f"tag {tag}"
            node.notes.append(f"{size} bytes")
            if tag <= last:
                node.notes.append("not canonical: tags should ascend")
            last = tag
            self.path.leave()
            self.tagged_value(known.get(tag), spec, node, self.at + size)
            self.path.enter("tagged fields")
            if self.at != node.end:
                raise self.fail(f"tag {tag} says {size} bytes, its value has {size + self.at - node.end}", start)
        self.path.leave()
        section.end = self.at

    def tagged_value(self, declared: FieldSpec | None, spec: Spec, node: Node, end: int) -> None:
        """Read the value of one tag, known or not; `node.end` is where it should end."""
        node.end = end
        if declared is None:
            node.kind = "unknown tagged field"
            node.value = bytes(self.buffer[self.at : end])
            self.at = end
            return
        node.kind = "tagged field"
        value = self.field(declared, spec, node, tagged=True)
        default = 0 if isinstance(declared.kind, ArrayOf) and declared.default == () else declared.default
        if not value.children and value.value == default and not isinstance(declared.kind, StructOf):
            node.notes.append("not canonical: at its default, which Kafka leaves out")

    def value(self, kind: Kind, node: Node, nullable: bool, *, tagged: bool = False) -> None:
        """Read a value of any kind into `node`."""
        if isinstance(kind, StructOf):
            self.nested(kind, node, nullable, tagged)
        elif isinstance(kind, ArrayOf):
            self.array(kind, node, nullable)
        elif kind.size:
            node.kind = kind.name
            self.need(kind.size, kind.name)
            (node.value,) = struct.unpack_from(">" + kind.format, self.buffer, self.at)
            if kind is UUID and isinstance(node.value, bytes):
                node.value = Uuid(node.value)
            elif kind is BOOLEAN and self.buffer[self.at] > 1:
                node.notes.append(f"not canonical: byte {self.buffer[self.at]:#04x} is true too, Kafka writes 0x01")
            self.at += kind.size
        else:
            self.text(kind, node, nullable)

    def nested(self, kind: StructOf, node: Node, nullable: bool, tagged: bool) -> None:
        """Read a structure; a nullable one has a byte before it: -1 for null, but 0 in a tagged field."""
        node.kind = kind.cls.__name__
        if nullable:
            self.need(1, "the presence of a structure")
            marker = self.buffer[self.at]
            self.at += 1
            is_null = marker > 127 or (tagged and marker == 0)
            node.notes.append(f"byte {marker:#04x} means {'null' if is_null else 'present'}")
            if marker not in (0 if tagged else 255, 1):
                node.notes.append(
                    f"not canonical: Kafka writes 0x01 for present and {'0x00' if tagged else '0xff'} for null"
                )
            if is_null:
                return
        self.structure(spec_of(kind.cls), node)

    def length(self, what: str, fmt: str, nullable: bool, node: Node) -> int:
        """Return a length; -1 for null in both forms."""
        start = self.at
        if self.flexible:
            stored = self.varint(f"the length of {what}", node)
            size = stored - 1
            node.notes.append(f"compact length {stored} means {'null' if size < 0 else size}")
        else:
            width = struct.calcsize(">" + fmt)
            self.need(width, f"the length of {what}")
            (size,) = struct.unpack_from(">" + fmt, self.buffer, self.at)
            self.at += width
            node.notes.append("length -1 means null" if size == -1 else f"length {size}")
        if size < -1 or (size < 0 and not nullable):
            raise self.fail(f"length {size} of {what}, which may {'only ' if nullable else 'not '}be null", start)
        return int(size)

    def text(self, kind: Primitive, node: Node, nullable: bool) -> None:
        """Read a string, bytes or records."""
        start = self.at
        node.kind = f"{'compact ' if self.flexible else ''}{kind.name}"
        size = self.length(kind.name, "h" if kind is STRING else "i", nullable, node)
        if size < 0:
            return
        left = len(self.buffer) - self.at
        if size > left:
            stated = bytes(self.buffer[start : self.at]).hex(" ")
            wanted_end = self.at + size
            if kind is RECORDS:
                node.value = self.buffer[self.at :]  # batches that are whole can be read
                self.at = len(self.buffer)
            message = f"{kind.name} declared {size} bytes (its length is {stated}), {left} are left"
            raise self.short(message, start, wanted_end)
        piece = self.buffer[self.at : self.at + size]
        if kind is STRING:
            try:
                node.value = str(piece, "utf-8")
            except UnicodeDecodeError as error:
                raise self.fail(f"not UTF-8: {error.reason}", self.at + error.start) from None
        else:
            node.value = bytes(piece) if kind is BYTES and self.keep else piece
        self.at += size

    def array(self, kind: ArrayOf, node: Node, nullable: bool) -> None:
        """Read an array; the bytes that are left bound the number of elements."""
        start = self.at
        element = kind.element
        node.kind = f"{'compact ' if self.flexible else ''}array of {kind_name(element)}"
        count = self.length("an array", "i", nullable, node)
        if count < 0:
            return
        node.value = count
        bound = max(1, size_min(element, self.version, self.flexible))
        left = len(self.buffer) - self.at
        if count * bound > left:
            message = f"array declared {count} elements of at least {bound} bytes, {left} bytes are left"
            raise self.short(message, start, self.at + count * bound)
        if isinstance(element, Primitive) and element.size and not self.keep:
            self.at += count * element.size
            return
        for i in range(count):
            self.element()
            self.path.enter(f"[{i}]")
            child = self.open(f"[{i}]", node)
            self.value(element, child, nullable=False)
            child.end = self.at
            self.path.leave()


def kind_name(kind: Kind) -> str:
    """Return the name of a kind, as shown to users."""
    if isinstance(kind, ArrayOf):
        return f"array of {kind_name(kind.element)}"
    return kind.name if isinstance(kind, Primitive) else kind.cls.__name__
