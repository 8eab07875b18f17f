"""A write or sync that fails leaves log, epoch file and producers of a partition consistent, and a retry completes."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.log import file_storage
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.partitions.elections import PartitionState
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Batch, TopicPartition, encode_batch, iter_headers
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import NOW_MS, FixedClock, append_sent, content_bytes, in_a_loop

CONFIGS = {"flush.messages": "3"}
SEGMENT_BYTES = 400
SENT = 8
EPOCH_OF = (0, 0, 1, 1, 3, 3, 3, 4)
"""The leader epoch in which each batch is appended."""


def open_partition(storage: LogStorage) -> Partition:
    made = Partition(
        TopicPartition("t", 0),
        0,
        storage,
        TopicConfig.of(CONFIGS, BrokerConfig.parse().topic_defaults),
        FixedClock(),
        Controller(BrokerConfig.parse(), MemoryStorage(), random.Random(1)),
        producer_expiration_ms=86_400_000,
    )
    made.log.settings = SegmentSettings(segment_bytes=SEGMENT_BYTES)
    made.open()
    return made


def lead(partition: Partition, epoch: int) -> None:
    in_a_loop(lambda: partition.lead_or_follow(PartitionState((0,), 0, (0,), leader_epoch=epoch)))


def sent(number: int) -> memoryview:
    """Batch `number` of an idempotent producer, two records each."""
    records = [(NOW_MS, None, b"%d-%d" % (number, each), ()) for each in range(2)]
    return memoryview(bytearray(encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=2 * number)))


def state_of(partition: Partition) -> tuple[object, ...]:
    """Everything that a log and its producers must agree on."""
    offset, batches, values = partition.log.log_start_offset, [], []
    while offset < partition.log.log_end_offset:
        data = content_bytes(partition.log.read(offset, 1 << 20, at_least_one=True))
        for header, wire in iter_headers(memoryview(data)):
            batches.append((header.base_offset, header.partition_leader_epoch, header.base_sequence))
            values += [bytes(record.value or b"") for record in Batch("t", 0, wire, start_offset=header.base_offset)]
            offset = header.next_offset
    sequences = [(entry.epoch, list(entry.batches)[-1:]) for _, entry in partition.producers.describe()]
    return partition.log.log_end_offset, batches, values, partition.log.epochs.rows, sequences


def reopened(storage: LogStorage) -> tuple[object, ...]:
    partition = open_partition(storage)
    try:
        return state_of(partition)
    finally:
        partition.log.close()


def send_all(storage: FaultyStorage, inner: LogStorage, partition: Partition) -> int:
    """Send all batches, each again until it is acknowledged; gives how many were refused."""
    refusals = 0
    for number in range(SENT):
        if partition.leader_epoch != EPOCH_OF[number]:
            lead(partition, EPOCH_OF[number])
        while True:
            try:
                appended = append_sent(partition, sent(number))
            except ApiError as error:
                refusals += 1
                assert refusals < 10
                assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
                assert error.message
                if not {"truncate", "remove_file"} & set(storage.failures):
                    assert partition.log.log_end_offset == 2 * number, storage.failures
                assert partition.high_watermark <= partition.log.log_end_offset
                continue
            assert (appended.base_offset, appended.next_offset) == (2 * number, 2 * number + 2)
            assert partition.high_watermark == appended.next_offset
            break
        assert state_of(partition) == reopened(inner), (number, storage.failures)
    return refusals


def expected() -> tuple[tuple[object, ...], int]:
    """The state after all batches, and how many operations it takes when none fails."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    partition = open_partition(storage)
    before = storage.operations
    assert send_all(storage, inner, partition) == 0
    return state_of(partition), storage.operations - before


def test_appends_write_epochs_before_their_batches():
    """The scenario has every kind of operation, and several epochs and segments."""
    _, batches, values, epochs, _ = expected()[0]
    assert values == [b"%d-%d" % (number, each) for number in range(SENT) for each in range(2)]
    assert [epoch for _, epoch, _ in batches] == list(EPOCH_OF)
    assert epochs == [(0, 0), (1, 4), (3, 8), (4, 14)]


# On files, where syncs take time, repeated failures are left to a soak.
@pytest.mark.parametrize(
    ("kind", "times"),
    [
        *(("memory", times) for times in (1, 2, 3)),
        ("files", 1),
        *(pytest.param("files", times, marks=pytest.mark.soak) for times in (2, 3)),
    ],
)
def test_any_operation_may_fail_and_a_retry_completes(kind: str, times: int, tmp_path: Path):
    wanted, operations = expected()
    failed = set()
    for operation in range(1, operations + 1):
        inner: LogStorage = MemoryStorage() if kind == "memory" else FileStorage(tmp_path / f"{operation}")
        storage = FaultyStorage(inner)
        partition = open_partition(storage)
        storage.fail_at(operation, errno.ENOSPC if operation % 2 else errno.EIO, times=times)
        send_all(storage, inner, partition)
        failed.update(storage.failures)
        assert state_of(partition) == reopened(inner) == wanted, (operation, storage.failures)
        partition.log.close()
        inner.close()
    assert {"append", "open_file", "write_text", "sync" if times == 1 else "truncate"} <= failed


def test_an_epoch_whose_file_write_failed_is_written_with_the_next_batch():
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    partition = open_partition(storage)
    lead(partition, 0)
    append_sent(partition, sent(0))
    storage.fail_at(1, errno.ENOSPC, times=2)
    lead(partition, 5)  # the first failure: of beginning to lead
    with pytest.raises(ApiError):
        append_sent(partition, sent(1))
    assert (partition.log.log_end_offset, partition.log.epochs.rows) == (2, [(0, 0)])
    assert append_sent(partition, sent(1)).base_offset == 2
    assert inner.read_text("t-0", EPOCHS_FILE) == "0\n2\n0 0\n5 2\n"


def test_a_truncation_whose_epoch_file_write_fails_is_written_with_the_next_batch():
    inner = MemoryStorage()
    storage = FaultyStorage(inner)
    partition = open_partition(storage)
    for number, epoch in enumerate((0, 1, 2)):
        lead(partition, epoch)
        append_sent(partition, sent(number))
    storage.fail_at(3, errno.EIO)  # behind removal of a segment, or its cut
    partition.log.truncate_to(2)
    assert partition.log.epochs.rows == [(0, 0)]
    assert reopened(inner)[3] == [(0, 0)]


def test_a_torn_write_that_cannot_be_cut_off_is_cut_off_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    storage = FileStorage(tmp_path / "data")
    partition = open_partition(storage)
    partition.log.settings = SegmentSettings()
    lead(partition, 0)
    append_sent(partition, sent(0))
    real_write, real_truncate = os.pwrite, os.ftruncate

    def torn(descriptor: int, data: memoryview, position: int) -> int:
        if position > partition.log.size_bytes:
            raise OSError(errno.ENOSPC, "full")
        return real_write(descriptor, data[:-3], position)

    def broken(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "broken")

    long = memoryview(bytearray(encode_batch([(NOW_MS, None, bytes(300), ())])))
    monkeypatch.setattr(file_storage.os, "pwrite", torn)
    monkeypatch.setattr(file_storage.os, "ftruncate", broken)
    with pytest.raises(ApiError, match="cannot be written"):
        append_sent(partition, long)
    monkeypatch.setattr(file_storage.os, "pwrite", real_write)
    with pytest.raises(ApiError, match="cannot be written"):
        append_sent(partition, sent(1))  # not before the rest is cut off
    monkeypatch.setattr(file_storage.os, "ftruncate", real_truncate)
    append_sent(partition, sent(1))
    partition.log.close()
    (segment,) = (tmp_path / "data" / "t-0").glob("*.log")
    assert segment.stat().st_size == partition.log.size_bytes
    storage.close()
