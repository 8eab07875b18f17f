"""StreamsGroupHeartbeat (88): membership, topology and tasks of a Kafka Streams application (KIP-1071)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, int64, string, uint16


@struct
class KeyValue:
    """A setting or tag."""

    key: string
    value: string


@struct
class TopicInfo:
    """An internal topic.

    Attributes:
        partitions: 0 when the broker decides.
        replication_factor: 0 for the broker's default.
    """

    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    """Topics that need equal numbers of partitions.

    Attributes:
        source_topics: indexes into the subtopology's source topics.
        source_topic_regex: indexes into its source patterns.
        repartition_source_topics: indexes into its repartition topics.
    """

    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


@struct
class Subtopology:
    """A part of it that runs together.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[string]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    """What an application does."""

    epoch: int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    """Tasks of one subtopology.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    partitions: list[int32]


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
class Status:
    """Something the member should know.

    Attributes:
        status_code: 0 stale topology, 1 missing source topics, 2 wrong partition counts, 3 missing internal topics,
            4 shut down, 5 assignment delayed.
    """

    status_code: int8
    status_detail: string


@struct
class TopicPartition:
    """Partitions of one topic."""

    topic: string
    partitions: list[int32]


@struct
class EndpointToPartitions:
    """What one endpoint serves."""

    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@request(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    """Join, stay or leave; must reach the group's coordinator.

    A field that has not changed since the last heartbeat is null.

    Attributes:
        member_id: made by the client.
        member_epoch: 0 to join, -1 to leave, -2 to leave and come back (static), else the current epoch.
        endpoint_information_epoch: epoch of the endpoints that the member knows.
        instance_id: name of a static member, or null.
        rack_id: the rack; null when unknown.
        rebalance_timeout_ms: how long it may take to give tasks up, in milliseconds; -1 for no change.
        topology: what the application does; null for no change.
        active_tasks: tasks it runs; null for no change.
        standby_tasks: tasks it keeps copies of; null for no change.
        warmup_tasks: tasks it prepares to take over; null for no change.
        process_id: of the process, which may hold several members; null for no change.
        user_endpoint: where other members may ask it for its state; null for none or no change.
        client_tags: used to spread standby tasks; null for no change.
        task_offsets: how far its state has come; null for no change.
        task_end_offsets: how far it could come; null for no change.
        shutdown_application: asks all members to stop.
    """

    group_id: string
    member_id: string
    member_epoch: int32
    endpoint_information_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: string | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: boolean = False


@response(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse(Response):
    """What to run.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        member_epoch: grows with every new assignment.
        heartbeat_interval_ms: when to come again, in milliseconds.
        acceptable_recovery_lag: how far behind a task may be and still count as ready.
        task_offset_interval_ms: interval between reports of task offsets, in milliseconds.
        status: what is wrong; null when it has not changed.
        active_tasks: null when they have not changed.
        standby_tasks: null when they have not changed.
        warmup_tasks: null when they have not changed.
        partitions_by_user_endpoint: the partitions of each endpoint; null when unchanged.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    member_id: string
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag: int32
    task_offset_interval_ms: int32
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
