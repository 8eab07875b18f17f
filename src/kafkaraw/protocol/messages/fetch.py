"""Fetch (1): read record batches from partitions, waiting for more when there are few."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int8, int16, int32, int64, record_bytes, string, uuid


@struct
class ReplicaState:
    """Who follows, and in which incarnation; -1 for consumers."""

    replica_id: int32 = field(versions="15+", default=-1)
    replica_epoch: int64 = field(versions="15+", default=-1)


@struct
class FetchPartition:
    """Where to read in one partition.

    Attributes:
        current_leader_epoch: the epoch that the client believes in; -1 does not check.
        fetch_offset: first offset wanted.
        last_fetched_epoch: epoch of the last record that the follower has; -1 for none.
        log_start_offset: first offset of the follower; -1 for consumers.
        partition_max_bytes: limit for this partition in bytes; the first batch of the answer may be larger.
        replica_directory_id: id of the replica's log directory; zero when unknown.
        high_watermark: the follower's high watermark.
    """

    partition: int32
    current_leader_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    fetch_offset: int64
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    replica_directory_id: uuid = field(versions="17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: int64 = field(versions="18+", default=(1 << 63) - 1, tag=1, ignorable=True)


@struct
class FetchTopic:
    """The partitions to read of one topic, named up to version 12 and by id from 13.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Partitions that leave the session.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic: string = field(versions="7-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int32] = field(versions="7+", default_factory=list)


@struct
class EpochEndOffset:
    """The end of the last epoch that both logs share."""

    epoch: int32 = field(versions="12+", default=-1)
    end_offset: int64 = field(versions="12+", default=-1)


@struct
class LeaderIdAndEpoch:
    """A leader; -1 when the broker does not know it.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    leader_id: int32 = field(versions="12+", default=-1)
    leader_epoch: int32 = field(versions="12+", default=-1)


@struct
class SnapshotId:
    """Name of a snapshot of the metadata log."""

    end_offset: int64 = -1
    epoch: int32 = -1


@struct
class AbortedTransaction:
    """An aborted transaction.

    Attributes:
        first_offset: where its first record lies; its records are to be skipped from here to its abort marker.
    """

    producer_id: int64 = field(versions="4+", default=0)
    first_offset: int64 = field(versions="4+", default=0)


@struct
class PartitionData:
    """What one partition holds.

    Attributes:
        high_watermark: offset after the last record that all in-sync replicas have.
        last_stable_offset: offset after the last record whose transaction has ended; -1 before version 4.
        log_start_offset: first offset that is still readable.
        diverging_epoch: where the follower's log parts from the leader's; -1 when it does not.
        snapshot_id: a snapshot to fetch first; -1 when there is none.
        aborted_transactions: transactions in this range that were aborted; null when reading uncommitted.
        preferred_read_replica: broker to read from instead; -1 for this one.
        records: record batches; skip what lies below the offset asked for.
    """

    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = field(versions="4+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(versions="12+", default_factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = field(versions="12+", default_factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = field(versions="12+", default_factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(versions="4+", default_factory=list, ignorable=True)
    preferred_read_replica: int32 = field(versions="11+", default=-1)
    records: record_bytes | None


@struct
class FetchableTopicResponse:
    """The partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    """Address of a broker.

    Attributes:
        rack: the rack; null when unknown.
    """

    node_id: int32 = field(versions="16+", default=0)
    host: string = field(versions="16+", default="")
    port: int32 = field(versions="16+", default=0)
    rack: string | None = field(versions="16+", default=None)


@request(api_key=1, versions="0-18", flexible="12+", removed="0-3")
class FetchRequest(Request["FetchResponse"]):
    """Read batches; goes to the leader of each partition, or to a follower near by (KIP-392).

    Versions: 4 brings isolation levels (KIP-98), 7 sessions that send changes only (KIP-227), 9 leader epochs
    (KIP-320), 11 racks (KIP-392), 12 truncation detection (KIP-595), 13 topic ids (KIP-516), 15 the replica state
    (KIP-903), 16 the new leader in the answer (KIP-951), 17 directory ids (KIP-853), 18 the follower's high
    watermark (KIP-1166).

    Attributes:
        cluster_id: expected cluster, for followers of the metadata quorum; null does not check.
        replica_id: -1 for a consumer, else the id of the following broker.
        max_wait_ms: how long the broker may hold the request until `min_bytes` are there, in milliseconds.
        min_bytes: answer as soon as so many bytes are there.
        max_bytes: aim of the whole answer in bytes; the first batch is sent whole even if it is larger (KIP-74).
        isolation_level: 0 reads uncommitted records too, 1 stops at the last stable offset.
        session_id: 0 for none, or to ask for a new one.
        session_epoch: -1 for no session, 0 for a new one, else a count.
        forgotten_topics_data: partitions to take out of the session.
        rack_id: rack of the consumer; empty for none.
    """

    cluster_id: string | None = field(versions="12+", default=None, tag=0, ignorable=True)
    replica_id: int32 = field(versions="0-14", default=-1)
    replica_state: ReplicaState = field(versions="15+", default_factory=ReplicaState, tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(versions="3+", default=2_147_483_647, ignorable=True)
    isolation_level: int8 = field(versions="4+", default=0, ignorable=True)
    session_id: int32 = field(versions="7+", default=0, ignorable=True)
    session_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+", default_factory=list)
    rack_id: string = field(versions="11+", default="", ignorable=True)


@response(api_key=1, versions="0-18", flexible="12+", removed="0-3")
class FetchResponse(Response):
    """Batches, a whole number of them but for a last one that may be cut short.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        session_id: 0 when the broker keeps no session.
        node_endpoints: addresses of the new leaders named in `current_leader`.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16 = field(versions="7+", default=0, ignorable=True)
    session_id: int32 = field(versions="7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(versions="16+", default_factory=list, tag=0)
