"""ShareAcknowledge (79): say what became of acquired records (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, int64, string, uuid


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
class AcknowledgePartition:
    """One partition."""

    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class AcknowledgeTopic:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[AcknowledgePartition]


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
class PartitionData:
    """The answer for one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse:
    """The answers for one topic.

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


@request(api_key=79, versions="0-2", flexible="0+", removed="0")
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """Acknowledge; goes to the leader of each partition.

    Version 2 can renew locks (KIP-1222).

    Attributes:
        share_session_epoch: -1 ends the session, else a count.
        is_renew_ack: some acknowledgements renew the lock.
    """

    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32
    is_renew_ack: boolean = field(versions="2+", default=False)
    topics: list[AcknowledgeTopic]


@response(api_key=79, versions="0-2", flexible="0+", removed="0")
class ShareAcknowledgeResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
        acquisition_lock_timeout_ms: how long renewed records stay locked, in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field(versions="2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
