"""Reading back an internal topic: what cannot be decoded is logged and skipped, and everything else is served."""

from __future__ import annotations

import logging
import random
import struct

import pytest

from kafkaraw.broker.coordinator_runtime.coordinator_log import SKIPPED_SHOWN
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import encode_message
from kafkaraw.protocol.embedded.transaction_state import TransactionLogKey, TransactionLogValue
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.records import TopicPartition, encode_batch
from kafkaraw.records.header import stamp_crc
from tests.broker.handlers.test_metadata import create
from tests.broker.handlers.test_offsets import commit, committed
from tests.broker.support import NOW_MS, ask, in_a_loop, make_state

OFFSETS = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS = TopicPartition("__transaction_state", 0)
ONE_PARTITION = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}

GARBAGE: list[tuple[bytes | None, bytes | None]] = [
    (None, b"x"),
    (b"", b""),
    (b"\0", None),
    (b"\0\1\x7f\xff", b"\0\1garbage"),
    (b"\0\0\x7f\xff", b"x"),
    (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x09" + bytes(40)),
    (b"\0\0\0\1x", b"\0\1"),
    (b"\x7f\xff", b"of a later Kafka"),
    *((random.Random(seed).randbytes(seed % 40), random.Random(-seed).randbytes(seed)) for seed in range(60)),
    *((struct.pack(">h", kind) + b"\0\1g\0\1t" + bytes(20), b"\0\0" + bytes(30)) for kind in range(20)),
]


def corrupt_batch() -> bytes:
    """A compressed batch with the right checksum, whose payload is not one of its codec."""
    made = bytearray(encode_batch([(NOW_MS, b"k", b"v" * 500, ())], codec="gzip"))
    made[61:71] = bytes(10)
    stamp_crc(made)
    return bytes(made)


def spoil(state: BrokerState, key: TopicPartition) -> None:
    partition = state.partition(key)
    assert partition is not None
    for record_key, value in GARBAGE:
        partition.append_as_leader(encode_batch([(NOW_MS, record_key, value, ())]))
    partition.append_as_leader(corrupt_batch())


def restarted(state: BrokerState, storage: MemoryStorage) -> BrokerState:
    in_a_loop(state.close)
    return make_state(storage, **ONE_PARTITION)


def test_undecodable_records_of_offsets_are_skipped_and_groups_are_served(caplog: pytest.LogCaptureFixture):
    storage = MemoryStorage()
    state = make_state(storage, **ONE_PARTITION)
    create(state, "t", partitions=2)
    assert commit(state, 0, 5) == ErrorCode.NONE
    in_a_loop(lambda: spoil(state, OFFSETS))
    assert commit(state, 1, 7) == ErrorCode.NONE
    with caplog.at_level(logging.ERROR):
        again = restarted(state, storage)
    assert committed(again) == [(5, "m"), (7, "m")]
    skipped = [record.getMessage() for record in caplog.records if "cannot be decoded" in record.getMessage()]
    assert len(skipped) == SKIPPED_SHOWN + 1, "a flood of them is not a flood of the log"
    assert "__consumer_offsets-0: the record or batch at offset 1 " in skipped[0]
    assert commit(again, 0, 9) == ErrorCode.NONE


def begun(state: BrokerState, transactional_id: str) -> tuple[ErrorCode, int]:
    answer = ask(state, InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 5)
    return ErrorCode(answer.error_code), answer.producer_epoch


def test_undecodable_transaction_states_are_skipped_and_transactional_ids_are_served():
    storage = MemoryStorage()
    state = make_state(storage, **ONE_PARTITION)
    assert begun(state, "tx") == (ErrorCode.NONE, 0)
    in_a_loop(lambda: spoil(state, TRANSACTIONS))
    odd_state = TransactionLogValue(
        producer_id=1,
        producer_epoch=1,
        transaction_timeout_ms=1,
        transaction_status=77,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
    )
    key = b"\0\0" + encode_message(TransactionLogKey(transactional_id="tx"), 0)
    partition = state.partition(TRANSACTIONS)
    assert partition is not None
    batch = encode_batch([(NOW_MS, key, b"\0\1" + encode_message(odd_state, 1), ())])
    in_a_loop(lambda: partition.append_as_leader(batch))
    again = restarted(state, storage)
    assert begun(again, "tx") == (ErrorCode.NONE, 1), "the state before the undecodable one"
    assert begun(again, "other") == (ErrorCode.NONE, 0)
