"""EndTxn (26): commit or abort a transaction."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@request(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request["EndTxnResponse"]):
    """End the transaction; must reach its coordinator.

    Version 5 answers with a new epoch that the producer must use from then on (KIP-890).

    Attributes:
        committed: true to commit, false to abort.
    """

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    committed: boolean


@response(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Response):
    """The identity to go on with.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        producer_id: the id to go on with; -1 before version 5 and after an error.
        producer_epoch: the epoch to go on with; -1 before version 5 and after an error.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    producer_id: int64 = field(versions="5+", default=-1, ignorable=True)
    producer_epoch: int16 = field(versions="5+", default=-1, ignorable=True)
