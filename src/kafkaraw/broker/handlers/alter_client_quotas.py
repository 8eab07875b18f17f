"""AlterClientQuotas: set and remove quotas; they count at once.

Source: KIP-546; org.apache.kafka.controller.ClientQuotaControlManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)


def handle(state: BrokerState, context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change each entity's quotas by themselves."""
    outcomes = state.throttling.table.alter(request.entries, validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=one.code,
                error_message=one.message,
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in one.entity],
            )
            for one in outcomes
        ]
    )
