"""Records of classic groups in __consumer_offsets: committed offsets and group metadata."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import ZERO_UUID, int32, int64, string, uuid


@data(versions="0", record_type=0)
class LegacyOffsetCommitKey:
    """Key of an offset, as written long ago; begins with int16 0."""

    group: string
    topic: string
    partition: int32


@data(versions="0", record_type=0)
class LegacyOffsetCommitValue:
    """An offset, as written long ago.

    Attributes:
        offset: the next record to read.
        commit_timestamp: when it was committed, in milliseconds since 1970.
    """

    offset: int64
    metadata: string
    commit_timestamp: int64


@data(versions="0", record_type=1)
class OffsetCommitKey:
    """Key of a committed offset; begins with int16 1."""

    group: string
    topic: string
    partition: int32


@data(versions="0-4", flexible="4+", record_type=1)
class OffsetCommitValue:
    """A committed offset; begins with an int16 with its version.

    Versions: 1 has an expiry time, 3 the leader epoch (KIP-320), 4 is flexible and has the topic id.

    Attributes:
        offset: the next record to read.
        leader_epoch: epoch of the record before it; -1 when unknown.
        metadata: a text of the consumer's own.
        commit_timestamp: when it was committed, in milliseconds since 1970.
        expire_timestamp: when to forget it, in milliseconds since 1970; -1 for the broker's own time.
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    offset: int64
    leader_epoch: int32 = field(versions="3+", default=-1, ignorable=True)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field(versions="1", default=-1, ignorable=True)
    topic_id: uuid = field(versions="4+", default=ZERO_UUID, tag=0, ignorable=True)


@data(versions="0", record_type=2)
class GroupMetadataKey:
    """Key of a classic group; begins with int16 2."""

    group: string


@struct
class MemberMetadata:
    """A member of a classic group.

    Attributes:
        group_instance_id: name of a static member (KIP-345), or null.
        rebalance_timeout: in milliseconds; -1 for the session timeout.
        session_timeout: in milliseconds.
        subscription: a ConsumerProtocolSubscription behind an int16 with its version.
        assignment: a ConsumerProtocolAssignment behind an int16 with its version.
    """

    member_id: string
    group_instance_id: string | None = field(versions="3+", default=None, ignorable=True)
    client_id: string
    client_host: string
    rebalance_timeout: int32 = field(versions="1+", default=-1, ignorable=True)
    session_timeout: int32
    subscription: bytes
    assignment: bytes


@data(versions="0-4", flexible="4+", record_type=2)
class GroupMetadataValue:
    """A classic group.

    Attributes:
        protocol_type: `consumer` for consumers; null when unknown.
        protocol: the assignor in use; null when there is none.
        leader: member id of the leader; null when there is none.
        current_state_timestamp: when it got into its state, in milliseconds since 1970; -1 unknown.
    """

    protocol_type: string
    generation: int32
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field(versions="2+", default=-1, ignorable=True)
    members: list[MemberMetadata]
