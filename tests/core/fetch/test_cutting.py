from __future__ import annotations

import struct

from kafkaraw.core.fetch.cutting import Cut, cut
from kafkaraw.records import Batch, TopicPartition, batches_of, encode_batch, encode_control_batch
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc

TP = TopicPartition("t", 0)


def batch(base_offset: int, count: int) -> bytes:
    return encode_batch([(0, None, b"%d" % (base_offset + i), None) for i in range(count)], base_offset=base_offset)


def offsets(piece: Cut) -> list[int]:
    wire = Batch("t", 0, piece.wires, start_offset=piece.start_offset)
    return [record.offset for record in wire]


def test_without_a_limit_everything_from_the_offset_on_is_taken() -> None:
    piece = cut(TP, batches_of(memoryview(batch(0, 5) + batch(5, 5))), 3)
    assert offsets(piece) == [3, 4, 5, 6, 7, 8, 9]
    assert (piece.next_offset, piece.records_count) == (10, 7)


def test_batches_that_end_before_the_offset_are_left_out() -> None:
    data = batch(0, 5) + batch(5, 5)
    piece = cut(TP, batches_of(memoryview(data)), 5)
    assert b"".join(wire for _, wire in piece.wires) == data[len(batch(0, 5)) :]


def test_a_transaction_marker_moves_the_position_and_counts_nothing() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=5
    )
    piece = cut(TP, batches_of(memoryview(marker)), 5)
    assert (piece.next_offset, piece.records_count) == (6, 0)


def thinned_out(base_offset: int, count: int, span: int) -> bytes:
    """A batch as compaction leaves it: its last offsets are gone, its range is not."""
    wire = bytearray(batch(base_offset, count))
    struct.pack_into(">i", wire, 23, span - 1)
    stamp_crc(wire)
    return bytes(wire)


def test_the_position_behind_a_thinned_out_batch_is_the_end_of_its_range() -> None:
    piece = cut(TP, batches_of(memoryview(thinned_out(10, 3, 50))), 10)
    assert offsets(piece) == [10, 11, 12]
    assert piece.next_offset == 60
