"""OffsetCommit."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, string, uuid


@struct
class OffsetCommitRequestPartition:
    """Part of OffsetCommit."""

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field(versions="1", default=-1)
    committed_metadata: string | None


@struct
class OffsetCommitRequestTopic:
    """Part of OffsetCommit."""

    name: string = field(versions="0-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@struct
class OffsetCommitResponsePartition:
    """Part of OffsetCommit."""

    partition_index: int32
    error_code: int16


@struct
class OffsetCommitResponseTopic:
    """Part of OffsetCommit."""

    name: string = field(versions="0-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@request(api_key=8, versions="0-10", flexible="8+", removed="0-1")
class OffsetCommitRequest:
    """OffsetCommit request."""

    group_id: string
    generation_id_or_member_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: string = field(versions="1+", default="", ignorable=True)
    group_instance_id: string | None = field(versions="7+", default=None)
    retention_time_ms: int64 = field(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


@response(api_key=8, versions="0-10", flexible="8+", removed="0-1")
class OffsetCommitResponse:
    """OffsetCommit response."""

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
