"""DescribeProducers (61): the active producers of a partition (KIP-664)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class TopicRequest:
    """Partitions of one topic."""

    name: string
    partition_indexes: list[int32]


@struct
class ProducerState:
    """One producer.

    Attributes:
        last_sequence: sequence number of its last record; -1 when it has none.
        last_timestamp: when it last wrote, in milliseconds since 1970; -1 when unknown.
        coordinator_epoch: epoch of its transaction coordinator.
        current_txn_start_offset: first offset of its open transaction; -1 when there is none.
    """

    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32
    current_txn_start_offset: int64 = -1


@struct
class PartitionResponse:
    """The producers of one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None = None
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    """The answers for one topic."""

    name: string
    partitions: list[PartitionResponse]


@request(api_key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """Ask about producers; must reach the leader of each partition."""

    topics: list[TopicRequest]


@response(api_key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Response):
    """The producers.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    topics: list[TopicResponse]
