"""WriteShareGroupState (85): store the state of share partitions (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string, uuid


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
class PartitionData:
    """The state of one partition.

    Attributes:
        state_epoch: epoch of the state, raised by every reset.
        leader_epoch: grows with every election; -1 when unknown.
        start_offset: first offset still in flight; -1 for no change.
        delivery_complete_count: records from the start offset on that are done with; -1 when unknown (KIP-1226).
    """

    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]


@struct
class WriteStateData:
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
class WriteStateResult:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionResult]


@request(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    """Store a state; sent by a partition's leader to the share coordinator."""

    group_id: string
    topics: list[WriteStateData]


@response(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Response):
    """What became of it."""

    results: list[WriteStateResult]
