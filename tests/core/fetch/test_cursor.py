"""What a consumer has in hand is given once, in order, however the ways of reading are mixed."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.client.fetching.arrow import to_arrow
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.errors import CorruptBatchError, DeserializationError
from kafkaraw.records import Batch, Record, TopicPartition, encode_batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(partition: int, base_offset: int, count: int, convert: Callable[[Record], Record] | None = None) -> Batch:
    wire = encode_batch([(0, None, b"v", None)] * count, base_offset=base_offset)
    return Batch("t", partition, memoryview(wire), start_offset=base_offset, convert=convert)


def cursor(*batches: Batch, paused: set[TopicPartition] | None = None) -> RecordCursor:
    made = RecordCursor(paused if paused is not None else set())
    made.put(batches)
    return made


def taken(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(one.partition, record.offset) for one in batches for record in one]


def test_a_limit_leaves_the_rest_in_hand() -> None:
    made = cursor(batch(0, 0, 5), batch(1, 0, 5))
    assert taken(made.take(7)) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    assert made.position_in(P1) == 2
    assert taken(made.take(7)) == [(1, 2), (1, 3), (1, 4)]
    assert made.take(7) == []


def test_a_limit_of_bytes_is_passed_by_the_last_batch_only() -> None:
    made = cursor(*(batch(partition, 0, 5) for partition in range(3)))
    assert len(made.take(None, batch(0, 0, 5).size_bytes + 1)) == 2


def test_two_batches_of_a_partition_are_not_taken_at_once() -> None:
    made = cursor(batch(0, 0, 2), batch(0, 2, 2))
    assert taken(made.take(None)) == [(0, 0), (0, 1)]
    assert taken(made.take(None)) == [(0, 2), (0, 3)]


def test_what_is_dropped_is_not_given() -> None:
    made = cursor(batch(0, 0, 3), batch(1, 0, 3), batch(0, 3, 3))
    records = made.records()
    assert next(records).partition == 0
    made.drop({P0})
    assert [record.partition for record in records] == [1, 1, 1]
    assert made.position_in(P0) is None


def test_nothing_of_a_paused_partition_is_given_and_nothing_of_it_is_lost() -> None:
    paused: set[TopicPartition] = set()
    made = cursor(batch(0, 0, 3), batch(1, 0, 2), paused=paused)
    records = made.records()
    assert next(records).offset == 0
    paused.add(P0)
    made.set_aside()
    assert [(record.partition, record.offset) for record in records] == [(1, 0), (1, 1)]
    assert (made.next_batch(), made.take(None), made.next_record()) == (None, [], None)
    assert made.position_in(P0) == 1
    paused.clear()
    assert [record.offset for record in made.records()] == [1, 2]


def damaged(partition: int, start: int, count: int) -> bytes:
    wire = bytearray(encode_batch([(0, None, b"v", None)] * count, base_offset=start))
    wire[-1] ^= 1
    return bytes(wire)


@pytest.mark.parametrize("way", ["iterate", "next", "columns"])
def test_a_damaged_wire_batch_raises_once_and_all_others_are_given_once(way: str) -> None:
    good = [encode_batch([(0, None, b"v", None)] * 2, base_offset=start) for start in (0, 4)]
    wires = memoryview(good[0] + damaged(0, 2, 2) + good[1])
    made = cursor(batch(1, 0, 2), Batch("t", 0, wires, start_offset=0), batch(2, 0, 1))
    got: list[tuple[int, int]] = []
    errors = 0
    while made.holds_records:
        try:
            if way == "iterate":
                got += [(record.partition, record.offset) for record in made.records()]
            elif way == "next" and (record := made.next_record()) is not None:
                got.append((record.partition, record.offset))
            elif way == "columns":
                rows = made.take_converted(to_arrow, None)
                got += zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        except CorruptBatchError:
            errors += 1
            if way == "iterate":
                got += [(1, 0), (1, 1), (0, 0), (0, 1)]  # the list above was lost with the error
            assert made.position_in(P0) == 4
    assert errors == 1
    assert sorted(got) == [(0, 0), (0, 1), (0, 4), (0, 5), (1, 0), (1, 1), (2, 0)]


def test_a_limit_within_a_damaged_wire_batch_keeps_no_partition_from_being_given() -> None:
    gaps = bytearray(encode_batch([(0, None, b"v", None)] * 3))
    struct.pack_into(">i", gaps, 23, 9)  # last_offset_delta: compaction left gaps, so offsets have to be looked at
    gaps[61] = 0x7E  # the size of the first record
    made = cursor(Batch("t", 0, memoryview(gaps)[:], start_offset=0), batch(1, 0, 1))
    bad, *_ = made.take(2)
    with pytest.raises(CorruptBatchError):
        list(bad)
    assert [each.partition for each in made.take(2)] == [1]


@given(
    counts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=6),
    steps=st.lists(st.sampled_from(["record", "loop", "batch", "take"]), max_size=30),
)
def test_every_record_is_given_once_and_in_order_of_its_partition(
    counts: list[tuple[int, int]], steps: list[str]
) -> None:
    ends = {0: 0, 1: 0, 2: 0}
    made = cursor()
    for partition, count in counts:
        made.put([batch(partition, ends[partition], count)])
        ends[partition] += count
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    noted: dict[TopicPartition, int | None] = {}
    loop = made.records()
    for step in [*steps, *["take"] * 40]:
        match step:
            case "record":
                record = made.next_record()
                found = [] if record is None else [(record.partition, record.offset)]
            case "loop":
                record = next(loop, None)
                found = [] if record is None else [(record.partition, record.offset)]
                loop = made.records() if record is None else loop
            case "batch":
                one = made.next_batch()
                found = [] if one is None else taken([one])
            case _:
                found = taken(made.take(3))
        for partition, offset in found:
            seen[partition].append(offset)
        for partition, given_offsets in seen.items():
            behind = made.position_in(TopicPartition("t", partition))
            assert behind is None or behind == len(given_offsets)
            assert made.positions().get(TopicPartition("t", partition)) == behind
        for moved in made.moved():
            noted[moved] = made.position_in(moved)
        assert {of: offset for of, offset in noted.items() if offset is not None} == made.positions()
    assert seen == {partition: list(range(end)) for partition, end in ends.items()}


def test_what_was_given_last_is_unsettled_until_the_user_comes_back() -> None:
    paused: set[TopicPartition] = set()
    made = cursor(batch(0, 0, 5), batch(0, 5, 3), batch(1, 0, 5), batch(1, 5, 5), paused=paused)
    assert made.unsettled == {}
    assert [made.next_record(), made.next_record()][1].offset == 1  # type: ignore[union-attr]
    assert made.unsettled == {P0: 1}, "one record at a time: the last one"
    made.next_batch()
    assert made.unsettled == {P0: 2}, "the rest of the batch"
    made.take(None)
    assert made.unsettled == {P0: 5, P1: 0}, "of each partition that the call gave something of"
    made.drop({P0})
    assert made.unsettled == {P1: 0}
    made.settle()
    assert made.unsettled == {}
    assert next(made.records()).offset == 5
    paused.add(P1)
    made.set_aside()
    assert made.unsettled == {P1: 5}, "a pause takes nothing from who has it"
    assert made.next_batch() is None
    assert made.unsettled == {}
    paused.clear()
    assert next(made.records()).offset == 6
    made.settle()
    assert made.unsettled == {}
    assert made.next_record().offset == 7  # type: ignore[union-attr]
    assert made.unsettled == {P1: 7}
    made.drop()
    assert made.unsettled == {}


def test_a_record_that_cannot_be_returned_still_marks_the_previous_one_processed() -> None:
    def convert(record: Record) -> Record:
        if record.offset == 2:
            raise DeserializationError("no", topic="t", partition=0, offset=2)
        return record

    made = cursor(batch(0, 0, 5, convert))
    assert [made.next_record(), made.next_record()][1] is not None
    assert made.unsettled == {P0: 1}
    with pytest.raises(DeserializationError):
        made.next_record()
    assert (made.unsettled, made.position_in(P0)) == ({}, 2)
    with pytest.raises(DeserializationError):
        next(made.records())
    assert (made.unsettled, made.position_in(P0)) == ({}, 2)
