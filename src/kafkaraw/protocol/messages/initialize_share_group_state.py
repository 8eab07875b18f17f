"""InitializeShareGroupState (83): begin the state of share partitions (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string, uuid


@struct
class PartitionData:
    """One partition.

    Attributes:
        state_epoch: epoch of the state, raised by every reset.
        start_offset: first offset to deliver; -1 for not set.
    """

    partition: int32
    state_epoch: int32
    start_offset: int64


@struct
class InitializeStateData:
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
class InitializeStateResult:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionResult]


@request(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    """Begin a state; sent by the group coordinator to the share coordinator."""

    group_id: string
    topics: list[InitializeStateData]


@response(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Response):
    """What became of it."""

    results: list[InitializeStateResult]
