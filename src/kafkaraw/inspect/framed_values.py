"""Notes on keys and values of records that carry the id of a schema, and what they decode to.

A header `__value_schema_id` is certain. A prefix (`00` and the id) may also be the start of other bytes, so a note says
"may be", unless a registry knows the id and the bytes fit its schema. Must not do I/O: `decode` may. Start at
`note_framing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from kafkaraw.errors import KafkaError
from kafkaraw.protocol.annotate import Node
from kafkaraw.records import Header
from kafkaraw.schemas.errors import FramingError
from kafkaraw.schemas.framing import PREFIX_SIZE, header_of, read_frame

Decode: TypeAlias = Callable[[str, list[Header], bytes], bytes | None]
"""Returns framed bytes as JSON, by field, headers and bytes; None if they are not framed."""

_ID_MAX: Final = 10_000_000
_PLAIN_SIZES: Final = (4, 8)
"""Sizes of integers, which often begin with zeros; without a registry they are not taken for framed."""


def note_framing(root: Node, decode: Decode | None = None) -> None:
    """Add notes to the keys and values of all records below a node.

    Args:
        root: of an annotated frame.
        decode: asks a registry; None without one.

    Raises:
        KafkaError: the registry cannot be asked.
    """
    for record in _records(root):
        parts = {child.name: child for child in record.children}
        headers = [_header(child) for child in record.children if child.kind == "record header"]
        for field in ("key", "value"):
            node = parts.get(field)
            if node is not None and isinstance(node.value, bytes) and not node.children:
                words = _words(field, headers, node.value, decode)
                if words:
                    node.notes.append(words)


def _records(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind == "record":
            yield node
        else:
            waiting += reversed(node.children)


def _header(node: Node) -> Header:
    parts = {child.name: child.value for child in node.children}
    name, value = parts.get("key"), parts.get("value")
    return str(name), value if isinstance(value, bytes) else None


def _words(field: str, headers: list[Header], data: bytes, decode: Decode | None) -> str:
    header = header_of(headers, field)
    try:
        frame = read_frame(data, header)
    except FramingError as error:
        return "" if header is None else str(error)
    if decode is not None:
        try:
            shown = decode(field, headers, data)
        except KafkaError as error:
            raise KafkaError(f"{field} of a record: {error}") from error
        if shown is not None:
            return f"framed, schema {_name(frame.schema_id, frame.guid)}: {shown.decode()}"
    elif header is None and not _is_likely(data, frame.schema_id):
        return ""
    if header is not None:
        return f"framed by a header, schema {_name(frame.schema_id, frame.guid)}"
    return f"may be framed, schema {_name(frame.schema_id, frame.guid)}" if decode is None else ""


def _is_likely(data: bytes, schema_id: int | None) -> bool:
    return (
        schema_id is not None and 0 < schema_id < _ID_MAX and len(data) > PREFIX_SIZE and len(data) not in _PLAIN_SIZES
    )


def _name(schema_id: int | None, guid: str | None) -> str:
    return f"id {schema_id}" if guid is None else f"GUID {guid}"
