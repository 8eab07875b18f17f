"""ElectLeaders (43): elect leaders for partitions (KIP-183, KIP-460)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, string


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic: string
    partitions: list[int32]


@struct
class PartitionResult:
    """The answer for one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition_id: int32
    error_code: int16
    error_message: string | None


@struct
class ReplicaElectionResult:
    """The answers for one topic."""

    topic: string
    partition_result: list[PartitionResult]


@request(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """Start elections; must reach the controller (any broker passes it on).

    Attributes:
        election_type: 0 the preferred replica, 1 any live replica, in sync or not.
        topic_partitions: partitions; null for all.
        timeout_ms: how long to wait, in milliseconds.
    """

    election_type: int8 = field(versions="1+", default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = 60_000


@response(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="1+", default=0)
    replica_election_results: list[ReplicaElectionResult]
