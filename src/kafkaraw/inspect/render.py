"""An annotation as rows for a table and as plain values for JSON. Pure: printing is the command line's business.

Start at `rows_of` and `to_json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kafkaraw.inspect.annotation import Annotation
from kafkaraw.inspect.meaning import meaning_of
from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.types import FileSlice, Uuid

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

HEX_BYTES_MAX = 16
VALUE_SHOWN_MAX = 60


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the annotated view.

    Attributes:
        depth: how deep the node lies, for indentation.
        bytes_range: `12-15`, both inclusive, or `12` for one byte; empty for none.
        hex: the bytes, shortened.
        name, kind, value: of the node.
        meaning: what the value means, and how the bytes are read.
    """

    depth: int
    bytes_range: str
    hex: str
    name: str
    kind: str
    value: str
    meaning: str


def rows_of(annotation: Annotation) -> Iterator[Row]:
    """The tree as rows, in the order of the bytes."""
    return _rows(annotation.root, annotation.data, 0, outside=False)


def _rows(node: Node, data: bytes, depth: int, *, outside: bool) -> Iterator[Row]:
    group = any(child.kind != "tag section" or child.children for child in node.children) and node.value is None
    # Of an array or section that holds others, only its own bytes: the length or count before them.
    own_end = node.children[0].start if node.children and node.value is not None else node.end
    piece = "" if group or outside else hex_of(data[node.start : own_end])
    meaning = "; ".join(part for part in (meaning_of(node), *node.notes) if part)
    yield Row(depth, range_of(node), piece, node.name, node.kind, shown(node), meaning)
    # The records of a compressed batch lie in other bytes than the frame's.
    inside = outside or (node.kind == "records" and any("offsets below count in those" in note for note in node.notes))
    for child in node.children:
        yield from _rows(child, data, depth + 1, outside=inside)


def range_of(node: Node) -> str:
    """The node's bytes, both ends inclusive, as people count."""
    if node.end <= node.start:
        return ""
    return f"{node.start}" if node.end == node.start + 1 else f"{node.start}-{node.end - 1}"


def hex_of(data: bytes) -> str:
    """The first bytes in hex."""
    text = data[:HEX_BYTES_MAX].hex(" ")
    return text + (" ..." if len(data) > HEX_BYTES_MAX else "")


def shown(node: Node) -> str:
    """A value for a table cell."""
    value = node.value
    if value is None:
        return "null" if any("means null" in note for note in node.notes) else ""
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return _bytes_shown(bytes(value))
    if "array" in node.kind:
        return f"{value} element{'' if value == 1 else 's'}"
    if node.kind == "tag section":
        return "none" if not value else f"{value}"
    text = repr(value) if isinstance(value, str) and not node.kind.startswith("record") else str(value)
    return _shortened(text)


def _bytes_shown(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        return _shortened(repr(text))
    return f"{len(value)} bytes"


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_SHOWN_MAX else text[:VALUE_SHOWN_MAX] + "..."


def to_json(annotation: Annotation) -> Json:
    """The same tree, for other programs."""
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
        "candidates": [
            {
                "api": candidate.reading.api.name,
                "version": candidate.reading.version,
                "direction": str(candidate.reading.kind),
                "share": round(candidate.share, 6),
            }
            for candidate in annotation.candidates
        ],
        "tree": _node_json(annotation.root, annotation.data),
    }


def _node_json(node: Node, data: bytes) -> Json:
    out: dict[str, Json] = {
        "name": node.name,
        "type": node.kind,
        "start": node.start,
        "end": node.end,
        "value": _value_json(node.value),
    }
    meaning = "; ".join(part for part in (meaning_of(node), *node.notes) if part)
    if meaning:
        out["meaning"] = meaning
    if node.children:
        out["children"] = [_node_json(child, data) for child in node.children]
    return out


def _value_json(value: object) -> Json:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if value is None or (isinstance(value, (str, int, float, bool)) and not isinstance(value, FileSlice)):
        return value
    return str(value)
