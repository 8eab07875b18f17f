"""DescribeClientQuotas: the quotas that match a filter.

Source: KIP-546; org.apache.kafka.image.ClientQuotasImage.
"""

from __future__ import annotations

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.quotas.table import in_kafkas_order
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def _not_authorized(request: DescribeClientQuotasRequest, message: str) -> DescribeClientQuotasResponse:
    """No quota is shown."""
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message, entries=None
    )


@handles(
    DescribeClientQuotasRequest,
    authorize=on_cluster(AclOperation.DESCRIBE_CONFIGS, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeClientQuotasRequest
) -> Reply[DescribeClientQuotasResponse]:
    """Return the matching quotas."""
    try:
        found = state.throttling.table.describe(request.components, strict=request.strict)
    except ApiError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=values[key]) for key in in_kafkas_order(values)],
        )
        for entity, values in found
    ]
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message="", entries=entries)
