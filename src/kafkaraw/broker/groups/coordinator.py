"""The groups of one partition of `__consumer_offsets`, as long as this node leads it.

Decisions are written as records and take effect once these are replicated; `load` restores the groups from the log
after a change of leader. Pure: it has no clock, loop or log of its own. `classic`, `consumer`, `classic_members` and
`streams` decide about members; this module routes requests to them, handles committed offsets, and describes groups.
Start at `join` and `commit`.
Source: org.apache.kafka.coordinator.group.{GroupCoordinatorShard, OffsetMetadataManager}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.group_settings import Limits
from kafkaraw.broker.configs.share_settings import ShareLimits
from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.groups.classic import ClassicProtocol
from kafkaraw.broker.groups.classic_group import UNKNOWN_MEMBER, ClassicGroup, Joined, Synced, refused_join
from kafkaraw.broker.groups.classic_members import ClassicMembers, Left
from kafkaraw.broker.groups.consumer import Answer, ConsumerProtocol
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.migration import check_upgrade, upgrade
from kafkaraw.broker.groups.offsets import CommittedOffset, GroupOffsets
from kafkaraw.broker.groups.records import SHARE_KEYS, GroupRecord
from kafkaraw.broker.groups.runtime import (
    NO_PRODUCER,
    Batch,
    Caller,
    CoordinatorContext,
    Done,
    GroupChange,
    Journal,
    Topics,
    Writer,
)
from kafkaraw.broker.groups.share import Answer as ShareAnswer
from kafkaraw.broker.groups.share import ShareProtocol, ShareStates
from kafkaraw.broker.groups.share_group import ShareGroup
from kafkaraw.broker.groups.share_offsets import ShareOffsets
from kafkaraw.broker.groups.states import ClassicState
from kafkaraw.broker.groups.streams import Answer as StreamsAnswer
from kafkaraw.broker.groups.streams import StreamsChange, StreamsProtocol
from kafkaraw.broker.groups.streams_group import StreamsGroup
from kafkaraw.light_classes import NamedTuple, replace
from kafkaraw.protocol.embedded.consumer_group_records import ConsumerGroupMetadataKey
from kafkaraw.protocol.embedded.group_offsets import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkaraw.protocol.embedded.share_group_records import ShareGroupMetadataKey
from kafkaraw.protocol.embedded.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest
from kafkaraw.protocol.messages.leave_group import MemberIdentity
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkaraw.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkaraw.records import TopicPartition

GROUP_NOT_FOUND_SINCE: Final = 9
"""The version of OffsetCommit with GROUP_ID_NOT_FOUND; earlier ones get ILLEGAL_GENERATION."""
EXPIRED_OFFSETS_MAX: Final = 1_000
"""Offsets whose tombstones are written in one batch."""
EXPIRY_CHECKS_MAX: Final = 10_000
"""Offsets that are checked without a break for other work."""
_EXPIRY: Final = "offsets"

_logger = logging.getLogger("kafkaraw.broker.groups")

Offsets = Sequence[tuple[TopicPartition, CommittedOffset]]
_RecordedGroup = ConsumerGroup | ShareGroup | StreamsGroup
Group = ClassicGroup | _RecordedGroup
_STREAMS_KEYS: Final = (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)


class CommitIdentity(NamedTuple):
    """The identity in a commit.

    Attributes:
        epoch: generation of the group, or epoch of the member; -1 for none.
        version: version of the request.
    """

    group_id: str
    epoch: int = -1
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None
    version: int = 0


class Shares(NamedTuple):
    """What a coordinator of share groups needs.

    Attributes:
        limits_of: returns the settings of one share group.
        states: the share coordinators.
    """

    limits_of: Callable[[str], ShareLimits]
    states: ShareStates


class GroupCoordinator:
    """Coordinates the groups of one partition.

    Args:
        journal: the coordinator's log.
        topics: the cluster's topics.
        timers: timeouts of sessions, joins and rebalances.
        now_ms: wall clock, in milliseconds since 1970.
        new_id: returns a random UUID, as text.
        limits: the broker's settings.
        limits_of: returns the settings of one group; None applies the broker's settings to all groups.
        shares: the settings of share groups, and the share coordinators.

    Attributes:
        share_offsets: handles requests about the offsets of share groups.
    """

    def __init__(
        self,
        journal: Journal,
        topics: Topics,
        timers: Timers,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        limits: Limits,
        limits_of: Callable[[str], Limits] | None = None,
        *,
        shares: Shares,
    ) -> None:
        self._writer = Writer(journal)
        self._timers = timers
        self._now_ms = now_ms
        self._limits = limits
        self._topics = topics
        self._groups: dict[str, Group] = {}
        self._offsets = GroupOffsets()
        context = CoordinatorContext(
            self._writer.write, timers, now_ms, new_id, limits, limits_of or (lambda group_id: limits)
        )
        self._classic = ClassicProtocol(context, topics, self._classic_group)
        self._consumer = ConsumerProtocol(
            context, topics, self._begin_change, self._commit_change, self._classic.adopt_members
        )
        self._classic_members = ClassicMembers(context, topics, self._consumer, self._commit_change)
        self._share = ShareProtocol(context, shares.limits_of, topics, self, self._writer, shares.states)
        self.share_offsets: ShareOffsets = ShareOffsets(topics, self, self._share, shares.states)
        self._streams = StreamsProtocol(context, topics, self._begin_streams, self._commit_change)

    # ---- a change of leader

    def load(self, batches: Iterable[Batch]) -> None:
        """Load the groups from the log."""
        for batch in batches:
            if batch.committed is not None:
                self._offsets.end_transaction(batch.producer_id, commit=batch.committed)
            for record in batch.records:
                self._replay(record, batch.producer_id)
        for group in list(self._groups.values()):
            if isinstance(group, ClassicGroup):
                self._classic.begin(group)
            elif isinstance(group, StreamsGroup):
                self._streams.begin(group)
            elif isinstance(group, ConsumerGroup):
                self._consumer.begin(group)
            else:
                self._share.begin(group)
        if self._groups:
            self._watch_offsets()

    def resign(self) -> None:
        """Stop, because another node leads the partition: requests in progress end without effect."""
        self._writer.resign()
        self._timers.stop()
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                self._classic.drop(group, ErrorCode.NOT_COORDINATOR)
        self._groups.clear()

    def _replay(self, record: GroupRecord, producer_id: int) -> None:
        key, value = record
        if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            self._replay_offset(key.group, TopicPartition(key.topic, key.partition), value, producer_id)
        elif isinstance(key, GroupMetadataKey):
            if isinstance(self._groups.get(key.group), ClassicGroup):
                del self._groups[key.group]
            if value is not None:
                self._groups[key.group] = ClassicGroup.of(key.group, value)
        elif isinstance(key, SHARE_KEYS):
            self._replay_group(record, ShareGroup, ShareGroupMetadataKey)
        elif isinstance(key, _STREAMS_KEYS):
            self._replay_group(record, StreamsGroup, StreamsGroupMetadataKey)
        else:
            self._replay_group(record, ConsumerGroup, ConsumerGroupMetadataKey)

    def _replay_group(self, record: GroupRecord, kind: type[_RecordedGroup], of_group: type) -> None:
        """Apply a record of a group of another type than classic.

        Args:
            record: the record.
            kind: the class of these groups.
            of_group: the key of the record whose tombstone deletes the group.
        """
        group_id: str = record.key.group_id
        group = self._groups.get(group_id)
        if record.value is None and isinstance(record.key, of_group):
            if isinstance(group, kind):
                del self._groups[group_id]
            return
        if not isinstance(group, kind):
            if record.value is None:
                return
            group = self._groups[group_id] = kind(group_id)
        group.replay(record)

    def _replay_offset(self, group_id: str, key: TopicPartition, value: object, producer_id: int) -> None:
        if value is None:
            self._offsets.forget(group_id, key)
            return
        if isinstance(value, LegacyOffsetCommitValue):
            value = OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            )
        assert isinstance(value, OffsetCommitValue)
        self._simple_group(group_id)
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        if producer_id < 0:
            self._offsets.commit(group_id, key, committed)
        else:
            self._offsets.commit_in_transaction(producer_id, group_id, key, committed)

    # ---- changes of consumer groups

    def _begin_change(self, group_id: str, found: bool) -> GroupChange:
        """Begin the change of a consumer group for a request.

        Args:
            group_id: id of the group.
            found: create the group if it does not exist, or convert a classic group.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return GroupChange(group.copy())
        if group is None and not found:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if group is None:
            return GroupChange(ConsumerGroup(group_id))
        if not found or isinstance(group, (ShareGroup, StreamsGroup)):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            change = GroupChange(ConsumerGroup(group_id), records=list(group.tombstones()))
        else:
            check_upgrade(group, self._limits)
            change = upgrade(group, self._topics)
            change.after.append(lambda: self._consumer.begin(change.group))
        change.after.insert(0, lambda: self._classic.drop(group, ErrorCode.REBALANCE_IN_PROGRESS))
        return change

    def _begin_streams(self, group_id: str, found: bool) -> StreamsChange:
        """Begin the change of a streams group for a request; see `_begin_change`."""
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return StreamsChange(group.copy())
        if group is None and not found:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        change = StreamsChange(StreamsGroup(group_id), is_new=True)
        if group is None:
            return change
        if not found or not isinstance(group, ClassicGroup) or not group.is_empty:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        change.records.extend(group.tombstones())
        change.after.append(lambda: self._classic.drop(group, ErrorCode.REBALANCE_IN_PROGRESS))
        return change

    def _commit_change(self, change: GroupChange | StreamsChange, done: Done) -> None:
        """Write a change and apply it; call back once it and everything before it is replicated."""

        def appended() -> None:
            becomes = change.becomes if isinstance(change, GroupChange) else None
            self._groups[change.group.group_id] = becomes or change.group
            for act in change.after:
                act()

        if change.records:
            self._watch_offsets()
            self._writer.append(change.records, done, appended=appended)
        else:
            appended()
            self._writer.when_replicated(done)

    def consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, answer: Answer) -> None:
        """Handle ConsumerGroupHeartbeat."""
        self._consumer.heartbeat(request, caller, answer)

    # ---- share groups

    def share_heartbeat(self, request: ShareGroupHeartbeatRequest, caller: Caller, answer: ShareAnswer) -> None:
        """Handle ShareGroupHeartbeat."""
        self._share.heartbeat(request, caller, answer)

    def share_group(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a share group; callers must not change it.

        Args:
            group_id: id of the group.
            create: return a new group if there is none.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND, there is none, or a group of another type.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not create:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return ShareGroup(group_id)

    def put(self, group: ShareGroup) -> None:
        """Replace a share group by its changed copy."""
        self._groups[group.group_id] = group

    # ---- streams groups

    def streams_heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, answer: StreamsAnswer) -> None:
        """Handle StreamsGroupHeartbeat."""
        self._streams.heartbeat(request, caller, answer)

    # ---- members

    def join(self, request: JoinGroupRequest, caller: Caller, answer: Joined) -> None:
        """Handle JoinGroup."""
        if not request.group_id:
            answer(refused_join(ErrorCode.INVALID_GROUP_ID, request.member_id))
            return
        if not self._limits.session_min_ms <= request.session_timeout_ms <= self._limits.session_max_ms:
            answer(refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        if caller.version == 0:
            request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            self._classic_members.join(GroupChange(group.copy()), request, caller, answer)
        elif isinstance(group, ClassicGroup):
            self._classic.join(group, request, caller, answer)
        elif isinstance(group, ShareGroup):
            answer(refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif group is not None and not group.is_empty:
            answer(refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER))
        elif request.member_id == UNKNOWN_MEMBER:
            self._create_group(request, caller, answer, instead_of=group)
        else:
            answer(refused_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))

    def _create_group(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        answer: Joined,
        *,
        instead_of: ConsumerGroup | StreamsGroup | None,
    ) -> None:
        """Create a group for its first member, and write it to the log immediately.

        Args:
            request: the JoinGroup request.
            caller: the client that sent it.
            answer: called with the response.
            instead_of: an empty group of another protocol, which the new group replaces.
        """
        group = self._groups[request.group_id] = ClassicGroup(request.group_id, state_since_ms=self._now_ms())
        self._classic.join(group, request, caller, answer)

        def written(code: ErrorCode) -> None:
            if code and not self._writer.resigned:
                self._classic.drop(group, code)
                self._groups.pop(group.group_id, None)
                if instead_of is not None:
                    self._groups[group.group_id] = instead_of

        self._watch_offsets()
        gone = [] if instead_of is None else instead_of.tombstones()
        if isinstance(instead_of, StreamsGroup):
            self._streams.drop(instead_of)
        self._writer.write([*gone, group.empty_record()], written)

    def sync(self, request: SyncGroupRequest, answer: Synced) -> None:
        """Handle SyncGroup."""
        group = self._groups.get(request.group_id)
        if not request.group_id:
            answer(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, assignment=b""))
        elif group is None or group.is_empty or isinstance(group, (ShareGroup, StreamsGroup)):
            answer(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, assignment=b""))
        elif isinstance(group, ConsumerGroup):
            self._classic_members.sync(GroupChange(group.copy()), request, answer)
        else:
            self._classic.sync(group, request, answer)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Handle Heartbeat."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, request)
        if isinstance(group, ClassicGroup):
            return self._classic.heartbeat(group, request)
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, group_id: str, leaving: list[MemberIdentity], answer: Left) -> None:
        """Handle LeaveGroup; answer with the error code of each member."""
        group = self._groups.get(group_id)
        if group is None or isinstance(group, (ShareGroup, StreamsGroup)):
            answer([ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))
        elif isinstance(group, ConsumerGroup):
            self._classic_members.leave(GroupChange(group.copy()), leaving, answer)
        else:
            answer(self._classic.leave(group, leaving))

    # ---- committed offsets

    def commit(self, claim: CommitIdentity, offsets: Offsets, done: Done) -> None:
        """Commit offsets of a group.

        Args:
            claim: the identity in the commit.
            offsets: the offsets to store.
            done: called with NONE once they are replicated.
        """
        code = self._check_commit(claim, offsets, in_transaction=False)
        if code:
            done(code)
            return
        group = self._simple_group(claim.group_id)
        if isinstance(group, ClassicGroup) and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self._classic.touch(group, claim.member_id)
        if not offsets:
            done(ErrorCode.NONE)
            return

        def written(code: ErrorCode) -> None:
            if not code:
                for key, committed in offsets:
                    self._offsets.commit(claim.group_id, key, committed)
            done(code)

        self._watch_offsets()
        self._writer.write([_offset_record(claim.group_id, key, committed) for key, committed in offsets], written)

    def commit_in_transaction(
        self, claim: CommitIdentity, producer: tuple[int, int], offsets: Offsets, done: Done
    ) -> None:
        """Commit offsets that count once the producer's transaction commits; otherwise as `commit`."""
        code = self._check_commit(claim, offsets, in_transaction=True)
        if code or not offsets:
            done(code)
            return
        self._simple_group(claim.group_id)
        self._watch_offsets()

        def appended() -> None:
            # OffsetFetch with require_stable is refused from now on, not only after these offsets are replicated.
            for key, committed in offsets:
                self._offsets.commit_in_transaction(producer[0], claim.group_id, key, committed)

        records = [_offset_record(claim.group_id, key, committed) for key, committed in offsets]
        self._writer.append(records, done, producer=producer, appended=appended)

    def _check_commit(self, claim: CommitIdentity, offsets: Offsets, *, in_transaction: bool) -> ErrorCode:
        if not claim.group_id and in_transaction:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(claim.group_id)
        if group is None:
            if claim.epoch < 0:
                return ErrorCode.NONE
            known = claim.version >= GROUP_NOT_FOUND_SINCE and not in_transaction
            return ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
        code = group.check_commit(
            claim.member_id, claim.instance_id, claim.epoch, in_transaction=in_transaction, version=claim.version
        )
        if code or isinstance(group, (ClassicGroup, ShareGroup)):
            return code
        if isinstance(group, StreamsGroup):
            tasks = [(key.topic, key.partition) for key, _ in offsets]
            return group.may_commit(claim.member_id, claim.epoch, tasks, in_transaction=in_transaction)
        parts = [(found[0], key.partition) for key, _ in offsets if (found := self._topics.find(key.topic))]
        return group.may_commit(claim.member_id, claim.epoch, parts, in_transaction=in_transaction)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply the end of a producer's transaction, whose marker is written in this partition."""
        self._offsets.end_transaction(producer_id, commit=commit)

    def committed_offsets(
        self, group_id: str, wanted: Iterable[TopicPartition] | None, *, stable: bool
    ) -> dict[TopicPartition, CommittedOffset | ErrorCode | None]:
        """Return committed offsets of a group.

        Args:
            group_id: id of the group.
            wanted: the partitions; None for all with committed offsets.
            stable: refuse partitions with pending offsets of open transactions.

        Returns:
            for each partition the committed offset, None if there is none, or UNSTABLE_OFFSET_COMMIT.
        """
        found: dict[TopicPartition, CommittedOffset | ErrorCode | None] = {}
        for key in self._offsets.of(group_id) if wanted is None else wanted:
            undecided = stable and self._offsets.is_undecided(group_id, key)
            found[key] = ErrorCode.UNSTABLE_OFFSET_COMMIT if undecided else self._offsets.committed(group_id, key)
        return found

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error code of a request for committed offsets with this identity."""
        group = self._groups.get(group_id)
        return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)

    # ---- expiry and deletion

    def _watch_offsets(self) -> None:
        if _EXPIRY not in self._timers:
            self._timers.set(_EXPIRY, self._limits.offsets_check_interval_ms, self._expire_offsets)

    def _expire_offsets(self, unchecked: list[str] | None = None) -> None:
        """Delete offsets that have expired, and groups without members and offsets.

        One call checks a bounded number of offsets, and writes as many tombstones at most; the timer goes on with the
        others.

        Args:
            unchecked: the groups that are still to be checked; None for all.
        """
        unchecked = list(reversed(self._groups)) if unchecked is None else unchecked
        records: list[GroupRecord] = []
        dead: list[str] = []
        checked = 0
        while unchecked and checked < EXPIRY_CHECKS_MAX and len(records) < EXPIRED_OFFSETS_MAX:
            group = self._groups.get(unchecked.pop())
            if group is None or isinstance(group, ShareGroup):  # share groups do not expire
                continue
            offsets = self._offsets.of(group.group_id)
            checked += 1 + len(offsets)
            expired = self._expired(group, offsets)
            now = expired[: EXPIRED_OFFSETS_MAX - len(records)]
            records.extend(_tombstone(group.group_id, key) for key in now)
            if len(now) < len(expired):
                unchecked.append(group.group_id)
            elif len(now) == len(offsets) and group.is_empty and not self._offsets.in_open_transaction(group.group_id):
                records.extend(group.tombstones())
                dead.append(group.group_id)
        if records:
            _logger.info("deleting %d expired offsets or groups", len(records))
            self._delete(records, dead, lambda code: None)
        if unchecked:
            self._timers.set(_EXPIRY, 0, lambda: self._expire_offsets(unchecked))
        elif self._groups:
            self._watch_offsets()

    def _expired(self, group: Group, offsets: Mapping[TopicPartition, CommittedOffset]) -> list[TopicPartition]:
        now_ms = self._now_ms()
        expired = []
        for key, committed in offsets.items():
            from_ms = group.expires_from_ms(committed)
            if from_ms is None or group.reads(key.topic) or self._offsets.is_undecided(group.group_id, key):
                continue
            due_ms = from_ms + self._limits.offsets_retention_ms if committed.expires_ms < 0 else committed.expires_ms
            if now_ms >= due_ms:
                expired.append(key)
        return expired

    def _delete(self, records: Sequence[GroupRecord], dead: Iterable[str], done: Done) -> None:
        """Write tombstones, and apply them when they are in the log: a member may join as soon as they are."""

        def appended() -> None:
            for record in records:
                self._replay(record, NO_PRODUCER[0])
            for group_id in dead:
                self._groups.pop(group_id, None)

        self._writer.append(records, done, appended=appended)

    def delete_group(self, group_id: str, done: Done) -> None:
        """Delete a group without members, and its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND)
        elif group.check_delete():
            done(group.check_delete())
        elif isinstance(group, ShareGroup):
            self.share_offsets.delete_all(
                group, lambda code: done(code) if code else self._delete_share(group_id, done)
            )
        else:
            records = [_tombstone(group_id, key) for key in self._offsets.known(group_id)]
            self._delete([*records, *group.tombstones()], [group_id], done)

    def _delete_share(self, group_id: str, done: Done) -> None:
        """Delete a share group whose states are deleted, unless a member has joined meanwhile."""
        try:
            group = self.share_group(group_id)
        except ApiError as error:
            done(error.code)
            return
        if group.check_delete():
            done(group.check_delete())
        else:
            self._delete(group.tombstones(), [group_id], done)

    def delete_offsets(
        self, group_id: str, keys: Iterable[TopicPartition], done: Callable[[Mapping[TopicPartition, ErrorCode]], None]
    ) -> ErrorCode:
        """Delete offsets of a group.

        Returns:
            the error code for the whole group, if there is one; `done` is not called then. Otherwise, `done` is called
            with the code of each partition.
        """
        group = self._groups.get(group_id)
        code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete_offsets()
        if code or group is None:
            return code
        codes = {key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(key.topic) else ErrorCode.NONE for key in keys}
        known = set(self._offsets.known(group_id))
        records = [_tombstone(group_id, key) for key, code in codes.items() if not code and key in known]
        if not records:
            done(codes)
        else:
            self._delete(records, (), lambda code: done({key: own or code for key, own in codes.items()}))
        return ErrorCode.NONE

    def forget_topic(self, name: str) -> None:
        """Delete the offsets of a deleted topic."""
        for group in list(self._groups.values()):
            if isinstance(group, ShareGroup):
                self._share.forget_topic(group, name)
        records = [_tombstone(group_id, key) for group_id, key in self._offsets.in_topic(name)]
        if records:
            self._delete(records, (), lambda code: None)

    # ---- questions

    def group(self, group_id: str) -> Group | None:
        """Return a group; callers must not change it."""
        return self._groups.get(group_id)

    def groups(self) -> list[Group]:
        """Return all groups by name; callers must not change them."""
        return [self._groups[name] for name in sorted(self._groups)]

    def _classic_group(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _simple_group(self, group_id: str) -> Group:
        """Return the group with this id; create a classic one without members if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, state_since_ms=self._now_ms())
        return group


def _offset_record(group_id: str, key: TopicPartition, committed: CommittedOffset) -> GroupRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=committed.expires_ms,
        topic_id=committed.topic_id,
    )
    return GroupRecord(OffsetCommitKey(group=group_id, topic=key.topic, partition=key.partition), value)


def _tombstone(group_id: str, key: TopicPartition) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=key.topic, partition=key.partition), None)
