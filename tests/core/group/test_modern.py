"""Membership in a group in which the broker assigns (KIP-848), one rule each; and that nothing leaves it stuck."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.group.actions import FindNames, GroupSettings, Handover, Part, Send, Wanted
from kafkaraw.core.group.modern import ModernMember, Phase
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
from tests.core.group.polling_user import PolledMember

OUTAGE = NetworkError("gone", stage=Stage.CONNECT)
T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
INTERVAL_MS = 5_000


def partitions(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


class Group(PolledMember[ModernMember]):
    """One member, and a broker that answers as the test says."""

    def __init__(self, **given: object) -> None:
        self.names = {T: "t"}
        settings = GroupSettings(group_id="g", **given)  # type: ignore[arg-type]
        super().__init__(ModernMember(settings, Backoff(100, 1_000), random.Random(1), "me", self.names.get))
        self.epoch = 0
        self.parted: list[ConsumerGroupHeartbeatRequest] = []
        self._waiting: list[Send | FindNames] = []
        self.member.subscribe(Wanted(frozenset("t")), 0)

    def look(self) -> None:
        for action in self.member.take_actions():
            if isinstance(action, Part):
                request = action.make(1)
                assert isinstance(request, ConsumerGroupHeartbeatRequest)
                self.parted.append(request)
            else:
                assert isinstance(action, Send | FindNames)
                self._waiting.append(action)

    def next_action(self) -> Send | FindNames:
        action = self.next_action_if_any()
        assert action is not None, f"the consumer {self.member.state}, and nothing will happen"
        return action

    def next_action_if_any(self) -> Send | FindNames | None:
        """What the member does next; None when it waits for its user, who may be away for too long first."""
        self.look()
        while not self._waiting and self.member.deadline_ms is not None:
            self.pass_time(max(0, self.member.deadline_ms - self.now_ms))
            self.look()
        return self._waiting.pop(0) if self._waiting else None

    def beat(self, *numbers: int, code: int = 0, change: bool = True) -> ConsumerGroupHeartbeatRequest:
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
        self.member.answered(action.attempt, response, self.now_ms)

    def settle(self) -> None:
        """A good broker and a user who polls: go on until the member has what the broker gives, and has said so."""
        for _ in range(40):
            while self.poll() is not None:  # a call tells all there is
                pass
            action = self.next_action()
            if isinstance(action, FindNames):
                self.names[U] = "u"
                self.member.names_found(action.attempt, self.now_ms)
                continue
            request = action.make(1)
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            said = request.topic_partitions and request.topic_partitions[0].partitions
            if said == [0, 1] and self.member.owned == partitions(0, 1):
                self.answer(action, change=False)
                return
            self.answer(action, 0, 1)
        raise AssertionError(f"the consumer {self.member.state}")


def test_a_member_joins_with_everything_and_says_what_it_owns_when_the_user_knows() -> None:
    group = Group(rack_id="east", server_assignor="range", max_poll_interval_ms=60_000)
    joining = group.beat(0, 1)
    assert (joining.member_id, joining.member_epoch, joining.topic_partitions) == ("me", 0, [])
    assert (joining.rack_id, joining.server_assignor, joining.rebalance_timeout_ms) == ("east", "range", 60_000)
    assert joining.subscribed_topic_names == ["t"]
    assert group.poll() == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    word = group.beat(change=False)
    assert group.now_ms == 0, "the broker waits for the word"
    assert word.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    assert (word.member_epoch, word.subscribed_topic_names, word.rebalance_timeout_ms) == (1, None, -1)
    quiet = group.beat(change=False)
    assert group.now_ms == INTERVAL_MS
    assert quiet.topic_partitions is None


def test_partitions_are_given_up_before_the_broker_hears_so() -> None:
    group = Group()
    group.beat(0, 1)
    group.poll()
    group.beat(1)
    meanwhile = group.beat(change=False)
    assert group.now_ms == INTERVAL_MS
    assert meanwhile.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])], "it has them still"
    assert group.poll() == Handover(revoked=partitions(0), after=partitions(1))
    assert group.beat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[1])]


def test_after_an_error_everything_is_told_again() -> None:
    group = Group()
    group.beat(0)
    group.poll()
    group.beat(change=False)
    group.member.unanswered(group.next_action().attempt, OUTAGE, group.now_ms)
    again = group.beat(change=False)
    assert again.subscribed_topic_names == ["t"]
    assert again.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]
    assert again.rebalance_timeout_ms == 300_000


def test_what_the_user_may_be_given_at_any_moment_is_claimed_so_that_nobody_else_gets_it() -> None:
    group = Group()
    group.beat(0, 1)
    group.member.unanswered(group.next_action().attempt, OUTAGE, group.now_ms)
    again = group.beat(0)
    assert again.topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    assert group.poll() == Handover(assigned=partitions(0), after=partitions(0))
    assert group.beat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]


def test_what_the_user_is_being_given_is_claimed_until_they_have_given_it_up_again() -> None:
    group = Group()
    group.beat(0, 1)
    group.poll(in_time=False)
    group.beat(0)
    assert group.beat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0, 1])]
    group.poll()
    assert group.poll() == Handover(revoked=partitions(1), after=partitions(0))
    assert group.beat(change=False).topic_partitions == [TopicPartitions(topic_id=T, partitions=[0])]


def test_a_member_that_is_not_let_in_pauses_longer_and_longer() -> None:
    group = Group()
    joined_ms = []
    for _ in range(6):
        assert group.beat(code=ErrorCode.FENCED_MEMBER_EPOCH, change=False).member_epoch == 0
        joined_ms.append(group.now_ms)
    assert joined_ms[-1] > 1_000, "it is the broker's word that its older self is a member still"


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_tells_its_user_and_joins_again(code: int) -> None:
    group = Group()
    group.beat(0, 1)
    group.poll()
    group.beat(code=code, change=False)
    assert group.member.phase is Phase.LOSING
    assert group.poll() == Handover(lost=partitions(0, 1))
    assert group.beat(1).member_epoch == 0


def test_a_topic_whose_name_is_not_known_is_asked_for_and_the_rest_is_read_meanwhile() -> None:
    group = Group()
    action = group.next_action()
    assert isinstance(action, Send)
    given = [TopicPartitions(topic_id=T, partitions=[0]), TopicPartitions(topic_id=U, partitions=[3])]
    response = ConsumerGroupHeartbeatResponse(
        error_code=0, member_epoch=1, heartbeat_interval_ms=INTERVAL_MS, assignment=Assignment(topic_partitions=given)
    )
    group.member.answered(action.attempt, response, 0)
    asked = group.next_action()
    assert isinstance(asked, FindNames)
    assert asked.topic_ids == (U,)
    assert group.poll() == Handover(assigned=partitions(0), after=partitions(0))
    group.names[U] = "u"
    group.member.names_found(asked.attempt, group.now_ms)
    both = partitions(0) | {TopicPartition("u", 3)}
    assert group.poll() == Handover(assigned=frozenset({TopicPartition("u", 3)}), after=both)


def test_partitions_of_a_topic_that_the_metadata_forgets_stay_assigned() -> None:
    group = Group()
    group.beat(0, 1)
    del group.names[T]
    assert group.poll() == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    assert group.poll() is None
    assert group.member.owned == partitions(0, 1)
    group.beat(change=False)
    assert group.poll() is None
    assert group.member.owned == partitions(0, 1)


def test_a_name_that_becomes_known_by_itself_is_taken_when_it_is_time_to_ask_again() -> None:
    group = Group()
    action = group.next_action()
    assert isinstance(action, Send)
    response = ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_epoch=1,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=U, partitions=[3])]),
    )
    group.member.answered(action.attempt, response, group.now_ms)
    asked = group.next_action()
    assert isinstance(asked, FindNames)
    group.member.names_found(asked.attempt, group.now_ms)
    assert group.poll() is None
    group.names[U] = "u"  # somebody else has asked for it
    ask_at_ms = group.member.deadline_ms
    assert ask_at_ms is not None
    group.member.tick(ask_at_ms)
    mine = frozenset({TopicPartition("u", 3)})
    assert group.poll() == Handover(assigned=mine, after=mine)


def test_a_changed_subscription_is_told_at_once() -> None:
    group = Group()
    group.beat(0)
    group.poll()
    group.beat(change=False)
    group.member.subscribe(Wanted(frozenset("tu")), group.now_ms)
    now_ms = group.now_ms
    assert group.beat(change=False).subscribed_topic_names == ["t", "u"]
    group.member.subscribe(Wanted(pattern="t.*"), group.now_ms)
    request = group.beat(change=False)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")
    group.member.subscribe(Wanted(frozenset("t")), group.now_ms)
    request = group.beat(change=False)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["t"], "")
    assert group.now_ms == now_ms


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("static", -2)])
def test_leaving_says_whether_the_member_comes_back(instance: str | None, epoch: int) -> None:
    group = Group(group_instance_id=instance)
    group.beat(0)
    group.poll()
    group.member.leave("the consumer is closed")
    group.look()
    assert [(request.member_epoch, request.instance_id) for request in group.parted] == [(epoch, instance)]
    assert group.member.deadline_ms is None


@pytest.mark.parametrize("answered", [False, None])
def test_leaving_tells_a_broker_that_may_have_let_the_member_in(answered: bool | None) -> None:
    group = Group()
    joining = group.next_action()
    if answered is not None:
        group.member.unanswered(joining.attempt, NetworkError("gone", stage=Stage.REQUEST), group.now_ms)
    group.member.leave("the consumer is closed")
    group.look()
    assert [request.member_epoch for request in group.parted] == [-1]


def test_who_never_asked_to_be_let_in_has_nothing_to_tell_on_leaving() -> None:
    group = Group()
    group.member.leave("the consumer is closed")
    group.look()
    assert group.parted == []


def static_member_in_doubt() -> Group:
    """A member with a name, whose broker has let it in, but the word of that was lost; so the name is taken."""
    group = Group(group_instance_id="static")
    joining = group.next_action()
    group.member.unanswered(joining.attempt, NetworkError("gone", stage=Stage.REQUEST), group.now_ms)
    assert group.beat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False).member_epoch == 0
    return group


def test_a_name_that_the_member_itself_may_have_is_taken_back() -> None:
    group = static_member_in_doubt()
    release = group.next_action()
    group.member.unanswered(release.attempt, NetworkError("gone", stage=Stage.REQUEST), group.now_ms)
    group.beat(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, change=False)
    release = group.beat(change=False)
    assert (release.member_epoch, release.instance_id, release.member_id) == (-2, "static", "me")
    assert release.subscribed_topic_names is None
    joining = group.beat(0, 1)
    assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["t"])
    group.settle()


def test_a_name_that_nobody_has_any_more_is_taken() -> None:
    group = static_member_in_doubt()
    group.beat(code=ErrorCode.UNKNOWN_MEMBER_ID, change=False)
    assert group.beat(0, 1).member_epoch == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [(ErrorCode.FENCED_INSTANCE_ID, "in use by another consumer"), (ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ")],
)
def test_a_name_that_is_another_members_stays_theirs(code: int, words: str) -> None:
    group = static_member_in_doubt()
    group.beat(code=code, change=False)
    with pytest.raises(KafkaError, match=words):
        group.poll()
    assert group.beat(code=ErrorCode.UNRELEASED_INSTANCE_ID, change=False).member_epoch == 0
    with pytest.raises(GroupError, match="in use by another consumer"):
        group.poll()


def test_a_user_who_stays_away_too_long_is_told_so_and_comes_back() -> None:
    group = Group(max_poll_interval_ms=12_000)
    group.beat(0, 1)
    group.poll()
    group.beat(change=False)
    group.beat(change=False)
    group.pass_time(12_000)
    assert group.member.phase is Phase.AWAY
    group.look()
    assert [request.member_epoch for request in group.parted] == [-1]
    with pytest.raises(MaxPollExceededError, match="max_poll_interval_ms=12000"):
        group.poll()
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.settle()


def test_a_user_who_stays_away_too_long_while_they_are_being_told_hears_the_rest_and_that_it_is_lost() -> None:
    group = Group(max_poll_interval_ms=12_000)
    group.beat(0, 1)
    assert group.poll(in_time=False) == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    group.pass_time(12_000)
    with pytest.raises(MaxPollExceededError):
        group.poll()
    group.poll()
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.settle()
    check_told(group)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, "group_protocol='classic'"),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, "group_remote_assignor"),
        (ErrorCode.UNRELEASED_INSTANCE_ID, "in use"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.consumer.max.size"),
    ],
)
def test_what_the_member_cannot_mend_the_user_hears_and_the_next_call_tries_again(code: int, words: str) -> None:
    group = Group()
    group.beat(code=code, change=False)
    assert group.member.deadline_ms is None
    with pytest.raises(GroupError, match=words):
        group.poll()
    group.settle()


def test_a_member_whose_name_was_taken_over_does_not_fight_back() -> None:
    group = Group(group_instance_id="static")
    group.beat(0)
    group.beat(code=ErrorCode.FENCED_INSTANCE_ID, change=False)
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            group.poll()
    assert group.member.deadline_ms is None


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


@settings(max_examples=200, deadline=None)
@given(st.sampled_from((None, "static")), st.lists(STEPS, max_size=40))
def test_whatever_happens_in_whatever_order_a_good_end_is_reached(instance: str | None, steps: list[Step]) -> None:
    group = Group(group_instance_id=instance)
    for step in steps:
        take(group, *step)
        check_told(group)
    for _ in range(3):
        with contextlib.suppress(KafkaError):
            group.settle()
            break
    assert (group.member.phase, group.member.owned) == (Phase.MEMBER, partitions(0, 1))
    check_told(group)


def take(group: Group, what: str, value: int, numbers: list[int]) -> None:
    """One step; `value` is an error code or a time, `numbers` are partitions."""
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
        member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, member.generation_id, group.now_ms)
    elif what == "resubscribe":
        member.subscribe(Wanted(frozenset("tu")), group.now_ms)
    elif (action := group.next_action_if_any()) is not None:
        if what == "fail":
            member.unanswered(action.attempt, OUTAGE, group.now_ms)
        elif isinstance(action, FindNames):
            member.names_found(action.attempt, group.now_ms)
        else:
            topic = U if what == "unknown topic" else T
            group.answer(action, *numbers, code=value, change=what != "unchanged", topic=topic)


def check_told(group: Group) -> None:
    """What the user was told adds up to what the member thinks that they have."""
    owned: frozenset[TopicPartition] = frozenset()
    for handover in group.told:
        assert handover.lost <= owned
        assert handover.revoked <= owned
        owned = owned - handover.lost - handover.revoked | (handover.assigned or frozenset())
        assert owned == handover.after
    assert owned == group.member.owned
    assert not group.half_told or group.member.phase is not Phase.JOINING, "nobody joins before they know"
