"""SaslHandshake on a listener without SASL, or after authentication: an illegal SASL state.

During authentication, `security.sasl_authenticator` handles the request instead.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(
    SaslHandshakeRequest,
    authorize=None,
    note="open: part of authentication",
)
def handle(state: BrokerState, context: RequestContext, request: SaslHandshakeRequest) -> Reply[SaslHandshakeResponse]:
    """Refuse."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
