"""DeleteShareGroupState (86): forget the state of share partitions (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string, uuid


@struct
class PartitionData:
    """One partition."""

    partition: int32


@struct
class DeleteStateData:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionData]


@struct
class PartitionResult:
    """The answer for one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition: int32
    error_code: int16
    error_message: string | None = None


@struct
class DeleteStateResult:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionResult]


@request(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    """Forget a state; sent by the group coordinator to the share coordinator."""

    group_id: string
    topics: list[DeleteStateData]


@response(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Response):
    """What became of it."""

    results: list[DeleteStateResult]
