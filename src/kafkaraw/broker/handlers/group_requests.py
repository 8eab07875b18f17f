"""Functions that the handlers of group requests share: the caller, and the group's coordinator."""

from __future__ import annotations

from kafkaraw.broker.acl.authorizer import Client
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.runtime import Caller
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode


def caller_of(state: BrokerState, context: RequestContext) -> Caller:
    """Return the client that sent a request, in the form that groups store."""
    authorizer = state.catalog.authorizer
    client = Client(context.principal, context.host)

    def sees(name: str) -> bool:
        return authorizer is None or authorizer.allows(client, AclOperation.DESCRIBE, ResourceType.TOPIC, name)

    return Caller(context.client_id or "", f"/{context.host}", context.api_version, sees)


def coordinator_or_code(state: BrokerState, group_id: str) -> GroupCoordinator | ErrorCode:
    """Return the group's coordinator on this node, or the error code for the client."""
    try:
        return state.groups.coordinator(group_id)
    except ApiError as error:
        return error.code
