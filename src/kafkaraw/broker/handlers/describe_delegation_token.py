"""DescribeDelegationToken: list delegation tokens, with their HMACs.

Source: KIP-48, KIP-373; kafka.server.DelegationTokenManager.filterToken.
"""

from __future__ import annotations

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.delegation_tokens import REQUESTER_VERSION_MIN, may_request_tokens, type_and_name
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.security.delegation_tokens import StoredToken
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def authorize(
    call: Call[DescribeDelegationTokenRequest, DescribeDelegationTokenResponse],
    request: DescribeDelegationTokenRequest,
) -> Reply[DescribeDelegationTokenResponse]:
    """DESCRIBE on a token, or DESCRIBE_TOKENS on its owner; owner, requester and renewers see it without."""
    principal = call.context.principal

    def is_visible(described: DescribedDelegationToken) -> bool:
        token = call.state.controller.tokens.find(described.token_id)
        return token is not None and (
            token.concerns(principal)
            or call.allows(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, log_denial=False)
            or call.allows(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, log_denial=False)
        )

    def without_hidden(response: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        response.tokens = [token for token in response.tokens if is_visible(token)]
        return response

    return call.go_on(request, without_hidden)


@handles(
    DescribeDelegationTokenRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        Permission(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "or"),
    ),
    note="entries without the permission are left out; owner, requester and renewers see a token without permission",
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Reply[DescribeDelegationTokenResponse]:
    """Describe all tokens, or those of some owners and renewers."""
    tokens = state.controller.tokens
    code, found = ErrorCode.NONE, list[StoredToken]()
    if not may_request_tokens(state, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif not tokens.is_enabled:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    else:
        try:
            found = tokens.all(state.clock.time_ms())
        except ApiError as error:
            code = error.code
    if request.owners is not None:
        wanted = [f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners]
        found = [token for token in found if any(token.concerns(principal) for principal in wanted)]
    described = [_described(context, token, tokens.hmac_of(token.token_id)) for token in found]
    return DescribeDelegationTokenResponse(error_code=code, tokens=described)


def _described(context: RequestContext, token: StoredToken, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner_name = type_and_name(token.owner)
    renewers = [type_and_name(renewer) for renewer in token.renewers]
    described = DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in renewers],
    )
    if context.api_version >= REQUESTER_VERSION_MIN:
        requester_type, requester_name = type_and_name(token.requester)
        described.token_requester_principal_type = requester_type
        described.token_requester_principal_name = requester_name
    return described
