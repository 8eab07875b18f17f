"""OffsetCommit (8): store the positions of a consumer group."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, string, uuid


@struct
class OffsetCommitRequestPartition:
    """A position.

    Attributes:
        committed_offset: offset of the next record to read.
        committed_leader_epoch: epoch of the record before it; -1 when unknown.
        commit_timestamp: time of the commit in milliseconds since 1970; -1 for now.
        committed_metadata: a text of the consumer's own.
    """

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field(versions="1", default=-1)
    committed_metadata: string | None


@struct
class OffsetCommitRequestTopic:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="0-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@struct
class OffsetCommitResponsePartition:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class OffsetCommitResponseTopic:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="0-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@request(api_key=8, versions="0-10", flexible="8+", removed="0-1")
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """Store offsets; must reach the group's coordinator.

    Versions: 1 has a generation, 2-4 a retention time, 6 leader epochs (KIP-320), 7 static members (KIP-345), 9 the
    member epoch of the new protocol (KIP-848), 10 topic ids (KIP-516).

    Attributes:
        generation_id_or_member_epoch: generation of the group or epoch of the member; -1 from a consumer that is
            not a member.
        member_id: empty from a consumer that is not a member.
        group_instance_id: name of a static member, or null.
        retention_time_ms: how long to keep the offsets, in milliseconds; -1 for the broker's own time.
    """

    group_id: string
    generation_id_or_member_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: string = field(versions="1+", default="", ignorable=True)
    group_instance_id: string | None = field(versions="7+", default=None)
    retention_time_ms: int64 = field(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


@response(api_key=8, versions="0-10", flexible="8+", removed="0-1")
class OffsetCommitResponse(Response):
    """What became of each position.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
