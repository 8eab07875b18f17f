"""Records of streams groups in __consumer_offsets.  Source: KIP-1071."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string, uint16


@data(versions="0", record_type=22)
class StreamsGroupCurrentMemberAssignmentKey:
    """Key of what a member runs; begins with int16 22."""

    group_id: string
    member_id: string


@struct
class TaskIds:
    """Tasks of one subtopology.

    Attributes:
        subtopology_id: name of the part of the topology.
        assignment_epochs: per partition, the epoch in which it was assigned.
    """

    subtopology_id: string
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(default_factory=list, tag=0)


@data(versions="0", flexible="0+", record_type=22)
class StreamsGroupCurrentMemberAssignmentValue:
    """What a member runs.

    Attributes:
        member_epoch: grows with every new assignment.
        previous_member_epoch: epoch before the last change.
    """

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]


@data(versions="0", record_type=19)
class StreamsGroupMemberMetadataKey:
    """Key of a member; begins with int16 19."""

    group_id: string
    member_id: string


@struct
class Endpoint:
    """Where a member serves its state."""

    host: string
    port: uint16


@struct
class KeyValue:
    """A tag."""

    key: string
    value: string


@data(versions="0", flexible="0+", record_type=19)
class StreamsGroupMemberMetadataValue:
    """A member.

    Attributes:
        instance_id: name of a static member, or null.
        rack_id: the rack; null when unknown.
        rebalance_timeout_ms: how long a member may take to revoke partitions, in milliseconds; -1 when unknown.
        topology_epoch: grows with every new topology.
        user_endpoint: where it serves its state; null for nowhere.
    """

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


@data(versions="0", record_type=17)
class StreamsGroupMetadataKey:
    """Key of a group; begins with int16 17."""

    group_id: string


@struct
class LastAssignmentConfig:
    """A setting that the last assignment was made with."""

    key: string
    value: string


@data(versions="0", flexible="0+", record_type=17)
class StreamsGroupMetadataValue:
    """A group.

    Attributes:
        metadata_hash: of the topics it reads.
        validated_topology_epoch: epoch of the last topology that was checked.
    """

    epoch: int32
    metadata_hash: int64
    validated_topology_epoch: int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(default_factory=list, tag=1)


@data(versions="0", record_type=21)
class StreamsGroupTargetAssignmentMemberKey:
    """Key of a member's target; begins with int16 21."""

    group_id: string
    member_id: string


@struct
class StreamsGroupTargetAssignmentMemberValueTaskIds:
    """Tasks of one subtopology.

    Attributes:
        subtopology_id: name of the part of the topology.
    """

    subtopology_id: string
    partitions: list[int32]


@data(versions="0", flexible="0+", record_type=21)
class StreamsGroupTargetAssignmentMemberValue:
    """What a member should run."""

    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]


@data(versions="0", record_type=20)
class StreamsGroupTargetAssignmentMetadataKey:
    """Key of an assignment's epoch; begins with int16 20."""

    group_id: string


@data(versions="0", flexible="0+", record_type=20)
class StreamsGroupTargetAssignmentMetadataValue:
    """The epoch of the assignment.

    Attributes:
        assignment_epoch: group epoch that the assignment was made for.
        assignment_timestamp: when it was made, in milliseconds since 1970.
    """

    assignment_epoch: int32
    assignment_timestamp: int64 = field(default=0, tag=0, ignorable=True)


@data(versions="0", record_type=23)
class StreamsGroupTopologyKey:
    """Key of a topology; begins with int16 23."""

    group_id: string


@struct
class TopicConfig:
    """A setting of an internal topic."""

    key: string
    value: string


@struct
class TopicInfo:
    """An internal topic."""

    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[TopicConfig]


@struct
class CopartitionGroup:
    """Topics that need equal numbers of partitions."""

    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


@struct
class Subtopology:
    """A part of the topology that runs together.

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


@data(versions="0", flexible="0+", record_type=23)
class StreamsGroupTopologyValue:
    """What the application does."""

    epoch: int32
    subtopologies: list[Subtopology]
