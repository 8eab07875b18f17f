"""CreateDelegationToken (38): create a token with which clients authenticate (KIP-48)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class CreatableRenewers:
    """Who may renew it."""

    principal_type: string
    principal_name: string


@request(api_key=38, versions="0-3", flexible="2+", removed="0")
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    """Make a token; any broker answers, on a connection that was authenticated otherwise.

    Version 3 can create one for another principal (KIP-373).

    Attributes:
        owner_principal_type: null for the principal of the request.
        owner_principal_name: null for the principal of the request.
        max_lifetime_ms: longest life in milliseconds; -1 for the broker's limit.
    """

    owner_principal_type: string | None = field(versions="3+", default="")
    owner_principal_name: string | None = field(versions="3+", default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


@response(api_key=38, versions="0-3", flexible="2+", removed="0")
class CreateDelegationTokenResponse(Response):
    """The token.

    Attributes:
        issue_timestamp_ms: when it was made, in milliseconds since 1970.
        expiry_timestamp_ms: when it ends unless renewed.
        max_timestamp_ms: when it ends for good.
        hmac: the secret part.
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    error_code: int16
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field(versions="3+", default="")
    token_requester_principal_name: string = field(versions="3+", default="")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: string
    hmac: bytes
    throttle_time_ms: int32 = 0
