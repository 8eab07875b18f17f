"""ExpireDelegationToken (40): make a token end sooner."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, int32, int64


@request(api_key=40, versions="0-2", flexible="2+", removed="0")
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    """Change the end; any broker answers.

    Attributes:
        hmac: the token's secret part.
        expiry_time_period_ms: from now, in milliseconds; a negative one ends it at once.
    """

    hmac: bytes
    expiry_time_period_ms: int64


@response(api_key=40, versions="0-2", flexible="2+", removed="0")
class ExpireDelegationTokenResponse(Response):
    """When it ends now.

    Attributes:
        expiry_timestamp_ms: when it ends, in milliseconds since 1970.
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
