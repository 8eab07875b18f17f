"""DescribeShareGroupOffsets (90): where share groups are (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string, uuid


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: string
    partitions: list[int32]


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """One group.

    Attributes:
        topics: topics wanted; null for all.
    """

    group_id: string
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """The answer for one partition.

    Attributes:
        start_offset: first offset still in flight; -1 for not set.
        leader_epoch: grows with every election; -1 when unknown.
        lag: records not done with yet; -1 when unknown.
        error_message: the broker's words; null when it has none.
    """

    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    lag: int64 = field(versions="1+", default=-1, ignorable=True)
    error_code: int16
    error_message: string | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string
    topic_id: uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


@struct
class DescribeShareGroupOffsetsResponseGroup:
    """The answers for one group.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    group_id: string
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16
    error_message: string | None = None


@request(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """Ask for offsets; must reach each group's coordinator.

    Version 1 has the lag (KIP-1226).
    """

    groups: list[DescribeShareGroupOffsetsRequestGroup]


@response(api_key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Response):
    """The offsets.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
