"""Appending to a partition: what is let in, what is refused and with which code, what is stored."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.partitions.elections import first_state
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.validation.frames import only_batch
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import (
    TIMESTAMP_LOG_APPEND_TIME,
    Batch,
    BatchHeader,
    TopicPartition,
    encode_batch,
    encode_control_batch,
    parse_header,
    patch_header,
)
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc
from tests.broker.support import NOW_MS, FixedClock, append_sent, batch, content_bytes, disk_without_luck

VERSION = 13


def make_partition(storage: LogStorage | None = None, **configs: str) -> Partition:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    config = TopicConfig.of(own, BrokerConfig.parse().topic_defaults)
    made = Partition(
        TopicPartition("t", 0),
        0,
        storage or MemoryStorage(),
        config,
        FixedClock(),
        Controller(BrokerConfig.parse(), MemoryStorage(), random.Random(1)),
        producer_expiration_ms=86_400_000,
    )
    made.open()
    made.lead_or_follow(first_state((0,)))
    return made


def append(partition: Partition, data: bytes, version: int = VERSION) -> tuple[int, int]:
    """The offset that a batch got, and its time."""
    appended = append_sent(partition, only_batch(memoryview(bytearray(data)), version))
    return appended.base_offset, appended.log_append_time_ms


def refused(partition: Partition, data: bytes | None, version: int = VERSION) -> ErrorCode:
    before = partition.log.size_bytes
    with pytest.raises(ApiError) as caught:
        append_sent(partition, only_batch(None if data is None else memoryview(bytearray(data)), version))
    assert partition.log.size_bytes == before
    return caught.value.code


def stored(partition: Partition) -> bytes:
    return content_bytes(partition.log.read(0, 1 << 30, at_least_one=True))


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """A batch with other header bytes and the right checksum."""
    made = bytearray(data)
    made[at : at + len(new)] = new
    stamp_crc(made)
    return bytes(made)


def test_a_batch_gets_the_next_offset_and_is_otherwise_kept_as_sent():
    partition = make_partition()
    assert append(partition, batch(b"a", b"b")) == (0, -1)
    data = batch(b"c", codec="lz4")
    assert append(partition, data) == (2, -1)
    kept = stored(partition)[len(batch(b"a", b"b")) :]
    assert parse_header(kept).base_offset == 2
    assert parse_header(kept).partition_leader_epoch == 0
    assert kept[16:] == data[16:]
    assert [record.value for record in Batch("t", 0, memoryview(kept), start_offset=2)] == [b"c"]


def test_a_read_only_buffer_is_copied_not_written_to():
    partition = make_partition()
    append(partition, batch(b"first"))
    data = batch(b"second")
    append_sent(partition, memoryview(data))
    assert parse_header(data).base_offset == 0
    assert partition.high_watermark == 2


@pytest.mark.parametrize("data", [None, b""])
def test_no_batch_is_an_invalid_record(data: bytes | None):
    assert refused(make_partition(), data) is ErrorCode.INVALID_RECORD


def test_two_batches_are_one_too_many():
    assert refused(make_partition(), batch(b"a") + batch(b"b")) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "code"), [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)]
)
def test_other_message_formats_are_refused(magic: int, code: ErrorCode):
    data = bytearray(batch(b"a"))
    data[16] = magic
    assert refused(make_partition(), bytes(data)) is code


def test_a_batch_cut_at_any_byte_is_refused():
    data = batch(b"a value", key=b"key")
    partition = make_partition()
    for cut in range(1, len(data)):
        assert refused(partition, data[:cut]) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@given(data=st.data())
def test_a_flipped_bit_never_gets_in_unnoticed(data: st.DataObject):
    whole = batch(b"a value", key=b"key")
    at = data.draw(st.integers(0, len(whole) - 1).filter(lambda at: not 12 <= at < 16))  # the leader epoch is replaced
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    assert refused(make_partition(), bytes(flipped)) in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
    )


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (0, (5).to_bytes(8)),  # base offset
        (57, (0).to_bytes(4)),  # no records
        (57, (9).to_bytes(4)),  # more records than offsets
        (57, b"\xff\xff\xff\xff"),  # -1 records
        (23, (7).to_bytes(4)),  # more offsets than records
        (23, b"\xff\xff\xff\xff"),  # negative last offset delta
        (43, (5).to_bytes(8)),  # a producer id without sequences
    ],
)
def test_a_header_that_contradicts_itself_is_an_invalid_record(at: int, new: bytes):
    assert refused(make_partition(), patched(batch(b"a", b"b"), at, new)) is ErrorCode.INVALID_RECORD


def test_clients_cannot_write_control_records_nor_in_transactions_that_do_not_exist():
    partition = make_partition()
    control = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    assert refused(partition, bytes(control)) is ErrorCode.INVALID_RECORD
    transactional = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert refused(partition, transactional) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_above_max_message_bytes_is_too_large():
    data = batch(b"x" * 1000)
    assert refused(make_partition(max_message_bytes=str(len(data) - 1)), data) is ErrorCode.MESSAGE_TOO_LARGE
    assert append(make_partition(max_message_bytes=str(len(data))), data) == (0, -1)


def test_a_batch_larger_than_a_segment_is_refused():
    partition = make_partition(internal_segment_bytes="100")
    assert refused(partition, batch(b"x" * 1000)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_zstd_needs_produce_version_7():
    data = batch(b"a" * 100, codec="zstd")
    assert refused(make_partition(), data, version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert append(make_partition(), data, version=7) == (0, -1)


def test_timestamps_far_ahead_are_refused_and_old_ones_are_not():
    assert append(make_partition(), batch(b"a", timestamp_ms=0)) == (0, -1)
    ahead = batch(b"a", timestamp_ms=NOW_MS + 3_600_001)
    assert refused(make_partition(), ahead) is ErrorCode.INVALID_TIMESTAMP
    old = batch(b"a", timestamp_ms=NOW_MS - 1001)
    assert refused(make_partition(message_timestamp_before_max_ms="1000"), old) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_stamps_the_whole_batch_and_its_checksum():
    partition = make_partition(message_timestamp_type="LogAppendTime")
    assert append(partition, batch(b"a", b"b", timestamp_ms=5)) == (0, NOW_MS)
    records = list(Batch("t", 0, memoryview(stored(partition)), start_offset=0, check_crcs=True))
    assert [record.timestamp_ms for record in records] == [NOW_MS, NOW_MS]
    assert {record.timestamp_type for record in records} == {TIMESTAMP_LOG_APPEND_TIME}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compacted_topic_takes_only_records_with_a_key(codec: str):
    partition = make_partition(cleanup_policy="compact,delete")
    assert append(partition, batch(b"a", key=b"k", codec=codec)) == (0, -1)
    assert append(partition, batch(None, key=b"", codec=codec)) == (1, -1)
    assert refused(partition, batch(b"a", codec=codec)) is ErrorCode.INVALID_RECORD


def test_what_cannot_be_decompressed_is_an_error_of_the_server_as_with_kafka():
    data = bytearray(batch(b"a" * 100, key=b"k", codec="zstd"))
    data[70:80] = b"nonsense!!"
    stamp_crc(data)
    assert refused(make_partition(cleanup_policy="compact"), bytes(data)) is ErrorCode.UNKNOWN_SERVER_ERROR
    unknown = patched(batch(b"a", b"b"), 21, b"\x00\x07")
    assert refused(make_partition(), unknown) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("setting", "codec_id"), [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_a_topic_with_a_codec_of_its_own_stores_every_batch_in_it(setting: str, codec_id: int):
    partition = make_partition(compression_type=setting)
    records = [(NOW_MS + at, b"k%d" % at, b"v" * at, [("h", b"x"), ("n", None)]) for at in range(5)]
    for number, sent_in in enumerate(("none", "gzip", "zstd")):
        identity = {"producer_id": 9, "producer_epoch": 1, "base_sequence": number * 5}
        data = encode_batch(records, codec=sent_in, transactional=True, **identity)
        appended = append_sent(partition, memoryview(data), in_transaction=True)
        assert (appended.base_offset, appended.log_append_time_ms) == (number * 5, -1)
    kept = Batch("t", 0, memoryview(stored(partition)), start_offset=0, check_crcs=True)
    found = [(record.timestamp_ms, record.key, record.value, record.headers) for record in kept]
    assert found == records * 3
    header = parse_header(stored(partition))
    assert header.codec_id == codec_id
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 0)
    assert header.is_transactional


def produced(sequence: int, *values: bytes) -> bytes:
    return batch(*values, producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_a_repeated_batch_is_answered_with_its_offset_and_not_appended_again():
    partition = make_partition()
    append(partition, batch(b"before"))
    assert append(partition, produced(0, b"a", b"b")) == (1, -1)
    assert append(partition, produced(2, b"c")) == (3, -1)
    end = partition.high_watermark
    assert append(partition, produced(0, b"a", b"b")) == (1, NOW_MS), "Kafka tells the batch's highest timestamp"
    assert append(partition, produced(2, b"c")) == (3, NOW_MS)
    assert partition.high_watermark == end


def test_what_is_known_of_producers_survives_a_restart():
    storage = MemoryStorage()
    partition = make_partition(storage)
    for sequence in range(6):
        append(partition, produced(sequence, b"v"))
    partition.close(sync=True)
    again = make_partition(storage)
    assert append(again, produced(5, b"v")) == (5, NOW_MS)
    assert append(again, produced(1, b"v")) == (1, NOW_MS)
    assert refused(again, produced(0, b"v")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(again, produced(6, b"v")) == (6, -1)


def partition_whose_first_batches_are_deleted(storage: MemoryStorage) -> Partition:
    """Each batch has a segment of its own; only the last one is left, which is not the producer's."""
    partition = make_partition(storage, internal_segment_bytes="150")
    for sequence in range(0, 12, 2):
        append(partition, produced(sequence, b"v" * 40, b"w"))
    append(partition, batch(b"x" * 80))
    partition.delete_records(12)
    partition.delete_oldest_segments(partition.log.segments_count - 1)
    assert (partition.log.segments_count, partition.log.log_start_offset) == (1, 12)
    return partition


def test_what_is_known_of_producers_outlives_their_records():
    storage = MemoryStorage()
    partition_whose_first_batches_are_deleted(storage).close(sync=True)
    again = make_partition(storage)
    assert append(again, produced(10, b"v" * 40, b"w")) == (10, NOW_MS)
    assert refused(again, produced(13, b"v")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(again, produced(12, b"v")) == (13, -1)


def test_five_batches_are_known_again_while_the_broker_runs_whatever_was_deleted():
    partition = partition_whose_first_batches_are_deleted(MemoryStorage())
    for sequence in range(2, 12, 2):
        assert append(partition, produced(sequence, b"v" * 40, b"w")) == (sequence, NOW_MS)
    assert refused(partition, produced(0, b"v" * 40, b"w")) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_every_segment_but_the_first_has_the_snapshot_of_its_roll():
    storage = MemoryStorage()
    partition = partition_whose_first_batches_are_deleted(storage)
    assert snapshots(storage) == [12]
    for sequence in (12, 14):
        append(partition, produced(sequence, b"v" * 40, b"w"))
    assert snapshots(storage) == [12, 13, 15]
    partition.delete_oldest_segments(1)
    assert snapshots(storage) == [13, 15]
    partition.close(sync=True)
    assert snapshots(storage) == [13, 15, 17]


def snapshots(storage: MemoryStorage) -> list[int]:
    return [int(name[:20]) for name in storage.files("t-0") if name.endswith(".snapshot")]


def test_a_damaged_file_costs_what_it_knew_and_no_more(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    partition_whose_first_batches_are_deleted(storage).close(sync=True)
    for offset in snapshots(storage):
        file = storage.open_file("t-0", f"{offset:020d}.snapshot")
        file.truncate(file.size_bytes - 1)
    again = make_partition(storage)
    assert "is damaged and ignored" in caplog.text
    assert snapshots(storage) == []
    assert append(again, produced(40, b"v")) == (13, -1), "it is a producer that is not known"


def test_what_was_written_down_of_batches_that_were_cut_off_is_not_believed():
    storage = MemoryStorage()
    partition_whose_first_batches_are_deleted(storage).close(sync=True)
    log = storage.open_file("t-0", f"{12:020d}.log")
    log.truncate(0)
    again = make_partition(storage)
    assert again.log.log_end_offset == 12
    assert snapshots(storage) == [12]
    assert append(again, produced(10, b"v" * 40, b"w")) == (10, NOW_MS)


def test_records_outside_the_transaction_of_their_producer_are_refused():
    partition = make_partition()
    begun = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append_sent(partition, memoryview(begun), in_transaction=True)
    assert refused(partition, produced(1, b"b")) is ErrorCode.INVALID_TXN_STATE


def test_records_that_say_they_are_of_a_transaction_without_a_producer_are_not():
    partition = make_partition()
    append_sent(partition, memoryview(batch(b"a", transactional=True)))
    assert partition.last_stable_offset == partition.high_watermark == 1


def test_an_open_transaction_outlives_its_first_records():
    storage = MemoryStorage()
    partition = make_partition(storage, internal_segment_bytes="150")
    begun = batch(b"a" * 60, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append_sent(partition, memoryview(begun), in_transaction=True)
    append(partition, batch(b"x" * 80))
    partition.delete_records(1)
    partition.close(sync=True)
    again = make_partition(storage)
    assert again.transactions.first_offset_of(7) == 0


def test_a_refused_batch_does_not_move_the_sequence():
    partition = make_partition(max_message_bytes="200")
    append(partition, produced(0, b"a"))
    assert refused(partition, produced(1, b"x" * 500)) is ErrorCode.MESSAGE_TOO_LARGE
    assert append(partition, produced(1, b"b")) == (1, -1)


def test_storage_that_is_full_is_a_storage_error(monkeypatch: pytest.MonkeyPatch):
    partition = make_partition()

    def fail(batch: memoryview, header: BatchHeader) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(partition.log, "append", fail)
    assert refused(partition, batch(b"a")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_flush_messages_syncs_after_so_many_records():
    storage = disk_without_luck()
    partition = make_partition(storage, flush_messages="2")
    append(partition, batch(b"a"))
    assert partition.log.unflushed_messages == 1
    append(partition, batch(b"b"))
    assert (partition.log.unflushed_messages, partition.log.recovery_point) == (0, 2)
    storage.lose_unsynced()
    assert make_partition(storage).high_watermark == 2


class Watcher:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def readable(self, size_bytes: int) -> None:
        self.seen.append(size_bytes)

    def ended(self) -> None:
        self.seen.append(-1)


def test_watchers_hear_of_appends_and_of_the_end_until_they_leave():
    partition, watcher, gone = make_partition(), Watcher(), Watcher()
    partition.watch(watcher)
    partition.watch(gone)
    partition.unwatch(gone)
    append(partition, batch(b"a"))
    partition.remove()
    assert watcher.seen == [len(batch(b"a")), -1]
    assert gone.seen == []


def test_patching_never_changes_the_checksum_of_create_time_batches():
    data = bytearray(batch(b"a"))
    crc = parse_header(data).crc
    patch_header(data, base_offset=10**12, partition_leader_epoch=5)
    assert parse_header(data).crc == crc
