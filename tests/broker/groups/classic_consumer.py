"""A consumer of the classic protocol that does as it is told, in classic groups and among members of the new protocol.

It keeps what it has while it joins again, says what it has, and gives up first what is another's (KIP-429).
"""

from __future__ import annotations

from kafkaraw.core.group.consumer_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupResponse
from kafkaraw.protocol.messages.sync_group import SyncGroupResponse
from kafkaraw.records import TopicPartition
from tests.broker.groups.world import World

TOPIC = "t"
_BEGIN_ANEW = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


class ClassicConsumer:
    """One member, moved by `step`.

    Attributes:
        owned: what it reads.
        code: of the last answer that was an error.
    """

    def __init__(self, world: World, instance_id: str | None = None) -> None:
        self.world = world
        self.instance_id = instance_id
        self.member_id = ""
        self.owned: set[TopicPartition] = set()
        self.code = ErrorCode.NONE
        self._generation = -1
        self._joining: list[JoinGroupResponse] | None = None
        self._syncing: list[SyncGroupResponse] | None = None
        self._joined: JoinGroupResponse | None = None

    @property
    def settled(self) -> bool:
        """Whether it is a member that waits for nothing."""
        return self._joining is None and self._syncing is None and self._joined is not None

    def step(self) -> None:
        """Do what is next: heed an answer, or else send a heartbeat."""
        if self._joining is not None:
            if self._joining:
                self._heed_join(self._joining[0])
        elif self._syncing is not None:
            if self._syncing:
                self._heed_sync(self._syncing[0])
        elif self._joined is None:
            self.join()
        else:
            self._note(self.world.beat(self._joined, group_instance_id=self.instance_id))

    def join(self) -> None:
        """Ask to join, or to join again."""
        said = MemberSubscription((TOPIC,), tuple(sorted(self.owned)), generation_id=self._generation)
        self._joining = self.world.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=[("cooperative-sticky", encode_subscription(said))],
        )

    def leave(self) -> None:
        """Give everything up."""
        self.world.leave(self.member_id)

    def commits_as(self) -> tuple[str, int]:
        """Its id and generation."""
        return self.member_id, self._generation

    def _heed_join(self, answer: JoinGroupResponse) -> None:
        self._joining = None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code:
            self._joined = None
            self._note(ErrorCode(answer.error_code))
        else:
            self.member_id, self._generation, self._joined = answer.member_id, answer.generation_id, answer
            given = self._assign(answer) if answer.leader == answer.member_id else {}
            self._syncing = self.world.sync(answer, given, instance_id=self.instance_id)

    def _heed_sync(self, answer: SyncGroupResponse) -> None:
        self._syncing = None
        if answer.error_code:
            self._note(ErrorCode(answer.error_code))
            return
        given = set(decode_assignment(bytes(answer.assignment)))
        gives_up = self.owned - given
        self.owned = given
        if gives_up:
            self.join()

    def _note(self, code: ErrorCode) -> None:
        if not code:
            return
        self.code = code
        if code in _BEGIN_ANEW:
            self.owned, self._generation, self._joined = set(), -1, None
            if code is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()

    def _assign(self, answer: JoinGroupResponse) -> dict[str, bytes]:
        """What a leader gives: to everybody the same number, and nothing that another one has yet."""
        owners = {
            partition: member.member_id
            for member in answer.members
            for partition in decode_subscription(bytes(member.metadata)).owned_partitions
        }
        names = sorted(member.member_id for member in answer.members)
        given: dict[str, list[TopicPartition]] = {name: [] for name in names}
        for number in range(self.world.topics.counts[TOPIC]):
            partition, name = TopicPartition(TOPIC, number), names[number % len(names)]
            if owners.get(partition, name) == name:
                given[name].append(partition)
        return {name: encode_assignment(parts) for name, parts in given.items()}
