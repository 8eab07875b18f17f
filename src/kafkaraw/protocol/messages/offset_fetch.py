"""OffsetFetch."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int16, int32, int64, string, uuid


@struct
class OffsetFetchRequestTopic:
    """Part of OffsetFetch."""

    name: string = field(versions="0-7", default="")
    partition_indexes: list[int32] = field(versions="0-7", default_factory=list)


@struct
class OffsetFetchRequestTopics:
    """Part of OffsetFetch."""

    name: string = field(versions="8-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int32] = field(versions="8+", default_factory=list)


@struct
class OffsetFetchRequestGroup:
    """Part of OffsetFetch."""

    group_id: string = field(versions="8+", default="")
    member_id: string | None = field(versions="9+", default=None, ignorable=True)
    member_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(versions="8+", default_factory=list)


@struct
class OffsetFetchResponsePartition:
    """Part of OffsetFetch."""

    partition_index: int32 = field(versions="0-7", default=0)
    committed_offset: int64 = field(versions="0-7", default=0)
    committed_leader_epoch: int32 = field(versions="5-7", default=-1, ignorable=True)
    metadata: string | None = field(versions="0-7", default="")
    error_code: int16 = field(versions="0-7", default=0)


@struct
class OffsetFetchResponseTopic:
    """Part of OffsetFetch."""

    name: string = field(versions="0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field(versions="0-7", default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    """Part of OffsetFetch."""

    partition_index: int32 = field(versions="8+", default=0)
    committed_offset: int64 = field(versions="8+", default=0)
    committed_leader_epoch: int32 = field(versions="8+", default=-1, ignorable=True)
    metadata: string | None = field(versions="8+", default="")
    error_code: int16 = field(versions="8+", default=0)


@struct
class OffsetFetchResponseTopics:
    """Part of OffsetFetch."""

    name: string = field(versions="8-9", default="", ignorable=True)
    topic_id: uuid = field(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(versions="8+", default_factory=list)


@struct
class OffsetFetchResponseGroup:
    """Part of OffsetFetch."""

    group_id: string = field(versions="8+", default="")
    topics: list[OffsetFetchResponseTopics] = field(versions="8+", default_factory=list)
    error_code: int16 = field(versions="8+", default=0)


@request(api_key=9, versions="0-10", flexible="6+", removed="0")
class OffsetFetchRequest:
    """OffsetFetch request."""

    group_id: string = field(versions="0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", default_factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(versions="8+", default_factory=list)
    require_stable: boolean = field(versions="7+", default=False)


@response(api_key=9, versions="0-10", flexible="6+", removed="0")
class OffsetFetchResponse:
    """OffsetFetch response."""

    throttle_time_ms: int32 = field(versions="3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7", default_factory=list)
    error_code: int16 = field(versions="2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(versions="8+", default_factory=list)
