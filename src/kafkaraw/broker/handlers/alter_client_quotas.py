"""AlterClientQuotas: set and remove quotas, which take effect immediately.

Source: KIP-546; org.apache.kafka.controller.ClientQuotaControlManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from kafkaraw.protocol.messages.alter_client_quotas import EntityData as QuotaEntity


def _not_authorized(request: AlterClientQuotasRequest, message: str) -> AlterClientQuotasResponse:
    """Refuse to change any quota."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                error_message=message,
                entity=[QuotaEntity(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            )
            for entry in request.entries
        ]
    )


@handles(
    AlterClientQuotasRequest,
    authorize=on_cluster(AclOperation.ALTER_CONFIGS, _not_authorized),
    permissions=(Permission(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: AlterClientQuotasRequest
) -> Reply[AlterClientQuotasResponse]:
    """Change the quotas of each entity independently."""
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
