"""AlterUserScramCredentials: set and remove SCRAM credentials; the next authentication uses them.

Source: KIP-554; org.apache.kafka.controller.ScramControlManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def _not_authorized(request: AlterUserScramCredentialsRequest, message: str) -> AlterUserScramCredentialsResponse:
    """Refuse to change any credentials."""
    names = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message
            )
            for user in dict.fromkeys(names)
        ]
    )


@handles(
    AlterUserScramCredentialsRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Reply[AlterUserScramCredentialsResponse]:
    """Change each user's credential independently."""
    outcomes = state.controller.credentials.alter(request.deletions, request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user, code, message in outcomes
        ]
    )
