"""AddRaftVoter: refused, as by a Kafka cluster whose controllers are static voters.

Source: KIP-853; org.apache.kafka.raft.KafkaRaftClient.handleAddRaftVoterRequest.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

CONTROLLER_LISTENER: Final = "CONTROLLER"


def _not_authorized(request: AddRaftVoterRequest, message: str) -> AddRaftVoterResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return AddRaftVoterResponse(error_code=code, error_message=MESSAGES[code])


@handles(
    AddRaftVoterRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(state: BrokerState, context: RequestContext, request: AddRaftVoterRequest) -> Reply[AddRaftVoterResponse]:
    """Refuse the request with Kafka's errors, which come in this order."""
    if request.cluster_id not in (None, state.catalog.cluster_id):
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{state.catalog.cluster_id}"'
    elif request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        code = ErrorCode.INVALID_REQUEST
        message = "Add voter request didn't include a valid voter"
    elif not any(listener.name == CONTROLLER_LISTENER for listener in request.listeners):
        code = ErrorCode.INVALID_REQUEST
        message = (
            "Add voter request didn't include the endpoint (Endpoints(endpoints={})) for the default listener "
            "ListenerName(CONTROLLER)"
        )
    else:
        code = ErrorCode.UNSUPPORTED_VERSION
        message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    return AddRaftVoterResponse(error_code=code, error_message=message)
