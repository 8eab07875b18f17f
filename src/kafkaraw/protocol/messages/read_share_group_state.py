"""ReadShareGroupState (84): read the state of share partitions (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string, uuid


@struct
class PartitionData:
    """One partition.

    Attributes:
        leader_epoch: grows with every election; -1 when unknown.
    """

    partition: int32
    leader_epoch: int32


@struct
class ReadStateData:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionData]


@struct
class StateBatch:
    """The state of a range of records.

    Attributes:
        delivery_state: 0 available, 2 acknowledged, 4 archived.
        delivery_count: how often they were delivered.
    """

    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


@struct
class PartitionResult:
    """The state of one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
        state_epoch: epoch of the state, raised by every reset.
        start_offset: first offset still in flight; -1 for not set.
    """

    partition: int32
    error_code: int16
    error_message: string | None = None
    state_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]


@struct
class ReadStateResult:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionResult]


@request(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    """Read a state; sent by a partition's leader to the share coordinator."""

    group_id: string
    topics: list[ReadStateData]


@response(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Response):
    """The states."""

    results: list[ReadStateResult]
