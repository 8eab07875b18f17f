"""ReadShareGroupStateSummary (87): read the start offsets of share partitions (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string, uuid


@struct
class PartitionData:
    """One partition.

    Attributes:
        leader_epoch: grows with every election; -1 when unknown.
    """

    partition: int32
    leader_epoch: int32


@struct
class ReadStateSummaryData:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionData]


@struct
class PartitionResult:
    """The summary of one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
        state_epoch: epoch of the state, raised by every reset.
        leader_epoch: grows with every election; -1 when unknown.
        start_offset: first offset still in flight; -1 for not set.
        delivery_complete_count: records from the start offset on that are done with; -1 when unknown (KIP-1226).
    """

    partition: int32
    error_code: int16
    error_message: string | None = None
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(versions="1+", default=-1, ignorable=True)


@struct
class ReadStateSummaryResult:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionResult]


@request(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    """Read a summary; sent by the group coordinator to the share coordinator."""

    group_id: string
    topics: list[ReadStateSummaryData]


@response(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Response):
    """The summaries."""

    results: list[ReadStateSummaryResult]
