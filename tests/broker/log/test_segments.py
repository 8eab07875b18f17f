"""Segments of a log: what their index files hold, when they are rolled, how they are deleted and replaced."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.segment import Segment, SegmentInfo
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.core.log.indexes import AbortedTransaction, decode_offset_index, decode_time_index
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.names import OffsetFile, parse_file
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import recover_segment
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.records import iter_headers, parse_header
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import NOW_MS, FixedClock, batch, content_bytes
from tests.examples import examples

SIZE = len(batch(bytes(100)))


def open_log(
    storage: LogStorage, stopped: StoppedAs | None = None, clock: FixedClock | None = None, **given_settings: int
) -> PartitionLog:
    log = PartitionLog(storage, "t-0", clock or FixedClock(), SegmentSettings(**given_settings))
    log.open(stopped)
    return log


def append(log: PartitionLog, *, size: int = 100, timestamp_ms: int = NOW_MS, count: int = 1, epoch: int = 0) -> None:
    for _ in range(count):
        made = bytearray(
            batch(bytes(size), timestamp_ms=timestamp_ms, base_offset=log.log_end_offset, partition_leader_epoch=epoch)
        )
        log.append(memoryview(made), parse_header(made))


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def live_files(storage: LogStorage) -> dict[str, bytes]:
    """The content of all files that are named after an offset."""
    names = [name for name in storage.files("t-0") if parse_file(name) is not None]
    return {name: storage.read_bytes("t-0", name) or b"" for name in names}


def file(storage: LogStorage, name: str) -> bytes:
    data = storage.read_bytes("t-0", name)
    assert data is not None, name
    return data


# -- index files


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 50)), max_size=60),
    st.integers(0, 6000),
    st.integers(1500, 20_000),
)
def test_index_files_of_a_closed_log_are_those_that_recovery_builds(
    appends: list[tuple[int, int]], interval: int, segment_bytes: int
):
    storage = MemoryStorage()
    log = open_log(storage, index_interval_bytes=interval, segment_bytes=segment_bytes)
    for size, timestamp_ms in appends:
        append(log, size=size, timestamp_ms=timestamp_ms)
    log.close_cleanly()
    for base in bases(log):
        data = memoryview(file(storage, f"{base:020d}.log"))
        found = recover_segment(data, "", base, ProducerState(), LeaderEpochs(), index_interval_bytes=interval)
        assert found.damage is None
        assert decode_offset_index(file(storage, f"{base:020d}.index"), base, "") == found.offset_index
        assert decode_time_index(file(storage, f"{base:020d}.timeindex"), base, "") == found.time_index


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 50), st.integers(1, 3)), min_size=1, max_size=40),
    st.sampled_from([0, 1000, 6000]),
    st.sampled_from([2000, 10_000, 1 << 20]),
    st.sampled_from(["as written", "opened cleanly", "recovered"]),
    st.data(),
)
def test_reads_through_sparse_indexes_are_those_of_a_scan(
    appends: list[tuple[int, int, int]], interval: int, segment_bytes: int, state: str, data: st.DataObject
):
    storage = MemoryStorage()
    log = open_log(storage, index_interval_bytes=interval, segment_bytes=segment_bytes)
    wires = []
    for size, timestamp_ms, records in appends:
        made = bytearray(batch(*[bytes(size)] * records, timestamp_ms=timestamp_ms, base_offset=log.log_end_offset))
        log.append(memoryview(made), parse_header(made))
        wires.append((parse_header(made), bytes(made)))
    end = log.log_end_offset
    if state != "as written":
        if state == "opened cleanly":
            log.close_cleanly()
        log = open_log(storage, StoppedAs(was_clean=state == "opened cleanly"), index_interval_bytes=interval)
    assert log.log_end_offset == end
    for _ in range(12):
        offset = data.draw(st.integers(0, end - 1))
        size_max = data.draw(st.integers(1, 10_000))
        expected = [(header, wire) for header, wire in wires if header.last_offset >= offset]
        read = content_bytes(log.read(offset, size_max, at_least_one=True))
        assert b"".join(wire for _, wire in expected).startswith(read)
        got = [header for header, _ in iter_headers(memoryview(read))]
        assert got and got[0] == expected[0][0]
        assert len(read) <= max(size_max, got[0].size)
        following = [header for header, _ in expected[len(got) : len(got) + 1]]
        if following and following[0].base_offset not in bases(log):
            assert len(read) + following[0].size > size_max
        until = data.draw(st.integers(offset, end))
        before = [header for header, _ in expected if header.last_offset < until]
        content = content_bytes(log.read(offset, 1 << 30, at_least_one=True, end_offset=until))
        assert [header for header, _ in iter_headers(memoryview(content))] == before[
            : len(list(iter_headers(memoryview(content))))
        ]
        assert bool(content) == bool(before)
        assert log.bytes_between(offset, end) == sum(header.size for header, _ in expected)
    timestamp_ms = data.draw(st.integers(0, 51))
    first = next((header for header, _ in wires if header.max_timestamp >= timestamp_ms), None)
    found = log.first_at_or_after(timestamp_ms)
    assert (None if found is None else found.offset) == (None if first is None else first.base_offset)
    newest = max(header.max_timestamp for header, _ in wires)
    assert log.latest_timestamp() == log.first_at_or_after(newest)


def test_a_read_at_the_tail_and_one_behind_the_last_read_look_nothing_up(monkeypatch: pytest.MonkeyPatch):
    log = open_log(MemoryStorage(), index_interval_bytes=0)
    append(log, count=50)
    first = content_bytes(log.read(0, 10 * SIZE, at_least_one=True))

    def refuse(self: Segment, *_: object) -> Iterator[object]:
        raise AssertionError("a batch was looked up")

    monkeypatch.setattr(Segment, "places", refuse)
    assert len(first) == 10 * SIZE
    assert len(content_bytes(log.read(10, 1 << 20, at_least_one=True))) == 40 * SIZE
    append(log)
    assert len(content_bytes(log.read(50, 1 << 20, at_least_one=True))) == SIZE
    assert log.bytes_between(50, 51) == SIZE


def test_index_files_that_are_damaged_or_missing_are_rebuilt(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=60 * SIZE)
    append(log, count=200)
    log.close_cleanly()
    before = live_files(storage)
    first = OffsetFile(0, parse_file(next(iter(before))).kind)  # type: ignore[union-attr]
    assert first.offset == 0
    for name in (f"{0:020d}.index", f"{60:020d}.timeindex"):
        storage.remove_file("t-0", name)
    storage.write_bytes("t-0", f"{120:020d}.index", b"12345")
    again = open_log(storage, StoppedAs(was_clean=True), segment_bytes=60 * SIZE)
    assert caplog.text.count("are missing or damaged, rebuilding them") == 2
    assert content_bytes(again.read(150, SIZE, at_least_one=True))
    assert "5 bytes are behind the last whole entry" in caplog.text
    assert live_files(storage) == before


def test_the_transaction_index_serves_reads_and_is_truncated_with_the_log():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=5 * SIZE)
    append(log, count=12)
    entries = [AbortedTransaction(1, 0, 3, 4), AbortedTransaction(2, 2, 7, 8)]
    for entry in entries:
        log.add_aborted_transaction(entry)
    assert log.aborted_transactions(0, 2 * SIZE) == entries
    assert log.aborted_transactions(4, SIZE) == [entries[1]]
    assert log.aborted_transactions(9, SIZE) == []
    log.close_cleanly()
    again = open_log(storage, StoppedAs(was_clean=True), segment_bytes=5 * SIZE)
    assert again.aborted_transactions(0, 2 * SIZE) == entries
    again.truncate_to(7)
    assert again.aborted_transactions(0, 2 * SIZE) == entries[:1]
    again.close_cleanly()
    assert f"{5:020d}.txnindex" not in storage.files("t-0")


def test_clean_close_writes_the_indexes_of_batches_that_were_flushed_before():
    storage = MemoryStorage()
    open_log(storage).close_cleanly()
    log = open_log(storage, StoppedAs(was_clean=True))
    append(log, count=2)
    log.flush()
    entry = AbortedTransaction(producer_id=1, first_offset=0, last_offset=1, last_stable_offset=2)
    log.add_aborted_transaction(entry)
    log.close_cleanly()
    again = open_log(storage, StoppedAs(was_clean=True))
    assert again.aborted_transactions(0, 2 * SIZE) == [entry]
    again.close_cleanly()


# -- rolling


def test_a_segment_is_rolled_by_the_time_between_its_first_batch_and_a_new_one():
    log = open_log(MemoryStorage(), segment_ms=1000)
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 5, NOW_MS + 3000):
        append(log, timestamp_ms=timestamp_ms)
    assert bases(log) == [0, 2, 4]


def test_a_reopened_segment_knows_its_first_timestamp():
    storage = MemoryStorage()
    append(open_log(storage, segment_ms=1000))
    again = open_log(storage, segment_ms=1000)
    append(again, timestamp_ms=NOW_MS + 1001)
    assert bases(again) == [0, 1]


def test_without_timestamps_the_age_of_a_segment_counts():
    clock = FixedClock()
    log = open_log(MemoryStorage(), clock=clock, segment_ms=1000)
    append(log, timestamp_ms=-1)
    clock.now_ms += 1000
    append(log, timestamp_ms=-1)
    clock.now_ms += 1
    append(log, timestamp_ms=-1)
    assert bases(log) == [0, 2]
    assert [(one.has_timestamps, one.largest_timestamp_ms) for one in log.segments] == [
        (False, NOW_MS),
        (False, clock.now_ms),
    ]


def test_a_full_index_rolls_the_segment_and_a_changed_setting_counts_at_once():
    log = open_log(MemoryStorage(), index_interval_bytes=0, segment_index_bytes=64)
    append(log, count=9)
    assert bases(log) == [0, 9 - 1] or bases(log)[0] == 0
    before = log.segments_count
    log.settings = SegmentSettings(segment_bytes=1)
    append(log, count=2)
    assert log.segments_count == before + 2


def test_preallocated_space_is_given_back_when_the_segment_is_rolled_or_closed():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=10 * SIZE, preallocate=True)
    append(log, count=15)
    log.close_cleanly()
    assert [len(file(storage, f"{base:020d}.log")) for base in (0, 10)] == [10 * SIZE, 5 * SIZE]


def test_roll_starts_a_segment_unless_the_active_one_is_empty():
    log = open_log(MemoryStorage())
    assert not log.roll()
    append(log)
    assert log.roll() and not log.roll()
    assert (bases(log), log.producer_snapshots, log.recovery_point) == ([0, 1], [1], 1)


def test_segments_tell_what_retention_has_to_know():
    log = open_log(MemoryStorage(), segment_bytes=2 * SIZE)
    for timestamp_ms in (5, 9, 7):
        append(log, timestamp_ms=timestamp_ms)
    assert log.segments == [
        SegmentInfo(0, 2, 2 * SIZE, 9, True, 5, NOW_MS, False),
        SegmentInfo(2, 3, SIZE, 7, True, 7, NOW_MS, True),
    ]


# -- recovery point


def test_flush_moves_the_recovery_point_to_the_offset():
    log = open_log(MemoryStorage(), segment_bytes=4 * SIZE)
    append(log, count=6)
    assert (log.recovery_point, log.unflushed_messages) == (4, 2)
    log.flush(5)
    assert log.recovery_point == 5
    log.flush()
    assert (log.recovery_point, log.unflushed_messages) == (6, 0)
    log.truncate_to(3)
    assert log.recovery_point == 3


def test_a_clean_shutdown_is_opened_without_reading_batches_again(monkeypatch: pytest.MonkeyPatch):
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=60 * SIZE)
    append(log, count=200)
    log.close_cleanly()
    before = live_files(storage)
    read = []
    places = Segment.places

    def counted(self: Segment, *arguments: int) -> Iterator[object]:
        for place in places(self, *arguments):
            read.append(place)
            yield place

    monkeypatch.setattr(Segment, "places", counted)
    again = open_log(storage, StoppedAs(was_clean=True, recovery_point=200), segment_bytes=60 * SIZE)
    assert (again.log_end_offset, again.recovery_point, bases(again)) == (200, 200, [0, 60, 120, 180])
    assert len(read) <= 4096 // SIZE + 2
    again.close_cleanly()
    assert live_files(storage) == before


def test_only_segments_from_the_recovery_point_on_are_recovered(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=10 * SIZE)
    append(log, count=35)
    log.close()
    caplog.set_level("INFO", "kafkaraw.broker")
    again = open_log(storage, StoppedAs(recovery_point=25), segment_bytes=10 * SIZE)
    assert again.log_end_offset == 35
    (line,) = [record.message for record in caplog.records if "recovered" in record.message]
    assert line == "t-0: recovered to offset 35 (recovery point 25): segment 20: 10 batches; segment 30: 5 batches"


def test_a_clean_marker_that_lies_is_noticed_at_the_end_of_the_log():
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, count=3)
    log.close_cleanly()
    storage.open_file("t-0", f"{0:020d}.log").append(b"torn")
    again = open_log(storage, StoppedAs(was_clean=True, recovery_point=3))
    assert again.log_end_offset == 3
    assert len(file(storage, f"{0:020d}.log")) == 3 * SIZE


def test_the_epoch_file_of_a_single_epoch_is_written_when_the_log_is_synced():
    storage = MemoryStorage()
    log = open_log(storage)
    append(log)
    assert storage.read_text("t-0", EPOCHS_FILE) is None
    log.flush()
    assert storage.read_text("t-0", EPOCHS_FILE) == "0\n1\n0 0\n"


@pytest.mark.parametrize(
    "text", ["", "0\n3\n0 0\n", "0\n2\n5 4\n3 2\n", "1\n1\n0 0\n", "0\n1\nzero 0\n", "\0\0\0\0\0\0\0\0", "0\n1\n0 -1\n"]
)
def test_damaged_leader_epochs_are_those_of_the_batches(text: str, caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=2 * SIZE)
    for epoch in (0, 3, 5):
        append(log, count=2, epoch=epoch)
    rows = log.epochs.rows
    assert rows == [(0, 0), (3, 2), (5, 4)]
    log.close_cleanly()
    storage.write_text("t-0", EPOCHS_FILE, text)
    log = open_log(storage, StoppedAs(was_clean=True, recovery_point=6), segment_bytes=2 * SIZE)
    assert (log.epochs.rows, log.log_end_offset) == (rows, 6)
    assert f"t-0/{EPOCHS_FILE} is damaged, the batches' epochs are used" in caplog.text
    assert storage.read_text("t-0", EPOCHS_FILE) == log.epochs.text()
    log.close_cleanly()
    caplog.clear()
    assert open_log(storage, StoppedAs(was_clean=True, recovery_point=6)).epochs.rows == rows
    assert not caplog.text


def test_damaged_leader_epochs_of_an_empty_log_are_written_again():
    storage = MemoryStorage()
    open_log(storage).close_cleanly()
    storage.write_text("t-0", EPOCHS_FILE, "damaged")
    assert open_log(storage, StoppedAs(was_clean=True)).epochs.rows == []
    assert storage.read_text("t-0", EPOCHS_FILE) == "0\n0\n"


def test_a_log_is_opened_in_a_step_for_each_segment():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=2 * SIZE)
    append(log, count=100)
    log.close_cleanly()
    log = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings())
    assert len(list(log.opening(StoppedAs(was_clean=True, recovery_point=100)))) >= 50
    assert log.log_end_offset == 100


# -- deleting and replacing


def test_deleted_segments_are_renamed_and_removed_later():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=2 * SIZE)
    append(log, count=7)
    names = log.delete_oldest_segments(2)
    assert (bases(log), log.log_start_offset) == ([4, 6], 4)
    assert log.take_deleted_files() == names
    assert log.take_deleted_files() == []
    there = [name for name in storage.files("t-0") if name.endswith(".deleted")]
    assert set(there) <= set(names) and len(there) == 7
    log.remove_files(names)
    assert not [name for name in storage.files("t-0") if name.endswith(".deleted")]
    with pytest.raises(ValueError, match="2 of 2 segments cannot be deleted"):
        log.delete_oldest_segments(2)


def cleaned(log: PartitionLog, first: int, last: int) -> list[Segment]:
    """Copies of the batches of some offsets, every second one left out, in two segments."""
    segments = []
    for start, end in ((first, (first + last) // 2), ((first + last) // 2, last)):
        segment = log.create_cleaned_segment(start)
        for header, _ in list(log.headers(start)):
            if header.base_offset < end and header.base_offset % 2:
                segment.append(memoryview(log.copy(header.base_offset, header.size)), header, 4096)
        segments.append(segment)
    return segments


def offsets_of(log: PartitionLog) -> list[int]:
    return [header.base_offset for header, _ in log.headers(0)]


def test_replaced_segments_give_way_to_cleaned_ones():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=4 * SIZE)
    append(log, count=18)
    log.replace_segments(cleaned(log, 0, 16), [0, 4, 8, 12])
    assert bases(log) == [0, 8, 16]
    assert offsets_of(log) == [1, 3, 5, 7, 9, 11, 13, 15, 16, 17]
    assert content_bytes(log.read(2, 1, at_least_one=True)) == log.copy(3, 1)
    assert content_bytes(log.read(7, 1 << 20, at_least_one=True)) == log.copy(7, SIZE)
    log.remove_files(log.take_deleted_files())
    assert all(parse_file(name).stage == "" for name in live_files(storage))  # type: ignore[union-attr]
    assert log.producer_snapshots == [8, 16]
    log.close_cleanly()
    for stopped in (StoppedAs(was_clean=True, recovery_point=18), StoppedAs()):
        assert offsets_of(open_log(storage, stopped)) == [1, 3, 5, 7, 9, 11, 13, 15, 16, 17]


def test_a_replacement_that_stops_anywhere_leaves_the_old_segments_or_the_new_ones():
    seen = set()
    for operation in range(1, 60):
        inner = MemoryStorage()
        storage = FaultyStorage(inner)
        log = open_log(storage, segment_bytes=4 * SIZE)
        append(log, count=18)
        new = cleaned(log, 0, 16)
        storage.fail_at(operation, errno.EIO, times=1000)
        try:
            log.replace_segments(new, [0, 4, 8, 12])
        except OSError:
            found = offsets_of(open_log(inner, segment_bytes=4 * SIZE))
            assert found in ([*range(18)], [1, 3, 5, 7, 9, 11, 13, 15, 16, 17]), operation
            seen.add(len(found))
            assert not [name for name in inner.files("t-0") if name.endswith((".swap", ".cleaned", ".deleted"))]
        else:
            break
    assert seen == {18, 10}


def test_truncation_leaves_what_is_before_the_offset_and_a_log_that_goes_on():
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=4 * SIZE, index_interval_bytes=0)
    append(log, count=11)
    log.truncate_to(4)
    assert (bases(log), log.log_end_offset, log.producer_snapshots) == ([0, 4], 4, [4])
    append(log, count=2)
    log.truncate_to(3)
    assert (bases(log), log.log_end_offset) == ([0], 3)
    append(log, count=3)
    assert offsets_of(log) == [*range(6)]
    log.close_cleanly()
    base = recover_segment(
        memoryview(file(storage, f"{0:020d}.log")), "", 0, ProducerState(), LeaderEpochs(), index_interval_bytes=0
    )
    assert decode_offset_index(file(storage, f"{0:020d}.index"), 0, "") == base.offset_index
