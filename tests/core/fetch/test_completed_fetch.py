from __future__ import annotations

import struct

from kafkaraw.core.fetch.fetcher import complete
from kafkaraw.core.fetch.requests import FetchTarget
from kafkaraw.core.fetch.subscription_state import CompletedFetch
from kafkaraw.protocol import Uuid
from kafkaraw.records import Batch, TopicPartition, encode_batch, encode_control_batch
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc

TP = TopicPartition("t", 0)


def batch(base_offset: int, count: int) -> bytes:
    return encode_batch([(0, None, b"%d" % (base_offset + i), None) for i in range(count)], base_offset=base_offset)


def completed(records: bytes, offset: int) -> Batch:
    target = FetchTarget(TP, Uuid(b"t" * 16), offset, generation=0, leader_epoch=0, size_wanted_bytes=0)
    fetch = complete(1, target, memoryview(records), (), Batch)
    assert isinstance(fetch, CompletedFetch)
    return fetch.batch


def test_everything_from_the_fetch_offset_on_is_given() -> None:
    made = completed(batch(0, 5) + batch(5, 5), 3)
    assert [record.offset for record in made] == [3, 4, 5, 6, 7, 8, 9]
    assert (made.next_offset, made.records_count) == (10, 7)


def test_wire_batches_that_end_before_the_fetch_offset_are_left_out() -> None:
    made = completed(batch(0, 5) + batch(5, 5), 5)
    assert [header.base_offset for header in made.headers] == [5]
    assert made.size_bytes == len(batch(5, 5))


def test_a_transaction_marker_moves_the_position_and_counts_nothing() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=5
    )
    made = completed(marker, 5)
    assert (made.next_offset, made.records_count) == (6, 0)


def test_a_batch_cut_short_names_the_bytes_to_ask_for() -> None:
    whole = batch(0, 50)
    target = FetchTarget(TP, Uuid(b"t" * 16), 0, generation=0, leader_epoch=0, size_wanted_bytes=0)
    assert complete(1, target, memoryview(whole)[:100], (), Batch) == len(whole)


def thinned_out(base_offset: int, count: int, span: int) -> bytes:
    """A batch as compaction leaves it: its last offsets are gone, its range is not."""
    wire = bytearray(batch(base_offset, count))
    struct.pack_into(">i", wire, 23, span - 1)
    stamp_crc(wire)
    return bytes(wire)


def test_the_position_behind_a_thinned_out_batch_is_the_end_of_its_range() -> None:
    made = completed(thinned_out(10, 3, 50), 10)
    assert [record.offset for record in made] == [10, 11, 12]
    assert made.next_offset == 60
