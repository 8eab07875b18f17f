"""Records that an iteration gives: cheap while nobody keeps them, whole when somebody does."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.records import Batch, Record, encode_batch

HEADERS = [("name", b"value"), ("none", None)]


def data_of(count: int, base_offset: int = 0) -> bytearray:
    rows = [
        (1000 + i, b"key%d" % i if i % 2 else None, b"value%d" % i, HEADERS if i % 3 == 0 else None)
        for i in range(base_offset, base_offset + count)
    ]
    return bytearray(encode_batch(rows, base_offset=base_offset))


def batch_of(data: bytearray) -> Batch:
    return Batch("t", 7, memoryview(data), start_offset=0)


def expected(offset: int) -> Record:
    key = b"key%d" % offset if offset % 2 else None
    return Record("t", 7, offset, 1000 + offset, 0, key, b"value%d" % offset, HEADERS if offset % 3 == 0 else [])


def test_records_that_are_kept_stay_what_they_were() -> None:
    data = data_of(10) + data_of(10, 10)
    kept = list(batch_of(data))
    data[:] = bytes(len(data))
    assert kept == [expected(offset) for offset in range(20)]


@given(keep=st.sets(st.integers(0, 19)))
def test_any_of_them_may_be_kept(keep: set[int]) -> None:
    kept = [record for record in batch_of(data_of(12) + data_of(8, 12)) if record.offset in keep]
    assert kept == [expected(offset) for offset in sorted(keep)]


def test_no_record_keeps_the_memory_of_an_answer() -> None:
    data = data_of(50)
    iteration = iter(batch_of(data))
    kept = [next(iteration) for _ in range(3)]
    del iteration
    gc.collect()
    data.append(0)  # refused while there are views
    assert kept == [expected(offset) for offset in range(3)]


def test_an_iteration_that_failed_leaves_what_it_gave() -> None:
    data = data_of(3) + data_of(3, 3)
    data[-1] ^= 0xFF
    given_so_far: list[Record] = []
    with pytest.raises(Exception, match="checksum"):
        given_so_far.extend(batch_of(data))
    assert given_so_far in ([], [expected(offset) for offset in range(3)])


def test_two_iterations_of_a_batch_do_not_disturb_each_other() -> None:
    batch = batch_of(data_of(9))
    pairs = [(first.value, second.value) for first, second in zip(batch, batch, strict=True)]
    assert pairs == [(expected(offset).value,) * 2 for offset in range(9)]


def test_a_record_is_a_value() -> None:
    record = next(iter(batch_of(data_of(4))))
    assert record == expected(0)
    assert record != expected(1)
    assert record == tuple(expected(0))
    assert tuple(record) == tuple(expected(0))
    assert (record[2], record[-2], len(record)) == (0, b"value0", 8)
    topic, partition, *_ = record
    assert (topic, partition) == ("t", 7)
    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.deepcopy(record) == record
    assert record._replace(value=b"other") == expected(0)._replace(value=b"other")
    assert record._asdict()["headers"] == HEADERS
    assert repr(record) == repr(expected(0))
    assert repr(record).startswith("Record(topic='t', partition=7, offset=0, timestamp_ms=1000, ")
    with pytest.raises(AttributeError):
        record.value = b"other"  # type: ignore[misc]
    with pytest.raises((TypeError, ValueError), match="nonsense"):  # a named tuple's: ValueError before Python 3.13
        record._replace(nonsense=1)


# -- values that are large enough for their bytes to be written to again


def large(offset: int, size: int) -> bytes:
    return bytes((offset + at) % 251 for at in range(size))


SIZES = st.lists(st.sampled_from([None, 0, 1, 479, 480, 481, 600, 1000, 1001, 1300]), min_size=1, max_size=20)


@given(sizes=SIZES, keep=st.sets(st.integers(0, 19)))
def test_large_values_that_are_kept_stay_what_they_were(sizes: list[int | None], keep: set[int]) -> None:
    values = [None if size is None else large(offset, size) for offset, size in enumerate(sizes)]
    batch = batch_of(bytearray(encode_batch([(0, None, value, None) for value in values])))
    kept = []
    for record in batch:
        value = record.value
        assert value == values[record.offset]
        if value is not None:
            assert hash(value) == hash(bytes(memoryview(values[record.offset])))  # type: ignore[arg-type]
            assert value + b"." == values[record.offset] + b"."  # type: ignore[operator]
        if record.offset in keep:
            kept.append((record.offset, value))
    assert kept == [(offset, value) for offset, value in enumerate(values) if offset in keep]


def test_a_view_of_a_large_value_stays_what_it_was() -> None:
    values = [large(offset, 1000) for offset in range(8)]
    batch = batch_of(bytearray(encode_batch([(0, None, value, None) for value in values])))
    views = [memoryview(record.value) for record in batch if record.value is not None]
    assert [bytes(view) for view in views] == values
