"""AlterReplicaLogDirs: move replicas of this node to other log directories, or choose that of new ones.

The answer says that a move has begun; DescribeLogDirs shows how far it is.
Source: KIP-113; kafka.server.ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

import logging

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.log.directories import aside_name, folder_name
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.log.names import FolderState
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")


def authorize(
    call: Call[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse], request: AlterReplicaLogDirsRequest
) -> Reply[AlterReplicaLogDirsResponse]:
    """ALTER on the cluster."""
    if call.allows_on_cluster(AclOperation.ALTER):
        return call.go_on(request)
    return _response(dict.fromkeys(_wanted(request), ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


@handles(
    AlterReplicaLogDirsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Reply[AlterReplicaLogDirsResponse]:
    """Begin each move by itself."""
    codes = {}
    for key, path in _wanted(request).items():
        codes[key] = ErrorCode.NONE
        try:
            _move(state, key, path)
        except ApiError as error:
            codes[key] = error.code
            _logger.warning("%s is not moved to %s: %s", folder_name(key), path, error.message)
    return _response(codes)


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the destination of each partition; of several, the last one counts, as in Kafka."""
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _move(state: BrokerState, key: TopicPartition, path: str) -> None:
    folder = f"{key.topic}-{key.partition}.{ZERO_UUID.hex()}{FolderState.FUTURE}"
    if aside_name(folder_name(key), ZERO_UUID, FolderState.FUTURE) != folder:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    directory = state.directories.at(path)
    if directory is None:
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
    if directory.is_offline:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
    partition, topic = state.partition(key), state.catalog.topic(key.topic)
    if partition is None or topic is None:
        state.directories.prefer(key, directory)
        raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"Replica {folder_name(key)} is created there later")
    try:
        state.moves.begin(partition, directory, topic.topic_id)
    except OSError as error:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _response(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key, code in codes.items():
        topic = topics.setdefault(key.topic, AlterReplicaLogDirTopicResult(topic_name=key.topic, partitions=[]))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
