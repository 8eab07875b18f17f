"""TxnOffsetCommit (28): store a group's positions as part of a transaction."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, string


@struct
class TxnOffsetCommitRequestPartition:
    """A position.

    Attributes:
        committed_offset: offset of the next record to read.
        committed_leader_epoch: epoch of the record before it; -1 when unknown.
        committed_metadata: a text of the consumer's own.
    """

    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="2+", default=-1, ignorable=True)
    committed_metadata: string | None


@struct
class TxnOffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[TxnOffsetCommitRequestPartition]


@struct
class TxnOffsetCommitResponsePartition:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class TxnOffsetCommitResponseTopic:
    """The answers for one topic."""

    name: string
    partitions: list[TxnOffsetCommitResponsePartition]


@request(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """Store offsets that count once the transaction commits; must reach the group's coordinator.

    Versions: 2 has leader epochs, 3 the member's generation (KIP-447), 5 adds the group to the transaction by
    itself (KIP-890).

    Attributes:
        generation_id: generation of the group; -1 when not a member.
        member_id: empty when not a member.
        group_instance_id: name of a static member (KIP-345), or null.
    """

    transactional_id: string
    group_id: string
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = field(versions="3+", default=-1)
    member_id: string = field(versions="3+", default="")
    group_instance_id: string | None = field(versions="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@response(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
