"""UnregisterBroker: remove a broker from the metadata.

Source: KIP-631; org.apache.kafka.controller.ReplicationControlManager.unregisterBroker.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def _not_authorized(request: UnregisterBrokerRequest, message: str) -> UnregisterBrokerResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return UnregisterBrokerResponse(error_code=code, error_message=MESSAGES[code])


@handles(
    UnregisterBrokerRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: UnregisterBrokerRequest
) -> Reply[UnregisterBrokerResponse]:
    """Remove a broker; its replicas stay assigned to it, and it registers again when it is started."""
    if state.controller.unregister(request.broker_id):
        return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    message = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
