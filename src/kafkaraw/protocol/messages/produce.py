"""Produce."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, record_bytes, string, uuid


@struct
class PartitionProduceData:
    """Part of Produce."""

    index: int32
    records: record_bytes | None


@struct
class TopicProduceData:
    """Part of Produce."""

    name: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@struct
class BatchIndexAndErrorMessage:
    """Part of Produce."""

    batch_index: int32 = field(versions="8+", default=0)
    batch_index_error_message: string | None = field(versions="8+", default=None)


@struct
class LeaderIdAndEpoch:
    """Part of Produce."""

    leader_id: int32 = field(versions="10+", default=-1)
    leader_epoch: int32 = field(versions="10+", default=-1)


@struct
class PartitionProduceResponse:
    """Part of Produce."""

    index: int32
    error_code: int16
    base_offset: int64
    log_append_time_ms: int64 = field(versions="2+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(versions="8+", default_factory=list, ignorable=True)
    error_message: string | None = field(versions="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(versions="10+", default_factory=LeaderIdAndEpoch, tag=0)


@struct
class TopicProduceResponse:
    """Part of Produce."""

    name: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    """Part of Produce."""

    node_id: int32 = field(versions="10+", default=0)
    host: string = field(versions="10+", default="")
    port: int32 = field(versions="10+", default=0)
    rack: string | None = field(versions="10+", default=None)


@request(api_key=0, versions="0-13", flexible="9+", removed="0-2")
class ProduceRequest:
    """Produce request."""

    transactional_id: string | None = field(versions="3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


@response(api_key=0, versions="0-13", flexible="9+", removed="0-2")
class ProduceResponse:
    """Produce response."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(versions="10+", default_factory=list, tag=0)
