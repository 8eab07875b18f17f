"""The frames of a Produce request's records: one batch each, what is cut short behind it does not count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.validation.frames import first_is_transactional, frames, only_batch
from kafkaraw.protocol.error_codes import ErrorCode
from tests.broker.support import batch

ONE = batch(b"a")
VERSION = 12


def refused(records: bytes | None, version: int = VERSION) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        only_batch(None if records is None else memoryview(records), version)
    return caught.value.code


def with_length(length: int) -> bytes:
    return ONE[:8] + length.to_bytes(4, "big", signed=True) + ONE[12:]


def test_every_whole_batch_is_found_and_nothing_else():
    found = list(frames(memoryview(ONE + batch(b"b") + ONE[:40])))
    assert [(frame.start, frame.end, frame.magic) for frame in found] == [(0, len(ONE), 2), (len(ONE), len(ONE) * 2, 2)]


@pytest.mark.parametrize("tail", [b"", b"rubbish", ONE[:16], ONE[:-1]])
def test_what_is_cut_short_behind_a_batch_is_passed_over(tail: bytes):
    assert bytes(only_batch(memoryview(ONE + tail), VERSION)) == ONE


@pytest.mark.parametrize("records", [None, b"", ONE[:5], ONE[:16], ONE[:-1], ONE * 2])
def test_anything_but_one_batch_is_an_invalid_record(records: bytes | None):
    assert refused(records) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_that_no_message_has_is_corrupt(length: int):
    assert refused(with_length(length)) is ErrorCode.CORRUPT_MESSAGE


def test_a_length_on_which_kafkas_reckoning_overflows_is_an_error_of_the_server():
    assert refused(with_length(2**31 - 1)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_batches_of_another_magic_are_refused(magic: int, code: ErrorCode):
    assert refused(ONE[:16] + bytes([magic]) + ONE[17:]) is code


def test_old_magic_in_old_requests_is_of_a_format_that_is_not_kept():
    assert refused(ONE[:16] + b"\1" + ONE[17:], 2) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_zstd_needs_version_7():
    packed = batch(b"a" * 99, codec="zstd")
    assert refused(packed, 6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert bytes(only_batch(memoryview(packed), 7)) == packed


def test_transactional_is_what_the_first_batch_says():
    transactional = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert first_is_transactional(memoryview(transactional + ONE))
    assert not first_is_transactional(memoryview(ONE + transactional))
    assert not first_is_transactional(memoryview(transactional[:-1]))


@given(st.binary(max_size=80))
def test_any_bytes_are_frames_or_a_refusal(records: bytes):
    try:
        found = list(frames(memoryview(records)))
    except ApiError:
        return
    assert all(0 <= frame.start < frame.end <= len(records) for frame in found)
