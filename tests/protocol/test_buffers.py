"""Large memory and buffers are reused when no view into them is left, and never before."""

from __future__ import annotations

import pytest

from kafkaraw.protocol import FrameReader
from kafkaraw.protocol.buffers import HUGE_PAGE_BYTES, SPARE_BYTES_MAX, SPARES_MAX, SpareBuffers, fresh_memory, is_free
from kafkaraw.protocol.frames import FIRST_BUFFER_SIZE

SIZES = (1, 1 << 16, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, 3 * HUGE_PAGE_BYTES)


@pytest.mark.parametrize("size", SIZES)
def test_fresh_memory_is_zeroed_and_writable(size: int) -> None:
    memory = fresh_memory(size)
    assert len(memory) == size
    view = memoryview(memory)
    assert not any(view[-1:])
    view[:1] = b"x"
    assert bytes(memory[:1]) == b"x"


@pytest.mark.parametrize("size", SIZES)
def test_memory_is_free_when_its_last_view_is_gone_and_keeps_what_it_holds(size: int) -> None:
    memory = fresh_memory(size)
    memory[-1:] = b"z"
    assert is_free(memory)
    part = memoryview(memory)[:1]
    assert not is_free(memory)
    rest = part[1:]
    del part
    assert not is_free(memory), "a view of a view counts, too"
    del rest
    assert is_free(memory)
    assert (len(memory), bytes(memory[-1:])) == (size, b"z")


LARGE = 1 << 20


def frame_of(reader: FrameReader, byte: bytes) -> memoryview:
    (frame,) = reader.feed(LARGE.to_bytes(4) + byte * LARGE)
    return frame


def test_a_buffer_is_given_again_once_its_last_view_is_gone() -> None:
    spares = SpareBuffers()
    buffer = spares.make(LARGE)
    view = memoryview(buffer)[10:20]
    assert spares.take(LARGE) is None
    del view
    assert spares.take(LARGE) is buffer
    assert len(buffer) >= LARGE


def test_a_buffer_is_not_given_for_much_less_or_more_than_it_holds() -> None:
    spares = SpareBuffers()
    spares.make(LARGE)
    assert spares.take(LARGE + 1) is None
    assert spares.take(LARGE // 8) is None
    assert spares.take(LARGE // 2) is not None


def test_no_more_is_remembered_than_the_limits_say() -> None:
    spares = SpareBuffers()
    made = [spares.make(LARGE + number) for number in range(SPARES_MAX + 2)]
    known = [buffer for buffer in made if any(buffer is other for other in spares._known)]
    assert len(known) == SPARES_MAX
    spares.make(SPARE_BYTES_MAX)
    assert sum(map(len, spares._known)) <= SPARE_BYTES_MAX


def test_frames_reuse_memory_without_views_only() -> None:
    reader = FrameReader(limit=2 * LARGE)
    kept = frame_of(reader, b"a")
    part = kept[5:10]
    del kept
    assert frame_of(reader, b"b")[0] == ord("b")
    again = frame_of(reader, b"c")
    assert bytes(part) == b"aaaaa"
    assert bytes(again[:1]) == b"c"
    assert len(again) == LARGE
    owner = again.obj
    del again
    assert frame_of(reader, b"d").obj is owner


def test_frames_as_large_as_those_before_need_no_growing_and_reuse_their_memory() -> None:
    reader, size = FrameReader(limit=1 << 30), 5 * LARGE
    assert size > FIRST_BUFFER_SIZE
    frames = [reader.feed(size.to_bytes(4) + bytes(size))[0] for _ in range(3)]  # held at once
    owners = {id(frame.obj) for frame in frames}
    del frames
    made = reader._spares._known
    assert {id(buffer) for buffer in made} == owners  # those that were outgrown are forgotten
    for _ in range(3):
        (frame,) = reader.feed(size.to_bytes(4) + bytes(size))
        assert id(frame.obj) in owners


def test_frames_of_huge_pages_are_reused_like_others() -> None:
    reader, size = FrameReader(limit=1 << 30), 5 * HUGE_PAGE_BYTES // 2
    owners = []
    for byte in (b"a", b"b", b"c", b"d"):
        (frame,) = reader.feed(size.to_bytes(4) + byte * size)
        assert (len(frame), bytes(frame[:1]), bytes(frame[-1:])) == (size, byte, byte)
        owners.append(frame.obj)
        del frame
    assert len({id(owner) for owner in owners[1:]}) == 1  # the first one was found out in pieces


def test_a_claim_allocates_no_more_than_was_sent_before() -> None:
    reader = FrameReader(limit=1 << 30)
    reader.feed((1 << 29).to_bytes(4) + b"x")
    assert len(reader.get_buffer()) <= 2 * FIRST_BUFFER_SIZE
