"""DeleteRecords (21): drop the records of a partition before an offset (KIP-107)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class DeleteRecordsPartition:
    """Where one partition shall begin.

    Attributes:
        offset: the new first offset; -1 for the high watermark.
    """

    partition_index: int32
    offset: int64


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[DeleteRecordsPartition]


@struct
class DeleteRecordsPartitionResult:
    """The answer for one partition.

    Attributes:
        low_watermark: lowest first offset of all live replicas.
    """

    partition_index: int32
    low_watermark: int64
    error_code: int16


@struct
class DeleteRecordsTopicResult:
    """The answers for one topic."""

    name: string
    partitions: list[DeleteRecordsPartitionResult]


@request(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """Move the start of logs; must reach the leader of each partition.

    Attributes:
        timeout_ms: how long to wait for the replicas, in milliseconds.
    """

    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


@response(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Response):
    """Where they begin now.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult]
