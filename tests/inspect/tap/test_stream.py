"""Bytes of one direction are passed on as they come, in order, and with bounded memory."""

from __future__ import annotations

import random
import struct

import pytest

from kafkaraw.inspect.exchanges import Frame
from kafkaraw.inspect.tap.stream import ENTRANCE_BYTES, FIRST_BYTES, Buffers, Plan, Stream


class Sink:
    """Passes on everything, by a plan."""

    def __init__(self, keep_bytes: int = 1 << 20, hold_bytes: int = 0) -> None:
        self.passed = bytearray()
        self.frames: list[Frame] = []
        self.reason = ""
        self._plan = Plan(keep_bytes, hold_bytes)

    def plan(self, beginning: memoryview, size: int, before: int) -> Plan:
        assert len(beginning) >= 8
        return self._plan

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        self.passed += data
        at = 0
        for size in sizes:
            self.frames.append(Frame(bytes(data[at + 4 : at + 4 + size]), size, at_s, at_s))
            at += 4 + size
        assert at <= len(data)

    def passing(self, data: memoryview) -> None:
        self.passed += data

    def long_frame(self, frame: Frame, held: memoryview) -> None:
        if len(held) == frame.size_bytes:
            self.passed += struct.pack(">i", frame.size_bytes)
        self.passed += held
        frame.data = bytes(frame.data)
        self.frames.append(frame)

    def stranger(self, reason: str) -> None:
        self.reason = reason
        self.stream.become_raw()


class Feed:
    """A stream, and the bytes that are still to come."""

    def __init__(self, data: bytes, buffers: Buffers, keep_bytes: int) -> None:
        self.sink = Sink(keep_bytes=keep_bytes, hold_bytes=1000)
        self.data = data
        self.at = 0
        self.stream = self.sink.stream = Stream(self.sink, buffers)

    def go_on(self, count_max: int) -> None:
        buffer = self.stream.get_buffer()
        count = min(len(buffer), len(self.data) - self.at, count_max)
        buffer[:count] = self.data[self.at : self.at + count]
        self.at += count
        self.stream.received(count, 1.0)


def feed(sink: Sink, data: bytes, pieces: random.Random | None = None) -> Stream:
    stream = sink.stream = Stream(sink, Buffers())
    at = 0
    while at < len(data):
        buffer = stream.get_buffer()
        count = min(len(buffer), len(data) - at, pieces.choice((1, 3, 100, 5000, 1 << 18)) if pieces else 1 << 30)
        buffer[:count] = data[at : at + count]
        stream.received(count, 1.0)
        at += count
    return stream


def frames_of(*sizes: int) -> tuple[list[bytes], bytes]:
    rng = random.Random(str(sizes))
    frames = [rng.randbytes(size) for size in sizes]
    return frames, b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@pytest.mark.parametrize("keep_bytes", [0, 100, 65_536, 1 << 20])
@pytest.mark.parametrize("hold_bytes", [0, 1000, 1 << 30])
@pytest.mark.parametrize("seed", range(6))
def test_every_byte_is_passed_on_once_and_in_order(seed, hold_bytes, keep_bytes):
    rng = random.Random(seed)
    sizes = [rng.choice((0, 1, 7, 8, 9, 100, 40_000, 70_000, 300_000)) for _ in range(15)]
    frames, data = frames_of(*sizes)
    sink = Sink(keep_bytes, hold_bytes)
    feed(sink, data, rng)
    assert sink.passed == data
    assert [frame.size_bytes for frame in sink.frames] == sizes
    for frame, expected in zip(sink.frames, frames, strict=True):
        assert expected.startswith(frame.data)
        assert not frame.is_cut or (keep_bytes <= len(frame.data) < 1 << 20 and hold_bytes < 1 << 30)


@pytest.mark.parametrize("seed", range(6))
def test_streams_that_share_buffers_do_not_mix_their_bytes(seed):
    rng = random.Random(seed)
    buffers = Buffers()
    feeds = []
    for number in range(4):
        sizes = [rng.choice((0, 3, 9, 100, 70_000, 300_000)) + number for _ in range(10)]
        feeds.append(Feed(frames_of(*sizes)[1], buffers, rng.choice((0, 5000, 1 << 20))))
    while left := [one for one in feeds if one.at < len(one.data)]:
        rng.choice(left).go_on(rng.choice((1, 3, 100, 5000, 1 << 18)))
    for one in feeds:
        assert one.sink.passed == one.data


class Counted(Sink):
    """Also notes how many bytes each call has."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        self.calls.append(("short frames", len(data)))
        super().short_frames(data, sizes, at_s)

    def passing(self, data: memoryview) -> None:
        self.calls.append(("passing", len(data)))
        super().passing(data)


def test_what_was_read_at_once_is_passed_on_at_once():
    _, data = frames_of(100, 9, 300_000)
    sink = Counted()
    feed(sink, data[:1000])
    feed(sink, data[117:1000])
    assert sink.calls == [("short frames", 1000), ("passing", 883)]


def test_more_is_read_at_once_only_while_frames_are_large():
    sink = Sink()
    sizes = []
    for frame_bytes in (100, 60_000, 100):
        stream = feed(sink, frames_of(100)[1] + frames_of(frame_bytes, frame_bytes)[1])
        sizes.append(len(stream.get_buffer()))
    assert sizes == [FIRST_BYTES, ENTRANCE_BYTES, FIRST_BYTES]


def test_of_a_large_frame_only_the_beginning_is_kept_and_everything_passed_on():
    frames, data = frames_of(3_000_000, 10)
    sink = Sink(keep_bytes=100_000)
    feed(sink, data)
    assert sink.passed == data
    assert [(len(frame.data), frame.size_bytes) for frame in sink.frames] == [(100_000, 3_000_000), (10, 10)]
    assert sink.frames[0].data == frames[0][:100_000]


def test_bytes_are_passed_on_before_the_frame_is_complete():
    _, data = frames_of(200_000)
    sink = Sink()
    feed(sink, data[:150_000])
    assert sink.passed == data[:150_000]
    assert sink.frames == []


def test_end_of_a_frame_is_held_back_until_it_is_complete():
    _, data = frames_of(200_000)
    sink = Sink(hold_bytes=5000)
    stream = feed(sink, data[:-1])
    assert len(sink.passed) == len(data) - 5000
    assert bytes(sink.passed) + stream.take_leftover() == data[:-1]


def test_claimed_size_allocates_little():
    stream = feed(Sink(keep_bytes=64 << 20), struct.pack(">i", 60 << 20) + b"x" * 100)
    assert len(stream.get_buffer()) <= ENTRANCE_BYTES


@pytest.mark.parametrize("length", range(1, 30))
def test_unfinished_frame_is_left_over(length):
    _, data = frames_of(40)
    sink = Sink()
    stream = feed(sink, data[:length])
    assert bytes(sink.passed) + stream.take_leftover() == data[:length]


def test_other_protocols_are_passed_on_unread():
    data = b"\x16\x03\x01\x02\x00" + random.Random(1).randbytes(500_000)
    sink = Sink()
    feed(sink, data)
    assert "TLS" in sink.reason
    assert sink.passed == data


def test_stream_that_gets_out_of_step_is_passed_on_unread():
    _, data = frames_of(10, 70_000)
    sink = Sink()
    feed(sink, data + b"\xff\xff\xff\xff" + b"rest" * 100)
    assert "negative frame size" in sink.reason
    assert sink.passed == data + b"\xff\xff\xff\xff" + b"rest" * 100
