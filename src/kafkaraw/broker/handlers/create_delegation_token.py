"""CreateDelegationToken: create a token with which clients authenticate as its owner.

Source: KIP-48, KIP-373; kafka.server.KafkaApis.handleCreateTokenRequest.
"""

from __future__ import annotations

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.delegation_tokens import (
    NO_TIME,
    REQUESTER_VERSION_MIN,
    may_request_tokens,
    type_and_name,
)
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.security.delegation_tokens import USER
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def authorize(
    call: Call[CreateDelegationTokenRequest, CreateDelegationTokenResponse], request: CreateDelegationTokenRequest
) -> Reply[CreateDelegationTokenResponse]:
    """CREATE_TOKENS on the owner; every principal may create tokens for itself."""
    owner = _owner(call.context, request)
    own = owner == call.context.principal
    if (
        own
        or not may_request_tokens(call.state, call.context)
        or call.allows(AclOperation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return call.go_on(request)
    return _refused(call.context, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


@handles(
    CreateDelegationTokenRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.CREATE_TOKENS, ResourceType.USER, "for another owner"),),
    note="not on connections that were authenticated by a token, nor without authentication",
)
def handle(
    state: BrokerState, context: RequestContext, request: CreateDelegationTokenRequest
) -> Reply[CreateDelegationTokenResponse]:
    """Create a token for the principal of the connection, or for another owner."""
    owner = _owner(context, request)
    if not may_request_tokens(state, context):
        return _refused(context, owner, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return _refused(context, owner, ErrorCode.INVALID_PRINCIPAL_TYPE)
    renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
    tokens = state.controller.tokens
    try:
        token = tokens.create(owner, context.principal, renewers, request.max_lifetime_ms, state.clock.time_ms())
    except ApiError as error:
        return _answer(context, owner, error.code, time_ms=0)
    answer = _answer(context, owner, ErrorCode.NONE)
    answer.issue_timestamp_ms = token.issued_ms
    answer.expiry_timestamp_ms = token.expires_ms
    answer.max_timestamp_ms = token.max_ms
    answer.token_id = token.token_id
    answer.hmac = tokens.hmac_of(token.token_id)
    return answer


def _owner(context: RequestContext, request: CreateDelegationTokenRequest) -> str:
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def _refused(context: RequestContext, owner: str, code: ErrorCode) -> CreateDelegationTokenResponse:
    return _answer(context, owner, code, time_ms=NO_TIME)


def _answer(
    context: RequestContext, owner: str, code: ErrorCode, *, time_ms: int = NO_TIME
) -> CreateDelegationTokenResponse:
    """Return a response without a token."""
    owner_type, owner_name = type_and_name(owner)
    answer = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
    )
    if context.api_version >= REQUESTER_VERSION_MIN:
        requester_type, requester_name = type_and_name(context.principal)
        answer.token_requester_principal_type = requester_type
        answer.token_requester_principal_name = requester_name
    return answer
