"""ListOffsets (2): find offsets by time, and both ends of a partition."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string


@struct
class ListOffsetsPartition:
    """What to look for in one partition.

    Attributes:
        current_leader_epoch: the epoch that the client believes in; -1 does not check.
        timestamp: milliseconds since 1970 for the first record at or after that time; or -1 latest, -2 earliest, -3
            largest timestamp, -4 earliest local, -5 latest tiered, -6 earliest pending upload.
        max_num_offsets: how many offsets to give.
    """

    partition_index: int32
    current_leader_epoch: int32 = field(versions="4+", default=-1, ignorable=True)
    timestamp: int64
    max_num_offsets: int32 = field(versions="0", default=1)


@struct
class ListOffsetsTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[ListOffsetsPartition]


@struct
class ListOffsetsPartitionResponse:
    """The answer for one partition.

    Attributes:
        old_style_offsets: offsets of version 0.
        timestamp: timestamp of the record found; -1 when there is none or the question was not about time.
        offset: offset found; -1 when no record is that late.
        leader_epoch: epoch of that record; -1 when unknown.
    """

    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field(versions="0", default_factory=list)
    timestamp: int64 = field(versions="1+", default=-1)
    offset: int64 = field(versions="1+", default=-1)
    leader_epoch: int32 = field(versions="4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    """The answers for one topic."""

    name: string
    partitions: list[ListOffsetsPartitionResponse]


@request(api_key=2, versions="0-11", flexible="6+", removed="0")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """Ask for offsets; must reach the leader of each partition.

    Versions: 1 gives one offset with its time instead of several (KIP-79), 2 isolation levels, 4 leader epochs
    (KIP-320), 7 the record with the largest timestamp (KIP-734), 8 local log start (KIP-405), 9 tiered storage
    (KIP-1005), 10 a time limit for remote storage (KIP-1075), 11 pending uploads (KIP-1023).

    Attributes:
        replica_id: -1 for a consumer.
        isolation_level: 1 makes `latest` the last stable offset.
        timeout_ms: time limit for remote look-ups, in milliseconds.
    """

    replica_id: int32
    isolation_level: int8 = field(versions="2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field(versions="10+", default=0, ignorable=True)


@response(api_key=2, versions="0-11", flexible="6+", removed="0")
class ListOffsetsResponse(Response):
    """The offsets that were found.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
