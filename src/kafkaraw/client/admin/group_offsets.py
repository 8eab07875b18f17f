"""Committed offsets of groups, for the admin client: list, alter and delete them.

The coordinator accepts offsets from an administrator only if the group has no members: members would overwrite them.
Source: KIP-496, KIP-709; Kafka's ListConsumerGroupOffsetsHandler, AlterConsumerGroupOffsetsHandler,
DeleteConsumerGroupOffsetsHandler.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.client.admin.group_calls import GroupCalls, group_failure
from kafkaraw.client.arguments import partitions_of, positions_of
from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.network.connection import Connection
from kafkaraw.core.group.consumer_protocol import by_topic
from kafkaraw.errors import KafkaError, RebalanceInProgressError, RetriableError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages import offset_fetch
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafkaraw.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkaraw.records import TopicPartition

_OFFSET_FETCH_KEY: Final = 9
_MANY_GROUPS_FROM_VERSION: Final = 8
_NAMES_UP_TO_VERSION: Final = 9  # of OffsetFetch and OffsetCommit: an administrator may mean topics that are gone

_STOP_THEM: Final = "the group has members, and only they may commit: stop them first"
_NOT_SET: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: _STOP_THEM,
    ErrorCode.ILLEGAL_GENERATION: _STOP_THEM,
    ErrorCode.NON_EMPTY_GROUP: _STOP_THEM,
}
_NOT_DELETED: Final = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read this topic: stop them first",
    ErrorCode.NON_EMPTY_GROUP: "the group has members that are no consumers: stop them first",
}

Wanted = Mapping[str, Mapping[str, list[int]] | None]
"""By group: partition numbers by topic, or None for all partitions."""


class GroupOffsetAdmin:
    """The operations on committed offsets.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._groups = GroupCalls(calls)

    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        named = groups if isinstance(groups, Mapping) else dict.fromkeys(names_of(groups))
        wanted = {
            name: None if which is None else by_topic(partitions_of(which, "list_group_offsets"))
            for name, which in named.items()
        }
        deadline = self._calls.deadline(timeout)
        found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}

        async def ask(node_id: int, names: Sequence[str]) -> dict[str, KafkaError]:
            left, failures = list(names), dict[str, KafkaError]()
            while left:
                asked: list[str] = []
                question = _question({name: wanted[name] for name in left}, asked, require_stable)
                answer = await self._groups.ask(node_id, question, deadline, version_max=_NAMES_UP_TO_VERSION)
                for group in _groups_in(answer, asked):
                    error = _first_failure(group)
                    if error is None:
                        found[group.group_id] = _positions(group)
                    else:
                        failures[group.group_id] = error
                left = [name for name in left if name not in asked]
            return failures

        await self._groups.each(wanted, ask, deadline)
        return {name: found.get(name, {}) for name in wanted}

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout: float | None = None,
    ) -> None:
        wanted = positions_of(offsets, "alter_group_offsets")
        deadline = self._calls.deadline(timeout)

        async def once(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            request = _commit(group_id, {partition: wanted[partition] for partition in partitions})
            node_id = await self._groups.coordinator(group_id, deadline)
            answer = await self._groups.ask(node_id, request, deadline, version_max=_NAMES_UP_TO_VERSION)
            return _failures(answer, f"set positions of group {group_id!r}", group_id, "READ", _NOT_SET)

        await self._calls.each(wanted, once, deadline)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        deadline, what = self._calls.deadline(timeout), f"delete committed offsets of group {group_id!r}"

        wanted = partitions_of(partitions, "delete_group_offsets")

        async def once(wanted: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            request = OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
                    )
                    for topic, numbers in by_topic(wanted).items()
                ],
            )
            node_id = await self._groups.coordinator(group_id, deadline)
            answer = await self._groups.ask(node_id, request, deadline)
            if answer.error_code:
                words = _NOT_DELETED.get(ErrorCode(answer.error_code))
                return dict.fromkeys(wanted, group_failure(answer.error_code, words, what, group_id, "DELETE"))
            return _failures(answer, what, group_id, "DELETE", _NOT_DELETED)

        await self._calls.each(wanted, once, deadline)


def _failures(
    answer: OffsetCommitResponse | OffsetDeleteResponse,
    what: str,
    group_id: str,
    operation: str,
    words: Mapping[ErrorCode, str],
) -> dict[TopicPartition, KafkaError]:
    """Return the failures by partition; an error code of the group counts for all its partitions."""
    failures: dict[TopicPartition, KafkaError] = {}
    codes = [
        (TopicPartition(topic.name, partition.partition_index), partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]
    for key, code in codes:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            failures[key] = RebalanceInProgressError(f"{what}: the group is rebalancing")
        elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED or code in _NOT_SET:
            failures[key] = group_failure(code, words.get(ErrorCode(code)), what, group_id, operation)
        elif code:
            of_one = f"{what}, {key.topic}-{key.partition}"
            failures[key] = failure(code, words.get(ErrorCode(code)), of_one, resource=key.topic, operation="READ")
    return failures


def _commit(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
    )


def _question(wanted: Wanted, asked: list[str], require_stable: bool) -> Callable[[Connection], OffsetFetchRequest]:
    """Make a request for as many groups as the broker accepts in one; appends their ids to `asked`."""

    def ask(connection: Connection) -> OffsetFetchRequest:
        if connection.version_for(_OFFSET_FETCH_KEY) < _MANY_GROUPS_FROM_VERSION:
            asked[:] = [next(iter(wanted))]
            return _of_one_group(asked[0], wanted[asked[0]], require_stable)
        asked[:] = wanted
        return OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=name,
                    topics=None
                    if topics is None
                    else [
                        offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                        for topic, numbers in topics.items()
                    ],
                )
                for name, topics in wanted.items()
            ],
            require_stable=require_stable,
        )

    return ask


def _of_one_group(group_id: str, topics: Mapping[str, list[int]] | None, require_stable: bool) -> OffsetFetchRequest:
    named = [
        offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
        for topic, numbers in (topics or {}).items()
    ]
    return OffsetFetchRequest(
        group_id=group_id, topics=None if topics is None else named, require_stable=require_stable
    )


def _groups_in(answer: OffsetFetchResponse, asked: Sequence[str]) -> list[offset_fetch.OffsetFetchResponseGroup]:
    """Return the response's groups, in the form of the latest version."""
    if answer.groups or len(asked) != 1:
        return answer.groups
    return [
        offset_fetch.OffsetFetchResponseGroup(
            group_id=asked[0],
            error_code=answer.error_code,
            topics=[
                offset_fetch.OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[
                        offset_fetch.OffsetFetchResponsePartitions(
                            partition_index=one.partition_index,
                            committed_offset=one.committed_offset,
                            committed_leader_epoch=one.committed_leader_epoch,
                            metadata=one.metadata,
                            error_code=one.error_code,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
        )
    ]


def _first_failure(group: offset_fetch.OffsetFetchResponseGroup) -> KafkaError | None:
    what = f"positions of group {group.group_id!r}"
    if group.error_code:
        return group_failure(group.error_code, None, what, group.group_id, "DESCRIBE")
    errors = [
        failure(
            one.error_code,
            None,
            f"{what}, {topic.name}-{one.partition_index}",
            resource=topic.name,
            operation="DESCRIBE",
        )
        for topic in group.topics
        for one in topic.partitions
        if one.error_code
    ]
    # An offset that is not stable yet is retriable, unless another partition has a final error.
    errors.sort(key=lambda error: isinstance(error, RetriableError))
    return errors[0] if errors else None


def _positions(group: offset_fetch.OffsetFetchResponseGroup) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(topic.name, one.partition_index): OffsetAndMetadata(
            one.committed_offset, one.metadata or "", one.committed_leader_epoch
        )
        for topic in group.topics
        for one in topic.partitions
        if one.committed_offset >= 0
    }
