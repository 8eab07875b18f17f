"""AddOffsetsToTxn (25): make a group's offsets part of a transaction."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, int32, int64, string


@request(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """Add a group; must reach the transaction coordinator.

    Version 4 may answer TRANSACTION_ABORTABLE (KIP-890).
    """

    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    group_id: string


@response(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Response):
    """Whether it was added.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
