"""Functions that the handlers of the share coordinator's requests share: one operation per partition of a request.

Brokers send these requests; CLUSTER_ACTION on the cluster is required.
Source: org.apache.kafka.coordinator.share.ShareCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.registration import Permission
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.shares.coordinator import Outcome
from kafkaraw.broker.shares.node import Operation
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode

Q = TypeVar("Q")
R = TypeVar("R", bound=Response)

PERMISSIONS: Final = (Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "as brokers have"),)
_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class PartitionOf(Protocol):
    """A partition in one of these requests."""

    partition: int


P = TypeVar("P", bound=PartitionOf)


class TopicOf(Protocol[P]):
    """A topic in one of these requests."""

    topic_id: Uuid
    partitions: list[P]


Results = dict[Uuid, list[tuple[int, Outcome]]]
"""Topic id -> the outcomes of partitions, in the order of the request."""


def operations_of(
    group_id: str, topics: Iterable[TopicOf[P]], operation: Callable[[ShareKey, P], Operation]
) -> dict[ShareKey, Operation]:
    """Return what a request asks for, by share partition.

    Args:
        group_id: of the request.
        topics: of the request.
        operation: what to do with one partition of it.
    """
    keys = {
        ShareKey(group_id, Uuid(topic.topic_id), asked.partition): asked
        for topic in topics
        for asked in topic.partitions
    }
    return {key: operation(key, asked) for key, asked in keys.items()}


def authorize_brokers(
    call: Call[Q, R], request: Q, keys: Iterable[ShareKey], response: Callable[[Results], R]
) -> Reply[R]:
    """CLUSTER_ACTION on the cluster; a client without it gets an error for each partition."""
    if call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        return call.go_on(request)
    refused = Outcome(_DENIED, MESSAGES[_DENIED])
    results: Results = {}
    for key in keys:
        results.setdefault(key.topic_id, []).append((key.partition, refused))
    return response(results)


def each_partition(
    state: BrokerState, operations: dict[ShareKey, Operation], response: Callable[[Results], R]
) -> Reply[R]:
    """Have the coordinators on this node do an operation for each share partition of a request.

    Args:
        state: the node's state.
        operations: what to do, by share partition. As in Kafka, a request without a group id has none.
        response: builds the response from the outcomes.
    """
    keys = [key for key in operations if key.group_id.strip()]

    def begin(done: Callable[[R], None]) -> None:
        outcomes: dict[ShareKey, Outcome] = {}

        def note(key: ShareKey, outcome: Outcome) -> None:
            outcomes[key] = outcome
            if len(outcomes) == len(keys):
                finish()

        def finish() -> None:
            results: Results = {}
            for key in keys:
                results.setdefault(key.topic_id, []).append((key.partition, outcomes[key]))
            done(response(results))

        for key in keys:
            try:
                coordinator = state.shares.coordinator(key)
            except ApiError as error:
                note(key, Outcome(error.code, error.message))
            else:
                operations[key](coordinator, lambda outcome, key=key: note(key, outcome))  # type: ignore[misc]
        if not keys:
            finish()

    return answered(begin)
