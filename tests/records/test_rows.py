"""Columns become the same batches as records that are sent one by one."""

from __future__ import annotations

import struct
import threading
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.records import (
    HEADER_SIZE,
    PARTITIONERS,
    AppendStatus,
    BadRow,
    Batch,
    Fault,
    OpenBatches,
    Partitioner,
    Record,
    RowColumns,
    Rows,
    SealedBatch,
    SentPart,
    partition_for_key,
    verify_crc,
)
from tests.records.promises import FakeClock, FakeWaiter, open_batches
from tests.records.row_columns import Row, bytes_column, columns_of, headers_column, numbers_column


def send(rows: Rows, batches: OpenBatches) -> list[SentPart]:
    """Send all rows."""
    parts: list[SentPart] = []
    row = 0
    while row < rows.count:
        status, row, more = rows.append_to(batches, row)
        assert status not in (AppendStatus.FULL, AppendStatus.UNKNOWN_TOPIC)
        parts += more
    return parts


def records_of(sealed: SealedBatch) -> list[Record]:
    data = sealed.encode()
    verify_crc(data)
    return list(Batch(sealed.topic, sealed.partition, data, start_offset=0))


def sent_one_by_one(rows: list[Row], topics: tuple[str, ...], batches: OpenBatches) -> list[SealedBatch]:
    for row in rows:
        status, _ = batches.append(topics[row.topic], row.key, row.value, row.headers, row.timestamp, row.partition)
        assert status not in (AppendStatus.FULL, AppendStatus.UNKNOWN_TOPIC)
    return batches.seal_all()


SMALL = st.binary(max_size=30)
LARGE = st.integers(0, 3000).map(bytes)
NAMES = st.text(st.characters(codec="utf-8"), max_size=5)
ROWS = st.builds(
    Row,
    value=st.none() | SMALL | LARGE,
    key=st.none() | SMALL,
    headers=st.none() | st.lists(st.tuples(NAMES, st.none() | SMALL), max_size=3),
    timestamp=st.none() | st.integers(0, 2**63 - 1),
    partition=st.none() | st.integers(0, 2),
    topic=st.integers(0, 1),
)


@given(
    st.lists(ROWS, max_size=60),
    st.sampled_from([100, 500, 2000, 100_000]),
    st.sampled_from(sorted(PARTITIONERS)),
    st.integers(0, 1000),
)
def test_rows_make_the_same_batches_as_records(rows: list[Row], batch_size: int, partitioner: str, seed: int) -> None:
    topics = ("t", "u")
    made = []
    for as_columns in (True, False):
        batches = open_batches(batch_size=batch_size, partitioner=PARTITIONERS[partitioner])
        batches.set_partitions("u", 4)
        if as_columns:
            columns = Rows(columns_of(rows, topics, seed=seed))
            assert columns.check([3, 4], 1_000_000) is None
            send(columns, batches)
            made.append(batches.seal_all())
        else:
            made.append(sent_one_by_one(rows, topics, batches))
        used = sum(sealed.size_bytes for sealed in made[-1])
        assert batches.used_bytes == used
    by_partition: list[dict[tuple[str, int], list[bytes]]] = [{}, {}]
    for found, sealed_batches in zip(by_partition, made, strict=True):
        for sealed in sealed_batches:
            found.setdefault((sealed.topic, sealed.partition), []).append(bytes(sealed.encode()))
    assert by_partition[0] == by_partition[1]


@given(st.lists(ROWS, min_size=1, max_size=60), st.sampled_from([100, 500, 100_000]))
def test_parts_say_where_each_row_went(rows: list[Row], batch_size: int) -> None:
    batches = open_batches(batch_size=batch_size)
    batches.append("t", None, b"before", None, None, 1)
    rows = [replace(row, topic=0, timestamp=7) for row in rows]
    parts = send(Rows(columns_of(rows)), batches)
    records = {sealed.promise: records_of(sealed) for sealed in batches.seal_all()}
    assert sum(part.rows_count for part in parts) == len(rows)
    for part in parts:
        written = records[part.promise][part.first_index : part.first_index + part.rows_count]
        first = rows[part.first_row]
        assert len(written) == part.rows_count
        assert (written[0].key, written[0].value, written[0].headers) == (first.key, first.value, first.headers or [])


def test_rows_join_the_batches_that_are_open() -> None:
    batches = open_batches()
    batches.append("t", None, b"before", None, None, 1)
    parts = send(Rows(columns_of([Row(b"row", partition=1)])), batches)
    batches.append("t", None, b"after", None, None, 1)
    (sealed,) = batches.seal_all()
    assert [record.value for record in records_of(sealed)] == [b"before", b"row", b"after"]
    assert parts == [SentPart(sealed.promise, 1, 1, 0)]


def test_rows_of_no_columns_are_empty_records() -> None:
    batches = open_batches(FakeClock(55))
    send(Rows(RowColumns(3, ("t",))), batches)
    (sealed,) = batches.seal_all()
    assert [(record.key, record.value, record.timestamp_ms) for record in records_of(sealed)] == [(None, None, 55)] * 3


def test_no_rows_open_no_batch() -> None:
    batches = open_batches()
    rows = Rows(columns_of([]))
    assert (rows.count, rows.check([3], 0)) == (0, None)
    assert rows.append_to(batches, 0)[1:] == (0, [])
    assert batches.seal_all() == []
    assert batches.used_bytes == 0


def test_keys_go_where_records_with_these_keys_go() -> None:
    keys = [b"key-%d" % number for number in range(200)]
    for partitioner, expected in (("default", partition_for_key), ("consistent", lambda key, n: zlib.crc32(key) % n)):
        batches = open_batches(batch_size=100_000, partitioner=PARTITIONERS[partitioner])
        send(Rows(columns_of([Row(key=key) for key in keys])), batches)
        found = {record.key: sealed.partition for sealed in batches.seal_all() for record in records_of(sealed)}
        assert found == {key: expected(key, 3) for key in keys}


def test_a_partitioner_that_is_a_function_is_asked_for_each_row() -> None:
    asked = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        asked.append((topic, key, value, count))
        return 2

    batches = open_batches(partitioner=Partitioner(function=choose))
    parts = send(Rows(columns_of([Row(b"1"), Row(b"2", b"key"), Row(b"3", partition=0)])), batches)
    assert asked == [("t", None, b"1", 3), ("t", b"key", b"2", 3)]
    assert [part.promise.partition for part in parts for _ in range(part.rows_count)] == [2, 2, 0]


def test_round_robin_gives_every_row_another_partition() -> None:
    batches = open_batches(partitioner=PARTITIONERS["round_robin"])
    send(Rows(columns_of([Row()] * 9)), batches)
    assert [sealed.records_count for sealed in batches.seal_all()] == [3, 3, 3]


def test_above_the_memory_bound_rows_wait() -> None:
    batches = open_batches(buffer_memory=1000, batch_size=400)
    rows = Rows(columns_of([Row(bytes(100))] * 30))
    row, seen = 0, 0
    while row < rows.count:
        status, row, _ = rows.append_to(batches, row)
        assert batches.used_bytes <= 1000 + 400
        if status is AppendStatus.FULL:
            seen += 1
            for sealed in batches.take_sealed():
                batches.release(sealed)
    assert seen >= 2


def test_a_refusal_is_raised_and_nothing_is_sent() -> None:
    batches = open_batches()

    def refuse() -> None:
        raise RuntimeError("closed")

    batches.refuse(refuse)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="closed"):
        Rows(columns_of([Row()])).append_to(batches, 0)
    batches.refuse(None)
    assert batches.seal_all() == []


def test_unknown_topics_and_partitions_are_not_taken() -> None:
    batches = open_batches()
    assert Rows(columns_of([Row()], ("unknown",))).append_to(batches, 0) == (AppendStatus.UNKNOWN_TOPIC, 0, [])
    status, row, parts = Rows(columns_of([Row(partition=0), Row(partition=3)])).append_to(batches, 0)
    if status is not AppendStatus.UNKNOWN_TOPIC:  # the first one opened a batch
        status, row, _ = Rows(columns_of([Row(partition=0), Row(partition=3)])).append_to(batches, row)
    assert (status, row, sum(part.rows_count for part in parts)) == (AppendStatus.UNKNOWN_TOPIC, 1, 1)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (Row(partition=3), BadRow(Fault.PARTITION, 2, 3)),
        (Row(partition=-1), BadRow(Fault.PARTITION, 2, -1)),
        (Row(timestamp=-1), BadRow(Fault.TIMESTAMP, 2, -1)),
        (Row(bytes(1000)), BadRow(Fault.SIZE, 2, 1082)),
        (Row(bytes(400), bytes(400), [("name", bytes(300))]), BadRow(Fault.SIZE, 2, 82 + 800 + 314)),
        (Row(topic=2), BadRow(Fault.TOPIC, 2, 2)),
        (Row(topic=-1), BadRow(Fault.TOPIC, 2, -1)),
    ],
)
def test_the_first_row_that_cannot_be_sent_is_found(bad: Row, fault: BadRow) -> None:
    rows = Rows(columns_of([Row(timestamp=0), Row(bytes(900), partition=2), bad, bad], ("t", "u")))
    assert rows.check([3, 3], 1000) == fault


def test_contradicting_buffers_are_found() -> None:
    good = bytes_column([b"one", None, b"three"])
    names = headers_column([[("a", b"1")], None, [("b", None)]])
    numbers = numbers_column([1, 2, 3])
    assert Rows(RowColumns(3, ("t",), value=good, headers=names, timestamp=numbers)).check([1], 1000) is None
    for column in (
        replace(good, ends=memoryview(struct.pack("=4i", 0, 3, 3, 9))),
        replace(good, ends=memoryview(struct.pack("=4i", 0, 3, 2, 8))),
        replace(good, ends=memoryview(struct.pack("=4i", -1, 3, 3, 8))),
        replace(good, ends=good.ends[:12]),
        replace(good, first=1),
        replace(good, validity=memoryview(b"")),
        replace(good, wide=True),
    ):
        assert Rows(RowColumns(3, ("t",), key=column)).check([1], 1000) == BadRow(Fault.LAYOUT, 0, 0)
        for inner in (replace(names, names=column), replace(names, ends=column.ends, wide=column.wide)):
            wrong = replace(inner, ends=memoryview(struct.pack("=4i", 0, 1, 2, 3))) if inner.names is column else inner
            assert Rows(RowColumns(3, ("t",), headers=wrong)).check([1], 1000) == BadRow(Fault.LAYOUT, 0, 0)
    for short in (replace(numbers, first=1), replace(numbers, validity=memoryview(b""))):
        for name in ("timestamp", "partition", "topic"):
            assert Rows(RowColumns(3, ("t",), **{name: short})).check([4], 1000) == BadRow(Fault.LAYOUT, 0, 0)


def test_threads_lose_and_mix_up_nothing() -> None:
    batches = OpenBatches(3000, "none", None, 100_000_000, FakeClock(), waiter=FakeWaiter(), new_lock=threading.RLock)
    batches.set_partitions("t", 4)
    sent: list[SentPart] = []

    def send_rows(thread: int) -> None:
        for start in range(0, 6000, 1500):
            values = [b"%d-%d" % (thread, number) for number in range(start, start + 1500)]
            keyed = [Row(value, key=b"%d" % (number % 50)) for number, value in enumerate(values)]
            sent.extend(send(Rows(columns_of(keyed)), batches))

    def send_records(thread: int) -> None:
        for number in range(3000):
            batches.append("t", b"%d" % (number % 50), b"%d-%d" % (thread, number), None, None, None)

    def seal() -> None:
        while not done.wait(0.0005):
            taken.extend(batches.seal_all())

    done, taken = threading.Event(), list[SealedBatch]()
    sealer = threading.Thread(target=seal)
    threads = [threading.Thread(target=work, args=(n,)) for n, work in enumerate([send_rows, send_rows, send_records])]
    sealer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    sealer.join()
    taken += batches.seal_all()
    assert sum(part.rows_count for part in sent) == 12_000
    assert all(sealed.records_count and sealed.size_bytes > HEADER_SIZE for sealed in taken)
    by_key: dict[tuple[bytes, bytes], list[int]] = {}
    for sealed in taken:
        for record in records_of(sealed):
            assert record.key is not None and record.value is not None
            assert sealed.partition == partition_for_key(record.key, 4)
            thread, _, number = record.value.partition(b"-")
            by_key.setdefault((record.key, thread), []).append(int(number))
    assert sum(map(len, by_key.values())) == 15_000
    assert all(before < after for numbers in by_key.values() for before, after in pairwise(numbers))
    assert batches.used_bytes == sum(sealed.size_bytes for sealed in taken)
