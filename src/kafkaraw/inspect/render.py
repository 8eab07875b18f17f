"""An annotation as rows for a table and as plain values for JSON. Pure: the command line prints them.

Start at `rows_of`, `legend_of` and `to_json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kafkaraw.inspect.annotation import Annotation, path_of
from kafkaraw.inspect.meaning import meaning_of
from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.declare import ArrayOf
from kafkaraw.protocol.types import FileSlice, Primitive, Uuid

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

VALUE_SHOWN_MAX: Final = 60
INLINE_ELEMENTS_MAX: Final = 8
INLINE_MARK: Final = "~"
NOT_CANONICAL: Final = "not canonical"

# What to explain below the table -> in which types of a frame it is found.
LEGEND: Final = (
    (r"^u?int\d", "int16, int32, int64: a whole number of 2, 4 or 8 bytes, the most significant byte first."),
    (r"^string", "string: its length in 2 bytes, then that many bytes of UTF-8 text; length -1 (ff ff) means null."),
    (r"^bytes|^records$", "bytes: its length in 4 bytes, then that many bytes; length -1 means null."),
    (r"^array", "array: the number of its elements in 4 bytes, then the elements; -1 means null."),
    (
        r"^compact",
        "compact string, bytes, array: the length is a varint and one more than the real length; 0 means null.",
    ),
    (r"^tag section", "tagged fields: optional fields behind the others, first their number (a varint), mostly 0."),
    (
        r"^compact|^tag section",
        "varint: a number in groups of 7 bits, the lowest first; a byte of 80 or more has another group behind it.",
    ),
    (
        r"^varint",
        "varint in a record: groups of 7 bits, the lowest first; what is stored as 0, 1, 2, 3 means 0, -1, 1, -2.",
    ),
    (r"^uuid", "uuid: 16 bytes, shown as Kafka does, in URL-safe base64."),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the annotated view.

    Attributes:
        depth: depth of the node, for indentation.
        path: from the root to the node, as `body.topics[0].name`.
        bytes_range: `12-15`, both inclusive, or `12` for one byte; empty for none. With `~` before it, it counts in
            the decompressed records.
        data: the node's own bytes, without those of its children.
        name, kind, value: of the node.
        meaning: the meaning of the value, and how the bytes are read.
        problem: why the reading stops here, or what is wrong.
        is_odd: whether the bytes have a form that Kafka does not write.
    """

    depth: int
    path: str
    bytes_range: str
    data: bytes
    name: str
    kind: str
    value: str
    meaning: str
    problem: str
    is_odd: bool


def rows_of(annotation: Annotation) -> Iterator[Row]:
    """Return the tree as rows, in the order of the bytes; short arrays of numbers take one row."""
    for child in annotation.root.children:
        yield from _rows(child, memoryview(annotation.data), 0, path_of("", child), child.name, "")


def _rows(node: Node, data: memoryview, depth: int, path: str, name: str, mark: str) -> Iterator[Row]:
    inline = _is_inline(node)
    own = data[node.start : node.end] if inline else _own_bytes(node, data)
    value = shown_inline(node) if inline else shown(node)
    odd = any(note.startswith(NOT_CANONICAL) for note in node.notes)
    span = range_of(node)
    yield Row(
        depth, path, mark + span if span else "", bytes(own), name, node.kind, value, words_of(node), node.problem, odd
    )
    if inline:
        return
    if node.inner is not None:
        data, mark = node.inner, INLINE_MARK
    for child in node.children:
        label = node.name + child.name if child.name.startswith("[") else child.name
        yield from _rows(child, data, depth + 1, path_of(path, child), label, mark)


def _own_bytes(node: Node, data: memoryview) -> memoryview:
    """Return the bytes before the first child (length of an array, marker of a structure); all without children."""
    if node.inner is not None or not node.children:
        return data[node.start : node.end]
    return data[node.start : max(node.children[0].start, node.start)]


def _is_inline(node: Node) -> bool:
    kind = node.spec.kind if node.spec is not None else None
    if not isinstance(kind, ArrayOf) or not isinstance(kind.element, Primitive) or not kind.element.size:
        return False
    plain = not any(child.problem or child.notes for child in node.children)
    return 0 < len(node.children) <= INLINE_ELEMENTS_MAX and plain and node.value == len(node.children)


def range_of(node: Node) -> str:
    """Return the range of the node's bytes, both ends inclusive."""
    if node.end <= node.start:
        return ""
    return f"{node.start}" if node.end == node.start + 1 else f"{node.start}-{node.end - 1}"


def hex_of(data: bytes, bytes_max: int) -> str:
    """Return the first bytes in hex."""
    return data[:bytes_max].hex(" ") + (" ..." if len(data) > bytes_max else "")


def words_of(node: Node) -> str:
    """Return the meaning of the value, and how the bytes are read."""
    words = [meaning_of(node)]
    counted = "array" in node.kind
    # The number of elements is their value already.
    words += [note for note in node.notes if not (counted and re.fullmatch(r"length \d+", note))]
    return "; ".join(word for word in words if word)


def shown(node: Node) -> str:
    """Return a value for a table cell."""
    value = node.value
    if value is None:
        return "null" if any("means null" in note for note in node.notes) else ""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return _bytes_shown(bytes(value))
    if "array" in node.kind:
        return _counted(value, "element")
    if node.kind == "records" and node.children:
        return _counted(value, "record")
    if node.kind == "tag section":
        return "none" if not value else f"{value}"
    return _shortened(repr(value) if isinstance(value, str) and node.kind != "record" else str(value))


def shown_inline(node: Node) -> str:
    """Return a short array in one cell."""
    return f"[{', '.join(shown(child) for child in node.children)}]"


def _counted(count: object, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _bytes_shown(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return _shortened(repr(text))
    return _counted(len(value), "byte")


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_SHOWN_MAX else text[:VALUE_SHOWN_MAX] + "..."


def legend_of(annotation: Annotation) -> list[str]:
    """Return how to read the types that occur."""
    kinds = _kinds(annotation.root)
    lines = [words for pattern, words in LEGEND if any(re.search(pattern, kind) for kind in kinds)]
    if "decompressed" in kinds:
        lines.append("~12-15: bytes of the decompressed records, not of the frame.")
    return lines


def _kinds(root: Node) -> set[str]:
    kinds: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        kinds.add(node.kind)
        if node.inner is not None:
            kinds.add("decompressed")
        stack.extend(node.children)
    return kinds


def to_json(annotation: Annotation) -> Json:
    """Return the same tree, for other programs."""
    reading = annotation.reading
    error = annotation.error
    return {
        "api": reading.api.name if reading else None,
        "api_key": reading.api.key if reading else None,
        "version": reading.version if reading else None,
        "direction": str(reading.kind) if reading else None,
        "size_bytes": len(annotation.data),
        "whole": annotation.is_whole,
        "canonical": annotation.canonical,
        "error": {"message": error.message, "path": error.path, "offset": error.offset} if error else None,
        "problems": [
            {"message": problem.message, "path": problem.path, "offset": problem.offset}
            for problem in annotation.problems
        ],
        "candidates": [
            {
                "api": candidate.reading.api.name,
                "versions": list(candidate.versions),
                "direction": str(candidate.reading.kind),
                "share": round(candidate.share, 6),
            }
            for candidate in annotation.candidates
        ],
        "tree": _node_json(annotation.root, memoryview(annotation.data), "", "frame"),
    }


def _node_json(node: Node, data: memoryview, path: str, offsets_in: str) -> Json:
    own = _own_bytes(node, data)
    out: dict[str, Json] = {
        "name": node.name,
        "path": path,
        "type": node.kind,
        "start": node.start,
        "end": node.end,
        "hex": own.hex(),
    }
    if offsets_in != "frame":
        out["offsets_in"] = offsets_in
    if not (isinstance(node.value, (bytes, memoryview)) and _is_covered(node)):  # the children say it better
        out["value"] = _value_json(node.value)
    meaning = words_of(node)
    if meaning:
        out["meaning"] = meaning
    if node.problem:
        out["problem"] = node.problem
    if node.inner is not None:
        data, offsets_in = node.inner, "decompressed records"
    if node.children:
        out["children"] = [_node_json(child, data, path_of(path, child), offsets_in) for child in node.children]
    return out


def _is_covered(node: Node) -> bool:
    """Return whether the nodes within have every byte of a node, so that the value can be made of them again."""
    if node.inner is not None or not node.children:
        return node.inner is not None
    at = node.children[0].start
    for child in node.children:
        if child.start != at or (child.children and not _is_covered(child)):
            return False
        at = child.end
    return at == node.end


def _value_json(value: object) -> Json:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if isinstance(value, float) and value != value:
        return "NaN"
    if value is None or (isinstance(value, (str, int, float, bool)) and not isinstance(value, FileSlice)):
        return value
    return str(value)
