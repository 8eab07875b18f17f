"""ExpireDelegationToken: let a token expire at another time, or now.

Source: KIP-48; kafka.server.KafkaApis.handleExpireTokenRequest.
"""

from __future__ import annotations

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.delegation_tokens import NO_TIME, may_request_tokens
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(
    ExpireDelegationTokenRequest,
    authorize=None,
    note="open to the owner and the renewers of the token; not on connections that were authenticated by a token",
)
def handle(
    state: BrokerState, context: RequestContext, request: ExpireDelegationTokenRequest
) -> Reply[ExpireDelegationTokenResponse]:
    """Change the expiry of the token with an HMAC."""
    if not may_request_tokens(state, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
    try:
        expires_ms = state.controller.tokens.expire(
            bytes(request.hmac), context.principal, request.expiry_time_period_ms, state.clock.time_ms()
        )
    except ApiError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=0)
    return ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires_ms)
