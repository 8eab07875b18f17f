"""What is stored of a batch: as it was sent, unless the topic's settings or the records want it otherwise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.turns import run_to_end
from kafkaraw.broker.validation.inner_records import inner_records
from kafkaraw.broker.validation.log_validator import validated
from kafkaraw.errors import BatchTooLargeError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TIMESTAMP_CREATE_TIME, Batch, encode_batch, unpack_header, verify_crc
from kafkaraw.records.header import HEADER_SIZE, TIMESTAMP_TYPE_BIT, set_attribute, stamp_crc
from tests.broker.support import NOW_MS, batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def stored(data: bytes, *, reads_all: bool = False, **settings: str) -> bytes:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    config = TopicConfig.of(own, BrokerConfig.parse().topic_defaults)
    kept, _ = run_to_end(validated(memoryview(data), config, where="t-0", now_ms=NOW_MS, reads_all=reads_all))
    return bytes(kept)


def refusal(data: bytes, *, reads_all: bool = False, **settings: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        stored(data, reads_all=reads_all, **settings)
    return caught.value


def with_max_timestamp(data: bytes, max_timestamp: int) -> bytes:
    made = bytearray(data)
    made[35:43] = max_timestamp.to_bytes(8, "big", signed=True)
    stamp_crc(made)
    return bytes(made)


def three(*timestamps: int, codec: str = "none") -> bytes:
    return encode_batch([(at, b"k", b"v" * 50, []) for at in timestamps], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reads_all", [False, True])
def test_a_valid_batch_is_kept_byte_for_byte(codec: str, reads_all: bool):
    data = three(NOW_MS, NOW_MS - 5, NOW_MS + 5, codec=codec)
    assert stored(data, reads_all=reads_all) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_max_timestamp_is_corrected_when_records_are_read(codec: str):
    data = three(NOW_MS, NOW_MS + 7, codec=codec)
    wrong = with_max_timestamp(data, NOW_MS + 100)
    assert stored(wrong) == wrong, "nobody has looked"
    assert stored(wrong, reads_all=True) == data
    assert stored(wrong, cleanup_policy="compact") == data
    assert stored(wrong, message_timestamp_before_max_ms="60000") == data


def test_a_producer_cannot_make_its_batch_one_of_log_append_time():
    claimed = bytearray(three(NOW_MS))
    set_attribute(claimed, TIMESTAMP_TYPE_BIT)
    stamp_crc(claimed)
    kept = stored(bytes(claimed))
    verify_crc(kept)
    assert unpack_header(kept).timestamp_type == TIMESTAMP_CREATE_TIME
    assert kept == three(NOW_MS)
    assert refusal(bytes(claimed), message_timestamp_type="LogAppendTime").code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", CODECS)
def test_each_record_outside_the_bounds_is_named(codec: str):
    hour = 3_600_000
    found = refusal(three(NOW_MS, NOW_MS + hour, NOW_MS + hour + 1, codec=codec))
    assert found.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in found.record_errors] == [2]
    assert f"Timestamp {NOW_MS + hour + 1} of message with offset 2 is out of range" in found.record_errors[0].message
    old = refusal(three(NOW_MS, NOW_MS - 1001, NOW_MS, codec=codec), message_timestamp_before_max_ms="1000")
    assert [error.batch_index for error in old.record_errors] == [1]


def test_only_three_of_many_faults_are_in_the_message():
    found = refusal(encode_batch([(NOW_MS, None, b"v", [])] * 5), cleanup_policy="compact")
    assert len(found.record_errors) == 5
    assert found.message.count("batchIndex=") == 3
    assert "due to 5 record errors in total" in found.message


def test_a_timestamp_outweighs_a_missing_key():
    data = encode_batch([(NOW_MS, None, b"v", []), (NOW_MS + 10**8, b"k", b"v", [])])
    found = refusal(data, cleanup_policy="compact")
    assert found.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in found.record_errors] == [0, 1]


def test_no_timestamp_is_within_all_bounds():
    data = three(-1, -1)
    assert stored(data, reads_all=True, message_timestamp_before_max_ms="1000") == data


@pytest.mark.parametrize("codec", CODECS)
def test_recompressing_keeps_the_producer_the_transaction_and_the_times(codec: str):
    records = [(NOW_MS + at, b"k", b"v" * 100, [("h", b"x")]) for at in (3, 0, -2)]
    identity = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 7, "transactional": True}
    kept = stored(encode_batch(records, codec=codec, **identity), compression_type="lz4")
    header = unpack_header(kept)
    assert (header.codec_id, header.producer_id, header.producer_epoch, header.base_sequence) == (3, 5, 2, 7)
    assert header.is_transactional and header.max_timestamp == NOW_MS + 3
    read = Batch("t", 0, memoryview(kept), start_offset=0)
    assert [(one.timestamp_ms, one.key, one.value, one.headers) for one in read] == records


def test_what_recompressing_makes_too_large_is_refused():
    data = batch(b"x" * 5000, codec="gzip")
    found = refusal(data, compression_type="uncompressed", max_message_bytes="1000")
    assert found.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_rubbish_is_found_when_all_records_are_read_and_only_then(codec: str):
    good = three(NOW_MS, NOW_MS, codec=codec)
    bad = bytearray(good)
    bad[HEADER_SIZE + 1 : HEADER_SIZE + 6] = b"\xff" * 5
    stamp_crc(bad)
    assert stored(bytes(bad)) == bytes(bad)
    found = refusal(bytes(bad), reads_all=True)
    assert found.code is (ErrorCode.INVALID_RECORD if codec == "none" else ErrorCode.UNKNOWN_SERVER_ERROR)


@given(st.integers(0, 2**32), st.sampled_from(CODECS))
def test_a_damaged_payload_is_stored_readable_or_refused(seed: int, codec: str):
    rng = random.Random(seed)
    data = bytearray(three(NOW_MS, NOW_MS + 1, NOW_MS + 2, codec=codec))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(HEADER_SIZE, len(data))] = rng.randrange(256)
    stamp_crc(data)
    try:
        kept = stored(bytes(data), reads_all=True)
    except ApiError as found:
        assert found.code in (
            ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_TIMESTAMP
        )  # fmt: skip
        return
    assert len(list(inner_records(memoryview(kept), unpack_header(kept), 1_000))) == 3
    if codec != "none":  # Kafka does not look at the offsets within an uncompressed batch
        assert len(list(Batch("t", 0, memoryview(kept), start_offset=0))) == 3


def test_a_batch_is_read_up_to_a_limit_of_decompressed_bytes():
    data = bytearray(batch(bytes(64 << 20), bytes(64 << 20), b"", codec="zstd"))
    assert len(data) < 100_000
    with pytest.raises(BatchTooLargeError):
        list(Batch("t", 0, memoryview(data), start_offset=0))
    with pytest.raises(BatchTooLargeError):
        stored(bytes(data), reads_all=True)
    with pytest.raises(BatchTooLargeError):
        stored(bytes(data), compression_type="gzip")


@pytest.mark.parametrize("codec", CODECS)
def test_a_timestamp_before_1970_is_kept_but_cannot_be_written_anew(codec: str):
    data = bytearray(three(5, 6, codec=codec))
    data[27:35] = (-17).to_bytes(8, "big", signed=True)
    stamp_crc(data)
    assert stored(bytes(data)) == bytes(data)
    found = refusal(bytes(data), compression_type="uncompressed" if codec != "none" else "gzip")
    assert found.code is ErrorCode.UNKNOWN_SERVER_ERROR, "Kafka's builder fails on it, too"
