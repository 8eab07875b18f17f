"""AlterReplicaLogDirs (34): move replicas between the disks of a broker (KIP-113)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class AlterReplicaLogDirTopic:
    """Partitions of one topic."""

    name: string
    partitions: list[int32]


@struct
class AlterReplicaLogDir:
    """What shall lie in one directory.

    Attributes:
        path: absolute path on the broker.
    """

    path: string
    topics: list[AlterReplicaLogDirTopic]


@struct
class AlterReplicaLogDirPartitionResult:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class AlterReplicaLogDirTopicResult:
    """The answers for one topic."""

    topic_name: string
    partitions: list[AlterReplicaLogDirPartitionResult]


@request(api_key=34, versions="0-2", flexible="2+", removed="0")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """Move replicas; must reach the broker that holds them."""

    dirs: list[AlterReplicaLogDir]


@response(api_key=34, versions="0-2", flexible="2+", removed="0")
class AlterReplicaLogDirsResponse(Response):
    """What became of them.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
