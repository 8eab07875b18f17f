"""InitProducerId."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@request(api_key=22, versions="0-6", flexible="2+", unstable="6")
class InitProducerIdRequest:
    """InitProducerId request."""

    transactional_id: string | None
    transaction_timeout_ms: int32
    producer_id: int64 = field(versions="3+", default=-1)
    producer_epoch: int16 = field(versions="3+", default=-1)
    enable2_pc: boolean = field(versions="6+", default=False)
    keep_prepared_txn: boolean = field(versions="6+", default=False)


@response(api_key=22, versions="0-6", flexible="2+", unstable="6")
class InitProducerIdResponse:
    """InitProducerId response."""

    throttle_time_ms: int32 = field(ignorable=True)
    error_code: int16
    producer_id: int64 = -1
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = field(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field(versions="6+", default=-1)
