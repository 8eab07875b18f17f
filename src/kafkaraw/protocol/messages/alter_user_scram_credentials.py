"""AlterUserScramCredentials (51): set and remove SCRAM credentials (KIP-554)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class ScramCredentialDeletion:
    """A credential to remove.

    Attributes:
        mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    """

    name: string
    mechanism: int8


@struct
class ScramCredentialUpsertion:
    """A credential to set.

    Attributes:
        mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
        iterations: how often the password was hashed, 4096 to 16384.
        salt: random bytes made by the client.
        salted_password: the hashed password; a secret.
    """

    name: string
    mechanism: int8
    iterations: int32
    salt: bytes
    salted_password: bytes = field(secret=True)


@struct
class AlterUserScramCredentialsResult:
    """What became of one.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    user: string
    error_code: int16
    error_message: string | None


@request(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """Change credentials; must reach the controller (any broker passes it on)."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@response(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult]
