"""Start offsets of share groups, for the admin client: list, alter and delete them.

A share group has no committed offsets: each share partition has a start offset, before which all records are processed,
and states of the records after it. To alter or delete an offset, the group must have no members.
Source: KIP-932, KIP-1226; Kafka's ListShareGroupOffsetsHandler, AlterShareGroupOffsetsHandler,
DeleteShareGroupOffsetsHandler.
"""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.client.admin.calls import Calls, failure, names_of
from kafkaraw.client.admin.group_calls import GroupCalls, group_failure
from kafkaraw.client.arguments import partitions_of, positions_of
from kafkaraw.core.group.consumer_protocol import by_topic
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkaraw.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
)
from kafkaraw.records import TopicPartition

_WORDS: Final = {ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first"}


@dataclass(frozen=True, slots=True)
class SharePartitionOffsetInfo:
    """Where a share group is in one partition.

    Attributes:
        start_offset: the offset before which all records are processed.
        leader_epoch: of the partition when this was stored; None if unknown.
        lag: number of records that are not processed, those in flight included; None if the broker does not tell it
            (before 4.2), or cannot.
    """

    start_offset: int
    leader_epoch: int | None
    lag: int | None


class ShareGroupOffsetAdmin:
    """The operations on offsets of share groups.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._groups = GroupCalls(calls)

    async def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, SharePartitionOffsetInfo]]:
        named = groups if isinstance(groups, Mapping) else dict.fromkeys(names_of(groups))
        wanted = {
            name: None if which is None else by_topic(partitions_of(which, "list_share_group_offsets"))
            for name, which in named.items()
        }
        deadline = self._calls.deadline(timeout)
        found: dict[str, dict[TopicPartition, SharePartitionOffsetInfo]] = {}

        async def ask(node_id: int, names: Sequence[str]) -> dict[str, KafkaError]:
            request = DescribeShareGroupOffsetsRequest(groups=[_asked(name, wanted[name]) for name in names])
            failures: dict[str, KafkaError] = {}
            for group in (await self._groups.ask(node_id, request, deadline)).groups:
                error = _first_failure(group)
                if error is None:
                    found[group.group_id] = _infos(group)
                else:
                    failures[group.group_id] = error
            return failures

        await self._groups.each(wanted, ask, deadline)
        return {name: found.get(name, {}) for name in wanted}

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> None:
        wanted = positions_of(offsets, "alter_share_group_offsets")
        deadline, what = self._calls.deadline(timeout), f"alter offsets of share group {group_id!r}"

        async def once(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError]:
            request = AlterShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareGroupOffsetsRequestPartition(
                                partition_index=number, start_offset=wanted[TopicPartition(topic, number)].offset
                            )
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            node_id = await self._groups.coordinator(group_id, deadline)
            answer = await self._groups.ask(node_id, request, deadline)
            if answer.error_code:
                words = _WORDS.get(ErrorCode(answer.error_code), answer.error_message)
                return dict.fromkeys(partitions, group_failure(answer.error_code, words, what, group_id, "READ"))
            return {
                key: failure(
                    each.error_code,
                    each.error_message,
                    f"{what}, {key.topic}-{key.partition}",
                    resource=key.topic,
                    operation="READ",
                )
                for topic in answer.responses
                for each in topic.partitions
                if each.error_code and (key := TopicPartition(topic.topic_name, each.partition_index))
            }

        await self._calls.each(wanted, once, deadline)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> None:
        deadline, what = self._calls.deadline(timeout), f"delete offsets of share group {group_id!r}"

        async def once(names: Sequence[str]) -> dict[str, KafkaError]:
            request = DeleteShareGroupOffsetsRequest(
                group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
            )
            node_id = await self._groups.coordinator(group_id, deadline)
            answer = await self._groups.ask(node_id, request, deadline)
            if answer.error_code:
                words = _WORDS.get(ErrorCode(answer.error_code), answer.error_message)
                return dict.fromkeys(names, group_failure(answer.error_code, words, what, group_id, "DELETE"))
            return {
                topic.topic_name: failure(
                    topic.error_code,
                    topic.error_message,
                    f"{what}, topic {topic.topic_name!r}",
                    resource=topic.topic_name,
                    operation="READ",
                )
                for topic in answer.responses
                if topic.error_code
            }

        await self._calls.each(names_of(topics), once, deadline)


def _asked(group_id: str, topics: Mapping[str, list[int]] | None) -> DescribeShareGroupOffsetsRequestGroup:
    if topics is None:
        return DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    return DescribeShareGroupOffsetsRequestGroup(
        group_id=group_id,
        topics=[
            DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=numbers)
            for topic, numbers in topics.items()
        ],
    )


def _first_failure(group: DescribeShareGroupOffsetsResponseGroup) -> KafkaError | None:
    what = f"offsets of share group {group.group_id!r}"
    if group.error_code:
        return group_failure(group.error_code, group.error_message, what, group.group_id, "DESCRIBE")
    for topic in group.topics:
        for each in topic.partitions:
            if each.error_code:
                return failure(
                    each.error_code,
                    each.error_message,
                    f"{what}, {topic.topic_name}-{each.partition_index}",
                    resource=topic.topic_name,
                    operation="DESCRIBE",
                )
    return None


def _infos(group: DescribeShareGroupOffsetsResponseGroup) -> dict[TopicPartition, SharePartitionOffsetInfo]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): SharePartitionOffsetInfo(
            each.start_offset, _known(each.leader_epoch), _known(each.lag)
        )
        for topic in group.topics
        for each in topic.partitions
        if each.start_offset >= 0
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number
