"""Guards of the APIs about groups and their offsets.

Source: kafka.server.KafkaApis.{handleOffsetCommitRequest, handleOffsetFetchRequest, handleFindCoordinatorRequest}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaraw.broker.deferred import after
from kafkaraw.broker.handlers.guards.call import MESSAGES, Call
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

COMMIT_BY_ID: Final = 10
FETCH_BY_ID: Final = 10
MANY_GROUPS_SINCE: Final = 8
GROUP_CODE_SINCE: Final = 2
MANY_KEYS_SINCE: Final = 4
SHARE: Final = 2
SHARE_SINCE: Final = 6
NONE: Final = -1
# What looking for a coordinator of that type takes: DESCRIBE on the key.
_KEY_TYPES: Final = {
    0: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


def offset_commit(call: Call, request: OffsetCommitRequest) -> object:
    """READ on the group, and READ on each topic."""
    if not call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetCommitResponse(topics=[_not_committed(topic, code) for topic in request.topics])
    allowed, refused = call.divide(
        request.topics, AclOperation.READ, lambda topic: call.topic_name(topic.name, topic.topic_id, COMMIT_BY_ID)
    )
    denied = [_not_committed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in refused]
    return call.go_on_with(request, allowed, denied, OffsetCommitResponse(topics=[]))


def _not_committed(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ],
    )


def offset_fetch(call: Call, request: OffsetFetchRequest) -> object:
    """DESCRIBE on each group, and DESCRIBE on each topic; of all topics, those that it may not see are left out."""
    if call.context.api_version < MANY_GROUPS_SINCE:
        return _fetch_one_group(call, request)
    groups, denied_groups = list[OffsetFetchRequestGroup](), list[OffsetFetchResponseGroup]()
    denied_topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in request.groups:
        if not call.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            denied_groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code))
            continue
        if group.topics is not None:
            allowed, refused = call.divide(
                group.topics,
                AclOperation.DESCRIBE,
                lambda topic: call.topic_name(topic.name, topic.topic_id, FETCH_BY_ID),
            )
            denied_topics[group.group_id] = refused
            group = replace(group, topics=allowed)
        groups.append(group)

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.group_id not in denied_topics:  # all topics were asked for
                group.topics = [topic for topic in group.topics if _may_see(call, topic)]
            elif group.error_code == ErrorCode.NONE:
                group.topics.extend(_not_fetched(topic) for topic in denied_topics[group.group_id])
        response.groups.extend(denied_groups)
        return response

    return after(call.go_on(replace(request, groups=groups)), merge)


def _may_see(call: Call, topic: OffsetFetchResponseTopics) -> bool:
    name = call.topic_name(topic.name, topic.topic_id, FETCH_BY_ID) or topic.name
    return call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_denial=False)


def _not_fetched(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NONE, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for index in topic.partition_indexes
        ],
    )


def _fetch_one_group(call: Call, request: OffsetFetchRequest) -> object:
    if not call.allows(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        in_partitions = call.context.api_version < GROUP_CODE_SINCE
        topics = request.topics if in_partitions and request.topics is not None else []
        return OffsetFetchResponse(topics=[_not_fetched_before_8(topic, code) for topic in topics], error_code=code)
    asked = request.topics
    allowed, refused = (None, []) if asked is None else call.divide(asked, AclOperation.DESCRIBE, lambda one: one.name)

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if asked is None:
            response.topics = [topic for topic in response.topics if _may_see_by_name(call, topic.name)]
        elif response.error_code == ErrorCode.NONE:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics.extend(_not_fetched_before_8(topic, code) for topic in refused)
        return response

    return after(call.go_on(replace(request, topics=allowed)), merge)


def _may_see_by_name(call: Call, name: str) -> bool:
    return call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_denial=False)


def _not_fetched_before_8(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=NONE, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> object:
    """DESCRIBE on each key; the coordinators of share groups are for brokers only."""
    many = call.context.api_version >= MANY_KEYS_SINCE
    keys = request.coordinator_keys if many else [request.key]
    if request.key_type == SHARE and call.context.api_version >= SHARE_SINCE:
        if call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return call.go_on(request)
        return _coordinators([_no_coordinator(key, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for key in keys], many=many)
    if request.key_type not in _KEY_TYPES:
        return call.go_on(request)
    resource_type, code = _KEY_TYPES[request.key_type]
    allowed = [key for key in keys if call.allows(AclOperation.DESCRIBE, resource_type, key)]
    seen = set(allowed)
    denied = [_no_coordinator(key, code) for key in keys if key not in seen]
    if not denied:
        return call.go_on(request)
    if not allowed:
        return _coordinators(denied, many=many)

    def merge(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        response.coordinators.extend(denied)
        return response

    return after(call.go_on(replace(request, coordinator_keys=allowed)), merge)


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=NONE, host="", port=NONE, error_code=code)


def _coordinators(found: Sequence[Coordinator], *, many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=list(found))
    code = ErrorCode(found[0].error_code)
    return FindCoordinatorResponse(error_code=code, error_message=MESSAGES[code], node_id=NONE, host="", port=NONE)
