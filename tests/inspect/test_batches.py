"""What lies within records fields: batches of every codec, markers, old message sets, and hostile ones."""

from __future__ import annotations

import gzip
import struct

import pytest

from kafkaraw.inspect import Node, annotate
from kafkaraw.inspect.batches import annotate_records
from kafkaraw.inspect.records_within import DECOMPRESSED_SIZE_MAX, Budget
from kafkaraw.records import codec_by_name, encode_batch
from tests.inspect.sample_frames import (
    CODECS,
    NOW_MS,
    ROWS,
    SAMPLE,
    fetch,
    message_v0,
    message_v1,
    offsets_batch,
    old_message_set,
    response,
)
from tests.records.test_legacy import WRITTEN, vector


def opened(records: bytes, topic: str = "orders", budget: Budget | None = None) -> Node:
    """The node of a records field that holds these bytes."""
    node = Node("records", "records", 0, len(records), memoryview(records))
    annotate_records(node, memoryview(records), budget or Budget(), topic)
    return node


def child(node: Node, *names: str) -> Node:
    for name in names:
        node = next(child for child in node.children if child.name == name)
    return node


def problems(node: Node) -> list[str]:
    return [node.problem] * bool(node.problem) + [text for child in node.children for text in problems(child)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_opened_to_its_records(codec: str):
    node = opened(bytes(encode_batch(ROWS, codec=codec, base_offset=12)))
    section = child(node, "batch [0]", "records")
    assert [record.value for record in section.children] == ["offset 12", "offset 13", "offset 14"]
    first = child(section, "record [0]")
    assert (child(first, "key").value, child(first, "value").value) == (b"k1", b'{"amount": 1}')
    assert (child(first, "header [0]", "key").value, child(first, "header [1]", "value").value) == ("trace", None)
    assert child(section, "record [1]", "key").notes == ["length -1 means null"]
    assert (
        child(section, "record [1]", "timestamp_delta").notes[-1] == "timestamp 1700000000005 2023-11-14 22:13:20.005Z"
    )
    assert child(node, "batch [0]", "crc").notes == ["CRC-32C of all that follows: right"]
    assert (section.inner is not None) == (codec != "none")
    assert problems(node) == []


def test_timestamps_are_shown_once():
    annotation = annotate(SAMPLE["Fetch response v11, none"].frame)
    from kafkaraw.inspect.render import rows_of

    rows = [row.meaning for row in rows_of(annotation) if row.name in ("base_timestamp", "max_timestamp")]
    assert [meaning.count("2023-11-14") for meaning in rows] == [1, 1]


def test_a_wrong_checksum_is_a_problem_of_a_frame_that_is_whole():
    batch = bytes(encode_batch(ROWS)).replace(b'"amount": 1', b'"amount": 9')
    annotation = annotate(response("", fetch(batch), "Fetch", 11).frame)
    assert (annotation.is_whole, annotation.is_sound) == (True, False)
    (problem,) = annotation.problems
    assert problem.path.endswith("records.batch[0].crc")
    assert "CRC-32C of all that follows is wrong" in problem.message


def test_a_marker_says_what_it_marks():
    annotation = annotate(SAMPLE["Fetch response v12, a marker"].frame)
    record = next(node for node in _nodes(annotation.root) if node.name == "record [0]")
    assert "marks: abort" in child(record, "key").notes
    assert child(record, "value", "EndTxnMarker", "coordinator_epoch").value == 4


def test_records_of_kafkas_own_topics_are_opened():
    section = child(opened(offsets_batch(), "__consumer_offsets"), "batch [0]", "records")
    first = child(section, "record [0]")
    assert child(first, "key", "OffsetCommitKey", "group").value == "billing"
    assert child(first, "value", "OffsetCommitValue", "offset").value == 42
    assert child(section, "record [1]", "value").value is None
    assert child(opened(offsets_batch(), "orders"), "batch [0]", "records", "record [0]", "key").children == []


def test_log_append_time_is_the_time_of_all_records():
    batch = bytearray(encode_batch(ROWS))
    batch[22] |= 8
    records = child(opened(bytes(batch)), "batch [0]", "records")
    stamps = [child(record, "timestamp_delta").notes[-1] for record in records.children]
    assert set(stamps) == {"timestamp 1700000000009 2023-11-14 22:13:20.009Z"}


# -- before Kafka 0.11


def test_old_message_sets_are_opened_and_named():
    node = opened(old_message_set())
    plain, packed = node.children
    assert (plain.kind, packed.kind) == ("message set, magic 0", "message set, magic 1")
    assert child(plain, "value").value == b"old"
    assert child(plain, "crc").notes == ["CRC-32 of all that follows: right"]
    assert [child(message, "value").value for message in child(packed, "value").children] == [b"first", b"second"]
    assert child(packed, "timestamp").value == NOW_MS
    assert problems(node) == []


@pytest.mark.parametrize("kind", ["magic0", "magic1"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_message_sets_of_java_are_opened(kind: str, codec: str):
    node = opened(vector(kind, codec))
    assert problems(node) == []
    messages = node.children if codec == "none" else child(node.children[0], "value").children
    assert [child(message, "value").value for message in messages] == [value for *_, value in WRITTEN]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (message_v0(0, b"k", b"v")[:-1] + b"w", "CRC-32 of all that follows is wrong"),
        (message_v0(0, None, b"junk", attributes=1), "cannot be decompressed"),
        (message_v0(0, None, b"junk", attributes=4), "codec 4 does not exist"),
        (
            message_v1(0, NOW_MS, None, codec_by_name("gzip").compress(message_v1(0, 0, None, b"x", 1), None), 1),
            "within a",
        ),
        (struct.pack(">qiIbb", 0, 5, 0, 0, 0) + bytes(8), "message_size 5 is shorter than a message"),
    ],
)
def test_errors_in_an_old_message_are_reported(message: bytes, says: str):
    assert any(says in problem for problem in problems(opened(message)))


@pytest.mark.parametrize(
    "records", [old_message_set(), bytes(encode_batch(ROWS)), bytes(encode_batch(ROWS, codec="zstd"))]
)
def test_truncated_batches_are_a_note_not_an_error(records: bytes):
    """A broker cuts the last batch of a fetch on purpose."""
    for size in range(1, len(records)):
        node = opened(records[:size])
        assert problems(node) == []
        notes = [note for below in _nodes(node) for note in below.notes]
        assert any("cut short" in note for note in notes) or size in _ends(records)


def _ends(records: bytes) -> set[int]:
    ends, at = set[int](), 0
    while at < len(records):
        at += 12 + int.from_bytes(records[at + 8 : at + 12])
        ends.add(at)
    return ends


def _nodes(node: Node) -> list[Node]:
    return [node, *(below for child in node.children for below in _nodes(child))]


# -- hostile


def patched(at: int, value: bytes, codec: str = "none") -> bytes:
    batch = bytearray(encode_batch(ROWS, codec=codec))
    batch[at : at + len(value)] = value
    return bytes(batch)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (patched(8, (10).to_bytes(4)), "batch_length 10 is shorter than a header"),
        (patched(8, b"\xff\xff\xff\xff"), "batch_length -1 is shorter than a header"),
        (patched(16, b"\x03"), "magic 3 is no version of the format"),
        (patched(22, b"\x07"), "compressed with codec 7, which does not exist"),
        (patched(22, b"\x01"), "cannot be decompressed"),
        (patched(57, b"\x7f\xff\xff\xff"), "2147483647 records were declared, 3 are here"),
        (patched(57, b"\0\0\0\1"), "bytes are left over behind the last record"),
        (patched(61, b"\xff\xff\xff\xff\x0f"), "declared -2147483648 bytes"),
        (patched(61, b"\xff" * 12), "more than 64 bits"),
        (patched(61, b"\0"), "the record declared 0 bytes"),
        (patched(61, b"\x02"), "the record declared 1 bytes, its fields have"),
        (patched(65, b"\x7f"), "key declared -64 bytes"),
    ],
)
def test_invalid_batches_are_reported(records: bytes, says: str):
    assert any(says in problem for problem in problems(opened(records))), problems(opened(records))


def test_all_batches_of_a_frame_share_one_bound_on_what_they_decompress_to():
    body = gzip.compress(bytes(DECOMPRESSED_SIZE_MAX // 2 + 1))
    header = bytearray(encode_batch(ROWS, codec="gzip")[:61])
    header[8:12] = (49 + len(body)).to_bytes(4)
    node = opened((bytes(header) + body) * 3)
    notes = [child(batch, "records").notes for batch in node.children]
    assert "hold 33554433" in notes[0][0]
    assert [any("not opened" in note for note in noted) for noted in notes] == [False, True, True]


def test_all_records_of_a_frame_share_one_bound_on_how_many_are_shown():
    node = opened(bytes(encode_batch(ROWS)) * 2, budget=Budget(records_left=4))
    counts = [len(child(batch, "records").children) for batch in node.children]
    assert counts == [3, 1]
    assert child(node, "batch [1]", "records").notes == ["2 more records are not shown"]
    assert problems(node) == []
