"""The coordinator's states in one partition of `__transaction_state`, in Apache Kafka's record format.

A state takes effect once all in-sync replicas have it. A new leader of the partition loads its states from this log.
Source: org.apache.kafka.coordinator.transaction.TransactionLog; kafka.coordinator.transaction.TransactionStateManager.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import groupby
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.coordinator_log import CoordinatorLog
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.transactions.coordinator import Done
from kafkaraw.broker.transactions.states import Transaction, TransactionState
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import decode_message, encode_message
from kafkaraw.protocol.embedded.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Record, TopicPartition

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1
_VERSION: Final = struct.Struct(">h")
# The coordinator's response if its log refuses a write: clients look up the coordinator and retry.
_ANSWERS: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class PartitionStateLog:
    """The states in one partition of which this node is leader; implements `coordinator.StateLog`.

    Args:
        partition: a partition of `__transaction_state`.
        now_ms: wall clock.
    """

    def __init__(self, partition: Partition, now_ms: Callable[[], int]) -> None:
        self._log = CoordinatorLog(partition, now_ms)

    def append(self, transaction: Transaction, done: Done) -> None:
        """Write a state; see `coordinator.StateLog`."""
        self._append(transaction.transactional_id, _value_of(transaction), done)

    def forget(self, transactional_id: str, done: Done) -> None:
        """Write a tombstone; see `coordinator.StateLog`."""
        self._append(transactional_id, None, done)

    def _append(self, transactional_id: str, value: bytes | None, done: Done) -> None:
        key = encode_message(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)
        try:
            position = self._log.append([(_VERSION.pack(KEY_VERSION) + key, value)])
        except ApiError as error:
            done(_ANSWERS.get(error.code, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        self._log.when_replicated(position, lambda code: done(_ANSWERS.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE)))

    def read(self) -> list[Transaction]:
        """Return the newest state of each transactional id that can be decoded.

        Raises:
            OSError: the storage is broken.
        """
        found: dict[str, Transaction] = {}
        for batch in self._log.read(_decoded):
            for name, state in batch.records:
                found.pop(name, None)
                if state is not None:
                    found[name] = state
        return list(found.values())


class _Stored(NamedTuple):
    """Decode a record: the state of a transactional id, or its tombstone."""

    transactional_id: str
    state: Transaction | None


def _decoded(record: Record) -> _Stored | None:
    key = record.key or b""
    (version,) = _VERSION.unpack_from(key)
    if version != KEY_VERSION:
        return None  # of a later Kafka
    name = decode_message(TransactionLogKey, version, key, _VERSION.size).transactional_id
    return _Stored(name, None if record.value is None else _transaction_of(name, record.value))


def _value_of(transaction: Transaction) -> bytes:
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=[each.partition for each in them])
        for topic, them in groupby(sorted(transaction.partitions), key=lambda each: each.topic)
    ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=-1,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    return _VERSION.pack(VALUE_VERSION) + encode_message(value, VALUE_VERSION)


def _transaction_of(name: str, content: bytes) -> Transaction:
    (version,) = _VERSION.unpack_from(content)
    value = decode_message(TransactionLogValue, version, content, _VERSION.size)
    state = TransactionState(value.transaction_status)
    bumped = value.client_transaction_version >= 2 and state in (
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    return Transaction(
        transactional_id=name,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=value.producer_epoch - 1 if bumped and value.producer_epoch > 0 else -1,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(entry.topic, partition)
            for entry in value.transaction_partitions or ()
            for partition in entry.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
