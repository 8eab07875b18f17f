"""DescribeLogDirs: the log directories of this node, and the size of the replicas in them.

Source: KIP-113, KIP-827, KIP-1066; kafka.server.ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.log.directories import LogDirectory
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkaraw.records import TopicPartition


def authorize(
    call: Call[DescribeLogDirsRequest, DescribeLogDirsResponse], request: DescribeLogDirsRequest
) -> Reply[DescribeLogDirsResponse]:
    """DESCRIBE on the cluster."""
    if call.allows_on_cluster(AclOperation.DESCRIBE):
        return call.go_on(request)
    return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])


@handles(
    DescribeLogDirsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeLogDirsRequest
) -> Reply[DescribeLogDirsResponse]:
    """Answer for each directory."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_result(state, directory, wanted) for directory in state.directories.all])


def _result(
    state: BrokerState, directory: LogDirectory, wanted: Collection[TopicPartition] | None
) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[])
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key, partition in _in(state, directory):
        if wanted is None or key in wanted:
            topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic, partitions=[]))
            topic.partitions.append(partition)
    total_bytes, usable_bytes = directory.volume()
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=state.directories.is_cordoned(directory),
    )


def _in(state: BrokerState, directory: LogDirectory) -> list[tuple[TopicPartition, DescribeLogDirsPartition]]:
    """Return the replicas in a directory, and the copies of those that are moved to it."""
    found = []
    for partition in state.replicas():
        key, log = partition.topic_partition, partition.log
        if state.directories.home_of(key) is directory:
            lag = max(partition.high_watermark - log.log_end_offset, 0)
            found.append((key, _described(key, log.size_bytes, lag, is_future=False)))
        future = state.moves.future_log(key)
        if future is not None and state.directories.future_of(key) is directory:
            lag = log.log_end_offset - future.log_end_offset
            found.append((key, _described(key, future.size_bytes, lag, is_future=True)))
    return found


def _described(key: TopicPartition, size_bytes: int, lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=key.partition, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
    )
