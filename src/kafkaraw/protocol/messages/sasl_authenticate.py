"""SaslAuthenticate (36): carry a SASL token (KIP-152)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import int16, int64, string


@request(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """Send a token; any broker answers, after SaslHandshake version 1.

    Version 1 has the lifetime of the session (KIP-368).

    Attributes:
        auth_bytes: the token, in the format of the mechanism; a secret.
    """

    auth_bytes: bytes = field(secret=True)


@response(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Response):
    """The broker's token.

    Attributes:
        error_message: the broker's words; null when it has none.
        auth_bytes: the token, in the format of the mechanism; a secret.
        session_lifetime_ms: after so many milliseconds the client must authenticate again; 0 for never.
    """

    error_code: int16
    error_message: string | None
    auth_bytes: bytes = field(secret=True)
    session_lifetime_ms: int64 = field(versions="1+", default=0, ignorable=True)
