"""Records of share groups in __consumer_offsets.  Source: KIP-932."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int8, int32, int64, string, uuid


@data(versions="0", record_type=14)
class ShareGroupCurrentMemberAssignmentKey:
    """Key of what a member reads; begins with int16 14."""

    group_id: string
    member_id: string


@struct
class TopicPartitions:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[int32]


@data(versions="0", flexible="0+", record_type=14)
class ShareGroupCurrentMemberAssignmentValue:
    """What a member reads.

    Attributes:
        member_epoch: grows with every new assignment.
        previous_member_epoch: epoch before the last change.
    """

    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]


@data(versions="0", record_type=10)
class ShareGroupMemberMetadataKey:
    """Key of a member; begins with int16 10."""

    group_id: string
    member_id: string


@data(versions="0", flexible="0+", record_type=10)
class ShareGroupMemberMetadataValue:
    """A member.

    Attributes:
        rack_id: the rack; null when unknown.
    """

    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]


@data(versions="0", record_type=11)
class ShareGroupMetadataKey:
    """Key of a group; begins with int16 11."""

    group_id: string


@data(versions="0", flexible="0+", record_type=11)
class ShareGroupMetadataValue:
    """A group.

    Attributes:
        metadata_hash: of the topics it is subscribed to.
    """

    epoch: int32
    metadata_hash: int64


@data(versions="0", record_type=15)
class ShareGroupStatePartitionMetadataKey:
    """Key of the state of a group's partitions; begins with int16 15."""

    group_id: string


@struct
class TopicPartitionsInfo:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    topic_name: string
    partitions: list[int32]


@struct
class TopicInfo:
    """A topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    topic_name: string


@data(versions="0", flexible="0+", record_type=15)
class ShareGroupStatePartitionMetadataValue:
    """The state of a group's partitions."""

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


@data(versions="0", record_type=13)
class ShareGroupTargetAssignmentMemberKey:
    """Key of a member's target; begins with int16 13."""

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


@data(versions="0", flexible="0+", record_type=13)
class ShareGroupTargetAssignmentMemberValue:
    """What a member should read."""

    topic_partitions: list[TopicPartition]


@data(versions="0", record_type=12)
class ShareGroupTargetAssignmentMetadataKey:
    """Key of an assignment's epoch; begins with int16 12."""

    group_id: string


@data(versions="0", flexible="0+", record_type=12)
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of the assignment.

    Attributes:
        assignment_epoch: group epoch that the assignment was made for.
        assignment_timestamp: when it was made, in milliseconds since 1970.
    """

    assignment_epoch: int32
    assignment_timestamp: int64 = field(default=0, tag=0, ignorable=True)
