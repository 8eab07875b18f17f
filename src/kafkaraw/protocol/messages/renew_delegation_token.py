"""RenewDelegationToken (39): make a token last longer."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, int32, int64


@request(api_key=39, versions="0-2", flexible="2+", removed="0")
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    """Renew; any broker answers.

    Attributes:
        hmac: the token's secret part.
        renew_period_ms: by how much, in milliseconds.
    """

    hmac: bytes
    renew_period_ms: int64


@response(api_key=39, versions="0-2", flexible="2+", removed="0")
class RenewDelegationTokenResponse(Response):
    """When it ends now.

    Attributes:
        expiry_timestamp_ms: when it ends, in milliseconds since 1970.
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
