"""SaslHandshake (17): choose a SASL mechanism; never became flexible (KAFKA-9577)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16, string


@request(api_key=17, versions="0-1")
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Choose; any broker answers, before authentication.

    After version 0 the tokens follow raw, with a size prefix but no Kafka header; after version 1 they travel in
    SaslAuthenticate (KIP-152).

    Attributes:
        mechanism: such as PLAIN or SCRAM-SHA-512.
    """

    mechanism: string


@response(api_key=17, versions="0-1")
class SaslHandshakeResponse(Response):
    """The mechanisms that the broker offers."""

    error_code: int16
    mechanisms: list[string]
