"""A batch in parts: the same records, the same claims on their outcomes, the same memory."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.errors import KafkaError
from kafkaraw.records import Batch, BatchPromise, OpenBatches, RecordMetadata, SealedBatch, Ticket, split_batch
from tests.examples import examples
from tests.records.promises import FakeClock, FakeWaiter

FIELDS = st.none() | st.binary(max_size=60)
RECORDS = st.lists(
    st.tuples(FIELDS, FIELDS, st.integers(0, 2**41), st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=2)),
    min_size=2,
    max_size=30,
)


def batches_of(codec: str = "none", level: int | None = None, memory: int = 2**30) -> OpenBatches:
    return OpenBatches(2**20, codec, level, memory, FakeClock(), waiter=FakeWaiter(), new_lock=threading.RLock)


def sealed(count: int, codec: str = "none") -> tuple[OpenBatches, list[Ticket], SealedBatch]:
    batches = batches_of(codec)
    batches.set_partitions("t", 1)
    tickets = [batches.append("t", None, b"%06d" % number, None, 1000 + number, None)[1] for number in range(count)]
    (batch,) = batches.seal_all()
    batch.encode(7, 1, 100)
    return batches, tickets, batch  # type: ignore[return-value]


def read(batch: SealedBatch) -> list[tuple[object, ...]]:
    wire = Batch("t", 0, batch.encode(7, 1, 0), start_offset=0)
    return [(r.key, r.value, r.timestamp_ms, r.headers) for r in wire]


@settings(max_examples=examples(150), deadline=None)
@given(RECORDS, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
def test_the_parts_hold_the_records_in_order(records: list[tuple], codec: str) -> None:  # type: ignore[type-arg]
    batches = batches_of(codec)
    batches.set_partitions("t", 1)
    for key, value, timestamp_ms, headers in records:
        batches.append("t", key, value, headers, timestamp_ms, 0)
    (batch,) = batches.seal_all()
    batch.encode()
    parts = split_batch(batch)
    while any(part.records_count > 1 for part in parts):
        assert [record for part in parts for record in read(part)] == [
            (key, value, timestamp_ms, headers) for key, value, timestamp_ms, headers in records
        ]
        parts = [piece for part in parts for piece in (split_batch(part) if part.records_count > 1 else [part])]
    assert len(parts) == len(records)
    for part in parts:
        batches.release(part)
    assert batches.used_bytes == 0


def test_parts_are_about_half_as_large_and_compressed_alike() -> None:
    _, _, batch = sealed(1000, "zstd")
    first, second = split_batch(batch)
    assert abs(first.records_count - second.records_count) <= 10
    assert (first.codec, first.level) == (batch.codec, batch.level)
    assert Batch("t", 0, first.encode(), start_offset=0).headers[0].codec_id == batch.codec.id


def test_memory_stays_taken_until_all_parts_are_released() -> None:
    batches, _, batch = sealed(10)
    before = batches.used_bytes
    first, second = split_batch(batch)
    batches.release(batch)
    assert batches.used_bytes == before, "the parts have it"
    batches.release(first)
    assert 0 < batches.used_bytes < before
    batches.release(second)
    assert batches.used_bytes == 0


def test_tickets_find_their_part() -> None:
    """Somebody else's records may stand between the parts, and one part may fail."""
    _, tickets, batch = sealed(4)
    first, second = split_batch(batch)
    first.promise.resolve(50)
    assert not any(ticket.done for ticket in tickets)
    second.promise.resolve(60, 777)
    assert [ticket.result() for ticket in tickets] == [
        RecordMetadata("t", 0, 50, 1000),
        RecordMetadata("t", 0, 51, 1001),
        RecordMetadata("t", 0, 60, 777),
        RecordMetadata("t", 0, 61, 777),
    ]


def test_a_failed_part_fails_its_own_tickets_only() -> None:
    _, tickets, batch = sealed(4)
    first, second = split_batch(batch)
    error = KafkaError("too large")
    second.promise.fail(error)
    first.promise.resolve(50)
    assert [str(ticket.exception()) for ticket in tickets] == ["None", "None", "too large", "too large"]
    assert tickets[1].result().offset == 51
    with pytest.raises(KafkaError, match="too large"):
        tickets[2].result()
    assert second.promise.is_seen(2)
    assert not first.promise.is_seen(1)


def test_a_part_that_is_split_again_still_belongs_to_its_tickets() -> None:
    _, tickets, batch = sealed(8)
    first, second = split_batch(batch)
    second.encode()
    pieces = split_batch(second)
    for number, part in enumerate([first, *pieces]):
        part.promise.resolve(100 * number)
    assert [ticket.result().offset for ticket in tickets] == [0, 1, 2, 3, 100, 101, 200, 201]


def test_callbacks_run_once_when_all_parts_are_done() -> None:
    _, tickets, batch = sealed(4)
    called: list[Ticket] = []
    tickets[0].add_done_callback(called.append)
    first, second = split_batch(batch)
    tickets[3].add_done_callback(called.append)
    first.promise.fail(KafkaError("gone"))
    assert called == []
    second.promise.resolve(1)
    assert called == [tickets[0], tickets[3]]
    assert first.promise.is_seen(1), "the sender of its first record is told"
    assert not first.promise.is_seen(2)


def test_failing_the_whole_fails_the_parts_that_are_left() -> None:
    promise = BatchPromise("t", 0, FakeWaiter())
    first, second = promise.split([1, 1])
    first.resolve(5)
    error = KafkaError("closed")
    assert promise.fail(error) and promise.done
    assert (first.base_offset, second.error) == (5, error)
    assert not promise.fail(error), "the first outcome counts"


def test_pieces_of_a_split_batch_are_found_for_any_run_of_records() -> None:
    promise = BatchPromise("t", 0, FakeWaiter())
    first, second = promise.split([4, 6])
    third, fourth = second.split([1, 5])
    assert list(promise.pieces_of(0, 10)) == [(first, 0, 4), (third, 0, 1), (fourth, 0, 5)]
    assert list(promise.pieces_of(3, 4)) == [(first, 3, 1), (third, 0, 1), (fourth, 0, 2)]
    assert list(promise.pieces_of(6, 2)) == [(fourth, 1, 2)]
    assert list(first.pieces_of(1, 2)) == [(first, 1, 2)]
