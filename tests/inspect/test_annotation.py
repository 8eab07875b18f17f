"""`annotate`: whole frames to the last byte, frames cut anywhere, frames with bytes behind them, and nonsense."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkaraw.errors import UsageError
from kafkaraw.inspect import Annotation, Node, annotate, split_frames
from kafkaraw.inspect.render import legend_of, rows_of, to_json
from kafkaraw.protocol import decode_request, decode_response, encode_request, encode_response
from tests.examples import examples
from tests.inspect.sample_frames import SAMPLE, SAMPLES, Sample
from tests.simulation import seeds

KAFKA_14935 = bytes.fromhex(
    "0000002b 0012 0003 00000000 07 61646d696e2d31 00 12 6170616368652d6b61666b612d6a617661 06 332e332e31 00"
)


def known(sample: Sample, data: bytes | None = None) -> Annotation:
    """Annotate a sample as somebody who knows what it is."""
    frame = sample.frame if data is None else data
    return annotate(frame, api=sample.api, version=sample.version, direction=sample.direction)


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def find(annotation: Annotation, name: str) -> list[Node]:
    return [node for node in nodes(annotation.root) if node.name == name]


def leaves(annotation: Annotation) -> set[tuple[str, int, int]]:
    found = [node for node in nodes(annotation.root) if not node.children and not node.problem]
    return {(node.name, node.start, node.end) for node in found if node.end > node.start}


def check_tree(node: Node, start: int, end: int) -> None:
    """Children lie within their parent, in order, and do not overlap."""
    assert start <= node.start <= node.end <= end, node
    at, stop = (0, len(node.inner)) if node.inner is not None else (node.start, node.end)
    for child in node.children:
        check_tree(child, at, stop)
        at = child.end


def shown(annotation: Annotation) -> str:
    """Everything that is printed, as proof that it can be."""
    rows = [f"{row.path} {row.value} {row.meaning} {row.problem}" for row in rows_of(annotation)]
    return "\n".join([*rows, *legend_of(annotation), json.dumps(to_json(annotation))])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_whole_frame_is_recognised_and_read_to_its_last_byte(sample: Sample):
    for frame in (sample.frame, sample.frame[4:]):
        annotation = annotate(frame)
        assert annotation.reading is not None
        assert (annotation.reading.api.name, annotation.reading.kind) == (sample.api, sample.direction)
        assert sample.version in (*annotation.candidates[0].versions, annotation.reading.version)
        assert (annotation.is_whole, annotation.is_sound, annotation.canonical) == (True, True, True)
        check_tree(annotation.root, 0, len(frame))
        assert shown(annotation)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_byte_of_a_whole_frame_belongs_to_a_field(sample: Sample):
    covered = set[int]()
    for row in rows_of(known(sample)):
        if row.data and not row.bytes_range.startswith("~"):
            first = int(row.bytes_range.split("-")[0])
            covered.update(range(first, first + len(row.data)))
    assert covered == set(range(len(sample.frame)))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_truncated_frame_shows_its_fields_and_where_it_ends(sample: Sample):
    declared = len(sample.frame) - 4
    of_whole = leaves(known(sample))
    for size in sorted({*range(len(sample.frame))[:40], *range(len(sample.frame))[:: 1 if seeds.with_soak else 5]}):
        annotation = known(sample, sample.frame[:size])
        assert not annotation.is_whole, size
        error = annotation.error
        assert error is not None
        assert 0 <= error.offset <= size
        assert error.path, size
        if size >= 4:
            assert f"declared {declared} bytes, have {size - 4}: the frame is cut short" in str(error)
        check_tree(annotation.root, 0, size)
        assert "cut short" in shown(annotation) or size < 4
        # What could be read before the cut is what the whole frame has there.
        assert size < 4 or {leaf for leaf in leaves(annotation) if leaf[2] < size} <= of_whole


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_truncated_unknown_frame_is_never_complete(sample: Sample):
    step = max(11, len(sample.frame) // (12 if seeds.with_soak else 4))
    for size in range(9, len(sample.frame), step):  # fewer bytes can be a whole, bare response
        annotation = annotate(sample.frame[:size])
        assert not annotation.is_sound, size
        assert shown(annotation)
        if sample.direction == "request" and size >= 24:
            assert annotation.reading is not None, size
            assert annotation.reading.api.name == sample.api


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("behind", [b"\0", b"\xff\xfe\0", bytes(7)])
def test_bytes_after_a_frame_are_reported(sample: Sample, behind: bytes):
    annotation = annotate(sample.frame + behind)
    assert annotation.reading is not None
    assert annotation.reading.api.name == sample.api
    assert annotation.error is not None
    declared = len(sample.frame) - 4
    says = f"declared {declared} bytes, have {declared + len(behind)}: {len(behind)} are left over"
    assert (annotation.error.message, annotation.error.offset) == (says, len(sample.frame))


def test_bytes_after_a_message_without_size_prefix_are_reported():
    sample = SAMPLE["ApiVersions request v3"]
    annotation = known(sample, sample.frame[4:] + b"\1\2\3")
    assert annotation.error is not None
    assert (
        str(annotation.error) == f"body: at byte {len(sample.frame) - 4}: the message ends here, 3 bytes are left over"
    )


def test_a_size_prefix_that_is_one_too_small_stops_within_the_message():
    sample = SAMPLE["ApiVersions request v3"]
    frame = (len(sample.frame) - 5).to_bytes(4) + sample.frame[4:]
    error = known(sample, frame).error
    assert error is not None
    assert "1 are left over" in error.message
    assert error.path == "tagged_fields" or "tagged fields" in error.message


def test_the_frame_of_kafka_14935_is_a_request_that_ends_in_its_client_id():
    annotation = annotate(KAFKA_14935)
    assert str(annotation.reading) == "ApiVersions request v3"
    assert str(annotation.error) == (
        "header.client_id: at byte 12: string declared 1889 bytes (its length is 07 61), 32 are left; "
        "declared 43 bytes, have 42: the frame is cut short"
    )
    (client_id,) = find(annotation, "client_id")
    assert client_id.problem.startswith("string declared 1889 bytes")
    assert annotation.candidates == []


def test_a_cut_fetch_shows_the_batches_and_records_that_are_there():
    sample = SAMPLE["Fetch response v11, none"]
    annotation = known(sample, sample.frame[:-4])
    assert [node.value for node in nodes(annotation.root) if node.kind == "record"] == ["offset 12", "offset 13", None]
    assert any("cannot be checked" in note for note in find(annotation, "crc")[0].notes)


# -- forms that Kafka does not write

API_VERSIONS_V3 = "0000002c 0012 0003 00000007 0008 6b61666b61726177"
NOT_CANONICAL = {
    "overlong length": ("0012 0003 00000007 0001 78 00  8200 61 02 62 00", "2 bytes, 1 do"),
    "overlong number of tags": ("0012 0003 00000007 0001 78 00  02 61 02 62 8000", "2 bytes, 1 do"),
    "overlong number of header tags": ("0012 0003 00000007 0001 78 8000  02 61 02 62 00", "2 bytes, 1 do"),
    "tags out of order": ("0012 0003 00000007 0001 78 00  02 61 02 62 02 0901aa 0801bb", "tags should ascend"),
    "a default-valued tag": (
        # Fetch v12: tag 0 is the cluster id, null by default.
        "0001 000c 00000007 0001 78 00  ffffffff 000001f4 00000001 03200000 00 00000000 ffffffff 01 01 01 01 000100",
        "at its default",
    ),
    "a boolean of 2": ("0003 0004 00000007 0001 78  00000000 02", "byte 0x02 is true too"),
}


@pytest.mark.parametrize("name", NOT_CANONICAL)
def test_a_non_canonical_encoding_is_read_and_reported(name: str):
    text, says = NOT_CANONICAL[name]
    frame = bytes.fromhex(text)
    annotation = annotate(frame)
    assert annotation.is_sound, annotation.error
    assert annotation.canonical is False
    notes = [note for node in nodes(annotation.root) for note in node.notes if note.startswith("not canonical")]
    assert any(says in note for note in notes), notes
    assert any(row.is_odd for row in rows_of(annotation))
    header, message = decode_request(frame)
    again = encode_request(header, message)
    assert again != frame
    assert decode_request(again) == (header, message)
    assert annotate(again).canonical


def test_a_non_canonical_null_structure_is_reported():
    # ConsumerGroupHeartbeat response v0 with an assignment marker of 0xfe instead of 0xff.
    frame = bytes.fromhex("00000007 00  00000000 0000 00 00 00000001 00001388 fe 00")
    annotation = annotate(frame, api="ConsumerGroupHeartbeat", version=0, direction="response")
    assert annotation.is_sound
    assert annotation.canonical is False
    header, message = decode_response(frame, 68, 0)
    assert decode_response(encode_response(header, message, 0), 68, 0) == (header, message)


# -- what is known, and wrong calls


def test_the_bytes_override_a_wrong_api_or_version():
    annotation = annotate(SAMPLE["Metadata request v12"].frame, api="Fetch", version=11, direction="request")
    assert annotation.error is not None
    assert "header.api_key" in str(annotation.error)
    assert "these bytes say 3" in str(annotation.error)


def test_an_api_can_be_named_in_any_way():
    frame = SAMPLE["Metadata request v12"].frame
    for name in ("Metadata", "metadata", "MetadataRequest", "METADATA_REQUEST", 3, "3"):
        assert annotate(frame, api=name).is_sound


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"api": "Metadat"}, "did you mean Metadata"),
        ({"api": 999}, "keys go from 0 to 92"),
        ({"api": "Metadata", "version": 99}, "Metadata has versions 0-13, not 99"),
        ({"direction": "both"}, "'request' or 'response', not 'both'"),
    ],
)
def test_wrong_calls_are_usage_errors(wrong: dict[str, object], says: str):
    with pytest.raises(UsageError, match=says):
        annotate(b"\0\0\0\0", **wrong)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0", b"\0\0\0\x10", b"\xff" * 40, bytes(300), b"GET / HTTP/1.1\r\n"]
)
def test_nonsense_is_an_unknown_frame(data: bytes):
    annotation = annotate(data)
    if annotation.reading is None:
        assert annotation.error is not None
    assert shown(annotation)


def test_consecutive_frames_are_split_and_the_last_may_be_truncated():
    one, two = SAMPLE["Metadata request v1"].frame, SAMPLE["ApiVersions request v3"].frame
    assert split_frames(one + two) == [one, two]
    assert split_frames(one + two + one[:9]) == [one, two, one[:9]]
    assert split_frames(one) == [one]
    assert split_frames(one + b"\0") == [one + b"\0"]
    assert split_frames(one[4:]) == [one[4:]]
    assert split_frames(b"") == [b""]


# -- any bytes


def is_fine(data: bytes, **known_as: object) -> None:
    annotation = annotate(data, **known_as)
    check_tree(annotation.root, 0, len(data))
    assert shown(annotation)


@given(st.binary(max_size=300))
@example(b"\0\x01\0\x0b" + b"\xff" * 50)
@settings(max_examples=examples(150), deadline=None)
def test_any_bytes_are_annotated_or_refused(data: bytes):
    is_fine(data)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_frames_with_some_bytes_changed_are_annotated(sample: Sample):
    rng = random.Random(sample.name)
    for _ in range(examples(60)):
        data = bytearray(sample.frame)
        for _ in range(rng.choice((1, 1, 2, 5))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        is_fine(bytes(data), api=sample.api, version=sample.version, direction=sample.direction)
        if rng.random() < 0.1:
            is_fine(bytes(data))


def test_importing_the_package_is_light():
    program = (
        "import sys, kafkaraw.inspect;"
        "print([name for name in ('pyarrow', 'pyspark', 'rich', 'click', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
