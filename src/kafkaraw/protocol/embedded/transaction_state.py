"""Records of __transaction_state.  Source: KIP-98, KIP-890."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string


@data(versions="0", record_type=0)
class TransactionLogKey:
    """Key of a transactional id; begins with int16 0."""

    transactional_id: string


@struct
class PartitionsSchema:
    """Partitions of one topic."""

    topic: string
    partition_ids: list[int32]


@data(versions="0-1", flexible="1+", record_type=0)
class TransactionLogValue:
    """The state of a transactional id.

    Attributes:
        previous_producer_id: id of the producer before; -1 for none.
        next_producer_id: id that the next transaction will use; -1 for none.
        transaction_timeout_ms: after which a transaction is aborted, in milliseconds.
        transaction_status: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete
            abort, 6 dead, 7 prepare epoch fence.
        transaction_partitions: partitions that are part of it; null when it is empty.
        transaction_last_update_timestamp_ms: in milliseconds since 1970.
        transaction_start_timestamp_ms: in milliseconds since 1970; -1 when none has begun.
        client_transaction_version: protocol that the client uses: 2 bumps epochs with every transaction.
    """

    producer_id: int64
    previous_producer_id: int64 = field(versions="1+", default=-1, tag=0)
    next_producer_id: int64 = field(versions="1+", default=-1, tag=1)
    producer_epoch: int16
    next_producer_epoch: int16 = field(versions="1+", default=-1, tag=3)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field(versions="1+", default=0, tag=2)
