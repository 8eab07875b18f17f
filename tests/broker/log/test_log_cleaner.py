"""The cleaner on the logs of a broker: rounds, checkpoints, and what happens to a log in the middle of one."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.log_settings import CleanerSettings
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.log.directories import LogDirectory
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.log_cleaner import LogCleaner
from kafkaraw.broker.log.log_manager import Task
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.partition_log import PartitionLog, TimestampAndOffset
from kafkaraw.broker.log.segment import Segment
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.partitions.elections import first_state
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.turns import run_to_end
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.offset_checkpoint import CLEANER_FILE, read_offsets
from kafkaraw.logs.verify import report
from kafkaraw.records import Batch, TopicPartition, batches_of, encode_batch
from tests.broker.support import NOW_MS, FixedClock, append_sent, content_bytes
from tests.core.log.random_logs import CleanSettings, RandomLog, clean_folder, read_folder

SETTINGS = CleanerSettings(
    is_enabled=True,
    backoff_ms=15_000,
    dedupe_buffer_bytes=1 << 20,
    load_factor=0.9,
    io_buffer_bytes=1 << 16,
    bytes_per_second_max=float("inf"),
)
FOLDER = "t-0"


class Node:
    """A cleaner with one partition, without a broker; it stands for the LogManager and the log directories as well."""

    def __init__(self, storage: LogStorage, settings: CleanerSettings = SETTINGS, **configs: str) -> None:
        self.storage = storage
        self.settings = settings
        self.clock = FixedClock()
        self.directory = LogDirectory("here", storage, delays_deletion=False)
        own = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        own |= {name.replace("_", "."): value for name, value in configs.items()}
        self.config = TopicConfig.of(own, BrokerConfig.parse().topic_defaults)
        self.future: LogDirectory | None = None
        self.replicas: list[Partition] = []
        self.tasks: list[Task] = []
        self.open()

    def open(self) -> None:
        """Open the partition, and begin with a new cleaner, as after a start."""
        partition = Partition(
            TopicPartition("t", 0),
            0,
            self.storage,
            self.config,
            self.clock,
            Controller(BrokerConfig.parse(), MemoryStorage(), random.Random(1)),
            producer_expiration_ms=2**31 - 1,
        )
        partition.open()
        partition.lead_or_follow(first_state((0,)))
        self.replicas[:] = [partition]
        self.partition = partition
        self.cleaner = LogCleaner(
            self, self, self.clock, lambda: self.settings, lambda: self.replicas, random.Random(1)
        )  # type: ignore[arg-type]

    def add_task(self, task: Task) -> None:
        self.tasks.append(task)

    def collect_deleted_files(self, replica: Partition) -> None:
        replica.log.remove_files(replica.log.take_deleted_files())

    def home_of(self, key: TopicPartition) -> LogDirectory:
        return self.directory

    def future_of(self, key: TopicPartition) -> LogDirectory | None:
        return self.future

    def append(self, *records: tuple[bytes | None, bytes | None], **fields: object) -> None:
        plain = [(self.clock.now_ms, key, value, None) for key, value in records]
        append_sent(self.partition, encode_batch(plain, **fields))  # type: ignore[arg-type]

    def append_segments(self, count: int, keys: int = 10, records: int = 50) -> None:
        for _ in range(count):
            for at in range(records):
                offset = self.partition.log.log_end_offset
                self.append((b"k%d" % (at % keys), b"value %d" % offset))
            self.partition.log.roll()

    def clean(self) -> None:
        run_to_end(self.cleaner.cleaning())

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (record.offset, record.key, record.value)
            for _, wire in batches_of(memoryview(self.content()))
            for record in Batch("t", 0, wire, start_offset=0)
        ]

    def content(self) -> bytes:
        log = self.partition.log
        found, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            piece = content_bytes(log.read(offset, 1 << 20, at_least_one=True))
            found += piece
            offset = batches_of(memoryview(piece))[-1][0].next_offset
        return found

    @property
    def checkpoint(self) -> int | None:
        text = self.storage.read_text(ROOT, CLEANER_FILE)
        return None if text is None else read_offsets(text).get(TopicPartition("t", 0))


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStorage]:
    made: LogStorage = MemoryStorage() if request.param == "memory" else FileStorage(tmp_path)
    yield made
    made.close()


def test_a_round_keeps_the_last_record_of_each_key(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(3)
    node.append((b"k0", b"active"))
    assert len(node.records()) == 151
    node.clean()
    assert node.records() == [(100 + at, b"k%d" % (at % 10), b"value %d" % (100 + at)) for at in range(40, 50)] + [
        (150, b"k0", b"active")
    ]
    assert node.partition.log.log_end_offset == 151
    assert node.checkpoint == 150
    assert [one.base_offset for one in node.partition.log.segments] == [0, 150]


def test_a_cleaned_log_is_opened_and_appended_to_again(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(2)
    node.clean()
    before = node.records()
    node.partition.close(sync=True)
    node.open()
    assert node.records() == before
    assert node.partition.log.log_end_offset == 100
    node.append((b"k1", b"later"))
    node.partition.log.roll()
    node.clean()
    assert node.records()[-1] == (100, b"k1", b"later")
    assert (100 - 10 + 1, b"k1", b"value 91") not in node.records()


@pytest.mark.parametrize("seed", range(6))
def test_the_files_are_those_of_the_pure_functions(seed: int, tmp_path: Path) -> None:
    log = RandomLog(seed)
    log.append_segments(6)
    ours, expected = tmp_path / "broker" / FOLDER, tmp_path / "expected"
    for folder in (ours, expected):
        folder.mkdir(parents=True)
        log.write(folder)
    slots = [50_000, 60][seed % 2]
    storage = FileStorage(tmp_path / "broker")
    settings = replace(SETTINGS, dedupe_buffer_bytes=24 * slots)
    node = Node(storage, settings, delete_retention_ms="60000")
    node.clock.now_ms = log.now_ms
    node.clean()
    checkpoint = None
    for _ in range(50):
        done = clean_folder(
            expected, CleanSettings(log.now_ms, checkpoint, slots, segment_bytes=node.config.segment_bytes)
        )
        if not done.plan.cleanable_bytes or done.next_dirty_offset == checkpoint:
            break
        checkpoint = done.next_dirty_offset
    assert node.checkpoint == checkpoint
    assert read_folder(ours) == read_folder(expected)
    node.partition.close(sync=True)
    storage.close()
    assert not report(ours).findings


def test_the_task_waits_for_the_backoff_when_nothing_is_due(storage: LogStorage) -> None:
    node = Node(storage)
    node.clean()
    (task,) = node.tasks
    assert (task.name, task.interval_ms()) == ("kafka-log-cleaner", 15_000)
    assert node.checkpoint is None


def test_other_topics_are_not_cleaned(storage: LogStorage) -> None:
    node = Node(storage, cleanup_policy="delete")
    node.append_segments(2)
    node.clean()
    assert len(node.records()) == 100
    both = Node(MemoryStorage(), cleanup_policy="compact,delete")
    both.append_segments(2)
    both.clean()
    assert len(both.records()) == 10


def test_log_cleaner_enable_false_cleans_nothing(storage: LogStorage) -> None:
    node = Node(storage, replace(SETTINGS, is_enabled=False))
    node.append_segments(2)
    node.clean()
    assert len(node.records()) == 100


def test_keys_that_do_not_fit_the_map_take_several_rounds(storage: LogStorage) -> None:
    node = Node(storage, replace(SETTINGS, dedupe_buffer_bytes=24 * 8))
    node.append_segments(3, keys=20)
    node.clean()
    assert node.cleaner.rounds > 3
    assert node.checkpoint == 150
    last = {key: value for _, key, value in node.records()}
    assert len(last) == 20
    assert {last[b"k%d" % at] for at in range(10)} == {b"value %d" % (140 + at) for at in range(10)}


def test_tombstones_are_removed_after_their_retention(storage: LogStorage) -> None:
    node = Node(storage, delete_retention_ms="5000")
    node.append((b"a", b"1"), (b"b", b"2"))
    node.append((b"a", None))
    node.partition.log.roll()
    node.clean()
    assert node.records() == [(1, b"b", b"2"), (2, b"a", None)]
    node.clock.now_ms += 5_000
    node.append((b"c", b"3"))
    node.partition.log.roll()
    node.clean()
    assert node.records() == [(1, b"b", b"2"), (3, b"c", b"3")]


def test_nothing_is_cleaned_beyond_an_open_transaction(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(1)
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    batch = encode_batch([(NOW_MS, b"k0", b"open", None)], **fields)
    append_sent(node.partition, batch, in_transaction=True)
    node.append_segments(2)
    node.clean()
    assert node.checkpoint == 50
    assert len(node.records()) == 10 + 1 + 100


def test_a_damaged_batch_makes_the_partition_uncleanable_only(
    storage: LogStorage, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(storage)
    node.append_segments(3)
    segment = node.partition.log.segment_at(50)
    assert segment is not None
    storage.open_file(FOLDER, segment.name).write_at(145, b"\xff\xff")
    before = [one.base_offset for one in node.partition.log.segments]
    with caplog.at_level(logging.WARNING):
        node.clean()
    assert node.cleaner.uncleanable == {("here", TopicPartition("t", 0))}
    assert "Marking its partition (t-0) as uncleanable" in caplog.text
    assert "checksum of the batch at offset 51" in caplog.text
    assert [one.base_offset for one in node.partition.log.segments] == before
    assert not [name for name in storage.files(FOLDER) if "cleaned" in name]
    node.clean()
    assert caplog.text.count("uncleanable") == 1
    node.append((b"k0", b"still appended"))
    node.replicas.clear()
    node.clean()
    assert node.cleaner.uncleanable == set()


@pytest.mark.parametrize("steps", [1, 30, 160, 220, 290])
def test_a_truncation_aborts_the_round(storage: LogStorage, steps: int) -> None:
    """Keys of the truncated records are in the map: older records of them must not be removed."""
    node = Node(storage)
    node.append_segments(3)
    running = node.cleaner.cleaning()
    for _ in range(steps):
        next(running)
    node.partition.log.truncate_to(60)
    with pytest.raises(StopIteration):
        while True:
            next(running)
    assert node.partition.log.log_end_offset == 60
    last = {key: value for _, key, value in node.records()}
    assert last == {b"k%d" % at: b"value %d" % (50 + at) for at in range(10)}
    assert not [name for name in storage.files(FOLDER) if "cleaned" in name or "swap" in name]


def test_a_truncation_lowers_the_checkpoint(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(3)
    node.clean()
    assert node.checkpoint == 150
    node.partition.log.truncate_to(145)
    node.append_segments(1)
    node.clean()
    assert node.checkpoint == 195
    assert node.cleaner.rounds == 2
    assert len(node.records()) == 10


def test_a_deleted_partition_aborts_the_round(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(3)
    running = node.cleaner.cleaning()
    for _ in range(200):
        next(running)
    node.replicas.clear()
    node.partition.remove()
    with pytest.raises(StopIteration):
        while True:
            next(running)
    assert node.checkpoint is None


def test_records_are_read_and_appended_during_a_round(storage: LogStorage) -> None:
    node = Node(storage)
    node.append_segments(3)
    running = node.cleaner.cleaning()
    seen = 0
    with pytest.raises(StopIteration):
        for number in range(10_000):
            next(running)
            if number % 20 == 0:
                node.append((b"k0", b"new %d" % number))
                offsets = [offset for offset, _, _ in node.records()]
                assert offsets == sorted(set(offsets))
                seen += 1
    assert seen > 5
    assert {key for _, key, _ in node.records()} == {b"k%d" % at for at in range(10)}


def test_the_rate_limit_interrupts_the_work(storage: LogStorage) -> None:
    node = Node(storage, replace(SETTINGS, bytes_per_second_max=10_000.0))
    node.append_segments(3)
    (task,) = node.tasks
    runs = waited_ms = 0
    while node.checkpoint != 150:
        node.clean()
        waited_ms += task.interval_ms()
        node.clock.now_ms += task.interval_ms()
        runs += 1
    total = 150 * 80 * 2
    assert runs > 100
    assert total / 10 * 0.8 < waited_ms - 15_000 < total / 10 * 1.5
    assert len(node.records()) == 10


def test_an_empty_batch_has_no_record_for_a_timestamp(storage: LogStorage) -> None:
    """The last batch of a producer has lost its record; the record that it was found by is a later one."""
    node = Node(storage)
    node.clock.now_ms += 10
    node.append((b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    node.clock.now_ms -= 10
    node.append((b"a", b"2"), (b"b", b"3"))
    node.partition.log.roll()
    node.clean()
    assert [header.records_count for header, _ in batches_of(memoryview(node.content()))] == [0, 2]
    log = node.partition.log
    assert log.first_at_or_after(node.clock.now_ms) == TimestampAndOffset(node.clock.now_ms, 1)
    assert log.first_at_or_after(node.clock.now_ms + 5) is None


def test_a_checkpoint_that_is_not_in_the_log_is_replaced(storage: LogStorage, caplog: pytest.LogCaptureFixture) -> None:
    storage.write_text(ROOT, CLEANER_FILE, "0\n1\nt 0 5000\n")
    node = Node(storage)
    node.append_segments(2)
    with caplog.at_level(logging.WARNING):
        node.clean()
    assert "the checkpointed offset 5000 is not in the log: the log ends at 100" in caplog.text
    assert (node.checkpoint, len(node.records())) == (100, 10)


def test_a_damaged_checkpoint_is_ignored(storage: LogStorage, caplog: pytest.LogCaptureFixture) -> None:
    storage.write_text(ROOT, CLEANER_FILE, "0\nmany\n")
    node = Node(storage)
    node.append_segments(2)
    with caplog.at_level(logging.WARNING):
        node.clean()
    assert "cleaner-offset-checkpoint is damaged" in caplog.text
    assert node.checkpoint == 100


def test_the_cost_of_a_round_grows_with_the_segments_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = 0
    segment_at, aborted = PartitionLog.segment_at, Segment.aborted_transactions.fget
    assert aborted is not None

    def counting(log: PartitionLog, base_offset: int) -> Segment | None:
        nonlocal looked_up
        looked_up += 1
        return segment_at(log, base_offset)

    def counting_aborted(segment: Segment) -> list[AbortedTransaction]:
        nonlocal looked_up
        looked_up += 1
        return aborted(segment)

    counts = []
    for segments in (100, 200):
        node = Node(MemoryStorage())
        node.append_segments(segments, records=2)
        node.append((b"k0", b"active"))
        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "segment_at", counting)
            patch.setattr(Segment, "aborted_transactions", property(counting_aborted))
            looked_up = 0
            node.clean()
        assert node.partition.log.segments_count == 2
        counts.append(looked_up)
    assert counts[1] < 2.5 * counts[0], counts
