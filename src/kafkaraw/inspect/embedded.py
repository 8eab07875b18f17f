"""Open the content of bytes fields and records: group protocols, control records, Kafka's own topics.

This module must not read frames. Start at `annotate_fields`, `annotate_control` and `annotate_internal`.
"""

from __future__ import annotations

import importlib
import struct
from typing import Final, NamedTuple

from kafkaraw.protocol.annotate import Node, annotate_message
from kafkaraw.protocol.declare import Direction, header_of

INT16: Final = struct.Struct(">h")
EMBEDDED: Final = "kafkaraw.protocol.embedded"

CONSUMER_PROTOCOL: Final = "consumer_protocol"


class Blob(NamedTuple):
    """The content of a bytes field: a structure after an int16 with its version."""

    module: str
    structure: str


SUBSCRIPTION: Final = Blob(CONSUMER_PROTOCOL, "ConsumerProtocolSubscription")
ASSIGNMENT: Final = Blob(CONSUMER_PROTOCOL, "ConsumerProtocolAssignment")
# (message, field) -> the content; of the consumer protocol only if the group's protocol type is absent or names it.
BLOBS: Final = {
    ("JoinGroupRequestProtocol", "metadata"): SUBSCRIPTION,
    ("JoinGroupResponseMember", "metadata"): SUBSCRIPTION,
    ("DescribedGroupMember", "member_metadata"): SUBSCRIPTION,
    ("SyncGroupRequestAssignment", "assignment"): ASSIGNMENT,
    ("SyncGroupResponse", "assignment"): ASSIGNMENT,
    ("DescribedGroupMember", "member_assignment"): ASSIGNMENT,
    ("MemberMetadata", "subscription"): SUBSCRIPTION,
    ("MemberMetadata", "assignment"): ASSIGNMENT,
    ("EnvelopeRequest", "request_principal"): Blob("principal", "DefaultPrincipalData"),
}
CONTROL_VALUES: Final = {
    0: "EndTxnMarker",
    1: "EndTxnMarker",
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
CONTROL_NAMES: Final = (
    "abort",
    "commit",
    "leader change",
    "snapshot header",
    "snapshot footer",
    "KRaft version",
    "voters",
)
# Kafka's own topics -> modules that declare their records.
INTERNAL_TOPICS: Final[dict[str, tuple[str, ...]]] = {
    "__consumer_offsets": ("group_offsets", "consumer_group_records", "share_group_records", "streams_group_records"),
    "__transaction_state": ("transaction_state",),
    "__share_group_state": ("share_state",),
}


def annotate_fields(node: Node, protocol_type: str = "") -> None:
    """Open the bytes fields within a message if their content is known; for groups, `protocol_type` decides."""
    for child in node.children:
        if child.name == "protocol_type" and isinstance(child.value, str) and child.value:
            protocol_type = child.value
    for child in node.children:
        owner = child.owner.__name__ if child.owner else ""
        known = BLOBS.get((owner, child.name))
        if known and isinstance(child.value, bytes) and child.value:
            _open_blob(child, known, protocol_type)
        elif child.children:
            annotate_fields(child, protocol_type)


def _open_blob(node: Node, known: Blob, protocol_type: str) -> None:
    of_consumers = known.module == CONSUMER_PROTOCOL
    if of_consumers and protocol_type not in ("", "consumer"):
        node.notes.append(f"in the format of protocol type {protocol_type!r}, not opened")
        return
    _open_versioned(node, _load(known.module, known.structure), newest_known=True)
    if of_consumers and not protocol_type and any(child.problem for child in node.children):
        # The message does not say that this is a consumer group, and the bytes do not look like one.
        node.children.clear()
        node.notes.append("not opened: not in the format of consumers")


def annotate_control(key: Node, value: Node) -> None:
    """Open the key and value of a control record."""
    _open_versioned(key, _load("control_records", "ControlRecordTypeSchema"))
    if not isinstance(key.value, bytes) or len(key.value) < 4:
        return
    (kind,) = INT16.unpack_from(key.value, 2)
    if 0 <= kind < len(CONTROL_NAMES):
        key.notes.append(f"marks: {CONTROL_NAMES[kind]}")
        cls = _load("control_records", CONTROL_VALUES[kind])
        # The values of transaction markers have a version before them; those of the metadata log hold it as a field.
        if kind <= 1:
            _open_versioned(value, cls)
        else:
            _open_plain(value, cls)


def annotate_internal(topic: str, key: Node, value: Node) -> None:
    """Open the records of Kafka's own topics: the key begins with its type, the value with its version."""
    if topic not in INTERNAL_TOPICS or not isinstance(key.value, bytes) or len(key.value) < INT16.size:
        return
    (record_type,) = INT16.unpack_from(key.value)
    for module in INTERNAL_TOPICS[topic]:
        for cls in _data_classes(module):
            if header_of(cls).api_key != record_type:
                continue
            if cls.__name__.endswith("Key"):
                _open_at(key, cls, 0)
            elif isinstance(value.value, bytes):
                _open_versioned(value, cls)
    annotate_fields(value)


def _load(module: str, name: str) -> type[object]:
    cls: type[object] = getattr(importlib.import_module(f"{EMBEDDED}.{module}"), name)
    return cls


def _data_classes(module: str) -> list[type[object]]:
    loaded = importlib.import_module(f"{EMBEDDED}.{module}")
    classes = [cls for cls in vars(loaded).values() if isinstance(cls, type) and cls.__module__ == loaded.__name__]
    return [cls for cls in classes if header_of(cls).direction is Direction.DATA]


def _open_versioned(node: Node, cls: type[object], *, newest_known: bool = False) -> None:
    """Open a structure that follows an int16 with its version."""
    if not isinstance(node.value, bytes) or len(node.value) < INT16.size:
        return
    (version,) = INT16.unpack_from(node.value)
    start = node.end - len(node.value)
    node.children.append(Node("version", "int16", start, start + INT16.size, version))
    known = header_of(cls).versions
    if newest_known and version > known.max:
        node.notes.append(f"version {version} is read as the newest known, {known.max}")
        _graft(node, cls, known.max, INT16.size, may_have_more=True)
    elif known.includes(version):
        _open_at(node, cls, version)
    else:
        node.notes.append(f"not opened: {cls.__name__} has versions {known}, not {version}")


def _open_at(node: Node, cls: type[object], version: int) -> None:
    """Open a structure after two bytes that have been read."""
    if node.children == []:
        start = node.end - len(node.value) if isinstance(node.value, bytes) else node.end
        assert isinstance(node.value, bytes)
        (record_type,) = INT16.unpack_from(node.value)
        node.children.append(Node("record type", "int16", start, start + INT16.size, record_type, [cls.__name__]))
    _graft(node, cls, version, INT16.size)


def _open_plain(node: Node, cls: type[object]) -> None:
    """Open a structure that holds its version as its own first field."""
    if isinstance(node.value, bytes) and len(node.value) >= INT16.size:
        (version,) = INT16.unpack_from(node.value)
        _graft(node, cls, version if header_of(cls).versions.includes(version) else 0, 0)


def _graft(node: Node, cls: type[object], version: int, skip: int, *, may_have_more: bool = False) -> None:
    """Decode the bytes of `node` after the first `skip`, and add the tree below it at the right offsets."""
    assert isinstance(node.value, bytes)
    shift = node.end - len(node.value)
    tree, error = annotate_message(cls, version, memoryview(node.value), skip)
    _shift(tree, shift)
    if error is not None:
        tree.problem = "cannot be read to its end"
    elif tree.end != node.end and not may_have_more:
        tree.problem = f"{node.end - tree.end} bytes are left over"
    node.children.append(tree)


def _shift(node: Node, by: int) -> None:
    node.start += by
    node.end += by
    for child in node.children:
        _shift(child, by)
