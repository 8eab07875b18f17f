"""AssignReplicasToDirs (73): a broker reports which directory holds each partition (KIP-858)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import int16, int32, int64, uuid


@struct
class AssignReplicasToDirsRequestPartitionData:
    """One partition."""

    partition_index: int32


@struct
class AssignReplicasToDirsRequestTopicData:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


@struct
class AssignReplicasToDirsRequestDirectoryData:
    """The partitions of one directory.

    Attributes:
        id: the directory's id.
    """

    id: uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


@struct
class AssignReplicasToDirsResponsePartitionData:
    """The answer for one partition."""

    partition_index: int32
    error_code: int16


@struct
class AssignReplicasToDirsResponseTopicData:
    """The answers for one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


@struct
class AssignReplicasToDirsResponseDirectoryData:
    """The answers for one directory.

    Attributes:
        id: the directory's id.
    """

    id: uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


@request(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    """Report directories; sent by a broker to the controller.

    Attributes:
        broker_epoch: epoch that the broker got when it registered; -1 when unknown.
    """

    broker_id: int32
    broker_epoch: int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectoryData]


@response(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    directories: list[AssignReplicasToDirsResponseDirectoryData]
