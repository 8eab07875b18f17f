"""UnregisterBroker (64): remove a broker that is gone for good (KIP-631)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, int32, string


@request(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    """Remove a broker; any broker passes it to the controller."""

    broker_id: int32


@response(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Response):
    """Whether it is removed.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
