"""StreamsGroupDescribe (89): state, topology and members of streams groups (KIP-1071)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string, uint16


@struct
class KeyValue:
    """A setting or tag."""

    key: string
    value: string


@struct
class TopicInfo:
    """An internal topic."""

    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


@struct
class Subtopology:
    """A part of it that runs together.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    source_topics: list[string]
    repartition_sink_topics: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    """What the application does.

    Attributes:
        subtopologies: null when it is not known yet.
    """

    epoch: int32
    subtopologies: list[Subtopology] | None = None


@struct
class Endpoint:
    """Where a member serves its state."""

    host: string
    port: uint16


@struct
class TaskOffset:
    """How far one task has come.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    partition: int32
    offset: int64


@struct
class TaskIds:
    """Tasks of one subtopology.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    partitions: list[int32]


@struct
class Assignment:
    """Tasks of a member."""

    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class Member:
    """One member.

    Attributes:
        member_epoch: grows with every new assignment.
        instance_id: name of a static member, or null.
        rack_id: the rack; null when unknown.
        topology_epoch: epoch of the topology that it runs.
        assignment: what it runs.
        target_assignment: what it should run.
        is_classic: whether it uses the classic protocol.
    """

    member_id: string
    member_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string
    client_host: string
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: boolean


@struct
class DescribedGroup:
    """One group.

    Attributes:
        error_message: the broker's words; null when it has none.
        group_epoch: grows with every change of the group.
        assignment_epoch: group epoch that the assignment was made for.
        topology: null when it is not known yet.
        authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    error_code: int16
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: int32 = -2_147_483_648


@request(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    """Ask about groups; must reach each group's coordinator."""

    group_ids: list[string]
    include_authorized_operations: boolean


@response(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse(Response):
    """The groups.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
