"""Framing: how a stream is cut into frames, and what is said to those who do not speak Kafka."""

from __future__ import annotations

import pytest

from kafkaraw.errors import ProtocolError
from kafkaraw.protocol import FrameReader
from kafkaraw.protocol.frames import ENTRANCE_SIZE, FIRST_BUFFER_SIZE, LARGER_ENTRANCE_SIZE


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def test_frames_are_found_however_the_stream_is_cut() -> None:
    stream = framed(b"one") + framed(b"") + framed(b"three" * 100)
    for step in (1, 2, 3, 5, 7, 1000):
        reader = FrameReader(limit=1000)
        frames = [bytes(frame) for at in range(0, len(stream), step) for frame in reader.feed(stream[at : at + step])]
        assert frames == [b"one", b"", b"three" * 100]
        assert reader.is_between_frames


def test_a_claimed_size_allocates_no_more_than_64_kib() -> None:
    reader = FrameReader(limit=2**31 - 1)
    assert reader.feed((2**31 - 1).to_bytes(4)) == []
    assert len(reader.get_buffer()) == FIRST_BUFFER_SIZE <= 1 << 16


def test_a_frame_larger_than_the_first_buffer_arrives_whole() -> None:
    body = bytes(range(256)) * (FIRST_BUFFER_SIZE // 64)
    reader = FrameReader(limit=1 << 30)
    assert [bytes(frame) for frame in reader.feed(framed(body))] == [body]


def test_two_frames_never_share_a_buffer() -> None:
    reader = FrameReader(limit=100)
    first, second = reader.feed(framed(b"aaaa") + framed(b"bbbb"))
    assert (bytes(first), bytes(second)) == (b"aaaa", b"bbbb")


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        (b"HTTP", "speaks HTTP"),
        (b"GET ", "HTTP request"),
        (b"\x15\x03\x03\x00", "TLS"),
        (b"\x16\x03\x01\x02", "TLS handshake"),
        (b"SSH-", "SSH"),
        (b"\xff\xff\xff\xff", "negative frame size -1"),
        (b"\x00\x00\x03\xe9", "frame of 1001 bytes, the limit is 1000"),
    ],
)
def test_what_is_not_kafka_is_called_by_its_name(prefix: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        FrameReader(limit=1000).feed(prefix)


def test_the_place_for_bytes_is_a_memoryview() -> None:
    reader = FrameReader(limit=100)
    assert isinstance(reader.get_buffer(-1), memoryview)
    reader.feed(b"\0\0\0\5ab")
    assert isinstance(reader.get_buffer(-1), memoryview)
    assert reader.progress == "2 of 5 bytes of a frame"


def test_frames_that_were_read_together_are_given_one_by_one_each_by_the_limit_of_its_moment() -> None:
    reader = FrameReader(limit=4)
    stream = framed(b"one") + framed(b"too long") + framed(b"")[:3]
    reader.get_buffer()[: len(stream)] = stream
    reader.buffer_updated(len(stream))
    assert bytes(reader.next_frame() or b"") == b"one"
    with pytest.raises(ProtocolError, match="the limit is 4"):
        reader.next_frame()
    reader.limit = 8
    assert bytes(reader.next_frame() or b"") == b"too long"
    assert reader.next_frame() is None
    assert reader.progress == "3 of 4 bytes of a size prefix"
    reader.get_buffer()[0] = 0
    reader.buffer_updated(1)
    assert reader.next_frame() == b""
    assert reader.is_between_frames


def test_the_beginning_of_a_long_frame_that_came_with_short_ones_is_not_lost() -> None:
    body = bytes(range(256)) * (ENTRANCE_SIZE // 16)
    reader = FrameReader(limit=1 << 20)
    frames = [bytes(frame) for frame in reader.feed(framed(b"short") + framed(body) + framed(b"after"))]
    assert frames == [b"short", body, b"after"]


def test_after_a_frame_of_middle_size_the_next_ones_are_read_together() -> None:
    reader = FrameReader(1 << 20)
    frame = framed(bytes(range(250)) * 64)
    assert [bytes(it) for it in reader.feed(frame)] == [frame[4:]]
    assert len(reader.get_buffer()) == LARGER_ENTRANCE_SIZE
    reader.get_buffer()[: 4 * len(frame)] = 4 * frame
    reader.buffer_updated(4 * len(frame))
    frames = [reader.next_frame() for _ in range(5)]
    assert [it and bytes(it) for it in frames] == [frame[4:]] * 4 + [None]


def test_frames_that_are_long_leave_the_entrance_small() -> None:
    reader = FrameReader(1 << 20)
    reader.feed(framed(bytes(100_000)))
    assert len(reader.get_buffer()) == ENTRANCE_SIZE
