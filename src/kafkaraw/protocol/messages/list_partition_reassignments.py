"""ListPartitionReassignments (46): the moves that are under way (KIP-455)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: string
    partition_indexes: list[int32]


@struct
class OngoingPartitionReassignment:
    """One move.

    Attributes:
        replicas: all brokers that hold it now.
        adding_replicas: brokers being added.
        removing_replicas: brokers being removed.
    """

    partition_index: int32
    replicas: list[int32]
    adding_replicas: list[int32]
    removing_replicas: list[int32]


@struct
class OngoingTopicReassignment:
    """The moves of one topic."""

    name: string
    partitions: list[OngoingPartitionReassignment]


@request(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """List moves; must reach the controller (any broker passes it on).

    Attributes:
        timeout_ms: how long to wait, in milliseconds.
        topics: partitions wanted; null for all.
    """

    timeout_ms: int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@response(api_key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Response):
    """The moves.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None
    topics: list[OngoingTopicReassignment]
