"""DescribeUserScramCredentials: which SCRAM credentials users have, without their secrets.

Source: KIP-554; org.apache.kafka.image.ScramImage.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.sasl.scram import TYPE_OF_MECHANISM
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def _not_authorized(request: DescribeUserScramCredentialsRequest, message: str) -> DescribeUserScramCredentialsResponse:
    """Refuse to describe any credentials; as in Kafka, the response does not repeat the user names."""
    results = [
        DescribeUserScramCredentialsResult(
            user="", error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message, credential_infos=[]
        )
        for _ in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message, results=results
    )


@handles(
    DescribeUserScramCredentialsRequest,
    authorize=on_cluster(AclOperation.DESCRIBE, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Reply[DescribeUserScramCredentialsResponse]:
    """Describe the credentials of the requested users, or of all."""
    users = None if request.users is None else [user.name for user in request.users]
    return DescribeUserScramCredentialsResponse(
        error_code=ErrorCode.NONE,
        error_message="",  # not null, as Kafka has it; so below
        results=[
            DescribeUserScramCredentialsResult(
                user=found.user,
                error_code=found.code,
                error_message=found.message or "",
                credential_infos=[
                    CredentialInfo(mechanism=TYPE_OF_MECHANISM[name], iterations=count)
                    for name, count in found.iterations.items()
                ],
            )
            for found in state.controller.credentials.describe(users)
        ],
    )
