"""A classic group and its members: their state and questions about it. Decisions are in `classic`.

Source: org.apache.kafka.coordinator.group.classic.{ClassicGroup, ClassicGroupMember}; KIP-345.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.broker.groups.states import MAY_FOLLOW, ClassicState, GroupType, IllegalTransitionError
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import decode_message
from kafkaraw.protocol.embedded.consumer_protocol import ConsumerProtocolSubscription
from kafkaraw.protocol.embedded.group_offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kafkaraw.protocol.messages.sync_group import SyncGroupResponse
from kafkaraw.protocol.printable import printable

CONSUMER_TYPE: Final = "consumer"
UNKNOWN_MEMBER: Final = ""
_VERSION_SIZE: Final = 2

_logger = logging.getLogger("kafkaraw.broker.groups")

Joined = Callable[[JoinGroupResponse], None]
Synced = Callable[[SyncGroupResponse], None]
Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True)
class ClassicMember:
    """One member.

    Attributes:
        instance_id: `group.instance.id` of a static member; None for a dynamic member.
        client_host: the client's address, as Kafka shows it.
        protocols: (assignor, subscription), the preferred one first.
        assignment: its assignment from the leader; empty if there is none.
        is_new: its first JoinGroup is not answered yet; until then, its session does not time out.
        joined: callback for the response to its JoinGroup, while it waits.
        synced: callback for the response to its SyncGroup, while it waits.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joined: Joined | None = None
    synced: Synced | None = None

    @property
    def awaits_response(self) -> bool:
        """Whether it waits for a response, so that it need not send heartbeats; a new member must."""
        return not self.is_new and (self.joined is not None or self.synced is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for an assignor; empty bytes if it does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def answer_join(self, response: JoinGroupResponse) -> None:
        """Answer its JoinGroup, if it waits for one."""
        joined, self.joined = self.joined, None
        if joined is not None:
            joined(response)

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer its SyncGroup, if it waits for one; return whether it did."""
        synced, self.synced = self.synced, None
        if synced is not None:
            synced(response)
        return synced is not None


@dataclass(slots=True)
class ClassicGroup:
    """One group.

    Attributes:
        previous_state: the previous state; the first rebalance of a group takes longer.
        protocol_type: `consumer` for consumers; None before the first member has joined.
        protocol_name: the assignor in use.
        state_since_ms: time of the last change of state, in milliseconds since 1970; -1 if unknown.
        subscribed_topics: the topics of all members; None if a subscription cannot be read.
        pending_joins: member ids that were handed out but have not joined yet (KIP-394).
        pending_syncs: members that have not sent SyncGroup yet.
        grew: a member has joined during the first rebalance, which extends its delay.
    """

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    state_since_ms: int = -1
    subscribed_topics: frozenset[str] | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    pending_joins: dict[str, None] = field(default_factory=dict)
    pending_syncs: dict[str, None] = field(default_factory=dict)
    grew: bool = False
    type: GroupType = GroupType.CLASSIC

    # ---- what follows

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return self.state is ClassicState.EMPTY

    @property
    def state_label(self) -> str:
        """Kafka's name of the state."""
        return self.state.value

    @property
    def of_consumers(self) -> bool:
        """Whether the members are consumers, whose subscriptions can be read."""
        return self.protocol_type == CONSUMER_TYPE

    @property
    def awaiting_join(self) -> int:
        """The number of members that wait for the response to JoinGroup."""
        return sum(member.joined is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined, also those that were given a member id."""
        return not self.pending_joins and all(member.joined is not None for member in self.members.values())

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in MAY_FOLLOW[ClassicState.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        """Return whether a member is the leader."""
        return self.leader_id is not None and self.leader_id == member_id

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these assignors can join."""
        names = set(names)
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return bool(names) if not self.members else not names.isdisjoint(self._common_protocols())

    def _common_protocols(self) -> set[str]:
        """The assignors that all members support."""
        counts = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """Return the assignor that most members prefer, among those that all support."""
        candidates = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in candidates) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return the error code of a request with these ids; a static member that was replaced is fenced."""
        if instance_id is not None:
            existing = self.static_ids.get(instance_id)
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool, version: int
    ) -> ErrorCode:
        """Return the error code of a commit with this identity."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            code = self.check_member(member_id, instance_id)
            if code:
                return code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not in_transaction and not self.is_empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not in_transaction and self.state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return NONE: reading committed offsets takes no membership."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Return the error code of a deletion of the group."""
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_delete_offsets(self) -> ErrorCode:
        """Return the error code of a deletion of committed offsets."""
        return ErrorCode.NONE if self.is_empty or self.of_consumers else ErrorCode.NON_EMPTY_GROUP

    def reads(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic, as far as subscriptions can be read."""
        return self.of_consumers if self.subscribed_topics is None else topic in self.subscribed_topics

    def expires_from_ms(self, committed: CommittedOffset) -> int | None:
        """Return the start of the retention time of a committed offset; None keeps it."""
        if self.protocol_type is None:
            return committed.committed_ms
        if self.is_empty:
            return committed.committed_ms if self.state_since_ms < 0 else self.state_since_ms
        stable = self.state is ClassicState.STABLE
        return committed.committed_ms if stable and self.of_consumers and self.subscribed_topics is not None else None

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Return the members for the JoinGroup response of the leader."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # ---- changes

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        """Move to another state.

        Raises:
            IllegalTransitionError: that cannot follow.
        """
        if self.state not in MAY_FOLLOW[state]:
            raise IllegalTransitionError(f"group {self.group_id}: {self.state.value} cannot become {state.value}")
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms
        _logger.debug("group %r: %s -> %s", self.group_id, self.previous_state.value, state.value)

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one is the leader."""
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a member id that was handed out."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_ids.pop(member.instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new member id; fence the requests that wait under the old one."""
        member = self.members.pop(old_id)
        member.answer_join(refused_join(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, assignment=b""))
        member.member_id, member.is_new = new_id, False
        self.members[new_id] = member
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_ids[instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Choose a leader that has joined; return False if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joined is not None:
            return True
        joined = next((member.member_id for member in self.members.values() if member.joined is not None), None)
        if joined is not None:
            _logger.info("group %r: member %r is the leader in place of %r", self.group_id, joined, self.leader_id)
            self.leader_id = joined
        return joined is not None

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the current members."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.note_subscriptions()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def note_subscriptions(self) -> None:
        """Update the subscribed topics after members have joined or left."""
        self.subscribed_topics = self._subscribed()

    def _subscribed(self) -> frozenset[str] | None:
        if not self.of_consumers or (self.members and self.protocol_name is None):
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                # The first version is how all later ones begin.
                said = decode_message(
                    ConsumerProtocolSubscription,
                    0,
                    member.metadata(self.protocol_name),
                    _VERSION_SIZE,
                    allow_trailing_bytes=True,
                )
            except ProtocolError as error:
                _logger.warning(
                    "group %r: the subscription of a member cannot be decoded: %s", self.group_id, printable(error)
                )
                return None
            topics.update(said.topics)
        return frozenset(topics)

    # ---- as a record

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
        """Return the record of the group.

        Args:
            assignments: by member id; None for the members' current assignments.
        """
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name),
                assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_since_ms,
            members=members,
        )
        return GroupRecord(GroupMetadataKey(group=self.group_id), value)

    def empty_record(self) -> GroupRecord:
        """Return the record of a group without members."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=self.state_since_ms,
            members=[],
        )
        return GroupRecord(GroupMetadataKey(group=self.group_id), value)

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of the group."""
        return [GroupRecord(GroupMetadataKey(group=self.group_id), None)]

    @classmethod
    def of(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group of a record."""
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_since_ms=value.current_state_timestamp,
        )
        for found in value.members:
            session_ms = found.session_timeout
            rebalance_ms = session_ms if found.rebalance_timeout < 0 else found.rebalance_timeout
            protocols = ((value.protocol or "", bytes(found.subscription)),)
            member = ClassicMember(
                found.member_id,
                found.group_instance_id,
                found.client_id,
                found.client_host,
                rebalance_ms,
                session_ms,
                value.protocol_type,
                protocols,
                bytes(found.assignment),
            )
            group.add(member)
        group.note_subscriptions()
        return group


def refused_join(code: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    """Return the response to a JoinGroup that is refused."""
    return JoinGroupResponse(error_code=code, protocol_name=None, leader="", member_id=member_id, members=[])
