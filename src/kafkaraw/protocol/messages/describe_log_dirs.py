"""DescribeLogDirs (35): what lies in the log directories of a broker, and how large it is."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, int64, string


@struct
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: string
    partitions: list[int32]


@struct
class DescribeLogDirsPartition:
    """One partition.

    Attributes:
        partition_size: size of its log in bytes.
        offset_lag: how far the copy is behind, in offsets.
        is_future_key: whether it is a copy that will replace the current one.
    """

    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: boolean


@struct
class DescribeLogDirsTopic:
    """The partitions of one topic."""

    name: string
    partitions: list[DescribeLogDirsPartition]


@struct
class DescribeLogDirsResult:
    """One directory.

    Attributes:
        total_bytes: size of its volume in bytes; -1 unknown.
        usable_bytes: free space of its volume in bytes; -1 unknown.
        is_cordoned: whether no new partitions are placed there.
    """

    error_code: int16
    log_dir: string
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    usable_bytes: int64 = field(versions="4+", default=-1, ignorable=True)
    is_cordoned: boolean = field(versions="5+", default=False, ignorable=True)


@request(api_key=35, versions="0-5", flexible="2+", removed="0")
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Ask about disks; must reach the broker in question.

    Versions: 3 has an error of its own, 4 total and free space (KIP-827), 5 cordoned directories (KIP-1066).

    Attributes:
        topics: partitions wanted; null for all.
    """

    topics: list[DescribableLogDirTopic] | None


@response(api_key=35, versions="0-5", flexible="2+", removed="0")
class DescribeLogDirsResponse(Response):
    """The directories.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult]
