"""Produce (0): append record batches to partitions."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, record_bytes, string, uuid


@struct
class PartitionProduceData:
    """The batches for one partition.

    Attributes:
        index: partition number.
        records: record batches as they will lie in the log; exactly one from version 3.
    """

    index: int32
    records: record_bytes | None


@struct
class TopicProduceData:
    """The data for one topic, named up to version 12 and by id from 13.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@struct
class BatchIndexAndErrorMessage:
    """One record at fault.

    Attributes:
        batch_index: its place in the batch, from 0.
    """

    batch_index: int32 = field(versions="8+", default=0)
    batch_index_error_message: string | None = field(versions="8+", default=None)


@struct
class LeaderIdAndEpoch:
    """A leader; -1 when the broker does not know it.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: epoch of that leader; grows with every election.
    """

    leader_id: int32 = field(versions="10+", default=-1)
    leader_epoch: int32 = field(versions="10+", default=-1)


@struct
class PartitionProduceResponse:
    """What became of one partition's batch.

    Attributes:
        base_offset: offset of its first record; -1 after an error, and for a duplicate whose offset is forgotten.
        log_append_time_ms: the broker's time when the topic uses LogAppendTime, else -1.
        log_start_offset: first offset that is still readable.
        record_errors: the records at fault; all others of the batch were refused with them.
        error_message: the broker's words; null when it has none.
        current_leader: where to go instead, after NOT_LEADER_OR_FOLLOWER.
    """

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
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    """Address of a broker.

    Attributes:
        rack: the rack; null when unknown.
    """

    node_id: int32 = field(versions="10+", default=0)
    host: string = field(versions="10+", default="")
    port: int32 = field(versions="10+", default=0)
    rack: string | None = field(versions="10+", default=None)


@request(api_key=0, versions="0-13", flexible="9+", removed="0-2")
class ProduceRequest(Request["ProduceResponse"]):
    """Append record batches; must reach the leader of each partition.

    Versions: 3 brings transactions (KIP-98), 7 zstd (KIP-110), 8 errors per record (KIP-467), 10 the new leader in
    the answer (KIP-951), 12 implicit addition to a transaction (KIP-890), 13 topic ids (KIP-516).
    Versions 0-2 carry the old message formats; Kafka 4.0 removed them (KIP-896) but still advertises 0, because
    librdkafka gives up compression otherwise (KAFKA-18659).

    Attributes:
        transactional_id: the producer's transactional id; null when it has none.
        acks: 0 for no answer at all, 1 when the leader has written, -1 when all in-sync replicas have.
        timeout_ms: how long the leader may wait for the other replicas, in milliseconds.
    """

    transactional_id: string | None = field(versions="3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


@response(api_key=0, versions="0-13", flexible="9+", removed="0-2")
class ProduceResponse(Response):
    """What became of each batch; not sent when acks is 0.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        node_endpoints: addresses of the new leaders named in `current_leader`.
    """

    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(versions="10+", default_factory=list, tag=0)
