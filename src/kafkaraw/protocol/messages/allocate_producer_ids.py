"""AllocateProducerIds (67): a broker gets a block of producer ids to hand out (KIP-730)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, int32, int64


@request(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    """Ask for a block; sent by a broker to the controller.

    Attributes:
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
    """

    broker_id: int32
    broker_epoch: int64 = -1


@response(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Response):
    """The block.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        producer_id_start: its first id.
        producer_id_len: how many ids it has.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32
