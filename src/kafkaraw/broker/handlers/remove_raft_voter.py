"""RemoveRaftVoter: refused, as by a Kafka cluster whose controllers are static voters.

Source: KIP-853; org.apache.kafka.raft.KafkaRaftClient.handleRemoveRaftVoterRequest.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def _not_authorized(request: RemoveRaftVoterRequest, message: str) -> RemoveRaftVoterResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return RemoveRaftVoterResponse(error_code=code, error_message=MESSAGES[code])


@handles(
    RemoveRaftVoterRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: RemoveRaftVoterRequest
) -> Reply[RemoveRaftVoterResponse]:
    """Refuse the request with Kafka's errors, which come in this order."""
    if request.cluster_id not in (None, state.catalog.cluster_id):
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{state.catalog.cluster_id}"'
    elif request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        code = ErrorCode.INVALID_REQUEST
        message = "Remove voter request didn't include a valid voter"
    else:
        code = ErrorCode.UNSUPPORTED_VERSION
        message = "Cluster doesn't support removing voter because the kraft.version feature is 0"
    return RemoveRaftVoterResponse(error_code=code, error_message=message)
