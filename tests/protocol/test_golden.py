"""Frames that real clients and Apache Kafka exchanged (see tests/interop/capture.py) are read and written exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import decode_request, decode_response, encode_request, encode_response
from kafkaraw.protocol.annotate import annotate_message
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.frames import decode_request_header
from tests.cases import Cases

GOLDEN = Path(__file__).parent / "golden"
SIZE_MAX = 300_000
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java", "apache-kafka-broker")


class Frame(NamedTuple):
    client: str
    key: int
    version: int
    direction: str
    data: bytes


def frames() -> list[Frame]:
    found = []
    for path in sorted(GOLDEN.glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            it = json.loads(line)
            found.append(Frame(path.stem, it["key"], it["version"], it["direction"], bytes.fromhex(it["frame"])))
    return found


FRAMES = frames()
# librdkafka ends this request with one empty tag section too many; a Kafka broker does not look at what is left over.
ONE_BYTE_TOO_MANY = [it for it in FRAMES if (it.client, it.key, it.direction) == ("confluent-kafka", 51, "request")]
WHOLE = [it for it in FRAMES if it not in ONE_BYTE_TOO_MANY]
EVERY_CLIENT = pytest.mark.parametrize("client", dict.fromkeys(it.client for it in WHOLE))


def name_of(frame: Frame) -> str:
    return f"{API_BY_KEY[frame.key].name}-{frame.version}-{frame.direction}"


@EVERY_CLIENT
def test_each_frame_is_read_whole_and_written_the_same(client: str):
    with Cases() as case:
        for frame in WHOLE:
            if frame.client == client:
                with case(name_of(frame)):
                    check_codec(frame)


def check_codec(frame: Frame) -> None:
    if frame.direction == "request":
        header, message = decode_request(frame.data)
        assert (header.api_key, header.api_version) == (frame.key, frame.version)
        assert encode_request(header, message) == frame.data
    else:
        answer, message = decode_response(frame.data, frame.key, frame.version)
        assert encode_response(answer, message, frame.version) == frame.data


@EVERY_CLIENT
def test_the_walk_reads_each_request_whole_and_finds_it_canonical(client: str):
    with Cases() as case:
        for frame in WHOLE:
            if (frame.client, frame.direction) == (client, "request"):
                with case(name_of(frame)):
                    _, at = decode_request_header(frame.data)
                    api = API_BY_KEY[frame.key]
                    root, error = annotate_message(api.request, frame.version, memoryview(frame.data), at)
                    assert error is None
                    assert root.end == len(frame.data)


def test_a_frame_that_is_longer_than_its_message_is_refused_with_the_place_of_its_end():
    (frame,) = ONE_BYTE_TOO_MANY
    with pytest.raises(ProtocolError, match="1 bytes are left over") as caught:
        decode_request(frame.data)
    assert caught.value.offset == len(frame.data) - 1
    header, message = decode_request(frame.data[:-1])
    assert encode_request(header, message) + b"\0" == frame.data


def test_every_client_is_there_with_its_origin():
    origins = {path.stem: json.loads(path.read_text().splitlines()[0]) for path in GOLDEN.glob("*.jsonl")}
    assert set(origins) == set(CLIENTS)
    assert all("4.3.1" in origin["broker"] and origin["client"] for origin in origins.values())


def test_the_frames_are_many_and_small():
    assert len({(it.key, it.version, it.direction) for it in FRAMES}) > 200
    assert len({it.key for it in FRAMES}) > 60
    assert sum(path.stat().st_size for path in GOLDEN.glob("*")) < SIZE_MAX
