"""DescribeUserScramCredentials (50): which SCRAM credentials users have (KIP-554)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class UserName:
    """A user."""

    name: string


@struct
class CredentialInfo:
    """One credential, without its secrets.

    Attributes:
        mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512; 0 unknown.
        iterations: how often the password was hashed.
    """

    mechanism: int8
    iterations: int32


@struct
class DescribeUserScramCredentialsResult:
    """One user.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    user: string
    error_code: int16
    error_message: string | None
    credential_infos: list[CredentialInfo]


@request(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """Ask about users; any broker answers.

    Attributes:
        users: users wanted; null for all.
    """

    users: list[UserName] | None


@response(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Response):
    """The users.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
    results: list[DescribeUserScramCredentialsResult]
