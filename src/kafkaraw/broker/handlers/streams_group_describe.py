"""StreamsGroupDescribe: the state, the topology and the members of streams groups.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.streamsGroupDescribe,
kafka.server.KafkaApis.handleStreamsGroupDescribe of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkaraw.broker.groups.streams_assignor import TaskMap, Tasks
from kafkaraw.broker.groups.streams_group import Owned, OwnedTasks, StreamsGroup, StreamsMember
from kafkaraw.broker.groups.streams_topology import InternalTopic
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_descriptions import DIVIDED, PERMISSIONS, authorize_descriptions, described
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.handlers.streams_group_heartbeat import is_enabled
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.embedded import streams_group_records as stored
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def authorize(
    call: Call[StreamsGroupDescribeRequest, StreamsGroupDescribeResponse], request: StreamsGroupDescribeRequest
) -> Reply[StreamsGroupDescribeResponse]:
    """DESCRIBE on each group, and on every topic of its topology."""
    if not is_enabled(call.state):
        return call.go_on(request)

    def may_see_topics(group: DescribedGroup) -> bool:
        parts = () if group.topology is None else group.topology.subtopologies or ()
        names = {
            name
            for one in parts
            for name in (
                *one.source_topics,
                *one.repartition_sink_topics,
                *(topic.name for topic in one.repartition_source_topics),
                *(topic.name for topic in one.state_changelog_topics),
            )
        }
        return all([call.may_describe_topic(name) for name in sorted(names)])

    hidden = "The described group uses topics that the client is not authorized to describe."
    return authorize_descriptions(call, request, _not_described, may_see_topics, hidden)


@handles(
    StreamsGroupDescribeRequest,
    authorize=authorize,
    permissions=PERMISSIONS,
    divided=DIVIDED,
)
def handle(
    state: BrokerState, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Reply[StreamsGroupDescribeResponse]:
    """Describe each."""
    if not is_enabled(state):
        code = ErrorCode.UNSUPPORTED_VERSION
        return StreamsGroupDescribeResponse(groups=[_not_described(name, code) for name in request.group_ids])
    return StreamsGroupDescribeResponse(
        groups=described(state, request, StreamsGroup, "streams", _described, _not_described)
    )


def _described(group: StreamsGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_label,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(member, group.target_of(member.member_id)) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """Return the topology; with the partitions of internal topics, if it is ready."""
    topology, configured = group.topology, group.configured
    if topology is None:
        return None
    ready = configured.subtopologies if configured is not None and configured.is_ready else None
    decided = {topic.name: topic for one in (ready or {}).values() for topic in (*one.repartition, *one.changelogs)}
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=sorted(one.source_topics),
                repartition_sink_topics=sorted(one.repartition_sink_topics),
                state_changelog_topics=_topics(one.state_changelog_topics, decided),
                repartition_source_topics=_topics(one.repartition_source_topics, decided),
            )
            for one in sorted(topology.subtopologies, key=lambda one: one.subtopology_id)
        ],
    )


def _topics(topics: list[stored.TopicInfo], decided: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=decided[topic.name].partitions if topic.name in decided else topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: OwnedTasks | Tasks) -> Assignment:
    active, standby, warmup = map(_task_ids, tasks)
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _task_ids(tasks: Owned | TaskMap) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def _not_described(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    """Return the description of a group that cannot be described."""
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )
