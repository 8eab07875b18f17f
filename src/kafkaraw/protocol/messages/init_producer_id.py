"""InitProducerId (22): a producer id and epoch, for idempotence and transactions."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@request(api_key=22, versions="0-6", flexible="2+", unstable="6")
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """Ask for a producer id; any broker answers, with a transactional id only its coordinator.

    Versions: 3 bumps the epoch of an id the producer has (KIP-360), 4 answers PRODUCER_FENCED (KIP-588), 5
    TRANSACTION_ABORTABLE (KIP-890), 6 prepares two-phase commit (KIP-939) and is not stable yet.

    Attributes:
        transactional_id: null for an idempotent producer.
        transaction_timeout_ms: after which the coordinator aborts a transaction, in milliseconds.
        producer_id: the id the producer has; -1 for none.
        producer_epoch: the epoch the producer has; -1 for none.
        enable2_pc: take part in a two-phase commit.
        keep_prepared_txn: keep a prepared transaction instead of aborting it.
    """

    transactional_id: string | None
    transaction_timeout_ms: int32
    producer_id: int64 = field(versions="3+", default=-1)
    producer_epoch: int16 = field(versions="3+", default=-1)
    enable2_pc: boolean = field(versions="6+", default=False)
    keep_prepared_txn: boolean = field(versions="6+", default=False)


@response(api_key=22, versions="0-6", flexible="2+", unstable="6")
class InitProducerIdResponse(Response):
    """The identity of the producer.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        producer_id: -1 after an error.
        producer_epoch: -1 after an error.
        ongoing_txn_producer_id: of the transaction that was kept; -1 for none.
        ongoing_txn_producer_epoch: of the transaction that was kept; -1 for none.
    """

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    error_code: int16
    producer_id: int64 = -1
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = field(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field(versions="6+", default=-1)
