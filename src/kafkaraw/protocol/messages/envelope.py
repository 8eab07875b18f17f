"""Envelope (58): a broker passes a client's request to the controller (KIP-590)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response
from kafkaraw.protocol.types import int16


@request(api_key=58, versions="0", flexible="0+")
class EnvelopeRequest(Request["EnvelopeResponse"]):
    """A request in a request; sent by brokers to the controller.

    Attributes:
        request_data: the client's request with its header, without size.
        request_principal: principal of the sender, as DefaultPrincipalData; null when there is none.
        client_host_address: the address it came from, as raw bytes.
    """

    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes


@response(api_key=58, versions="0", flexible="0+")
class EnvelopeResponse(Response):
    """The response in a response.

    Attributes:
        response_data: the response with its header, without size; null after an error.
    """

    response_data: bytes | None = None
    error_code: int16
