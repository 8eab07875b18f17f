"""FindCoordinator: the coordinator of a group or of a transactional id.

Source: KIP-699 (many keys at once), KIP-932 (share coordinators); kafka.server.KafkaApis.getCoordinator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import DENIED_WITH, MESSAGES, Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

MANY_KEYS_VERSION_MIN: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
SHARE_SINCE: Final = 6
NOWHERE: Final = -1
_LEADERS: Final[dict[int, Callable[[BrokerState, str], int | None]]] = {
    GROUP: lambda state, key: state.groups.leader_for(key),
    TRANSACTION: lambda state, key: state.transactions.leader_for(key),
    SHARE: lambda state, key: state.shares.leader_for(key),
}
_SHARE_KEY: Final = re.compile(r"([^:]+):([A-Za-z0-9_-]{22}):(\d+)")
_ACL_RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


def authorize(
    call: Call[FindCoordinatorRequest, FindCoordinatorResponse], request: FindCoordinatorRequest
) -> Reply[FindCoordinatorResponse]:
    """DESCRIBE on each key; the coordinators of share groups are for brokers only."""
    many = call.context.api_version >= MANY_KEYS_VERSION_MIN
    keys = request.coordinator_keys if many else [request.key]
    if request.key_type == SHARE and call.context.api_version >= SHARE_SINCE:
        if call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return call.go_on(request)
        return _coordinators([_no_coordinator(key, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for key in keys], many=many)
    resource_type = _ACL_RESOURCES.get(request.key_type)
    if resource_type is None:
        return call.go_on(request)
    code = DENIED_WITH[resource_type]
    allowed = [key for key in keys if call.allows(AclOperation.DESCRIBE, resource_type, key)]
    seen = set(allowed)
    denied = [_no_coordinator(key, code) for key in keys if key not in seen]
    if not denied:
        return call.go_on(request)
    if not allowed:
        return _coordinators(denied, many=many)

    def merge(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        response.coordinators.extend(denied)
        return response

    return call.go_on(replace(request, coordinator_keys=allowed), merge)


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=NOWHERE, host="", port=NOWHERE, error_code=code)


def _coordinators(found: Sequence[Coordinator], *, many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=list(found))
    code = ErrorCode(found[0].error_code)
    return FindCoordinatorResponse(
        error_code=code, error_message=MESSAGES[code], node_id=NOWHERE, host="", port=NOWHERE
    )


@handles(
    FindCoordinatorRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP, "of a group"),
        Permission(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "of a transactional id"),
        Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "of a share group"),
    ),
    divided={4: Divided(("coordinator_keys",), ("coordinators",))},
)
def handle(
    state: BrokerState, context: RequestContext, request: FindCoordinatorRequest
) -> Reply[FindCoordinatorResponse]:
    """Answer for each key."""
    if context.api_version >= MANY_KEYS_VERSION_MIN:
        found = [_coordinator(state, context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(state, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(state: BrokerState, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in _LEADERS:
        return _none(key, ErrorCode.INVALID_REQUEST, f"this broker does not support key type {key_type}")
    if not key:
        return _none(key, ErrorCode.INVALID_REQUEST, "the key is empty; it has to be a group id or a transactional id")
    if key_type == SHARE and context.api_version < SHARE_SINCE:
        return _none(key, ErrorCode.INVALID_REQUEST, f"share coordinators need FindCoordinator version {SHARE_SINCE}")
    if key_type == SHARE and not _SHARE_KEY.fullmatch(key):
        return _none(key, ErrorCode.INVALID_REQUEST, "the key has to be GROUP:TOPIC_ID:PARTITION")
    try:
        node_id = _LEADERS[key_type](state, key)
    except ApiError as error:
        return _none(key, error.code, error.message)
    broker = None if node_id is None else state.catalog.brokers.get(node_id)
    if broker is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition of the coordinator has no leader")
    endpoint = broker.endpoints.get(context.listener)
    if endpoint is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no address on this listener")
    return Coordinator(
        key=key,
        node_id=broker.node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _none(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NOWHERE, host="", port=NOWHERE, error_code=code, error_message=message)
