"""Large buffers are used again when no view into them is left, and never before."""

from __future__ import annotations

from kafkaraw.protocol import FrameReader
from kafkaraw.protocol.buffers import SPARE_BYTES_MAX, SPARES_MAX, SpareBuffers

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


def test_frames_reuse_memory_only_when_nobody_looks_at_it() -> None:
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
