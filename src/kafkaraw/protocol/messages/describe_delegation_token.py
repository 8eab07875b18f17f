"""DescribeDelegationToken (41): list delegation tokens."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class DescribeDelegationTokenOwner:
    """An owner."""

    principal_type: string
    principal_name: string


@struct
class DescribedDelegationTokenRenewer:
    """Who may renew it."""

    principal_type: string
    principal_name: string


@struct
class DescribedDelegationToken:
    """One token.

    Attributes:
        issue_timestamp: when it was made, in milliseconds since 1970.
        expiry_timestamp: when it ends unless renewed, in milliseconds since 1970.
        max_timestamp: when it ends for good, in milliseconds since 1970.
        hmac: the secret part.
    """

    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field(versions="3+", default="")
    token_requester_principal_name: string = field(versions="3+", default="")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: string
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


@request(api_key=41, versions="0-3", flexible="2+", removed="0")
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    """List tokens; any broker answers.

    Attributes:
        owners: whose tokens; null for all that one may see.
    """

    owners: list[DescribeDelegationTokenOwner] | None


@response(api_key=41, versions="0-3", flexible="2+", removed="0")
class DescribeDelegationTokenResponse(Response):
    """The tokens.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32 = 0
