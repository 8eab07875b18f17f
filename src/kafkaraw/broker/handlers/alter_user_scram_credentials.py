"""AlterUserScramCredentials: set and remove SCRAM credentials; they count from the next login on.

Source: KIP-554; org.apache.kafka.controller.ScramControlManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(
    state: BrokerState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user's credential by itself."""
    outcomes = state.accounts.credentials.alter(request.deletions, request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user, code, message in outcomes
        ]
    )
