from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.fetch.cutting import Cut, cut
from kafkaraw.records import Batch, TopicPartition, encode_batch, encode_control_batch
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc

TP = TopicPartition("t", 0)


def batch(base_offset: int, count: int) -> bytes:
    return encode_batch([(0, None, b"%d" % (base_offset + i), None) for i in range(count)], base_offset=base_offset)


def offsets(piece: Cut) -> list[int]:
    wire = Batch("t", 0, piece.data, start_offset=piece.start_offset, end_offset=piece.end_offset)
    return [record.offset for record in wire]


def test_without_a_limit_everything_from_the_offset_on_is_taken() -> None:
    piece = cut(TP, memoryview(batch(0, 5) + batch(5, 5)), 3, None)
    assert offsets(piece) == [3, 4, 5, 6, 7, 8, 9]
    assert (piece.next_offset, piece.records_count) == (10, 7)


def test_batches_that_end_before_the_offset_are_left_out() -> None:
    data = batch(0, 5) + batch(5, 5)
    piece = cut(TP, memoryview(data), 5, None)
    assert bytes(piece.data) == data[len(batch(0, 5)) :]


def test_a_limit_ends_inside_a_batch() -> None:
    piece = cut(TP, memoryview(batch(0, 5) + batch(5, 5)), 0, 7)
    assert offsets(piece) == [0, 1, 2, 3, 4, 5, 6]
    assert (piece.next_offset, piece.records_count) == (7, 7)


def test_a_limit_at_the_end_of_a_batch_needs_no_end_offset() -> None:
    piece = cut(TP, memoryview(batch(0, 5) + batch(5, 5)), 0, 5)
    assert piece.end_offset is None
    assert piece.next_offset == 5


def test_a_transaction_marker_moves_the_position_and_counts_nothing() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=5
    )
    piece = cut(TP, memoryview(marker), 5, 10)
    assert (piece.next_offset, piece.records_count) == (6, 0)


def thinned_out(base_offset: int, count: int, span: int) -> bytes:
    """A batch as compaction leaves it: its last offsets are gone, its range is not."""
    wire = bytearray(batch(base_offset, count))
    struct.pack_into(">i", wire, 23, span - 1)
    stamp_crc(wire)
    return bytes(wire)


def test_the_position_behind_a_thinned_out_batch_is_the_end_of_its_range() -> None:
    piece = cut(TP, memoryview(thinned_out(10, 3, 50)), 10, None)
    assert offsets(piece) == [10, 11, 12]
    assert piece.next_offset == 60


def test_a_limit_inside_a_thinned_out_batch_counts_records_and_not_offsets() -> None:
    wire = memoryview(thinned_out(10, 3, 50))
    first = cut(TP, wire, 10, 2)
    assert offsets(first) == [10, 11]
    rest = cut(TP, wire, first.next_offset, 2)
    assert offsets(rest) == [12]
    assert rest.next_offset == 60


@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=5), start=st.integers(0, 8), limit=st.integers(1, 9))
def test_cutting_again_and_again_gives_every_record_once(counts: list[int], start: int, limit: int) -> None:
    data, end = b"", 0
    for count in counts:
        data += batch(end, count)
        end += count
    position, seen = start, []
    while position < end:
        piece = cut(TP, memoryview(data), position, limit)
        assert piece.next_offset > position
        assert len(offsets(piece)) <= limit
        seen += offsets(piece)
        position = piece.next_offset
    assert seen == list(range(start, end))
