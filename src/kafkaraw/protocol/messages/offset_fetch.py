"""OffsetFetch (9): read the stored positions of consumer groups."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int16, int32, int64, string, uuid


@struct
class OffsetFetchRequestTopic:
    """Partitions of one topic."""

    name: string = field(versions="0-7", default="")
    partition_indexes: list[int32] = field(versions="0-7", default_factory=list)


@struct
class OffsetFetchRequestTopics:
    """Partitions of one topic of one group.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="8-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int32] = field(versions="8+", default_factory=list)


@struct
class OffsetFetchRequestGroup:
    """One group.

    Attributes:
        member_id: null from one that is not a member.
        member_epoch: -1 from one that is not a member.
        topics: topics wanted; null for all.
    """

    group_id: string = field(versions="8+", default="")
    member_id: string | None = field(versions="9+", default=None, ignorable=True)
    member_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(versions="8+", default_factory=list)


@struct
class OffsetFetchResponsePartition:
    """A position.

    Attributes:
        committed_offset: offset of the next record to read; -1 when none is stored.
        committed_leader_epoch: epoch of the record before it; -1 when unknown.
        metadata: the text that was stored with it.
    """

    partition_index: int32 = field(versions="0-7", default=0)
    committed_offset: int64 = field(versions="0-7", default=0)
    committed_leader_epoch: int32 = field(versions="5-7", default=-1, ignorable=True)
    metadata: string | None = field(versions="0-7", default="")
    error_code: int16 = field(versions="0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    """The answers for one topic."""

    name: string = field(versions="0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field(versions="0-7", default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    """A position.

    Attributes:
        committed_offset: offset of the next record to read; -1 when none is stored.
        committed_leader_epoch: epoch of the record before it; -1 when unknown.
        metadata: the text that was stored with it.
    """

    partition_index: int32 = field(versions="8+", default=0)
    committed_offset: int64 = field(versions="8+", default=0)
    committed_leader_epoch: int32 = field(versions="8+", default=-1, ignorable=True)
    metadata: string | None = field(versions="8+", default="")
    error_code: int16 = field(versions="8+", default=0)


@struct
class OffsetFetchResponseTopics:
    """The answers for one topic of one group.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    name: string = field(versions="8-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(versions="8+", default_factory=list)


@struct
class OffsetFetchResponseGroup:
    """The answers for one group."""

    group_id: string = field(versions="8+", default="")
    topics: list[OffsetFetchResponseTopics] = field(versions="8+", default_factory=list)
    error_code: int16 = field(versions="8+", default=0)


@request(api_key=9, versions="0-10", flexible="6+", removed="0")
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """Ask for offsets; must reach the coordinator.

    Versions: 2 may ask for all topics, 7 waits for open transactions (KIP-447), 8 asks for many groups at once
    (KIP-709) and moves everything into `groups`, 9 carries the member epoch (KIP-848), 10 topic ids (KIP-516).

    Attributes:
        group_id: the group, up to version 7.
        topics: topics wanted, up to version 7; null for all.
        require_stable: answer UNSTABLE_OFFSET_COMMIT while a transaction may still change an offset.
    """

    group_id: string = field(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", default_factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(versions="8+", default_factory=list)
    require_stable: boolean = field(versions="7+", default=False)


@response(api_key=9, versions="0-10", flexible="6+", removed="0")
class OffsetFetchResponse(Response):
    """The stored positions.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        topics: answers up to version 7.
        error_code: of the whole request, up to version 7.
        groups: answers from version 8.
    """

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7", default_factory=list)
    error_code: int16 = field(versions="2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(versions="8+", default_factory=list)
