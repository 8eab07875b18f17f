"""What lies in bytes fields: the consumer protocol, when the group is one of consumers."""

from __future__ import annotations

import dataclasses

from kafkaraw.inspect import Node, annotate
from kafkaraw.protocol import ResponseHeader, encode_response
from kafkaraw.protocol.messages.sync_group import SyncGroupResponse
from tests.inspect.sample_frames import SAMPLE, assignment, join_group, request


def find(node: Node, name: str) -> Node | None:
    if node.name == name:
        return node
    return next((found for child in node.children if (found := find(child, name))), None)


def test_a_subscription_is_opened():
    root = annotate(SAMPLE["JoinGroup request v5"].frame).root
    opened = find(root, "ConsumerProtocolSubscription")
    assert opened is not None
    owned = find(opened, "owned_partitions")
    assert owned is not None
    assert owned.value == 1


def test_an_assignment_is_opened_in_request_and_response():
    for name in ("SyncGroup request v3", "SyncGroup response v5"):
        annotation = annotate(SAMPLE[name].frame)
        opened = find(annotation.root, "ConsumerProtocolAssignment")
        assert opened is not None
        assert annotation.is_sound
        # Offsets of what is inside count in the frame too.
        topic = find(opened, "topic")
        assert topic is not None
        assert annotation.data[topic.start + 2 : topic.end] == b"orders"


def test_the_blob_of_another_protocol_type_is_not_decoded():
    message = dataclasses.replace(join_group(), protocol_type="connect")
    annotation = annotate(request("", message, "JoinGroup", 11, 5).frame)
    assert annotation.is_sound
    metadata = find(annotation.root, "metadata")
    assert metadata is not None
    assert metadata.children == []
    assert any("protocol type 'connect', not opened" in note for note in metadata.notes)


def sync_group_v0(blob: bytes) -> Node:
    frame = encode_response(ResponseHeader(1), SyncGroupResponse(error_code=0, assignment=blob), 0)
    annotation = annotate(frame, api="SyncGroup", version=0, direction="response")
    assert annotation.is_sound
    found = find(annotation.root, "assignment")
    assert found is not None
    return found


def test_a_blob_that_is_no_assignment_is_not_decoded_without_a_protocol_type():
    assert sync_group_v0(b"\0\0\0\0\0\x09nonsense").children == []
    assert sync_group_v0(assignment()).children != []
    assert sync_group_v0(b"").children == []
    assert sync_group_v0(b"\1").children == []


def test_a_newer_version_is_read_as_the_newest_known():
    opened = sync_group_v0(b"\0\x09" + assignment()[2:] + b"more")
    assert any("version 9 is read as the newest known" in note for note in opened.notes)
    assert find(opened, "ConsumerProtocolAssignment") is not None
