"""ShareFetch (78): acquire records of a share group, and acknowledge earlier ones (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, int64, record_bytes, string, uuid


@struct
class AcknowledgementBatch:
    """A range of records dealt with.

    Attributes:
        acknowledge_types: per record, or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    """

    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]


@struct
class FetchPartition:
    """One partition.

    Attributes:
        partition_max_bytes: left from version 0.
        acknowledgement_batches: records dealt with.
    """

    partition_index: int32
    partition_max_bytes: int32 = field(versions="0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class FetchTopic:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions that leave the session.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[int32]


@struct
class LeaderIdAndEpoch:
    """A leader; -1 when the broker does not know it.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class AcquiredRecords:
    """A range of records.

    Attributes:
        delivery_count: how often they have been delivered, this time included.
    """

    first_offset: int64
    last_offset: int64
    delivery_count: int16


@struct
class PartitionData:
    """What one partition holds.

    Attributes:
        error_message: the broker's words; null when it has none.
        records: record batches; only the acquired offsets are for this member.
        acquired_records: ranges that are locked for this member.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None = None
    acknowledge_error_code: int16
    acknowledge_error_message: string | None = None
    current_leader: LeaderIdAndEpoch
    records: record_bytes | None = field(nullable="0")
    acquired_records: list[AcquiredRecords]


@struct
class ShareFetchableTopicResponse:
    """The partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    """Address of a broker.

    Attributes:
        rack: the rack; null when unknown.
    """

    node_id: int32
    host: string
    port: int32
    rack: string | None = None


@request(api_key=78, versions="0-2", flexible="0+", removed="0")
class ShareFetchRequest(Request["ShareFetchResponse"]):
    """Acquire records; goes to the leader of each partition.

    Version 2 has renewal of locks and an acquire mode (KIP-1206, KIP-1222).

    Attributes:
        share_session_epoch: 0 opens a session, -1 ends it, else a count.
        max_wait_ms: how long the broker may wait for `min_bytes`, in milliseconds.
        max_records: most records to acquire.
        batch_size: how many records one acquired batch should have.
        share_acquire_mode: 0 by batch, 1 at most the record limit.
        is_renew_ack: some acknowledgements renew the lock.
        forgotten_topics_data: partitions that leave the session.
    """

    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2_147_483_647
    max_records: int32 = field(versions="1+", default=0)
    batch_size: int32 = field(versions="1+", default=0)
    share_acquire_mode: int8 = field(versions="2+", default=0, ignorable=True)
    is_renew_ack: boolean = field(versions="2+", default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@response(api_key=78, versions="0-2", flexible="0+", removed="0")
class ShareFetchResponse(Response):
    """The records.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        acquisition_lock_timeout_ms: how long the records stay locked for this member, in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field(versions="1+", default=0)
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
