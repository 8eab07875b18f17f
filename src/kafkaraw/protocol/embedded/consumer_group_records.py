"""Records of groups of the new protocol in __consumer_offsets.  Source: KIP-848."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int8, int32, int64, string, uuid


@data(versions="0", record_type=8)
class ConsumerGroupCurrentMemberAssignmentKey:
    """Key of what a member owns; begins with int16 8."""

    group_id: string
    member_id: string


@struct
class TopicPartitions:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
        assignment_epochs: per partition, the epoch in which it was assigned.
    """

    topic_id: uuid
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(default_factory=list, tag=0)


@data(versions="0", flexible="0+", record_type=8)
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member owns.

    Attributes:
        member_epoch: grows with every new assignment.
        previous_member_epoch: epoch before the last change.
        state: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown.
        partitions_pending_revocation: what it has yet to give up.
    """

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


@data(versions="0", record_type=5)
class ConsumerGroupMemberMetadataKey:
    """Key of a member; begins with int16 5."""

    group_id: string
    member_id: string


@struct
class ClassicProtocol:
    """An assignor that it knows."""

    name: string
    metadata: bytes


@struct
class ClassicMemberMetadata:
    """What a member of the classic protocol said.

    Attributes:
        session_timeout_ms: after so long without a heartbeat the member is out, in milliseconds.
    """

    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@data(versions="0", flexible="0+", record_type=5)
class ConsumerGroupMemberMetadataValue:
    """A member.

    Attributes:
        instance_id: name of a static member, or null.
        rack_id: the rack; null when unknown.
        rebalance_timeout_ms: how long a member may take to revoke partitions, in milliseconds; -1 when unknown.
        classic_member_metadata: what a member of the classic protocol said; null for others.
    """

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None
    classic_member_metadata: ClassicMemberMetadata | None = field(default_factory=ClassicMemberMetadata, tag=0)


@data(versions="0", record_type=3)
class ConsumerGroupMetadataKey:
    """Key of a group; begins with int16 3."""

    group_id: string


@data(versions="0", flexible="0+", record_type=3)
class ConsumerGroupMetadataValue:
    """A group.

    Attributes:
        metadata_hash: of the topics it is subscribed to; 0 when not computed yet.
    """

    epoch: int32
    metadata_hash: int64 = field(default=0, tag=0)


@data(versions="0", record_type=4)
class ConsumerGroupPartitionMetadataKey:
    """Key of the partitions that a group knows; begins with int16 4; written by early versions only."""

    group_id: string


@struct
class PartitionMetadata:
    """The racks of one partition."""

    partition: int32
    racks: list[string]


@struct
class TopicMetadata:
    """A topic that the group reads.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


@data(versions="0", flexible="0+", record_type=4)
class ConsumerGroupPartitionMetadataValue:
    """The partitions that a group knows."""

    topics: list[TopicMetadata]


@data(versions="0", record_type=16)
class ConsumerGroupRegularExpressionKey:
    """Key of a resolved regular expression; begins with int16 16."""

    group_id: string
    regular_expression: string


@data(versions="0", flexible="0+", record_type=16)
class ConsumerGroupRegularExpressionValue:
    """The topics that match it.

    Attributes:
        version: metadata offset that it was resolved at.
        timestamp: when it was resolved, in milliseconds since 1970.
    """

    topics: list[string]
    version: int64
    timestamp: int64


@data(versions="0", record_type=7)
class ConsumerGroupTargetAssignmentMemberKey:
    """Key of a member's target; begins with int16 7."""

    group_id: string
    member_id: string


@struct
class TopicPartition:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[int32]


@data(versions="0", flexible="0+", record_type=7)
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member should own."""

    topic_partitions: list[TopicPartition]


@data(versions="0", record_type=6)
class ConsumerGroupTargetAssignmentMetadataKey:
    """Key of an assignment's epoch; begins with int16 6."""

    group_id: string


@data(versions="0", flexible="0+", record_type=6)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the assignment.

    Attributes:
        assignment_epoch: group epoch that the assignment was made for.
        assignment_timestamp: when it was made, in milliseconds since 1970.
    """

    assignment_epoch: int32
    assignment_timestamp: int64 = field(default=0, tag=0, ignorable=True)
