"""DescribeUserScramCredentials: which SCRAM credentials users have, without their secrets.

Source: KIP-554; org.apache.kafka.image.ScramImage.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.sasl.scram import TYPE_OF_MECHANISM
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    state: BrokerState, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Tell of those asked for, or of all."""
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
            for found in state.accounts.credentials.describe(users)
        ],
    )
