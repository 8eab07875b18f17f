"""The requests for committed offsets of a group: OffsetCommit and OffsetFetch, retried while that may help.

The caller gives the identity: a member commits with its id and generation, a consumer that is no member with neither
(which works while the group has no members).
Source: KIP-98, KIP-447, KIP-848; Kafka's ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.coordinator import Coordinator, CoordinatorKind
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.security import with_principal
from kafkaraw.errors import CommitFailedError, FencedInstanceIdError, KafkaError, RebalanceInProgressError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafkaraw.records import TopicPartition

_OFFSET_FETCH_KEY: Final = 9
_STABLE_FROM_VERSION: Final = 7
_GROUPS_FROM_VERSION: Final = 8
_NAMED_MAX: Final = 3
_NAMES_UP_TO_VERSION: Final = 9  # of both APIs: later ones know topics by id only

Identity = Callable[[], GroupMetadata]
"""Returns the identity for a commit; called before each attempt, because a member's epoch may grow meanwhile."""
Refused = Callable[[int, GroupMetadata], bool]
"""Called with the code if a commit is rejected because of its identity; returns whether to retry."""
Settled = Callable[[Deadline], Coroutine[object, None, None]]
"""Waits for the end of a rebalance that ends without a call to poll."""

_NOT_A_MEMBER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

_MAY_BE_OUTDATED: Final = _NOT_A_MEMBER | {ErrorCode.REBALANCE_IN_PROGRESS}
"""Codes that may be outdated when they arrive: the member may be in a later generation by then."""

_ABOUT_MEMBER: Final = _MAY_BE_OUTDATED | {ErrorCode.FENCED_INSTANCE_ID}
"""Codes that concern the membership; others, such as a missing permission on a topic, do not."""

_NO_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Commits:
    """The committed offsets of one group.

    Args:
        engine: the client's connections and metadata.
        group_id: the group.
        coordinator: of the group; its own one when None.
    """

    def __init__(self, engine: Engine, group_id: str, coordinator: Coordinator | None = None) -> None:
        self._engine = engine
        self._group_id = group_id
        self._coordinator = coordinator or Coordinator(engine, CoordinatorKind.GROUP, group_id)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Identity,
        deadline: Deadline,
        refused: Refused | None = None,
        settled: Settled | None = None,
    ) -> None:
        """Commit offsets.

        Args:
            offsets: by partition.
            identity: of the consumer.
            deadline: of all attempts together.
            refused: called with a code that concerns the identity.
            settled: waits for the end of a rebalance, before the next attempt.

        Raises:
            CommitFailedError: the consumer is not a member any more.
            FencedInstanceIdError: another member has taken the instance id over.
            RebalanceInProgressError: the group is rebalancing.
            KafkaTimeoutError: the coordinator has not answered in time.
            KafkaError: the broker refuses.
        """
        if not offsets:
            return
        while True:
            who = identity()
            response = await self._coordinator.ask(
                partial(self._commit_request, offsets, who),
                _code_that_may_pass,
                deadline=deadline,
                version_max=self._version_max({partition.topic for partition in offsets}),
            )
            code = _code_of_commit(response)
            if code == ErrorCode.NONE:
                return
            if code in _NO_TOPIC and await self._all_exist(offsets, deadline):
                continue
            moved_on = identity().generation_id != who.generation_id
            if code in _MAY_BE_OUTDATED and moved_on and not deadline.expired:
                continue  # the member has rejoined while the request was in flight
            about_member = code in _ABOUT_MEMBER and refused is not None and refused(code, who)
            if (about_member or code == ErrorCode.STALE_MEMBER_EPOCH) and not deadline.expired:
                await deadline.sleep(self._engine.config.retry_backoff_ms / 1000)
                if settled is not None:
                    await settled(deadline)
                continue  # the next heartbeat brings the new epoch, the end of the rebalance the new generation
            raise self._commit_error(code, who, offsets, self._refused_in(response, code))

    async def committed(
        self, partitions: Iterable[TopicPartition] | None, deadline: Deadline, identity: Identity | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets; partitions without one are left out.

        Args:
            partitions: which; None for all of the group.
            deadline: of all attempts together.
            identity: of the consumer, if it is a member.

        Raises:
            KafkaTimeoutError: no answer in time; as when a transaction that may commit an offset stays open.
            KafkaError: the broker refuses.
        """
        wanted = None if partitions is None else _by_topic(partitions)
        if wanted is not None and not wanted:
            return {}
        while True:
            response = await self._coordinator.ask(
                lambda connection: self._fetch_request(connection, wanted, identity),
                _code_of_fetch,
                deadline=deadline,
                version_max=_NAMES_UP_TO_VERSION if wanted is None else self._version_max(wanted),
            )
            code = _code_of_fetch(response)
            if code in _NOT_A_MEMBER and identity is not None and not deadline.expired:
                await deadline.sleep(self._engine.config.retry_backoff_ms / 1000)
                continue  # the next heartbeat brings the current epoch
            break
        if code:
            raise self._error_of(code, "committed positions", "DESCRIBE")
        return self._positions(response)

    # -- inside

    async def _all_exist(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> bool:
        """Return whether all partitions exist, and there is time to retry: a new topic is not known everywhere yet."""
        wanted = list(partitions)
        await self._engine.refresh({partition.topic for partition in wanted}, timeout=deadline.remaining)
        await deadline.sleep(self._engine.config.retry_backoff_ms / 1000)
        exist = all(self._engine.cluster.partition(partition) is not None for partition in wanted)
        return exist and not deadline.expired

    def _version_max(self, topics: Iterable[str]) -> int | None:
        """Return the highest version to use: later ones need the ids of all topics."""
        known = all(self._engine.cluster.topic_id_of(topic) != ZERO_UUID for topic in topics)
        return None if known else _NAMES_UP_TO_VERSION

    def _commit_request(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: GroupMetadata, _: Connection
    ) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), position in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, topic_id=self._engine.cluster.topic_id_of(name), partitions=partitions
                )
                for name, partitions in topics.items()
            ],
        )

    def _fetch_request(
        self, connection: Connection, wanted: Mapping[str, list[int]] | None, identity: Identity | None
    ) -> OffsetFetchRequest:
        version = connection.version_for(_OFFSET_FETCH_KEY)
        if version < _GROUPS_FROM_VERSION:
            old = [OffsetFetchRequestTopic(name=name, partition_indexes=n) for name, n in (wanted or {}).items()]
            return OffsetFetchRequest(
                group_id=self._group_id, topics=old or None, require_stable=version >= _STABLE_FROM_VERSION
            )
        who = GroupMetadata(self._group_id) if identity is None else identity()
        group = OffsetFetchRequestGroup(
            group_id=self._group_id,
            member_id=who.member_id or None,
            member_epoch=who.generation_id,
            topics=None
            if wanted is None
            else [
                OffsetFetchRequestTopics(
                    name=name, topic_id=self._engine.cluster.topic_id_of(name), partition_indexes=numbers
                )
                for name, numbers in wanted.items()
            ],
        )
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _positions(self, response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in response.topics:
            for old in topic.partitions:
                position = OffsetAndMetadata(old.committed_offset, old.metadata or "", old.committed_leader_epoch)
                found[TopicPartition(topic.name, old.partition_index)] = position
        for group in response.groups:
            for entry in group.topics:
                name = entry.name or self._engine.cluster.name_of(entry.topic_id)
                for new in entry.partitions if name else ():
                    position = OffsetAndMetadata(new.committed_offset, new.metadata or "", new.committed_leader_epoch)
                    found[TopicPartition(str(name), new.partition_index)] = position
        return {partition: position for partition, position in found.items() if position.offset >= 0}

    def _refused_in(self, response: OffsetCommitResponse, code: int) -> list[TopicPartition]:
        """Return the partitions that were refused with this code; the others are committed."""
        return [
            TopicPartition(topic.name or self._engine.cluster.name_of(topic.topic_id) or "?", partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code == code
        ]

    def _commit_error(
        self,
        code: int,
        who: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        refused: Sequence[TopicPartition],
    ) -> KafkaError:
        about = f"committing {len(offsets)} positions"
        if len(refused) < len(offsets):
            about = f"committing {len(refused)} of {len(offsets)} positions"
        if refused:
            about += f", those of {_names(refused)},"
        cause = self._error_of(code, about, "READ", topic=refused[0].topic if refused else "")
        what = f"committing {len(offsets)} positions of group {self._group_id!r}"
        error: KafkaError = cause
        if code in _NOT_A_MEMBER:
            as_whom = f"member {who.member_id!r} of generation {who.generation_id}" if who.member_id else "no member"
            error = CommitFailedError(
                f"{what}, as {as_whom}: the group has moved on without it, and the partitions may belong to others; "
                f"nothing was committed: {cause}"
            )
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            error = RebalanceInProgressError(f"{what}: the group is rebalancing; call poll() and commit again: {cause}")
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            error = FencedInstanceIdError(
                f"{what}: another consumer with group_instance_id={who.group_instance_id!r} has taken over: {cause}"
            )
        if error is not cause:
            error.__cause__ = cause
        return error

    def _error_of(self, code: int, what: str, operation: str, *, topic: str = "") -> KafkaError:
        """Return the error of a code; `operation` is the permission that it takes, on the group or on the topic."""
        resources: dict[int, str] = {
            ErrorCode.GROUP_AUTHORIZATION_FAILED: self._group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED: topic,
        }
        resource = resources.get(code, "")
        right = operation if resource else ""
        error = error_for(code, f"{what} of group {self._group_id!r}", resource=resource, operation=right)
        return with_principal(error, self._engine.config)


def _names(partitions: Sequence[TopicPartition]) -> str:
    """Return the first names, and how many more there are."""
    some = ", ".join(f"{topic}-{number}" for topic, number in partitions[:_NAMED_MAX])
    more = len(partitions) - _NAMED_MAX
    return f"{some} and {more} more" if more > 0 else some


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def _code_of_commit(response: OffsetCommitResponse) -> int:
    return _first(partition.error_code for topic in response.topics for partition in topic.partitions)


def _code_that_may_pass(response: OffsetCommitResponse) -> int:
    """Return the same, except codes after which the metadata have to be refreshed first."""
    code = _code_of_commit(response)
    return ErrorCode.NONE if code in _NO_TOPIC else code


def _code_of_fetch(response: OffsetFetchResponse) -> int:
    codes = [response.error_code]
    codes += [partition.error_code for topic in response.topics for partition in topic.partitions]
    for group in response.groups:
        codes.append(group.error_code)
        codes += [partition.error_code for topic in group.topics for partition in topic.partitions]
    return _first(codes)


def _first(codes: Iterable[int]) -> int:
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)
