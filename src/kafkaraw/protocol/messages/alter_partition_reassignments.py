"""AlterPartitionReassignments (45): move replicas to other brokers (KIP-455)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string


@struct
class ReassignablePartition:
    """One partition.

    Attributes:
        replicas: where it shall lie; null cancels a move.
    """

    partition_index: int32
    replicas: list[int32] | None = None


@struct
class ReassignableTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[ReassignablePartition]


@struct
class ReassignablePartitionResponse:
    """The answer for one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None


@struct
class ReassignableTopicResponse:
    """The answers for one topic."""

    name: string
    partitions: list[ReassignablePartitionResponse]


@request(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """Start or cancel moves; must reach the controller (any broker passes it on).

    Version 1 may forbid another number of replicas (KIP-860).

    Attributes:
        timeout_ms: how long to wait, in milliseconds.
        allow_replication_factor_change: whether the number of replicas may change.
    """

    timeout_ms: int32 = 60_000
    allow_replication_factor_change: boolean = field(versions="1+", default=True)
    topics: list[ReassignableTopic]


@response(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    allow_replication_factor_change: boolean = field(versions="1+", default=True, ignorable=True)
    error_code: int16
    error_message: string | None
    responses: list[ReassignableTopicResponse]
