"""OffsetForLeaderEpoch (23): where an epoch of a partition's log ends, to detect truncation."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class OffsetForLeaderPartition:
    """One partition.

    Attributes:
        current_leader_epoch: the epoch that the client believes in; -1 does not check.
        leader_epoch: the epoch whose end is wanted.
    """

    partition: int32
    current_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    leader_epoch: int32


@struct
class OffsetForLeaderTopic:
    """Partitions of one topic."""

    topic: string
    partitions: list[OffsetForLeaderPartition]


@struct
class EpochEndOffset:
    """The answer for one partition.

    Attributes:
        leader_epoch: the largest epoch at or below the one asked for; -1 when unknown.
        end_offset: offset after the last record of that epoch; -1 when unknown.
    """

    error_code: int16
    partition: int32
    leader_epoch: int32 = field(versions="1+", default=-1, ignorable=True)
    end_offset: int64 = -1


@struct
class OffsetForLeaderTopicResult:
    """The answers for one topic."""

    topic: string
    partitions: list[EpochEndOffset]


@request(api_key=23, versions="0-4", flexible="4+", removed="0-1")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """Ask for the end of epochs; must reach the leader of each partition.

    Versions: 1 and 2 answer with the epoch found and check the current one (KIP-279, KIP-320), 3 has the replica id.

    Attributes:
        replica_id: -1 for a consumer, -2 for a debugging consumer.
    """

    replica_id: int32 = field(versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


@response(api_key=23, versions="0-4", flexible="4+", removed="0-1")
class OffsetForLeaderEpochResponse(Response):
    """The ends.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
