"""The log of a partition: appending, rolling, reading, and reopening after a crash at any byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.partition_log import PartitionLog, TimestampAndOffset, is_segment
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.records import Batch, encode_batch, iter_headers, parse_header, patch_header
from kafkaraw.testing.simulated_disk import SimulatedDisk
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import NOW_MS, FixedClock, content_bytes, disk_without_luck
from tests.broker.support import batch as encoded
from tests.examples import examples
from tests.records.test_legacy import vector

SEGMENT = f"{0:020d}.log"


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path):
    made: LogStorage = MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "data")
    yield made
    made.close()


def new_log(storage: LogStorage, segment_bytes: int = 1 << 30) -> PartitionLog:
    return PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(segment_bytes=segment_bytes))


def open_log(storage: LogStorage, segment_bytes: int = 1 << 30) -> PartitionLog:
    log = new_log(storage, segment_bytes)
    log.open()
    return log


def append(log: PartitionLog, *values: bytes, timestamp_ms: int = NOW_MS) -> bytes:
    made = bytearray(encode_batch([(timestamp_ms, None, value, []) for value in values]))
    patch_header(made, base_offset=log.log_end_offset, partition_leader_epoch=0)
    log.append(memoryview(made), parse_header(made))
    return bytes(made)


def segment_offsets(storage: LogStorage) -> list[int]:
    """The offsets in the names of the log files."""
    return [int(name[:20]) for name in storage.files("t-0") if is_segment(name)]


def everything(log: PartitionLog) -> bytes:
    """All bytes, read as a consumer does: from each batch's end on."""
    data, offset = b"", log.log_start_offset
    while True:
        piece = content_bytes(log.read(offset, 1 << 30, at_least_one=True))
        if not piece:
            return data
        for header, _ in iter_headers(memoryview(piece)):
            offset = header.next_offset
        data += piece


def test_a_new_log_is_empty(storage: LogStorage):
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, log.segments_count) == (0, 0, 0, 1)
    assert log.read(0, 1000, at_least_one=True) is None
    assert storage.files("t-0") == [SEGMENT]
    log.close()


def test_batches_are_kept_verbatim_and_offsets_go_on(storage: LogStorage):
    log = open_log(storage)
    written = [append(log, b"a", b"b"), append(log, b"c"), append(log, *[b"d"] * 10)]
    assert log.log_end_offset == 13
    assert everything(log) == b"".join(written)
    log.close()


def test_a_read_starts_with_the_batch_that_holds_the_offset(storage: LogStorage):
    log = open_log(storage)
    first, second = append(log, b"a", b"b"), append(log, b"c", b"d")
    assert content_bytes(log.read(1, 1 << 20, at_least_one=True)) == first + second
    assert content_bytes(log.read(3, 1 << 20, at_least_one=True)) == second
    assert log.read(4, 1 << 20, at_least_one=True) is None
    log.close()


def test_only_whole_batches_are_given_and_the_first_one_even_above_the_limit(storage: LogStorage):
    log = open_log(storage)
    first, second = append(log, b"a" * 100), append(log, b"b" * 100)
    assert content_bytes(log.read(0, len(first) + len(second) - 1, at_least_one=True)) == first
    assert content_bytes(log.read(0, 1, at_least_one=True)) == first
    assert log.read(0, 1, at_least_one=False) is None
    log.close()


def test_a_segment_that_would_grow_too_large_is_followed_by_another(storage: LogStorage):
    log = open_log(storage, segment_bytes=300)
    written = [append(log, bytes([at]) * 80) for at in range(7)]
    assert log.segments_count == 4
    assert segment_offsets(storage) == [0, 2, 4, 6]
    assert everything(log) == b"".join(written)
    assert log.bytes_between(0, log.log_end_offset) == log.size_bytes == sum(map(len, written))
    assert log.bytes_between(3, log.log_end_offset) == sum(map(len, written[3:]))
    log.close()


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(storage: LogStorage):
    log = open_log(storage, segment_bytes=100)
    written = append(log, b"x" * 500)
    assert log.segments_count == 1
    assert everything(log) == written
    log.close()


def test_a_log_opened_again_goes_on_where_it_ended(storage: LogStorage):
    log = open_log(storage, segment_bytes=300)
    written = [append(log, bytes([at]) * 80) for at in range(7)]
    log.flush()
    log.close()
    again = open_log(storage, segment_bytes=300)
    third = new_log(storage, 300)
    third.open()
    assert [header.base_offset for header, _ in third.headers(0)] == list(range(7))
    assert (again.log_end_offset, again.segments_count) == (7, 4)
    written.append(append(again, b"more"))
    assert everything(again) == b"".join(written)
    again.close()
    third.close()


def test_a_log_torn_at_any_byte_keeps_every_whole_batch_before_it(caplog: pytest.LogCaptureFixture):
    whole = MemoryStorage()
    log = open_log(whole)
    written = [append(log, b"a", b"bb"), append(log, b"ccc"), append(log, b"dddd")]
    data = b"".join(written)
    ends = [0, len(written[0]), len(written[0]) + len(written[1]), len(data)]
    for cut in range(len(data) + 1):
        torn = MemoryStorage()
        torn.make_folder("t-0")
        torn.open_file("t-0", SEGMENT).append(data[:cut])
        kept = max(end for end in ends if end <= cut)
        reopened = open_log(torn)
        assert everything(reopened) == data[:kept]
        assert reopened.log_end_offset == [0, 2, 3, 4][ends.index(kept)]
        assert bytes(torn.open_file("t-0", SEGMENT).read(0, len(data))) == data[:kept]
        append(reopened, b"new")
        assert reopened.log_end_offset == [0, 2, 3, 4][ends.index(kept)] + 1
    assert "truncated to offset 3, 63 bytes lost" in caplog.text


@settings(max_examples=examples(60))
@given(data=st.data())
def test_a_flipped_bit_in_the_last_segment_cuts_the_log_there(data: st.DataObject):
    storage = MemoryStorage()
    log = open_log(storage)
    written = [append(log, b"a", b"bb"), append(log, b"ccc"), append(log, b"dddd")]
    content = bytearray(b"".join(written))
    # Bytes 12 to 16 of a batch are the leader epoch, which no checksum covers; neither are those of the base offset.
    at = data.draw(st.sampled_from([at for at in range(len(content)) if not _is_unchecked(at, written)]))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    flipped = MemoryStorage()
    flipped.make_folder("t-0")
    flipped.open_file("t-0", SEGMENT).append(content)
    kept = everything(open_log(flipped))
    before = [b"".join(written[:count]) for count in range(3)]
    assert kept in before
    assert len(kept) <= at


def _is_unchecked(at: int, written: list[bytes]) -> bool:
    for one in written:
        if at < len(one):
            return at < 8 or 12 <= at < 16
        at -= len(one)
    return False


def test_a_gap_between_segments_removes_what_follows_it(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=200)
    written = [append(log, bytes([at]) * 80) for at in range(6)]
    assert log.segments_count == 6
    damaged = storage.open_file("t-0", f"{2:020d}.log")
    damaged.truncate(damaged.size_bytes - 1)
    again = open_log(storage, segment_bytes=200)
    assert everything(again) == b"".join(written[:2])
    assert again.log_end_offset == 2
    assert segment_offsets(storage) == [0, 1, 2]
    assert "removed" in caplog.text


def test_unsynced_batches_are_lost_with_the_machine_and_synced_ones_are_not():
    storage = disk_without_luck()
    log = open_log(storage)
    kept = append(log, b"synced")
    log.flush()
    append(log, b"unsynced")
    assert (log.unflushed_messages, log.recovery_point) == (1, 1)
    storage.lose_unsynced()
    assert everything(open_log(storage)) == kept


def test_rolling_syncs_so_that_only_the_last_segment_can_be_torn():
    storage = disk_without_luck()
    log = open_log(storage, segment_bytes=200)
    written = [append(log, bytes([at]) * 80) for at in range(3)]
    storage.lose_unsynced()
    assert everything(open_log(storage, segment_bytes=200)) == b"".join(written[:2])


def test_a_timestamp_leads_to_the_first_record_at_or_after_it(storage: LogStorage):
    log = open_log(storage, segment_bytes=200)
    for at, timestamp in enumerate((1000, 3000, 2000, 4000)):
        append(log, bytes([at]) * 80, timestamp_ms=timestamp)
    assert log.first_at_or_after(0) == TimestampAndOffset(1000, 0)
    assert log.first_at_or_after(1000) == TimestampAndOffset(1000, 0)
    assert log.first_at_or_after(1001) == TimestampAndOffset(3000, 1)
    assert log.first_at_or_after(3001) == TimestampAndOffset(4000, 3)
    assert log.first_at_or_after(4001) is None
    assert log.latest_timestamp() == TimestampAndOffset(4000, 3)
    log.close()


def test_a_timestamp_is_looked_up_within_a_batch(storage: LogStorage):
    log = open_log(storage)
    made = bytearray(encode_batch([(time, None, b"v", []) for time in (10, 30, 20)], codec="zstd"))
    log.append(memoryview(made), parse_header(made))
    assert log.first_at_or_after(11) == TimestampAndOffset(30, 1)
    assert log.latest_timestamp() == TimestampAndOffset(30, 1)
    log.close()


def test_an_empty_log_has_no_timestamps(storage: LogStorage):
    log = open_log(storage)
    assert log.first_at_or_after(0) is None
    assert log.latest_timestamp() is None
    log.close()


def log_with_segments(storage: MemoryStorage, timestamps: list[int], *, per_segment: int = 3) -> PartitionLog:
    """A log of batches with one record each, so many to a segment."""
    size = len(encoded(b"x"))
    log = new_log(storage, per_segment * size)
    log.open()
    for offset, timestamp_ms in enumerate(timestamps):
        made = encoded(b"x", timestamp_ms=timestamp_ms, base_offset=offset)
        log.append(memoryview(made), parse_header(made))
    return log


def test_a_moved_start_leaves_segments_to_retention():
    storage = MemoryStorage()
    log = log_with_segments(storage, list(range(10)))
    assert log.move_start(7)
    assert (log.log_start_offset, log.log_end_offset, log.starts_within_a_segment) == (7, 10, True)
    assert segment_offsets(storage) == [0, 3, 6, 9]
    assert not log.move_start(3)
    deleted = log.delete_oldest_segments(2)
    assert (log.log_start_offset, log.starts_within_a_segment) == (7, True)
    log.delete_oldest_segments(1)
    assert (log.log_start_offset, log.starts_within_a_segment) == (9, False)
    assert segment_offsets(storage) == [9]
    assert f"{3:020d}.log.deleted" in deleted and f"{3:020d}.snapshot.deleted" in deleted


def test_a_start_that_was_written_down_counts_when_the_log_is_opened():
    storage = MemoryStorage()
    log_with_segments(storage, list(range(10))).close()
    log = new_log(storage, 1 << 20)
    log.open(StoppedAs(log_start_offset=4))
    assert (log.log_start_offset, log.log_end_offset) == (4, 10)
    lost = new_log(storage, 1 << 20)
    lost.open(StoppedAs(log_start_offset=50))
    assert (lost.log_start_offset, lost.log_end_offset) == (50, 50)


def test_deleted_records_are_not_found_by_time():
    log = log_with_segments(MemoryStorage(), [100, 900, 200, 300, 250], per_segment=100)
    assert log.latest_timestamp() == TimestampAndOffset(900, 1)
    log.move_start(2)
    assert log.latest_timestamp() == TimestampAndOffset(300, 3)
    assert log.first_at_or_after(0) == TimestampAndOffset(200, 2)
    assert log.first_at_or_after(250) == TimestampAndOffset(300, 3)
    assert log.first_at_or_after(301) is None
    log.move_start(5)
    assert log.latest_timestamp() is None


def test_a_batch_that_lies_on_both_sides_of_the_start_is_looked_into():
    storage = MemoryStorage()
    log = new_log(storage, 1 << 20)
    log.open()
    records = [(timestamp_ms, None, b"x", []) for timestamp_ms in (900, 100, 200)]
    made = encode_batch(records)
    log.append(memoryview(made), parse_header(made))
    log.move_start(1)
    assert log.latest_timestamp() == TimestampAndOffset(200, 2)
    assert log.first_at_or_after(50) == TimestampAndOffset(100, 1)
    assert log.first_at_or_after(201) is None


def old_log(storage: LogStorage, kind: str, codec: str) -> bytes:
    """A segment as a broker from before Kafka 0.11 left it, with offsets from 1000 on."""
    data = vector(kind, codec)
    storage.make_folder("t-0")
    file = storage.open_file("t-0", f"{1000:020d}.log")
    file.append(data)
    file.close()
    return data


@pytest.mark.parametrize("kind", ["magic0", "magic1", "magic1-stamped"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_messages_of_old_formats_are_kept_and_served_as_they_are(kind: str, codec: str):
    storage = MemoryStorage()
    data = old_log(storage, kind, codec)
    log = open_log(storage)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1029)
    assert content_bytes(log.read(1000, 1 << 20, at_least_one=True)) == data
    assert [header.magic for header, _ in log.headers(1000)] == [int(kind[5])] * (1 if codec != "none" else 24)
    append(log, b"of today")
    log.close()
    again = open_log(storage)
    assert again.log_end_offset == 1030
    kept = Batch("t", 0, memoryview(content_bytes(again.read(1008, 1 << 20, at_least_one=True))), start_offset=1008)
    assert [record.offset for record in kept] == [*range(1008, 1030)]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_old_messages_are_found_by_their_time(codec: str):
    storage = MemoryStorage()
    old_log(storage, "magic1", codec)
    log = open_log(storage)
    assert log.first_at_or_after(1_700_000_000_000) == TimestampAndOffset(1_700_000_000_000, 1000)
    assert log.first_at_or_after(1_700_000_000_001) == TimestampAndOffset(1_700_000_000_100, 1001)
    assert log.latest_timestamp() == TimestampAndOffset(1_700_000_000_100, 1001)
    log.move_start(1002)
    assert log.latest_timestamp() == TimestampAndOffset(1_700_000_000_019, 1028)


def test_an_old_log_torn_at_any_byte_keeps_every_whole_message_before_it():
    data = vector("magic1", "none")
    for cut in range(len(data) - 300, len(data)):
        storage = MemoryStorage()
        storage.make_folder("t-0")
        storage.open_file("t-0", f"{1000:020d}.log").append(data[:cut])
        log = open_log(storage)
        assert data.startswith(everything_stored(log))
        assert 1000 < log.log_end_offset < 1029


def everything_stored(log: PartitionLog) -> bytes:
    return content_bytes(log.read(log.log_start_offset, 1 << 30, at_least_one=True))


def test_a_truncation_that_fails_half_way_forgets_the_epochs_of_what_is_gone():
    storage = FaultyStorage(MemoryStorage())
    log = new_log(storage, 1)
    log.open()
    for offset, epoch in ((0, 1), (1, 2)):
        made = bytearray(encoded(b"v", base_offset=offset, partition_leader_epoch=epoch))
        log.append(memoryview(made), parse_header(made))
    storage.on_attempt = lambda name: storage.fail_at(0) if name == "truncate" else None
    with pytest.raises(OSError, match="Input/output"):
        log.truncate_to(0)
    storage.on_attempt = lambda name: None
    assert (log.log_end_offset, log.epochs.rows) == (1, [(1, 0)])
    made = bytearray(encoded(b"w", base_offset=1, partition_leader_epoch=2))
    log.append(memoryview(made), parse_header(made))
    assert log.epochs.rows == [(1, 0), (2, 1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_name_of_a_new_segment_is_synced_although_an_older_one_was_deleted_meanwhile(seed: int):
    disk = SimulatedDisk(random.Random(seed), kept_share=0.0)
    log = open_log(disk)
    disk.sync_folder(ROOT)
    append(log, b"deleted")
    log.flush()
    log.roll()
    log.delete_oldest_segments(1)
    kept = append(log, b"synced")
    log.flush()
    disk.lose_unsynced()
    assert everything(open_log(disk)) == kept


def test_a_truncation_to_before_the_first_segment_restarts_the_log_there(storage: LogStorage):
    log = open_log(storage, segment_bytes=300)
    for at in range(7):
        append(log, bytes([at]) * 80)
    log.delete_oldest_segments(2)
    assert log.log_start_offset == 4
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.rows, log.take_truncation()) == (2, 2, [], 2)
    written = append(log, b"of the leader")
    assert everything(log) == written
    log.close()
    again = open_log(storage)
    assert (again.log_start_offset, everything(again)) == (2, written)
    again.close()


def test_a_batch_far_behind_the_last_one_begins_a_segment_of_its_own_offset(storage: LogStorage):
    """A follower of a compacted log gets such gaps; the offsets in an index are 32 bits above the base offset."""
    log = open_log(storage)
    first = written = append(log, b"first")
    for base_offset in (1 << 33, (1 << 33) + 1):
        made = bytearray(encoded(b"v" * 5000, base_offset=base_offset, partition_leader_epoch=0))
        log.append(memoryview(made), parse_header(made))
        written += bytes(made)
    assert [one.base_offset for one in log.segments] == [0, 1 << 33]
    assert log.producer_snapshots == [1 << 33]
    assert everything(log) == written
    assert content_bytes(log.read(1, 1 << 20, at_least_one=True)) == written[len(first) :]
    log.close_cleanly()


def test_indexes_of_inactive_segments_are_dropped_from_memory_and_read_again(storage: LogStorage):
    log = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(segment_bytes=2000, index_interval_bytes=100))
    log.open()
    written = b"".join(append(log, b"%d" % at) for at in range(100))
    segment = log.segment_at(0)
    assert segment is not None
    assert not segment.has_indexes_in_memory
    assert content_bytes(log.read(5, 100, at_least_one=True))
    assert segment.has_indexes_in_memory
    log.forget_indexes()
    assert not segment.has_indexes_in_memory
    assert everything(log) == written
    log.close()
