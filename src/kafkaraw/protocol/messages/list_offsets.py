"""ListOffsets."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string


@struct
class ListOffsetsPartition:
    """Part of ListOffsets."""

    partition_index: int32
    current_leader_epoch: int32 = field(versions="4+", default=-1, ignorable=True)
    timestamp: int64
    max_num_offsets: int32 = field(versions="0", default=1)


@struct
class ListOffsetsTopic:
    """Part of ListOffsets."""

    name: string
    partitions: list[ListOffsetsPartition]


@struct
class ListOffsetsPartitionResponse:
    """Part of ListOffsets."""

    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field(versions="0", default_factory=list)
    timestamp: int64 = field(versions="1+", default=-1)
    offset: int64 = field(versions="1+", default=-1)
    leader_epoch: int32 = field(versions="4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    """Part of ListOffsets."""

    name: string
    partitions: list[ListOffsetsPartitionResponse]


@request(api_key=2, versions="0-11", flexible="6+", removed="0")
class ListOffsetsRequest:
    """ListOffsets request."""

    replica_id: int32
    isolation_level: int8 = field(versions="2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field(versions="10+", default=0, ignorable=True)


@response(api_key=2, versions="0-11", flexible="6+", removed="0")
class ListOffsetsResponse:
    """ListOffsets response."""

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
