"""StreamsGroupHeartbeat: membership of a streams group (KIP-1071), and the creation of its internal topics.

Source: kafka.server.KafkaApis.handleStreamsGroupHeartbeat of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.acl.authorizer import Client
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.features import STREAMS_VERSION
from kafkaraw.broker.groups.streams import HeartbeatResult
from kafkaraw.broker.groups.streams_requests import refused
from kafkaraw.broker.groups.streams_topology import StatusCode
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import caller_of, coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import INTERNAL_TOPICS
from kafkaraw.broker.topics.topic_creation import TopicSpec, check_name
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

SHOWN_ERRORS_MAX: Final = 3
_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse], request: StreamsGroupHeartbeatRequest
) -> Reply[StreamsGroupHeartbeatResponse]:
    """READ on the group, and DESCRIBE on every topic of the topology; CREATE for internal topics is in `handle`."""
    if not is_enabled(call.state):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    if not call.may_read_group(request.group_id):
        return refused(_DENIED)
    names = _topics(request)
    problem = _problem(names)
    if problem:
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)
    if not all([call.may_describe_topic(name) for name in names]):
        return refused(_TOPIC_DENIED)
    return call.go_on(request)


@handles(
    StreamsGroupHeartbeatRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
    note="internal topics are created with CREATE on the cluster or the topic; without it, the status names them",
)
def handle(
    state: BrokerState, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Reply[StreamsGroupHeartbeatResponse]:
    """Handle the heartbeat; the response has the tasks of the member."""
    if not is_enabled(state):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    problem = _problem(_topics(request))
    if problem:
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refused(coordinator)

    def ask(done: Callable[[StreamsGroupHeartbeatResponse], None]) -> None:
        coordinator.streams_heartbeat(
            request, caller_of(state, context), lambda result: done(_create_topics(state, context, result))
        )

    return answered(ask)


def is_enabled(state: BrokerState) -> bool:
    """Return whether the level of the feature `streams.version` allows streams groups."""
    return state.controller.features.levels[STREAMS_VERSION] > 0


def _topics(request: StreamsGroupHeartbeatRequest) -> list[str]:
    """Return the names of the topics of the topology, in order, each once."""
    parts = () if request.topology is None else request.topology.subtopologies
    return list(
        dict.fromkeys(
            name
            for one in parts
            for name in (
                *one.source_topics,
                *one.repartition_sink_topics,
                *(topic.name for topic in one.repartition_source_topics),
                *(topic.name for topic in one.state_changelog_topics),
            )
        )
    )


def _problem(names: list[str]) -> str:
    """Return what is wrong with the names of the topics of a topology."""
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in names if not _is_valid(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else ""


def _is_valid(name: str) -> bool:
    try:
        check_name(name)
    except ApiError:
        return False
    return True


def _create_topics(
    state: BrokerState, context: RequestContext, result: HeartbeatResult
) -> StreamsGroupHeartbeatResponse:
    """Begin to create the missing internal topics; report those that cannot be created in the status."""
    response = result.response
    missing = [status for status in response.status or () if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS]
    if not missing:
        return response
    denied = [topic.name for topic in result.missing if not _may_create(state, context, topic.name)]
    if denied:
        missing[0].status_detail += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        return response
    failures = []
    for topic in result.missing:
        reason = state.auto_creation.failure_of(topic.name)
        if reason is not None:
            failures.append(f"{topic.name} ({reason})")
        state.auto_creation.want_with(
            TopicSpec(topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.configs))
        )
    if failures:
        more = len(failures) - SHOWN_ERRORS_MAX
        shown = ", ".join(failures[:SHOWN_ERRORS_MAX]) + (f" and {more} more" if more > 0 else "")
        missing[0].status_detail += f"; Creation failed: {shown}."
    return response


def _may_create(state: BrokerState, context: RequestContext, name: str) -> bool:
    authorizer = state.catalog.authorizer
    client = Client(context.principal, context.host)
    return (
        authorizer is None
        or authorizer.allows(client, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
        or authorizer.allows(client, AclOperation.CREATE, ResourceType.TOPIC, name)
    )
