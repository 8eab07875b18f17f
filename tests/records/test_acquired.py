"""Records that a member of a share group has acquired, read as named tuples with their delivery counts."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import Batch, encode_batch
from kafkaraw.records.record import Header

HEADERS = [("a", b"1"), ("a", None)]


class Acquired(NamedTuple):
    """The fields of a record, and its delivery count."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    delivery_count: int


def wire(base_offset: int, count: int, codec: str = "none") -> bytes:
    records = [(7, b"k", b"%d" % offset, HEADERS) for offset in range(base_offset, base_offset + count)]
    return encode_batch(records, base_offset=base_offset, codec=codec)


def read(data: bytes | bytearray, ranges: Sequence[tuple[int, int, int]], **limits: int) -> list[Acquired]:
    records: list[Acquired] = []
    Batch("t", 3, memoryview(data), start_offset=0, **limits).read_acquired(ranges, records, Acquired)
    return records


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_acquired_records_have_the_fields_of_the_others_and_the_count_of_their_range(codec: str) -> None:
    data = wire(0, 3, codec) + wire(3, 3, codec)
    records = read(data, [(0, 3, 1), (4, 5, 2)])
    assert [record[:-1] for record in records] == [
        tuple(record) for record in Batch("t", 3, memoryview(data), start_offset=0)
    ]
    assert [record.delivery_count for record in records] == [1, 1, 1, 1, 2, 2]
    assert {type(record) for record in records} == {Acquired}


def test_null_keys_values_and_headers() -> None:
    (record,) = read(encode_batch([(7, None, None, None)]), [(0, 0, 1)])
    assert record == ("t", 3, 0, 7, 0, None, None, [], 1)


def test_records_between_the_ranges_belong_to_other_members() -> None:
    data = wire(0, 3) + wire(3, 3) + wire(6, 3)
    assert [record.offset for record in read(data, [(1, 1, 1), (4, 6, 1), (8, 8, 1)])] == [1, 4, 5, 6, 8]


def test_offsets_bound_the_ranges() -> None:
    records: list[Acquired] = []
    batch = Batch("t", 3, memoryview(wire(0, 9)), start_offset=0).between(2, 7)
    batch.read_acquired([(0, 0, 1), (1, 3, 1), (6, 8, 2), (9, 9, 1)], records, Acquired)
    assert [(record.offset, record.delivery_count) for record in records] == [(2, 1), (3, 1), (6, 2)]


def test_without_a_range_there_is_no_record() -> None:
    assert read(wire(0, 3), []) == []


def test_records_before_damage_are_read() -> None:
    data = bytearray(wire(0, 2) + wire(2, 2))
    data[-1] ^= 1
    records: list[Acquired] = []
    with pytest.raises(CorruptBatchError):
        Batch("t", 3, memoryview(data), start_offset=0).read_acquired([(0, 3, 1)], records, Acquired)
    assert [record.offset for record in records] == [0, 1]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_an_error_about_a_size_names_the_partition(codec: str) -> None:
    with pytest.raises(BatchTooLargeError, match="t-3"):
        read(wire(0, 1, codec), [(0, 0, 1)], size_max_bytes=4)


def test_acquired_records_outlive_the_response_and_are_values() -> None:
    data = bytearray(wire(0, 2))
    records = read(data, [(0, 1, 1)])
    data[:] = bytes(len(data))
    assert [record.value for record in records] == [b"0", b"1"]
    assert records[0].headers == HEADERS
    assert records[0].headers is not records[1].headers
    assert pickle.loads(pickle.dumps(records)) == records
    assert records[0]._replace(offset=9) == (*records[0][:2], 9, *records[0][3:])


def test_nothing_is_left_of_records_that_are_dropped() -> None:
    data = wire(0, 50)
    read(data, [(0, 49, 1)])
    gc.collect()
    before = sys.getrefcount(Acquired), sys.getallocatedblocks()
    for _ in range(20):
        read(data, [(0, 49, 1)])
    gc.collect()
    assert sys.getrefcount(Acquired) == before[0]
    assert sys.getallocatedblocks() - before[1] < 100


def test_only_tuples_are_made() -> None:
    records: list[list[int]] = []
    with pytest.raises(TypeError):
        Batch("t", 3, memoryview(wire(0, 1)), start_offset=0).read_acquired([(0, 0, 1)], records, list)  # type: ignore[type-var]
