"""Large index files stay on disk: searches read blocks of them, with the results of an index in memory."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path

import pytest

from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.index_file import BLOCK_BYTES, LOADED_BYTES_MAX, IndexFile
from kafkaraw.broker.log.log_loader import StoppedAs
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.partition_log import PartitionLog, TimestampAndOffset
from kafkaraw.broker.log.storage import LogFile, LogStorage
from kafkaraw.core.log.indexes import OffsetEntry, TimeEntry, encode_offset_index, encode_time_index
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.core.log.segment_indexes import OffsetIndex, TimeIndex
from kafkaraw.records import parse_header
from tests.broker.support import NOW_MS, FixedClock, batch, content_bytes

BASE = 1_000
BATCHES = 9_000


class CountingFile:
    """Delegates to a file, and counts the bytes that are read."""

    def __init__(self, inner: LogFile, counts: list[int]) -> None:
        self._inner = inner
        self._counts = counts

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def read(self, position: int, size: int) -> memoryview:
        data = self._inner.read(position, size)
        self._counts.append(len(data))
        return data


class CountingStorage(MemoryStorage):
    """Memory that counts the bytes of index files that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def open_file(self, folder: str, name: str) -> LogFile:
        file = super().open_file(folder, name)
        return CountingFile(file, self.counts) if name.endswith("index") else file  # type: ignore[return-value]

    def read_bytes(self, folder: str, name: str) -> bytes | None:
        data = super().read_bytes(folder, name)
        if name.endswith("index"):
            self.counts.append(len(data or b""))
        return data


def index_file(data: bytes) -> IndexFile:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    storage.write_bytes("t-0", "x", data)
    return IndexFile(storage.open_file("t-0", "x"))


def test_searches_in_a_file_have_the_results_of_searches_in_memory():
    rng = random.Random(5)
    offset, position, timestamp = BASE, 0, NOW_MS
    rows, times = [], []
    for _ in range(20_000):
        offset, position, timestamp = offset + rng.randint(1, 9), position + rng.randint(1, 9), timestamp + 1
        rows.append(OffsetEntry(offset, position))
        times.append(TimeEntry(timestamp, offset))
    for zeros in (0, 7 * 24, 10_000_008):  # those that a broker leaves that was killed
        data, time_data = encode_offset_index(rows, BASE) + bytes(zeros), encode_time_index(times, BASE) + bytes(zeros)
        filed, loaded = OffsetIndex(BASE, index_file(data)), OffsetIndex(BASE, data)
        assert (len(filed), filed.last, filed.size_bytes) == (len(loaded), loaded.last, loaded.size_bytes)
        for wanted in [
            *range(BASE - 2, BASE + 50),
            *(rng.randrange(offset + 10) for _ in range(300)),
            offset,
            offset + 1,
        ]:
            assert filed.lookup(wanted) == loaded.lookup(wanted)
            assert filed.lookup_position(wanted) == loaded.lookup_position(wanted)
            assert filed.first_at(wanted) == loaded.first_at(wanted)
        filed_times, loaded_times = TimeIndex(BASE, index_file(time_data)), TimeIndex(BASE, time_data)
        for wanted in [NOW_MS, timestamp, timestamp + 1, *(NOW_MS + rng.randrange(20_000) for _ in range(300))]:
            assert filed_times.lookup(wanted) == loaded_times.lookup(wanted)
        assert filed.truncate_to(offset // 2) == loaded.truncate_to(offset // 2)
        filed.append(offset, position)
        loaded.append(offset, position)
        assert filed.loaded() == loaded.loaded()


def closed_log(storage: LogStorage) -> None:
    """Two segments, the first with 9,000 batches, and an index entry for each."""
    log = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(index_interval_bytes=0))
    log.open()
    for offset in range(BATCHES):
        made = bytearray(batch(b"x", timestamp_ms=NOW_MS + offset, base_offset=offset))
        log.append(memoryview(made), parse_header(made))
    log.roll()
    log.append(*appended(BATCHES))
    log.close_cleanly()


def appended(offset: int) -> tuple[memoryview, object]:
    made = bytearray(batch(b"x", timestamp_ms=NOW_MS + offset, base_offset=offset))
    return memoryview(made), parse_header(made)


def reopened(storage: LogStorage) -> PartitionLog:
    log = PartitionLog(storage, "t-0", FixedClock(), SegmentSettings(index_interval_bytes=0))
    log.open(StoppedAs(was_clean=True))
    return log


def test_a_look_up_by_time_in_an_inactive_segment_reads_a_few_blocks_of_its_indexes():
    storage = CountingStorage()
    closed_log(storage)
    size = sum(storage.file_size("t-0", f"{0:020d}{kind}") or 0 for kind in (".index", ".timeindex"))
    assert size > 3 * LOADED_BYTES_MAX
    log = reopened(storage)
    storage.counts.clear()
    assert log.first_at_or_after(NOW_MS + 4_321) == TimestampAndOffset(NOW_MS + 4_321, 4_321)
    assert sum(storage.counts) <= 20 * BLOCK_BYTES < size / 2
    storage.counts.clear()
    assert log.first_at_or_after(NOW_MS + 4_330) == TimestampAndOffset(NOW_MS + 4_330, 4_330)
    assert not storage.counts, "the blocks that are in memory are not read again"


def test_a_truncated_segment_with_a_large_index_is_appended_to():
    storage = MemoryStorage()
    closed_log(storage)
    log = reopened(storage)
    assert log.first_at_or_after(NOW_MS + 5_000) is not None  # its index files are open
    log.truncate_to(6_000)
    for offset in range(6_000, 6_100):
        log.append(*appended(offset))
    log.close_cleanly()
    log = reopened(storage)
    assert (log.log_end_offset, log.segments_count) == (6_100, 1)
    for offset in (0, 5_999, 6_000, 6_099):
        assert parse_header(content_bytes(log.read(offset, 1, at_least_one=True))).base_offset == offset
        assert log.first_at_or_after(NOW_MS + offset) == TimestampAndOffset(NOW_MS + offset, offset)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names the open files")
def test_index_files_of_a_closed_log_are_not_open(tmp_path: Path):
    storage = FileStorage(tmp_path)
    closed_log(storage)
    log = reopened(storage)
    for close in (log.forget_indexes, log.close):
        assert log.first_at_or_after(NOW_MS + 5_000) is not None
        close()
        assert not [name for name in open_names() if name.endswith("index")]
    storage.close()


def open_names() -> list[str]:
    names = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return names
