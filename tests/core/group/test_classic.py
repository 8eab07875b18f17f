"""Membership in a classic group, one rule each; and that nothing in any order leaves it stuck."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.group.actions import FindTopics, Handover, Send
from kafkaraw.core.group.classic import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Phase
from kafkaraw.core.group.subscription import decode_subscription, encode_assignment
from kafkaraw.errors import (
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupError,
    KafkaError,
    MaxPollExceededError,
    NetworkError,
    Stage,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatResponse
from kafkaraw.protocol.messages.join_group import JoinGroupRequest
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkaraw.records import TopicPartition
from tests.core.group.scripted_group import NO_RACK, VERSION, ScriptedGroup, partitions

OUTAGE = NetworkError("gone", stage=Stage.CONNECT)


def last_join(group: ScriptedGroup) -> JoinGroupRequest:
    request = next(message for key, message in reversed(group.sent) if key == JOIN_GROUP)
    assert isinstance(request, JoinGroupRequest)
    return request


def claims(request: JoinGroupRequest) -> frozenset[TopicPartition]:
    """What a member says that it owns."""
    return frozenset(decode_subscription(bytes(request.protocols[0].metadata)).owned_partitions)


def rebalancing(**settings: object) -> ScriptedGroup:
    """A member of a cooperative group that has two partitions, and has heard that the group rebalances."""
    group = ScriptedGroup("cooperative-sticky", **settings)
    group.subscribe("t")
    group.enter(0, 1)
    group.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def test_a_member_joins_with_the_id_that_the_coordinator_gives_it() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    assert group.now_ms == 0
    group.join(member_id="given")
    assert last_join(group).member_id == "given"
    group.sync(0, 1)
    assert group.poll() == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    assert (group.phase, group.member.owned) == (Phase.MEMBER, partitions(0, 1))


def test_the_leader_assigns_and_hands_the_assignment_in() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.settle()
    sync = next(message for key, message in group.sent if key == SYNC_GROUP)
    assert isinstance(sync, SyncGroupRequest)
    assert [entry.member_id for entry in sync.assignments] == ["me"]
    assert group.member.owned == partitions(0, 1, 2, 3)


def test_an_eager_member_gives_everything_up_before_it_joins_again() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0, 1)
    group.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.phase is Phase.PARTING
    assert group.poll() == Handover(revoked=partitions(0, 1))
    group.enter(1)
    assert group.told[-1] == Handover(assigned=partitions(1), after=partitions(1))


def test_a_member_that_waits_for_its_user_goes_on_sending_heartbeats() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0)
    for _ in range(5):
        group.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.phase is Phase.PARTING
    assert group.now_ms == 5 * 3_000


def test_a_cooperative_member_joins_again_without_its_user_and_keeps_what_it_has() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.enter(0, 1, 2)
    group.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert frozenset(claimed.owned_partitions) == partitions(0, 1, 2)
    assert claimed.generation_id == 1
    group.sync(0, 1)
    assert group.poll() == Handover(revoked=partitions(2), assigned=frozenset(), after=partitions(0, 1))
    assert group.phase is Phase.WAITING, "whoever gave partitions up joins again, so that others can have them"
    group.enter(0, 1)
    assert group.phase is Phase.MEMBER


def test_an_assignment_that_was_not_taken_over_is_dropped_when_the_group_moves_on() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0, 1)
    group.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.poll() is None
    group.enter(1)
    assert [handover.assigned for handover in group.told] == [partitions(1)]


def test_a_rebalance_while_the_user_is_told_waits_until_they_know() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0)
    group.poll(lambda: group.beat(ErrorCode.REBALANCE_IN_PROGRESS))
    assert group.phase is Phase.WAITING
    assert group.member.owned == partitions(0)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_a_member_that_was_thrown_out_tells_its_user_and_joins_again(assignor: str, code: int, member_id: str) -> None:
    group = ScriptedGroup(assignor)
    group.subscribe("t")
    group.enter(0, 1)
    group.beat(code)
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.join()
    request = last_join(group)
    assert request.member_id == member_id
    claimed = decode_subscription(request.protocols[0].metadata)
    assert (claimed.owned_partitions, claimed.generation_id) == ((), None)


def test_a_generation_that_came_to_nothing_is_left_when_a_coordinator_refuses_a_commit_in_it() -> None:
    group = rebalancing()
    group.join()
    group.sync(code=ErrorCode.NOT_COORDINATOR)
    assert not group.member.commit_refused(ErrorCode.NOT_COORDINATOR, 2, group.now_ms)
    assert group.member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 2, group.now_ms)
    assert group.member.generation_id == 1, "what it has is from there"
    assert not group.member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, group.now_ms)
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert (frozenset(claimed.owned_partitions), claimed.generation_id) == (partitions(0, 1), 1)


def test_a_commit_that_comes_just_behind_the_last_word_to_join_is_tried_in_the_next_generation() -> None:
    group = rebalancing()
    joining = group.next_action(JOIN_GROUP)
    assert group.member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, group.now_ms)
    group.answer(joining, group.joined(last_join(group)))
    assert (group.phase, group.member.generation_id) == (Phase.SYNCING, 2)


def test_a_commit_that_comes_between_the_last_word_to_join_and_the_assignment_is_tried_again_after_it() -> None:
    group = rebalancing()
    group.join()
    assert group.phase is Phase.SYNCING
    assert group.member.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, 2, group.now_ms)
    assert group.phase is Phase.SYNCING, "the assignment is on its way; there is no reason to join again"


def test_losing_membership_while_partitions_are_being_revoked_is_told_afterwards() -> None:
    group = rebalancing()
    group.join()
    group.sync(0)
    group.poll(lambda: group.beat(ErrorCode.UNKNOWN_MEMBER_ID))
    assert group.poll() == Handover(lost=partitions(0))


def test_an_outage_of_any_length_is_survived() -> None:
    group = ScriptedGroup(max_poll_interval_ms=None)
    group.subscribe("t")
    group.enter(0)
    for _ in range(1_000):
        group.member.unanswered(group.next_action(HEARTBEAT).attempt, OUTAGE, group.now_ms)
    assert group.now_ms > 500_000
    group.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    group.poll()
    for _ in range(1_000):
        group.member.unanswered(group.next_action(JOIN_GROUP).attempt, OUTAGE, group.now_ms)
    group.settle()


def test_a_user_who_stays_away_too_long_is_told_so_and_comes_back() -> None:
    group = ScriptedGroup(max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.enter(0, 1)
    for _ in range(3):
        group.beat()
    group.pass_time(1_001)
    assert (group.phase, group.member.deadline_ms) == (Phase.AWAY, None)
    assert group.member.take_actions(), "it leaves, so that others get its partitions at once"
    with pytest.raises(MaxPollExceededError, match="max_poll_interval_ms=10000"):
        group.poll()
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.settle()


def test_a_user_who_stays_away_too_long_while_they_are_being_told_hears_the_rest_and_that_it_is_lost() -> None:
    group = ScriptedGroup("cooperative-sticky", max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.join()
    group.sync(0, 1)
    assert group.poll(in_time=False) == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    group.pass_time(10_000)
    with pytest.raises(MaxPollExceededError):
        group.poll()
    group.poll()
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.settle()
    check_told(group)


def test_who_was_out_of_reach_for_longer_than_the_coordinator_waits_has_lost_what_it_had() -> None:
    group = rebalancing(session_timeout_ms=10_000, group_instance_id="static")
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(11_000)
    group.member.unanswered(joining.attempt, OUTAGE, group.now_ms)
    group.pass_time(1_000)
    assert group.poll() == Handover(lost=partitions(0, 1))
    group.join()
    assert claims(last_join(group)) == frozenset()
    group.settle()
    check_told(group)


def test_who_was_held_back_by_a_coordinator_that_goes_keeps_what_it_has() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(30_000)
    group.answer(joining, group.joined(last_join(group), code=ErrorCode.NOT_COORDINATOR))
    group.join()
    assert claims(last_join(group)) == partitions(0, 1)


def test_where_brokers_assign_a_late_answer_does_not_say_that_it_was_not_forgotten() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(11_000)
    group.answer(joining, group.joined(last_join(group), leader=None))
    assert group.poll() == Handover(lost=partitions(0, 1)), "it may have been let in again, as somebody new"
    group.join(leader=None)
    assert claims(last_join(group)) == frozenset()
    group.settle()
    check_told(group)


def test_where_somebody_leads_an_answer_may_take_its_time() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(30_000)
    group.answer(joining, group.joined(last_join(group)))
    assert group.phase is Phase.SYNCING


def test_an_assignment_that_was_lost_with_its_coordinator_takes_nothing_away() -> None:
    group = rebalancing()
    group.join()
    group.sync(code=ErrorCode.ILLEGAL_GENERATION)  # the next coordinator knows the generation before this one
    assert group.poll() is None
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert (frozenset(claimed.owned_partitions), claimed.generation_id) == (partitions(0, 1), 1)


def test_who_is_in_an_older_generation_for_the_second_time_has_lost_what_it_had() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(code=ErrorCode.ILLEGAL_GENERATION)
    group.join()
    assert claims(last_join(group)) == frozenset()
    group.sync(0, 1)
    group.poll()
    group.beat(ErrorCode.ILLEGAL_GENERATION)
    assert group.poll() == Handover(lost=partitions(0, 1))


def test_who_is_answered_again_before_its_session_is_over_keeps_what_it_has() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(5_000)
    group.member.unanswered(joining.attempt, OUTAGE, group.now_ms)
    group.join()
    assert claims(last_join(group)) == partitions(0, 1)


def test_while_a_call_of_the_user_is_under_way_they_are_there() -> None:
    group = ScriptedGroup(max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.enter(0)
    group.member.user_comes(group.now_ms)
    for _ in range(10):
        group.beat()
    assert group.phase is Phase.MEMBER


def test_without_a_limit_the_user_may_stay_away_for_ever() -> None:
    group = ScriptedGroup(max_poll_interval_ms=None)
    group.subscribe("t")
    group.enter(0)
    for _ in range(400):
        group.beat()
    assert group.phase is Phase.MEMBER
    assert last_join(group).rebalance_timeout_ms == 2**31 - 1


def test_a_static_member_keeps_its_place_when_it_leaves() -> None:
    group = ScriptedGroup(group_instance_id="static")
    group.subscribe("t")
    group.enter(0)
    group.member.leave("the consumer is closed")
    assert group.member.take_actions() == []
    assert group.phase is Phase.OUT


def test_a_dynamic_member_says_that_it_leaves() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0)
    group.member.leave("the consumer is closed")
    assert [type(action).__name__ for action in group.member.take_actions()] == ["Part"]
    assert group.member.deadline_ms is None


def test_a_member_whose_name_was_taken_over_does_not_fight_back() -> None:
    group = ScriptedGroup(group_instance_id="static")
    group.subscribe("t")
    group.enter(0)
    group.beat(ErrorCode.FENCED_INSTANCE_ID)
    for _ in range(3):
        with pytest.raises(FencedInstanceIdError, match="group_instance_id='static'"):
            group.poll()
    assert group.member.deadline_ms is None


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError, "'g'"),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, GroupError, "partition_assignment_strategy"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, GroupError, "session_timeout_ms=45000"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupError, "group.max.size"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, KafkaError, "joining"),
    ],
)
def test_what_the_member_cannot_mend_the_user_hears_and_the_next_call_tries_again(
    code: int, error: type[KafkaError], words: str
) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(code=code)
    assert group.member.deadline_ms is None
    with pytest.raises(error, match=words):
        group.poll()
    group.settle()


def test_a_changed_subscription_makes_the_member_join_again() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.topics["u"] = [NO_RACK]
    group.subscribe("t")
    group.settle()
    group.subscribe("u")
    assert group.poll() == Handover(revoked=partitions(0, 1, 2, 3))
    group.settle()
    assert group.member.owned == partitions(0, topic="u")


def test_a_subscription_that_changes_in_a_rebalance_waits_for_its_end_so_that_commits_are_taken() -> None:
    group = rebalancing()
    group.join()
    group.subscribe("u")
    assert group.phase is Phase.SYNCING
    group.sync(0, 1)
    assert group.poll() == Handover(revoked=partitions(0, 1))


def test_the_leader_joins_again_when_a_topic_has_grown_and_others_do_not_look() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.settle()
    assert group.member.watched_topics == ("t",)
    group.member.topics_seen({"t": [NO_RACK] * 4}, group.now_ms)
    assert group.phase is Phase.MEMBER
    group.member.topics_seen({"t": [NO_RACK] * 5}, group.now_ms)
    assert group.phase is Phase.WAITING
    group.enter(0)
    assert group.member.watched_topics == ()


def test_where_nobody_leads_everybody_watches_the_topics() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join(leader=None)
    assert group.member.watched_topics == ("t",)
    group.sync(0)
    group.poll()
    group.member.topics_seen({"t": [NO_RACK] * 4}, group.now_ms)
    group.member.topics_seen({"t": [NO_RACK] * 4}, group.now_ms)
    assert group.phase is Phase.MEMBER
    group.member.topics_seen({"t": [NO_RACK] * 5}, group.now_ms)
    assert group.phase is Phase.WAITING
    group.enter(0)
    assert group.member.watched_topics == (), "somebody leads now"


def test_a_static_leader_that_has_come_back_leaves_all_as_it_is_and_watches_the_topics() -> None:
    group = ScriptedGroup("cooperative-sticky", group_instance_id="one")
    group.subscribe("t")
    action = group.next_action(JOIN_GROUP)
    group.answer(action, replace(group.joined(last_join(group), leader=True), skip_assignment=True))
    group.member.topics_found(group.next_action().attempt, group.topics, group.now_ms)
    group.sync(0, 1)
    assert group.poll() == Handover(assigned=partitions(0, 1), after=partitions(0, 1))
    sync = next(message for key, message in reversed(group.sent) if key == SYNC_GROUP)
    assert isinstance(sync, SyncGroupRequest)
    assert sync.assignments == []
    group.member.topics_seen({"t": [NO_RACK] * 5}, group.now_ms)
    assert group.phase is Phase.WAITING


def test_an_assignor_that_fails_is_reported_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(leader=True)
    assignor = group.member.settings.assignors[0]
    monkeypatch.setattr(assignor, "assign", lambda *_: 1 / 0)
    action = group.next_action()
    assert isinstance(action, FindTopics)
    group.member.topics_found(action.attempt, group.topics, group.now_ms)
    with pytest.raises(GroupError, match=r"assignor 'range': .* raised ZeroDivisionError"):
        group.poll()


@pytest.mark.parametrize("method", ["user_data", "assigned"])
def test_an_assignor_that_fails_in_a_follower_is_reported_and_asked_again(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    assignor = group.member.settings.assignors[0]
    with monkeypatch.context() as patched:
        patched.setattr(assignor, method, lambda *_: 1 / 0)
        group.pass_time(0)
        if group.phase is not Phase.STUCK:
            group.join()
            group.sync(0)
    with pytest.raises(GroupError, match=rf"assignor 'range': .*{method}\(\) raised ZeroDivisionError"):
        group.poll()
    group.settle()


def test_partitions_that_were_never_wanted_are_refused_and_not_at_once_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join()
    action = group.next_action(SYNC_GROUP)
    group.answer(action, SyncGroupResponse(error_code=0, assignment=encode_assignment(partitions(0, topic="u"))))
    assert group.phase is Phase.WAITING
    assert group.member.deadline_ms is not None
    assert group.member.deadline_ms > group.now_ms
    assert "gave this member partitions of u, which it has not subscribed to" in caplog.text
    group.settle()
    assert group.member.owned == partitions(0, 1, 2, 3)


def test_answers_that_come_too_late_change_nothing() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    late = group.next_action(JOIN_GROUP)
    group.member.unanswered(late.attempt, OUTAGE, group.now_ms)
    assert isinstance(late, Send)
    request = late.make(VERSION)
    assert isinstance(request, JoinGroupRequest)
    group.answer(late, group.joined(request))
    assert group.phase is Phase.WAITING


CODES = st.sampled_from(
    (
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)
Step = tuple[str, int, list[int]]
NOTHING: st.SearchStrategy[list[int]] = st.builds(list)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("answer"), CODES, st.lists(st.integers(0, 3), unique=True)),
    st.tuples(st.sampled_from(("fail", "poll", "poll interrupted", "poll cut short", "grow")), st.just(0), NOTHING),
    st.tuples(st.just("time"), st.integers(0, 400_000), NOTHING),
    st.tuples(st.sampled_from(("subscribe t", "subscribe u", "subscribe tu")), st.just(0), NOTHING),
    st.tuples(st.just("commit"), CODES, NOTHING),
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from((("range",), ("cooperative-sticky",), ("range", "sticky"))),
    st.sampled_from((None, "static")),
    st.lists(STEPS, max_size=40),
)
def test_whatever_happens_in_whatever_order_a_good_end_is_reached(
    assignors: tuple[str, ...], instance: str | None, steps: list[Step]
) -> None:
    group = ScriptedGroup(*assignors, group_instance_id=instance)
    group.topics["u"] = [NO_RACK] * 2
    group.subscribe("t")
    for step in steps:
        take(group, *step)
        check_told(group)
    group.subscribe("t")
    for _ in range(3):
        try:
            group.settle()
            break
        except KafkaError:
            continue
    assert group.phase is Phase.MEMBER
    check_told(group)


def take(group: ScriptedGroup, what: str, value: int, numbers: list[int]) -> None:
    """One step; `value` is an error code or a time, `numbers` are partitions."""
    member = group.member
    if what.startswith("poll"):
        interruption = [("answer", ErrorCode.UNKNOWN_MEMBER_ID)] * (what == "poll interrupted")
        with contextlib.suppress(KafkaError):
            group.poll(
                lambda: [take(group, *step, []) for step in interruption] and None, in_time=what != "poll cut short"
            )
    elif what == "time":
        group.pass_time(value)
    elif what.startswith("subscribe"):
        group.subscribe(*what.split()[1])
    elif what == "grow":
        member.topics_seen({"t": [NO_RACK] * 7}, group.now_ms)
    elif what == "commit":
        if value:
            member.commit_refused(value, member.generation_id, group.now_ms)
    elif (action := group.next_action_if_any()) is not None:
        if what == "fail":
            member.unanswered(action.attempt, OUTAGE, group.now_ms)
        elif isinstance(action, FindTopics):
            member.topics_found(action.attempt, group.topics, group.now_ms)
        elif action.api_key == HEARTBEAT:
            group.answer(action, HeartbeatResponse(error_code=value))
        elif action.api_key == SYNC_GROUP:
            assignment = encode_assignment(partitions(*numbers))
            group.answer(action, SyncGroupResponse(error_code=value, assignment=assignment))
        else:
            request = action.make(VERSION)
            assert isinstance(request, JoinGroupRequest)
            group.answer(action, group.joined(request, leader=bool(numbers), code=value))


def check_told(group: ScriptedGroup) -> None:
    """What the user was told adds up to what the member thinks that they have."""
    owned: frozenset[object] = frozenset()
    for handover in group.told:
        assert handover.lost <= owned
        assert handover.revoked <= owned
        owned = owned - handover.lost - handover.revoked | (handover.assigned or frozenset())
        assert owned == handover.after
    assert owned == group.member.owned
    assert not group.half_told or group.phase not in (Phase.WAITING, Phase.JOINING), "nobody joins before they know"
