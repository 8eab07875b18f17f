"""A member of the classic protocol, a clock, and a coordinator that answers as the test says."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kafkaraw.core.group.assignors import ASSIGNORS
from kafkaraw.core.group.classic import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, ClassicMember
from kafkaraw.core.group.consumer_protocol import encode_assignment
from kafkaraw.core.group.events import (
    FindTopics,
    GroupSettings,
    LeaveGroup,
    ResponseReceived,
    Send,
    Subscription,
    SubscriptionChanged,
    TopicsFound,
)
from kafkaraw.core.group.states import ClassicState
from kafkaraw.core.retry import Backoff
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatResponse
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkaraw.records import TopicPartition
from tests.core.group.polled_member import PolledMember

VERSION = 9
NO_RACK: frozenset[str] = frozenset()


def partitions(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class ScriptedGroup(PolledMember[ClassicMember]):
    """One `ClassicMember` and what happens to it."""

    def __init__(self, *assignors: str, **settings: object) -> None:
        names: Sequence[str] = assignors or ("range",)
        chosen = [ASSIGNORS[name]() for name in names]
        group = GroupSettings(group_id="g", assignors=chosen, **settings)  # type: ignore[arg-type]
        super().__init__(ClassicMember(group, Backoff(100, 1_000), random.Random(1)))
        self.generation_id = 0
        self.left: list[str] = []
        self.sent: list[tuple[int, object]] = []
        self.topics = {"t": [NO_RACK] * 4}
        self._waiting: list[Send | FindTopics] = []

    @property
    def state(self) -> ClassicState:
        return self.member.state

    def _look(self) -> None:
        for action in self.member.actions():
            if isinstance(action, LeaveGroup):
                self.left.append(action.reason)
            else:
                self._waiting.append(action)

    def subscribe(self, *topics: str) -> None:
        self.receive(SubscriptionChanged(Subscription(frozenset(topics))))

    def next_action(self, api_key: int | None = None) -> Send | FindTopics:
        """Return the next action; leave requests are only recorded."""
        action = self.next_action_if_any()
        assert action is not None, f"the consumer {self.member.description}, and nothing will happen"
        assert api_key is None or (isinstance(action, Send) and action.api_key == api_key), action
        return action

    def next_action_if_any(self) -> Send | FindTopics | None:
        """Return the next action; None if the member waits for a call to poll."""
        self._look()
        while not self._waiting and (deadline_ms := self.member.deadline_ms()) is not None:
            self.pass_time(max(0, deadline_ms - self.now_ms))
            self._look()
        action = self._waiting.pop(0) if self._waiting else None
        if isinstance(action, Send):
            self.sent.append((action.api_key, action.make(VERSION)))
        return action

    def answer(self, action: Send | FindTopics, response: object) -> None:
        self.receive(ResponseReceived(action.attempt, response))

    def join(self, leader: bool | None = False, code: int = 0, member_id: str = "me") -> None:
        """The next request is JoinGroup; answer it; `leader` is None in a group without a leader."""
        action = self.next_action(JOIN_GROUP)
        assert isinstance(action, Send)
        request = action.make(VERSION)
        assert isinstance(request, JoinGroupRequest)
        self.answer(action, self.joined(request, leader, code, member_id))

    def joined(
        self, request: JoinGroupRequest, leader: bool | None = False, code: int = 0, member_id: str = "me"
    ) -> JoinGroupResponse:
        self.generation_id += not code
        chosen = request.protocols[0]
        return JoinGroupResponse(
            error_code=code,
            generation_id=-1 if code else self.generation_id,
            protocol_type="consumer",
            protocol_name=chosen.name,
            leader="" if leader is None else member_id if leader else "somebody",
            member_id=member_id,
            members=[JoinGroupResponseMember(member_id=member_id, metadata=chosen.metadata)] if leader else [],
        )

    def sync(self, *numbers: int, code: int = 0) -> None:
        """The next request is SyncGroup; answer it with partitions."""
        action = self.next_action(SYNC_GROUP)
        assignment = b"" if code else encode_assignment(partitions(*numbers))
        self.answer(action, SyncGroupResponse(error_code=code, assignment=assignment))

    def heartbeat(self, code: int = 0) -> None:
        """The next request is a heartbeat; answer it."""
        self.answer(self.next_action(HEARTBEAT), HeartbeatResponse(error_code=code))

    def enter(self, *numbers: int) -> None:
        """Become a member with these partitions."""
        self.join()
        self.sync(*numbers)
        self.poll()

    def settle(self, steps_max: int = 60) -> None:
        """Poll, and answer without errors, until the member is STABLE and nothing is pending."""
        for _ in range(steps_max):
            while self.poll() is not None:
                pass
            if self.state is ClassicState.STABLE:
                return
            action = self.next_action()
            if isinstance(action, FindTopics):
                self.receive(TopicsFound(action.attempt, self.topics))
            elif action.api_key == JOIN_GROUP:
                request = action.make(VERSION)
                assert isinstance(request, JoinGroupRequest)
                self.answer(action, self.joined(request, leader=True))
            elif action.api_key == SYNC_GROUP:
                sync = action.make(VERSION)
                assert isinstance(sync, SyncGroupRequest)
                given = sync.assignments[0].assignment if sync.assignments else encode_assignment(self.owned)
                self.answer(action, SyncGroupResponse(error_code=0, assignment=given))
            else:
                self.answer(action, HeartbeatResponse(error_code=ErrorCode.NONE))
        raise AssertionError(f"after {steps_max} steps the consumer {self.member.description}")
