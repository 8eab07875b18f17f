"""Rules of membership in a group of the consumer protocol (KIP-848); any sequence of events ends in a stable member."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.group.consumer import ConsumerMember
from kafkaraw.core.group.events import (
    AssignmentChange,
    FindTopicNames,
    GroupSettings,
    LeaveGroup,
    RequestFailed,
    ResponseReceived,
    Send,
    Subscription,
    SubscriptionChanged,
    TopicNamesFound,
    Unsubscribed,
)
from kafkaraw.core.group.states import ConsumerState
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import FencedInstanceIdError, GroupError, KafkaError, MaxPollExceededError, NetworkError, Stage
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkaraw.records import TopicPartition
from tests.core.group.polled_member import PolledMember
from tests.examples import examples

OUTAGE = NetworkError("gone", stage=Stage.CONNECT)
T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
INTERVAL_MS = 5_000


def partitions(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


class Group(PolledMember[ConsumerMember]):
    """A member of the consumer protocol, and a broker that answers as the test says."""

    def __init__(self, **given: object) -> None:
        self.names = {T: "t"}
        settings = GroupSettings(group_id="g", **given)  # type: ignore[arg-type]
        super().__init__(ConsumerMember(settings, Backoff(100, 1_000), random.Random(1), "me", self.names.get))
        self.epoch = 0
        self.left: list[ConsumerGroupHeartbeatRequest] = []
        self._waiting: list[Send | FindTopicNames] = []
        self.receive(SubscriptionChanged(Subscription(frozenset("t"))))

    def look(self) -> None:
        for action in self.member.actions():
            if isinstance(action, LeaveGroup):
                request = action.make(1)
                assert isinstance(request, ConsumerGroupHeartbeatRequest)
                self.left.append(request)
            else:
                assert isinstance(action, Send | FindTopicNames)
                self._waiting.append(action)

    def next_action(self) -> Send | FindTopicNames:
        action = self.next_action_if_any()
        assert action is not None, f"the consumer {self.member.description}, and nothing will happen"
        return action

    def next_action_if_any(self) -> Send | FindTopicNames | None:
        """Return the next action; None if the member waits for a call to poll."""
        self.look()
        while not self._waiting and (deadline_ms := self.member.deadline_ms()) is not None:
            self.pass_time(max(0, deadline_ms - self.now_ms))
            self.look()
        return self._waiting.pop(0) if self._waiting else None

    def heartbeat(self, *numbers: int, code: int = 0, change: bool = True) -> ConsumerGroupHeartbeatRequest:
        """The next request is a heartbeat: answer it, with an assignment unless nothing changes."""
        action = self.next_action()
        assert isinstance(action, Send)
        request = action.make(1)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        self.answer(action, *numbers, code=code, change=change)
        return request

    def answer(self, action: Send, *numbers: int, code: int = 0, change: bool = True, topic: Uuid = T) -> None:
        self.epoch += change
        given = Assignment(topic_partitions=[TopicPartitions(topic_id=topic, partitions=list(numbers))])
        if not numbers:
            given = Assignment(topic_partitions=[])
        response = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id="me",
            member_epoch=self.epoch,
            heartbeat_interval_ms=0 if code else INTERVAL_MS,
            assignment=given if change and not code else None,
        )
        self.receive(ResponseReceived(action.attempt, response))

    def settle(self) -> None:
        """Poll, and answer without errors, until the member owns its target and has acknowledged it."""
        for _ in range(40):
            while self.poll() is not None:
                pass
            action = self.next_action()
            if isinstance(action, FindTopicNames):
                self.names[U] = "u"
                self.receive(TopicNamesFound(action.attempt))
                continue
            request = action.make(1)
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            said = request.topic_partitions and request.topic_partitions[0].partitions
            if said == [0, 1] and self.owned == partitions(0, 1):
                self.answer(action, change=False)
                return
            self.answer(action, 0, 1)
        raise AssertionError(f"the consumer {self.member.description}")


def test_join_is_full_and_assignment_is_acknowledged_after_poll() -> None:
    group = Group(rack_id="east", server_assignor="range", max_poll_interval_ms=60_000)
    joining = group.heartbeat(0, 1)
    assert (joining.member_id, joining.member_epoch, joining.topic_partitions) == ("me", 0, [])
    assert (joining.rack_id, joining.server_assignor, joining.rebalance_timeout_ms) == ("east", "range", 60_000)
    assert joining.subscribed_topic_names == ["t"]
    assert group.poll() == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    word = group.heartbeat(change=False)
    assert group.now_ms == 0, "the broker waits for the acknowledgement"
    assert word.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    assert (word.member_epoch, word.subscribed_topic_names, word.rebalance_timeout_ms) == (1, None, -1)
    quiet = group.heartbeat(change=False)
    assert group.now_ms == INTERVAL_MS
    assert quiet.topic_partitions is None


def test_revoked_partitions_are_acknowledged_after_listener() -> None:
    group = Group()
    group.heartbeat(0, 1)
    group.poll()
    group.heartbeat(1)
    meanwhile = group.heartbeat(change=False)
    assert group.now_ms == INTERVAL_MS
    assert meanwhile.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])], "it still owns them"
    assert group.poll() == AssignmentChange(revoked=partitions(0), after=partitions(1))
    assert group.heartbeat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[1])]


def test_heartbeat_after_failure_is_full() -> None:
    group = Group()
    group.heartbeat(0)
    group.poll()
    group.heartbeat(change=False)
    group.receive(RequestFailed(group.next_action().attempt, OUTAGE))
    again = group.heartbeat(change=False)
    assert again.subscribed_topic_names == ["t"]
    assert again.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]
    assert again.rebalance_timeout_ms == 300_000


def test_full_heartbeat_claims_target_before_poll() -> None:
    group = Group()
    group.heartbeat(0, 1)
    group.receive(RequestFailed(group.next_action().attempt, OUTAGE))
    again = group.heartbeat(0)
    assert again.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    assert group.poll() == AssignmentChange(assigned=partitions(0), after=partitions(0))
    assert group.heartbeat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]


def test_change_in_progress_is_claimed_until_revoked() -> None:
    group = Group()
    group.heartbeat(0, 1)
    group.poll(in_time=False)
    group.heartbeat(0)
    assert group.heartbeat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    group.poll()
    assert group.poll() == AssignmentChange(revoked=partitions(1), after=partitions(0))
    assert group.heartbeat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]


def test_refused_joins_back_off() -> None:
    group = Group()
    joined_ms = []
    for _ in range(6):
        assert group.heartbeat(code=ErrorCode.FENCED_MEMBER_EPOCH, change=False).member_epoch == 0
        joined_ms.append(group.now_ms)
    assert joined_ms[-1] > 1_000, "the broker takes it for an earlier member, whose session has to time out"


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_member_reports_lost_partitions_and_rejoins(code: int) -> None:
    group = Group()
    group.heartbeat(0, 1)
    group.poll()
    group.heartbeat(code=code, change=False)
    assert group.member.state is ConsumerState.FENCED
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    assert group.heartbeat(1).member_epoch == 0


def test_unknown_topic_id_is_looked_up_and_other_topics_are_assigned() -> None:
    group = Group()
    action = group.next_action()
    assert isinstance(action, Send)
    given = [TopicPartitions(topic_id=T, partitions=[0]), TopicPartitions(topic_id=U, partitions=[3])]
    response = ConsumerGroupHeartbeatResponse(
        error_code=0, member_epoch=1, heartbeat_interval_ms=INTERVAL_MS, assignment=Assignment(topic_partitions=given)
    )
    group.receive(ResponseReceived(action.attempt, response))
    asked = group.next_action()
    assert isinstance(asked, FindTopicNames)
    assert asked.topic_ids == (U,)
    assert group.poll() == AssignmentChange(assigned=partitions(0), after=partitions(0))
    group.names[U] = "u"
    group.receive(TopicNamesFound(asked.attempt))
    both = partitions(0) | {TopicPartition("u", 3)}
    assert group.poll() == AssignmentChange(assigned=frozenset({TopicPartition("u", 3)}), after=both)


def test_partitions_of_topic_missing_in_metadata_stay_assigned() -> None:
    group = Group()
    group.heartbeat(0, 1)
    del group.names[T]
    assert group.poll() == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    assert group.poll() is None
    assert group.owned == partitions(0, 1)
    group.heartbeat(change=False)
    assert group.poll() is None
    assert group.owned == partitions(0, 1)


def test_topic_name_found_by_other_refresh_is_used_at_next_look_up() -> None:
    group = Group()
    action = group.next_action()
    assert isinstance(action, Send)
    response = ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_epoch=1,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=U, partitions=[3])]),
    )
    group.receive(ResponseReceived(action.attempt, response))
    asked = group.next_action()
    assert isinstance(asked, FindTopicNames)
    group.receive(TopicNamesFound(asked.attempt))
    assert group.poll() is None
    group.names[U] = "u"  # another look-up has found it
    ask_at_ms = group.member.deadline_ms()
    assert ask_at_ms is not None
    group.member.tick(ask_at_ms)
    mine = frozenset({TopicPartition("u", 3)})
    assert group.poll() == AssignmentChange(assigned=mine, after=mine)


def test_changed_subscription_is_sent_at_once() -> None:
    group = Group()
    group.heartbeat(0)
    group.poll()
    group.heartbeat(change=False)
    group.receive(SubscriptionChanged(Subscription(frozenset("tu"))))
    now_ms = group.now_ms
    assert group.heartbeat(change=False).subscribed_topic_names == ["t", "u"]
    group.receive(SubscriptionChanged(Subscription(pattern="t.*")))
    request = group.heartbeat(change=False)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")
    group.receive(SubscriptionChanged(Subscription(frozenset("t"))))
    request = group.heartbeat(change=False)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["t"], "")
    assert group.now_ms == now_ms


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("static", -2)])
def test_leave_epoch_of_dynamic_and_static_member(instance: str | None, epoch: int) -> None:
    group = Group(group_instance_id=instance)
    group.heartbeat(0)
    group.poll()
    group.receive(Unsubscribed("the consumer is closed"))
    group.look()
    assert [(request.member_epoch, request.instance_id) for request in group.left] == [(epoch, instance)]
    assert group.member.deadline_ms() is None


@pytest.mark.parametrize("answered", [False, None])
def test_leave_request_is_sent_if_join_is_unconfirmed(answered: bool | None) -> None:
    group = Group()
    joining = group.next_action()
    if answered is not None:
        group.receive(RequestFailed(joining.attempt, NetworkError("gone", stage=Stage.REQUEST)))
    group.receive(Unsubscribed("the consumer is closed"))
    group.look()
    assert [request.member_epoch for request in group.left] == [-1]


def test_no_leave_request_without_join() -> None:
    group = Group()
    group.receive(Unsubscribed("the consumer is closed"))
    group.look()
    assert group.left == []


def static_member_in_doubt() -> Group:
    """Return a static member that has joined without getting the response, so its group_instance_id is in use."""
    group = Group(group_instance_id="static")
    joining = group.next_action()
    group.receive(RequestFailed(joining.attempt, NetworkError("gone", stage=Stage.REQUEST)))
    assert group.heartbeat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False).member_epoch == 0
    return group


def test_unconfirmed_join_releases_its_instance_id() -> None:
    group = static_member_in_doubt()
    release = group.next_action()
    group.receive(RequestFailed(release.attempt, NetworkError("gone", stage=Stage.REQUEST)))
    group.heartbeat(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, change=False)
    release = group.heartbeat(change=False)
    assert (release.member_epoch, release.instance_id, release.member_id) == (-2, "static", "me")
    assert release.subscribed_topic_names is None
    joining = group.heartbeat(0, 1)
    assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["t"])
    group.settle()


def test_unconfirmed_join_is_a_state_until_a_response_arrives() -> None:
    group = Group(group_instance_id="static")
    assert group.member.state is ConsumerState.JOINING
    group.receive(RequestFailed(group.next_action().attempt, NetworkError("gone", stage=Stage.REQUEST)))
    assert group.member.state is ConsumerState.JOIN_UNCONFIRMED
    group.heartbeat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False)
    assert group.member.state is ConsumerState.RELEASING
    group.heartbeat(change=False)
    assert group.member.state is ConsumerState.JOINING
    group.heartbeat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False)
    assert group.member.state is ConsumerState.FAILED, "another member has the name"


def test_unknown_member_in_release_joins_again() -> None:
    group = static_member_in_doubt()
    group.heartbeat(code=ErrorCode.UNKNOWN_MEMBER_ID, change=False)
    assert group.heartbeat(0, 1).member_epoch == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [(ErrorCode.FENCED_INSTANCE_ID, "in use by another consumer"), (ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ")],
)
def test_instance_id_of_other_member_is_not_released(code: int, words: str) -> None:
    group = static_member_in_doubt()
    group.heartbeat(code=code, change=False)
    with pytest.raises(KafkaError, match=words):
        group.poll()
    assert group.heartbeat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False).member_epoch == 0
    with pytest.raises(GroupError, match="in use by another consumer"):
        group.poll()


def test_poll_timeout_leaves_group_and_next_poll_rejoins() -> None:
    group = Group(max_poll_interval_ms=12_000)
    group.heartbeat(0, 1)
    group.poll()
    group.heartbeat(change=False)
    group.heartbeat(change=False)
    group.pass_time(12_000)
    assert group.member.state is ConsumerState.STALE
    group.look()
    assert [request.member_epoch for request in group.left] == [-1]
    with pytest.raises(MaxPollExceededError, match="max_poll_interval_ms=12000"):
        group.poll()
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.settle()


def test_poll_timeout_during_reconciliation_completes_it_and_reports_lost() -> None:
    group = Group(max_poll_interval_ms=12_000)
    group.heartbeat(0, 1)
    assert group.poll(in_time=False) == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    group.pass_time(12_000)
    with pytest.raises(MaxPollExceededError):
        group.poll()
    group.poll()
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.settle()
    check_reconciled(group)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, "group_protocol='classic'"),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, "group_remote_assignor"),
        (ErrorCode.UNRELEASED_INSTANCE_ID, "in use"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.consumer.max.size"),
    ],
)
def test_fatal_error_is_raised_once_and_member_rejoins(code: int, words: str) -> None:
    group = Group()
    group.heartbeat(code=code, change=False)
    assert group.member.deadline_ms() is None
    with pytest.raises(GroupError, match=words):
        group.poll()
    group.settle()


def test_member_with_fenced_instance_id_does_not_rejoin() -> None:
    group = Group(group_instance_id="static")
    group.heartbeat(0)
    group.heartbeat(code=ErrorCode.FENCED_INSTANCE_ID, change=False)
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            group.poll()
    assert group.member.deadline_ms() is None


Step = tuple[str, int, list[int]]
CODES = st.sampled_from(
    (
        ErrorCode.NONE,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    )
)
NUMBERS = st.lists(st.integers(0, 3), unique=True)
NOTHING: st.SearchStrategy[list[int]] = st.builds(list)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(
        st.sampled_from(("given", "unchanged", "unknown topic")), CODES, st.lists(st.integers(0, 3), unique=True)
    ),
    st.tuples(
        st.sampled_from(("fail", "poll", "poll interrupted", "poll cut short", "names", "commit", "resubscribe")),
        CODES,
        NOTHING,
    ),
    st.tuples(st.just("time"), st.integers(0, 400_000), NOTHING),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from((None, "static")), st.lists(STEPS, max_size=40))
def test_any_sequence_of_events_ends_in_stable_member(instance: str | None, steps: list[Step]) -> None:
    group = Group(group_instance_id=instance)
    for step in steps:
        take(group, *step)
        check_reconciled(group)
    for _ in range(3):
        with contextlib.suppress(KafkaError):
            group.settle()
            break
    assert (group.member.state, group.owned) == (ConsumerState.STABLE, partitions(0, 1))
    check_reconciled(group)


def take(group: Group, what: str, value: int, numbers: list[int]) -> None:
    """Take one step; `value` is an error code or a time, `numbers` are partitions."""
    member = group.member
    if what.startswith("poll"):
        interruption = (lambda: take(group, "given", value, [2])) if what == "poll interrupted" else (lambda: None)
        with contextlib.suppress(KafkaError):
            group.poll(interruption, in_time=what != "poll cut short")
    elif what == "time":
        group.pass_time(value)
    elif what == "names":
        group.names[U] = "u"
    elif what == "commit":
        group.reject_commit(ErrorCode.STALE_MEMBER_EPOCH, member.identity.generation_id)
    elif what == "resubscribe":
        group.receive(SubscriptionChanged(Subscription(frozenset("tu"))))
    elif (action := group.next_action_if_any()) is not None:
        if what == "fail":
            group.receive(RequestFailed(action.attempt, OUTAGE))
        elif isinstance(action, FindTopicNames):
            group.receive(TopicNamesFound(action.attempt))
        else:
            topic = U if what == "unknown topic" else T
            group.answer(action, *numbers, code=value, change=what != "unchanged", topic=topic)


def check_reconciled(group: Group) -> None:
    """The changes that the listener was called with add up to the owned partitions."""
    owned: frozenset[TopicPartition] = frozenset()
    for change in group.reconciled:
        assert change.lost <= owned
        assert change.revoked <= owned
        owned = owned - change.lost - change.revoked | (change.assigned or frozenset())
        assert owned == change.after
    assert owned == group.owned
    assert not group.in_progress or group.member.state is not ConsumerState.JOINING, (
        "no join before the listener has returned"
    )
