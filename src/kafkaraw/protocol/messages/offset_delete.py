"""OffsetDelete (47): forget single offsets of a group (KIP-496); never became flexible."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int32


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[OffsetDeleteRequestPartition]


@struct
class OffsetDeleteResponsePartition:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class OffsetDeleteResponseTopic:
    """The answers for one topic."""

    name: string
    partitions: list[OffsetDeleteResponsePartition]


@request(api_key=47, versions="0")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """Delete offsets of topics that the group is not subscribed to; must reach the group's coordinator."""

    group_id: string
    topics: list[OffsetDeleteRequestTopic]


@response(api_key=47, versions="0")
class OffsetDeleteResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    error_code: int16
    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic]
