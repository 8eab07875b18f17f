"""AlterShareGroupOffsets (91): move an empty share group (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string, uuid


@struct
class AlterShareGroupOffsetsRequestPartition:
    """Where to begin in one partition."""

    partition_index: int32
    start_offset: int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: string
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@struct
class AlterShareGroupOffsetsResponsePartition:
    """The answer for one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_name: string
    topic_id: uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@request(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    """Move a group; must reach the group's coordinator."""

    group_id: string
    topics: list[AlterShareGroupOffsetsRequestTopic]


@response(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
