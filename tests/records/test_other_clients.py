"""Other Python clients and we read each other: a check on what both of our ends could get wrong alike."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from kafkaraw.records import Batch, encode_batch, parse_header
from kafkaraw.records.batch import PlainRecord

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

RECORDS: list[PlainRecord] = [
    (1_700_000_000_000, b"key", b"value", [("name", b"header"), ("null", None), ("größe", b"")]),
    (1_700_000_000_100, None, b"no key", []),
    (1_699_999_000_000, b"tombstone", None, []),
    (1_700_000_000_000, b"", b"", []),
    *[(1_700_000_000_000 + number, b"%d" % number, b"value " * (number % 100), []) for number in range(700)],
    (1_700_000_000_001, b"k" * 1000, b"v" * 100_000, []),
]


@pytest.fixture(params=["kafka", "aiokafka"])
def other(request: pytest.FixtureRequest) -> ModuleType:
    name = {"kafka": "kafka-python", "aiokafka": "aiokafka"}[request.param]
    module: ModuleType = pytest.importorskip(f"{request.param}.record.default_records", reason=f"{name} is missing")
    return module


def build(other: ModuleType, codec: str, transactional: bool) -> bytes:
    builder: Any = other.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=transactional,
        producer_id=123,
        producer_epoch=4,
        base_sequence=567,
        batch_size=10_000_000,
    )
    for index, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        assert builder.append(index, timestamp_ms, key, value, headers or []) is not None
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("transactional", [False, True])
def test_their_batches_are_read(other: ModuleType, codec: str, transactional: bool) -> None:
    data = build(other, codec, transactional)
    header = parse_header(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (123, 4, 567)
    assert (header.codec_id, header.is_transactional) == (CODECS[codec], transactional)
    batch = Batch("t", 0, memoryview(data), start_offset=0)
    assert [(record.timestamp_ms, record.key, record.value, record.headers) for record in batch] == RECORDS
    assert batch.next_offset == len(RECORDS)


@pytest.mark.parametrize("codec", CODECS)
def test_they_read_our_batches(other: ModuleType, codec: str) -> None:
    data = encode_batch(
        RECORDS, codec=codec, base_offset=50, producer_id=123, producer_epoch=4, base_sequence=567, transactional=True
    )
    batch: Any = other.DefaultRecordBatch(bytearray(data))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (123, 4, 567)
    assert (batch.compression_type, batch.is_transactional, batch.is_control_batch) == (CODECS[codec], True, False)
    assert batch.next_offset == 50 + len(RECORDS)
    assert [
        (record.timestamp, record.key, record.value, [tuple(header) for header in record.headers]) for record in batch
    ] == RECORDS


def test_uncompressed_batches_are_the_same_to_the_last_byte(other: ModuleType) -> None:
    ours = encode_batch(RECORDS, producer_id=123, producer_epoch=4, base_sequence=567, partition_leader_epoch=0)
    theirs = build(other, "none", False)
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:], "all but the leader epoch, which the broker sets"
