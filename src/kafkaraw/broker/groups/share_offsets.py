"""The offsets of share groups: describe, alter and delete them, and delete the states of a group with it.

The share coordinators have the offsets; the group has a record of which share partitions they know. Pure.
Source: org.apache.kafka.coordinator.group.{GroupCoordinatorService, GroupMetadataManager}: describeShareGroupOffsets,
alterShareGroupOffsets, deleteShareGroupOffsets, deleteShareGroups; KIP-932, KIP-1226.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.runtime import Done, Topics
from kafkaraw.broker.groups.share import (
    Failure,
    Failures,
    GroupTable,
    ShareChange,
    ShareProtocol,
    ShareStates,
    StateSummary,
)
from kafkaraw.broker.groups.share_group import ShareGroup, StatePartitions, TopicPartitions, joined
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode

NOTHING_TO_DELETE: Final = "There is no offset information to delete."
UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."
NOT_EMPTY: Final = "The group is not empty."
_UNKNOWN: Final = Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)

Altered = Callable[[Mapping[tuple[str, int], Failure | None]], None]
"""Called with the outcome of each partition, by topic name and number."""


class Deleted(NamedTuple):
    """The outcome of a deletion of a topic's offsets; `failure` is None if they are deleted."""

    name: str
    topic_id: Uuid | None
    failure: Failure | None = None


class ShareOffsets:
    """Handles requests about the offsets of share groups.

    Args:
        topics: the cluster's topics.
        groups: the groups of the coordinator.
        protocol: writes the changes of groups.
        states: the share coordinators.
    """

    def __init__(self, topics: Topics, groups: GroupTable, protocol: ShareProtocol, states: ShareStates) -> None:
        self._topics = topics
        self._groups = groups
        self._protocol = protocol
        self._states = states

    def initialized(self, group_id: str) -> PartitionsByTopic:
        """Return the share partitions of a group that are initialized; none for a group that is not a share group."""
        try:
            group = self._groups.share_group(group_id)
        except ApiError:
            return {}
        return {topic_id: each.partitions for topic_id, each in group.initialized.items()}

    def summaries(
        self,
        group_id: str,
        parts: PartitionsByTopic,
        done: Callable[[Mapping[tuple[Uuid, int], StateSummary | Failure]], None],
    ) -> None:
        """Read the start offsets of share partitions; see `share.ShareStates`."""
        self._states.summaries(group_id, parts, done)

    def alter(self, group_id: str, offsets: Mapping[str, Mapping[int, int]], done: Altered) -> None:
        """Move the start offsets of an empty group; a group that does not exist is created.

        Args:
            group_id: id of the group.
            offsets: topic name -> partition -> start offset.
            done: called with the outcome of each partition.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND, a group of another type; NON_EMPTY_GROUP.
        """
        group = self._groups.share_group(group_id, create=True)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
        outcomes: dict[tuple[str, int], Failure | None] = {}
        known: dict[Uuid, dict[int, int]] = {}
        names: dict[Uuid, str] = {}
        for name, wanted in offsets.items():
            found = self._topics.find(name)
            for partition, offset in wanted.items():
                exists = found is not None and 0 <= partition < found[1]
                outcomes[name, partition] = None if exists else _UNKNOWN
                if found is not None and exists:
                    known.setdefault(found[0], {})[partition] = offset
                    names[found[0]] = name
        if not known:
            done(outcomes)
            return
        change = ShareChange(group.copy())
        parts = {topic_id: TopicPartitions(names[topic_id], frozenset(each)) for topic_id, each in known.items()}
        self._protocol.begin_initialization(change, parts)

        def begun(code: ErrorCode) -> None:
            if code:
                done({key: before or Failure(code, None) for key, before in outcomes.items()})
            else:
                self._states.initialize(group_id, group.epoch, known, initialized)

        def initialized(failures: Failures) -> None:
            found = {(names[topic_id], partition): failure for (topic_id, partition), failure in failures.items()}
            answer = {key: found.get(key, before) for key, before in outcomes.items()}
            self._protocol.end_initialization(group_id, known, failed=bool(failures), done=lambda code: done(answer))

        self._protocol.commit(change, begun)

    def delete(self, group_id: str, names: Sequence[str], done: Callable[[list[Deleted]], None]) -> None:
        """Delete the offsets of topics of an empty group.

        Args:
            group_id: id of the group.
            names: the topics.
            done: called with the outcome of each.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP.
        """
        group = self._groups.share_group(group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
        if group.states is None:
            done([])
            return
        failed: list[Deleted] = []
        parts: dict[Uuid, frozenset[int]] = {}
        deleting: dict[Uuid, str] = {}
        for name in names:
            found = self._topics.find(name)
            if found is None:
                failed.append(Deleted(name, None, _UNKNOWN))
            elif found[0] in group.states.initialized:
                parts[found[0]] = group.states.initialized[found[0]].partitions
                deleting[found[0]] = name
            elif found[0] in group.states.deleting:
                parts[found[0]] = frozenset(range(found[1]))
                deleting[found[0]] = name
            else:
                failed.append(Deleted(name, None, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE)))

        def begun(code: ErrorCode) -> None:
            if code:
                done([Deleted(name, None, Failure(code, None)) for name in names])
            elif not parts:
                done(failed)
            else:
                self._states.delete(group_id, parts, ended)

        def ended(failures: Failures) -> None:
            by_topic = {topic_id: failure for (topic_id, _), failure in failures.items()}
            outcomes = [Deleted(name, topic_id, by_topic.get(topic_id)) for topic_id, name in deleting.items()]
            gone = [outcome.topic_id for outcome in outcomes if outcome.failure is None and outcome.topic_id]
            self._forget_deleting(group_id, gone, lambda code: done([*outcomes, *failed]))

        self._mark_deleting(group, deleting, begun)

    def _mark_deleting(self, group: ShareGroup, deleting: Mapping[Uuid, str], done: Done) -> None:
        states = group.states or StatePartitions()
        kept = {topic_id: each for topic_id, each in states.initialized.items() if topic_id not in deleting}
        change = ShareChange(group.copy())
        change.add(group.states_record(StatePartitions(states.initializing, kept, {**states.deleting, **deleting})))
        self._protocol.commit(change, done)

    def _forget_deleting(self, group_id: str, gone: Sequence[Uuid], done: Done) -> None:
        try:
            group = self._groups.share_group(group_id)
        except ApiError:
            done(ErrorCode.NONE)
            return
        if group.states is None or not gone:
            done(ErrorCode.NONE)
            return
        left = {topic_id: name for topic_id, name in group.states.deleting.items() if topic_id not in gone}
        change = ShareChange(group.copy())
        change.add(group.states_record(StatePartitions(group.states.initializing, group.states.initialized, left)))
        self._protocol.commit(change, done)

    def delete_all(self, group: ShareGroup, done: Done) -> None:
        """Delete all states of an empty group, before the group is deleted."""
        states = group.states
        if states is None:
            done(ErrorCode.NONE)
            return
        candidates = joined(states.initialized, states.initializing)
        for topic_id, name in states.deleting.items():
            found = self._topics.find(name)
            if found is not None and found[0] == topic_id:
                candidates = joined(candidates, {topic_id: TopicPartitions(name, frozenset(range(found[1])))})
        change = ShareChange(group.copy())
        names = {topic_id: each.name for topic_id, each in candidates.items()}
        change.add(group.states_record(StatePartitions({}, {}, names)))

        def begun(code: ErrorCode) -> None:
            if code or not candidates:
                done(code)
                return
            parts = {topic_id: each.partitions for topic_id, each in candidates.items()}
            self._states.delete(group.group_id, parts, ended)

        def ended(failures: Failures) -> None:
            done(next((failure.code for failure in failures.values()), ErrorCode.NONE))

        self._protocol.commit(change, begun)
