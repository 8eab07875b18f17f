"""CreatePartitions (37): give topics more partitions (KIP-195)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string


@struct
class CreatePartitionsAssignment:
    """The replicas of one new partition.

    Attributes:
        broker_ids: brokers that will hold it, the preferred leader first.
    """

    broker_ids: list[int32]


@struct
class CreatePartitionsTopic:
    """One topic.

    Attributes:
        count: the new number of partitions, old ones included.
        assignments: replicas of the new partitions by hand; null lets the broker choose.
    """

    name: string
    count: int32
    assignments: list[CreatePartitionsAssignment] | None


@struct
class CreatePartitionsTopicResult:
    """What became of one topic.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    name: string
    error_code: int16
    error_message: string | None = None


@request(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """Add partitions; must reach the controller (any broker passes it on).

    Attributes:
        timeout_ms: how long to wait, in milliseconds.
        validate_only: check, but create nothing.
    """

    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: boolean


@response(api_key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult]
