"""DescribeTopicPartitions (75): topics and partitions page by page, with the replicas that may lead (KIP-966)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string, uuid


@struct
class TopicRequest:
    """A topic."""

    name: string


@struct
class Cursor:
    """The first partition of the next page."""

    topic_name: string
    partition_index: int32


@struct
class DescribeTopicPartitionsResponsePartition:
    """One partition.

    Attributes:
        leader_id: -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
        replica_nodes: brokers that hold it, the preferred leader first.
        isr_nodes: those in sync.
        eligible_leader_replicas: those that may lead without loss; null when not known.
        last_known_elr: those that were eligible before; null when not known.
        offline_replicas: those that cannot be used.
    """

    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field(ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    """One topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
        topic_authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    error_code: int16
    name: string | None
    topic_id: uuid = field(ignorable=True)
    is_internal: boolean = field(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = -2_147_483_648


@request(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """Ask for a page; any broker answers.

    Attributes:
        topics: topics wanted, sorted; empty for all.
        response_partition_limit: most partitions of one answer.
        cursor: where to go on; null for the beginning.
    """

    topics: list[TopicRequest]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


@response(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Response):
    """A page.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        next_cursor: null when this is the last page.
    """

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
