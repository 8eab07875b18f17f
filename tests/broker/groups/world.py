"""A coordinator of groups, a clock that moves when told to, and a log that holds back what it is told until asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.group_settings import Limits, limits_of_group
from kafkaraw.broker.configs.share_settings import ShareLimits
from kafkaraw.broker.coordinator_runtime.timers import Timers
from kafkaraw.broker.groups.assignors import PartitionsByTopic
from kafkaraw.broker.groups.coordinator import GroupCoordinator, Shares
from kafkaraw.broker.groups.records import GroupRecord, decode_record, encode_record
from kafkaraw.broker.groups.runtime import Batch, Caller
from kafkaraw.broker.groups.share import Failure, Failures, StartOffsets, StateSummary
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkaraw.protocol.messages.leave_group import MemberIdentity
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
START_MS = 1_700_000_000_000


def topic_id(name: str) -> Uuid:
    """The id of a topic with that name."""
    return Uuid(name.encode().ljust(16, b"."))


def subscription(*topics: str) -> bytes:
    """What a consumer says about itself, as old consumers do: version 0 of the consumer protocol."""
    parts = [len(name.encode()).to_bytes(2, "big") + name.encode() for name in topics]
    return b"\0\0" + len(topics).to_bytes(4, "big") + b"".join(parts) + b"\xff\xff\xff\xff"


class ShareStatesInMemory:
    """Share coordinators that answer at once, or with a failure when told to."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, Uuid, int], int] = {}
        self.failure: Failure | None = None

    def initialize(
        self, group_id: str, state_epoch: int, offsets: StartOffsets, done: Callable[[Failures], None]
    ) -> None:
        wanted = {(topic_id, part): at for topic_id, each in offsets.items() for part, at in each.items()}
        if self.failure is None:
            self.offsets.update({(group_id, *key): at for key, at in wanted.items()})
        done({} if self.failure is None else dict.fromkeys(wanted, self.failure))

    def delete(self, group_id: str, parts: PartitionsByTopic, done: Callable[[Failures], None]) -> None:
        for topic_id, partitions in parts.items():
            for partition in partitions:
                self.offsets.pop((group_id, topic_id, partition), None)
        done({})

    def summaries(
        self,
        group_id: str,
        parts: PartitionsByTopic,
        done: Callable[[Mapping[tuple[Uuid, int], StateSummary | Failure]], None],
    ) -> None:
        done(
            {
                (topic_id, part): StateSummary(self.offsets.get((group_id, topic_id, part), -1), 0, 0)
                for topic_id, partitions in parts.items()
                for part in partitions
            }
        )


@dataclass
class World:
    """Around one coordinator."""

    limits: Limits = field(default_factory=Limits)
    share_limits: ShareLimits = field(default_factory=ShareLimits)
    share_states: ShareStatesInMemory = field(default_factory=lambda: ShareStatesInMemory())
    elapsed_ms: float = 0.0
    held: bool = False
    refuse: ErrorCode = ErrorCode.NONE
    log: list[Batch] = field(default_factory=list)
    waiting: list[Callable[[ErrorCode], None]] = field(default_factory=list)
    own_settings: dict[str, str] = field(default_factory=dict)
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.topics = self.Topics()
        self.begin()

    @dataclass
    class Topics:
        """Topics with their numbers of partitions; the id of a topic is made from its name."""

        counts: dict[str, int] = field(default_factory=dict)
        version: int = 0

        def find(self, name: str) -> tuple[Uuid, int] | None:
            return (topic_id(name), self.counts[name]) if name in self.counts else None

        def name_of(self, wanted: bytes) -> str | None:
            return next((name for name in self.counts if topic_id(name) == wanted), None)

        def names(self) -> list[str]:
            return sorted(self.counts)

    def has_topic(self, name: str, partitions: int) -> None:
        """There is such a topic, from now on."""
        self.topics.counts[name] = partitions
        self.topics.version += 1

    def begin(self) -> None:
        """A coordinator begins, with what the log says."""
        self.timers = Timers(lambda: self.elapsed_ms)
        self.coordinator = GroupCoordinator(
            self,
            self.topics,
            self.timers,
            lambda: START_MS + int(self.elapsed_ms),
            lambda: f"id{next(self.ids)}",
            self.limits,
            lambda group_id: limits_of_group(self.limits, self.own_settings),
            shares=Shares(lambda group_id: self.share_limits, self.share_states),
        )
        self.coordinator.load(self.log)

    def move(self) -> None:
        """Another node takes over."""
        self.coordinator.resign()
        self.land(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.begin()

    # ---- the log

    def append(self, records: Sequence[GroupRecord], producer: tuple[int, int]) -> int:
        if self.refuse:
            raise ApiError(self.refuse, "the test says so")
        found = [decode_record(*encode_record(record)) for record in records]
        self.log.append(Batch(producer[0], [record for record in found if record is not None]))
        return len(self.log)

    def when_replicated(self, position: int, done: Callable[[ErrorCode], None]) -> None:
        if self.held:
            self.waiting.append(done)
        else:
            done(ErrorCode.NONE)

    def land(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """What was held back is replicated, or never will be."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(code)

    # ---- time

    def pass_ms(self, delay_ms: float) -> None:
        """Let time pass, with everything that is due in between."""
        end_ms = self.elapsed_ms + delay_ms
        while (due_ms := self.timers.deadline_ms()) is not None and due_ms <= end_ms:
            self.elapsed_ms = max(self.elapsed_ms, due_ms)
            self.timers.tick()
        self.elapsed_ms = end_ms

    # ---- members

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance_id: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"all"),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "c",
        group_id: str = GROUP,
    ) -> list[JoinGroupResponse]:
        """Ask to join; the answer comes into the list that is returned."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        answers: list[JoinGroupResponse] = []
        self.coordinator.join(request, Caller(client_id, "/127.0.0.1", version), answers.append)
        return answers

    def join_known(self, **settings: object) -> tuple[str, list[JoinGroupResponse]]:
        """Ask for a member id, then join with it."""
        (required,) = self.join(**settings)  # type: ignore[arg-type]
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return required.member_id, self.join(required.member_id, **settings)  # type: ignore[arg-type]

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        **changes: object,
    ) -> list[SyncGroupResponse]:
        """Hand in an assignment, or ask for one's own."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=part)
                for member_id, part in (assignments or {}).items()
            ],
        )
        answers: list[SyncGroupResponse] = []
        self.coordinator.sync(replace(request, **changes), answers.append)  # type: ignore[arg-type]
        return answers

    def beat(self, joined: JoinGroupResponse, **changes: object) -> ErrorCode:
        """Send a heartbeat."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
        return self.coordinator.heartbeat(replace(request, **changes))  # type: ignore[arg-type]

    def leave(self, *members: str, instance_id: str | None = None) -> list[ErrorCode]:
        """Leave, or have members removed."""
        leaving = [MemberIdentity(member_id=name, group_instance_id=instance_id) for name in members]
        told: list[list[ErrorCode]] = []
        self.coordinator.leave(GROUP, leaving, told.append)
        return told[0]

    def stable(self, count: int = 2, **settings: object) -> list[JoinGroupResponse]:
        """Members who have their assignment; the leader first."""
        pending = [self.join_known(**settings)[1] for _ in range(count)]
        self.pass_ms(2 * self.limits.initial_rebalance_delay_ms)
        joined = sorted((answers[0] for answers in pending), key=lambda one: one.leader != one.member_id)
        synced = [self.sync(one) for one in joined[1:]]
        synced.append(self.sync(joined[0], {one.member_id: one.member_id.encode() for one in joined}))
        assert [answers[0].error_code for answers in synced] == [ErrorCode.NONE] * count
        return joined
