"""Parts of what a Fetch brought: so many records, or from an offset on, without decoding the rest."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.records import Batch, encode_batch, encode_control_batch
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc


def wire(base_offset: int, count: int) -> bytes:
    return encode_batch([(0, None, b"%d" % (base_offset + i), None) for i in range(count)], base_offset=base_offset)


def batch_of(data: bytes, start_offset: int = 0) -> Batch:
    return Batch("t", 0, memoryview(data), start_offset=start_offset)


def offsets(batch: Batch) -> list[int]:
    return [record.offset for record in batch]


def thinned_out(base_offset: int, count: int, span: int) -> bytes:
    """A batch as compaction leaves it: its last offsets are gone, its range is not."""
    data = bytearray(wire(base_offset, count))
    struct.pack_into(">i", data, 23, span - 1)
    stamp_crc(data)
    return bytes(data)


def test_a_limit_ends_inside_a_batch() -> None:
    head = batch_of(wire(0, 5) + wire(5, 5)).first(7)
    assert offsets(head) == [0, 1, 2, 3, 4, 5, 6]
    assert (head.next_offset, head.records_count) == (7, 7)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    batch = batch_of(wire(0, 5) + wire(5, 5))
    assert batch.first(10) is batch


def test_what_is_left_behind_an_offset_is_counted() -> None:
    rest = batch_of(wire(0, 5) + wire(5, 5)).starting_at(7)
    assert (rest.records_count, offsets(rest)) == (3, [7, 8, 9])


def test_only_a_marker_that_is_left_counts_nothing() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=5
    )
    rest = batch_of(wire(0, 5) + marker).starting_at(5)
    assert (rest.records_count, rest.next_offset) == (0, 6)


def test_a_limit_inside_a_thinned_out_batch_counts_records_and_not_offsets() -> None:
    batch = batch_of(thinned_out(10, 3, 50), 10)
    head = batch.first(2)
    assert offsets(head) == [10, 11]
    rest = batch.starting_at(head.next_offset)
    assert offsets(rest.first(2)) == [12]
    assert rest.first(2).next_offset == 60


@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=5), start=st.integers(0, 8), limit=st.integers(1, 9))
def test_parts_of_so_many_records_give_every_record_once(counts: list[int], start: int, limit: int) -> None:
    data, end = b"", 0
    for count in counts:
        data += wire(end, count)
        end += count
    rest, seen = batch_of(data, start), []
    while rest.records_count:
        head = rest.first(limit)
        assert head.next_offset > rest.start_offset
        assert len(offsets(head)) == min(limit, rest.records_count)
        seen += offsets(head)
        rest = rest.starting_at(head.next_offset)
    assert seen == list(range(start, end))
