"""Guessing what a response is: how often the truth comes first, how sure the guess says it is, and ties."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kafkaraw.inspect import annotate
from kafkaraw.inspect.evidence import gain_of
from kafkaraw.inspect.frames import FrameKind
from kafkaraw.inspect.guess import NODES_WEIGHED_MAX, Candidate, guess, version_words
from kafkaraw.protocol import RequestHeader, ResponseHeader, encode_request, encode_response
from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.apis import API_BY_KEY, API_TABLE, Api
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.examples import examples
from tests.inspect.realistic import realistic_message
from tests.inspect.sample_frames import prefixed

GOLDEN = Path(__file__).parents[1] / "protocol" / "golden"


def supported(api: Api) -> range:
    return range(api.supported.min, api.supported.max + 1)


def responses(seed: int) -> Iterator[tuple[Api, int, bytes]]:
    """One realistic response of every API and version that a broker of today speaks."""
    rng = random.Random(seed)
    for api in API_TABLE:
        for version in supported(api):
            message = realistic_message(api.response, version, rng)
            yield api, version, prefixed(encode_response(ResponseHeader(rng.randrange(1, 5000)), message, version))


def is_of(candidate: Candidate, api: Api, version: int) -> bool:
    reading = candidate.reading
    return reading.kind is FrameKind.RESPONSE and reading.api is api and version in candidate.versions


def has_the_fields_of(candidate: Candidate, api: Api, version: int, frame: bytes) -> bool:
    """Whether another API's message lies in these bytes as the true one does: nothing tells them apart but habit."""
    annotations = [
        annotate(frame, api=candidate.reading.api.key, version=candidate.reading.version, direction="response"),
        annotate(frame, api=api.key, version=version, direction="response"),
    ]
    shapes = [_shape(annotation.root) for annotation in annotations]
    return shapes[0] == shapes[1]


def _shape(node: Node) -> list[tuple[int, int]]:
    leaves = [(node.start, node.end)] if not node.children and node.end > node.start else []
    return leaves + [leaf for child in node.children for leaf in _shape(child)]


# Of all messages of all versions, each eighth; a soak takes all.
EACH = pytest.mark.parametrize("each", [8, pytest.param(1, marks=pytest.mark.soak)])


@EACH
def test_the_best_candidate_is_right_or_has_the_same_fields(each: int):
    first = alike = total = 0
    claims: list[tuple[float, bool]] = []
    missed = []
    for api, version, frame in islice(responses(seed=11), 0, None, each):
        best = guess(memoryview(frame))[0]
        total += 1
        right = is_of(best, api, version)
        claims.append((best.share, right))
        if right:
            first += 1
        elif has_the_fields_of(best, api, version, frame):
            alike += 1
        else:
            missed.append((api.name, version, len(frame), str(best), round(best.share, 2)))
    print(f"first {first}, alike {alike}, of {total}; missed {missed}")
    assert first >= 0.70 * total
    assert first + alike >= 0.93 * total
    # A guess that calls itself sure is right.
    sure = [right for share, right in claims if share >= 0.95]
    assert len(sure) >= 0.5 * total
    assert sum(sure) >= 0.99 * len(sure)


@EACH
def test_a_request_is_always_recognised(each: int):
    rng = random.Random(12)
    versions = [(api, version) for api in API_TABLE for version in supported(api)]
    for api, version in versions[::each]:
        message = realistic_message(api.request, version, rng)
        body = encode_request(RequestHeader(api.key, version, rng.randrange(5000), "kafkaraw"), message)
        best = guess(memoryview(prefixed(body) if version % 2 else body))[0]
        assert (best.reading.kind, best.reading.api, best.reading.version) == ("request", api, version)
        assert best.share > 0.9


def metadata(topics: int) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=1, leader_epoch=3, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        for index in range(10)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="localhost", port=9092)],
        cluster_id="Some8vvlQ9yTcQxNo8ZmUw",
        controller_id=1,
        topics=[
            MetadataResponseTopic(error_code=0, name=f"topic-{index}", is_internal=False, partitions=partitions)
            for index in range(topics)
        ],
    )


def test_versions_with_the_same_bytes_are_one_candidate():
    frame = encode_response(ResponseHeader(1), metadata(2), 6)
    best = guess(memoryview(frame))[0]
    assert str(best) == "Metadata response v5-6"
    assert best.versions == (5, 6)
    assert best.reading.version == 6
    assert best.share > 0.99


@pytest.mark.parametrize(
    ("versions", "words"), [((3,), "3"), ((3, 4), "3-4"), ((1, 3, 4, 5, 9), "1, 3-5, 9"), ((0, 2), "0, 2")]
)
def test_versions_are_written_as_ranges(versions: tuple[int, ...], words: str):
    assert version_words(versions) == words


def test_a_large_response_is_weighed_by_its_beginning_and_read_to_its_end():
    frame = encode_response(ResponseHeader(1), metadata(900), 12)
    assert len(frame) > 300_000
    best = guess(memoryview(frame))[0]
    assert (best.reading.api.name, best.versions) == ("Metadata", (11, 12))
    # One byte more or less, and no reading is whole.
    assert not any(candidate.is_whole for candidate in guess(memoryview(frame + b"\0")))
    assert not any(candidate.is_whole for candidate in guess(memoryview(frame[:-1])))
    assert NODES_WEIGHED_MAX < 10_000


def test_known_api_and_version_restrict_the_candidates():
    frame = encode_response(ResponseHeader(1), metadata(1), 6)
    metadata_api = next(api for api in API_TABLE if api.name == "Metadata")
    known = guess(memoryview(frame), kind=FrameKind.RESPONSE, api=metadata_api)
    assert {candidate.reading.api.name for candidate in known} == {"Metadata"}
    assert guess(memoryview(frame), kind=FrameKind.RESPONSE, api=metadata_api, version=5)[0].versions == (5,)
    assert guess(memoryview(frame), kind=FrameKind.REQUEST, api=metadata_api) == []


def test_meaningless_bytes_add_no_evidence():
    noise = random.Random(1).randbytes(64)
    numbers = [
        Node(f"[{at}]", "int32", at, at + 4, int.from_bytes(noise[at : at + 4], signed=True)) for at in range(0, 64, 4)
    ]
    assert gain_of(Node("", "", 0, 64, children=numbers), memoryview(noise)).bits < 0
    zeros = [Node(f"[{at}]", "int32", at, at + 4, 0) for at in range(0, 64, 4)]
    assert gain_of(Node("", "", 0, 64, children=zeros), memoryview(bytes(64))).bits > 400


def test_random_bytes_are_not_recognised():
    rng = random.Random(13)
    taken = [annotate(rng.randbytes(rng.randrange(12, 200))) for _ in range(examples(150))]
    assert sum(annotation.is_whole for annotation in taken) == 0
    assert sum(annotation.reading is not None for annotation in taken) <= 1


def golden_frames() -> Iterator[tuple[int, int, str, bytes]]:
    """What clients and brokers really sent, as `tests/protocol/golden` keeps it: one of each name, version and way."""
    seen = set()
    for file in sorted(GOLDEN.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            kept = json.loads(line)
            kind = kept.get("key"), kept.get("version"), kept.get("direction")
            if "frame" in kept and kind not in seen:
                seen.add(kind)
                yield *kind, bytes.fromhex(kept["frame"])


@EACH
def test_real_frames_are_recognised_by_name_and_version(each: int):
    right = alike = total = 0
    missed = []
    for key, version, direction, frame in islice(golden_frames(), 0, None, each):
        annotation = annotate(prefixed(frame))
        api = API_BY_KEY[key]
        total += 1
        assert annotation.reading is not None, (api.name, version, direction)
        best = annotation.candidates[0] if annotation.candidates else None
        if best and best.reading.kind == direction and best.reading.api is api and version in best.versions:
            right += 1
        elif best and direction == "response" and has_the_fields_of(best, api, version, prefixed(frame)):
            alike += 1
        else:
            missed.append((api.name, version, direction, len(frame), str(annotation.reading)))
    if not total:
        pytest.skip("there are no golden frames")
    print(f"right {right}, alike {alike}, of {total}; missed {missed}")
    assert right >= 0.85 * total
    assert right + alike >= 0.97 * total
