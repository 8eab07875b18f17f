"""Rules of membership in a group of the classic protocol; and after any sequence of events the member gets stable."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.core.group.classic import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from kafkaraw.core.group.consumer_protocol import decode_subscription, encode_assignment
from kafkaraw.core.group.events import (
    AssignmentChange,
    FindTopics,
    PollStarted,
    RequestFailed,
    Send,
    TopicsFound,
    TopicsRefreshed,
    Unsubscribed,
)
from kafkaraw.core.group.states import ClassicState
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
from tests.examples import examples

OUTAGE = NetworkError("gone", stage=Stage.CONNECT)


def last_join(group: ScriptedGroup) -> JoinGroupRequest:
    request = next(message for key, message in reversed(group.sent) if key == JOIN_GROUP)
    assert isinstance(request, JoinGroupRequest)
    return request


def claims(request: JoinGroupRequest) -> frozenset[TopicPartition]:
    """Return the partitions that a member claims to own."""
    return frozenset(decode_subscription(bytes(request.protocols[0].metadata)).owned_partitions)


def rebalancing(**settings: object) -> ScriptedGroup:
    """Return a member of a cooperative group that owns two partitions while the group rebalances."""
    group = ScriptedGroup("cooperative-sticky", **settings)
    group.subscribe("t")
    group.enter(0, 1)
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def test_member_joins_with_member_id_of_coordinator() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    assert group.now_ms == 0
    group.join(member_id="given")
    assert last_join(group).member_id == "given"
    group.sync(0, 1)
    assert group.poll() == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    assert (group.state, group.owned) == (ClassicState.STABLE, partitions(0, 1))


def test_leader_sends_assignment_in_sync_group() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.settle()
    sync = next(message for key, message in group.sent if key == SYNC_GROUP)
    assert isinstance(sync, SyncGroupRequest)
    assert [entry.member_id for entry in sync.assignments] == ["me"]
    assert group.owned == partitions(0, 1, 2, 3)


def test_eager_member_revokes_all_partitions_before_rejoin() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0, 1)
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.state is ClassicState.REVOKING
    assert group.poll() == AssignmentChange(revoked=partitions(0, 1))
    group.enter(1)
    assert group.reconciled[-1] == AssignmentChange(assigned=partitions(1), after=partitions(1))


def test_heartbeats_continue_while_revocation_waits_for_poll() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0)
    for _ in range(5):
        group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.state is ClassicState.REVOKING
    assert group.now_ms == 5 * 3_000


def test_cooperative_member_rejoins_without_poll_and_keeps_partitions() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.enter(0, 1, 2)
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert frozenset(claimed.owned_partitions) == partitions(0, 1, 2)
    assert claimed.generation_id == 1
    group.sync(0, 1)
    assert group.poll() == AssignmentChange(revoked=partitions(2), assigned=frozenset(), after=partitions(0, 1))
    assert group.state is ClassicState.UNJOINED, "it rejoins, so that the revoked partition can be assigned"
    group.enter(0, 1)
    assert group.state is ClassicState.STABLE


def test_assignment_is_dropped_if_group_rebalances_before_poll() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0, 1)
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.poll() is None
    group.enter(1)
    assert [change.assigned for change in group.reconciled] == [partitions(1)]


def test_rejoin_waits_until_listener_has_returned() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0)
    group.poll(lambda: group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS))
    assert group.state is ClassicState.UNJOINED
    assert group.owned == partitions(0)


def test_rebalance_during_reconciliation_supersedes_the_assignment() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0)
    group.poll(in_time=False)
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.state is ClassicState.SUPERSEDED
    group.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.state is ClassicState.SUPERSEDED, "it stays in the group until the listener has returned"
    group.poll()
    assert (group.state, group.owned) == (ClassicState.UNJOINED, partitions(0))


def test_member_fenced_during_reconciliation_ignores_changed_subscription_until_it_rejoins() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(0)
    group.poll(in_time=False)
    group.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    group.subscribe("t", "u")
    assert group.state is ClassicState.FENCED
    group.poll()
    assert group.poll() == AssignmentChange(lost=partitions(0))
    group.enter(0)
    assert group.state is ClassicState.STABLE, "the join had the changed subscription: no second rebalance"


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_fenced_member_reports_lost_partitions_and_rejoins(assignor: str, code: int, member_id: str) -> None:
    group = ScriptedGroup(assignor)
    group.subscribe("t")
    group.enter(0, 1)
    group.heartbeat(code)
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.join()
    request = last_join(group)
    assert request.member_id == member_id
    claimed = decode_subscription(request.protocols[0].metadata)
    assert (claimed.owned_partitions, claimed.generation_id) == ((), None)


def test_rejected_commit_returns_to_generation_of_assignment() -> None:
    group = rebalancing()
    group.join()
    group.sync(code=ErrorCode.NOT_COORDINATOR)
    assert not group.reject_commit(ErrorCode.NOT_COORDINATOR, 2)
    assert group.reject_commit(ErrorCode.ILLEGAL_GENERATION, 2)
    assert group.member.identity.generation_id == 1, "its partitions were assigned in generation 1"
    assert not group.reject_commit(ErrorCode.ILLEGAL_GENERATION, 1)
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert (frozenset(claimed.owned_partitions), claimed.generation_id) == (partitions(0, 1), 1)


def test_commit_rejected_before_join_response_is_retried_in_next_generation() -> None:
    group = rebalancing()
    joining = group.next_action(JOIN_GROUP)
    assert group.reject_commit(ErrorCode.ILLEGAL_GENERATION, 1)
    group.answer(joining, group.joined(last_join(group)))
    assert (group.state, group.member.identity.generation_id) == (ClassicState.COMPLETING_REBALANCE, 2)


def test_commit_rejected_before_assignment_is_retried_after_it() -> None:
    group = rebalancing()
    group.join()
    assert group.state is ClassicState.COMPLETING_REBALANCE
    assert group.reject_commit(ErrorCode.REBALANCE_IN_PROGRESS, 2)
    assert group.state is ClassicState.COMPLETING_REBALANCE, "the assignment is on its way: no rejoin"


def test_member_fenced_during_revocation_reports_rest_as_lost() -> None:
    group = rebalancing()
    group.join()
    group.sync(0)
    group.poll(lambda: group.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID))
    assert group.poll() == AssignmentChange(lost=partitions(0))


def test_member_rejoins_after_long_outage() -> None:
    group = ScriptedGroup(max_poll_interval_ms=None)
    group.subscribe("t")
    group.enter(0)
    for _ in range(1_000):
        group.receive(RequestFailed(group.next_action(HEARTBEAT).attempt, OUTAGE))
    assert group.now_ms > 500_000
    group.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    group.poll()
    for _ in range(1_000):
        group.receive(RequestFailed(group.next_action(JOIN_GROUP).attempt, OUTAGE))
    group.settle()


def test_poll_timeout_leaves_group_and_next_poll_rejoins() -> None:
    group = ScriptedGroup(max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.enter(0, 1)
    for _ in range(3):
        group.heartbeat()
    group.pass_time(1_001)
    assert (group.state, group.member.deadline_ms()) == (ClassicState.STALE, None)
    assert group.member.actions(), "a leave request, so that other members get its partitions at once"
    with pytest.raises(MaxPollExceededError, match="max_poll_interval_ms=10000"):
        group.poll()
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.settle()


def test_poll_timeout_during_reconciliation_completes_it_and_reports_lost() -> None:
    group = ScriptedGroup("cooperative-sticky", max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.join()
    group.sync(0, 1)
    assert group.poll(in_time=False) == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    group.pass_time(10_000)
    with pytest.raises(MaxPollExceededError):
        group.poll()
    group.poll()
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.settle()
    check_reconciled(group)


def test_member_without_response_for_session_timeout_reports_lost() -> None:
    group = rebalancing(session_timeout_ms=10_000, group_instance_id="static")
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(11_000)
    group.receive(RequestFailed(joining.attempt, OUTAGE))
    group.pass_time(1_000)
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))
    group.join()
    assert claims(last_join(group)) == frozenset()
    group.settle()
    check_reconciled(group)


def test_error_response_after_session_timeout_keeps_partitions() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(30_000)
    group.answer(joining, group.joined(last_join(group), code=ErrorCode.NOT_COORDINATOR))
    group.join()
    assert claims(last_join(group)) == partitions(0, 1)


def test_late_join_response_without_leader_reports_lost() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(11_000)
    group.answer(joining, group.joined(last_join(group), leader=None))
    assert group.poll() == AssignmentChange(lost=partitions(0, 1)), "the broker may have taken it for a new member"
    group.join(leader=None)
    assert claims(last_join(group)) == frozenset()
    group.settle()
    check_reconciled(group)


def test_late_join_response_with_leader_keeps_partitions() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(30_000)
    group.answer(joining, group.joined(last_join(group)))
    assert group.state is ClassicState.COMPLETING_REBALANCE


def test_illegal_generation_in_sync_keeps_partitions_of_older_generation() -> None:
    group = rebalancing()
    group.join()
    group.sync(code=ErrorCode.ILLEGAL_GENERATION)  # the new coordinator is in the generation before
    assert group.poll() is None
    group.join()
    claimed = decode_subscription(last_join(group).protocols[0].metadata)
    assert (frozenset(claimed.owned_partitions), claimed.generation_id) == (partitions(0, 1), 1)


def test_second_illegal_generation_reports_lost() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join()
    group.sync(code=ErrorCode.ILLEGAL_GENERATION)
    group.join()
    assert claims(last_join(group)) == frozenset()
    group.sync(0, 1)
    group.poll()
    group.heartbeat(ErrorCode.ILLEGAL_GENERATION)
    assert group.poll() == AssignmentChange(lost=partitions(0, 1))


def test_response_within_session_timeout_keeps_partitions() -> None:
    group = rebalancing(session_timeout_ms=10_000)
    joining = group.next_action(JOIN_GROUP)
    group.pass_time(5_000)
    group.receive(RequestFailed(joining.attempt, OUTAGE))
    group.join()
    assert claims(last_join(group)) == partitions(0, 1)


def test_poll_timer_stops_during_poll() -> None:
    group = ScriptedGroup(max_poll_interval_ms=10_000)
    group.subscribe("t")
    group.enter(0)
    group.receive(PollStarted())
    for _ in range(10):
        group.heartbeat()
    assert group.state is ClassicState.STABLE


def test_max_poll_interval_none_never_expires() -> None:
    group = ScriptedGroup(max_poll_interval_ms=None)
    group.subscribe("t")
    group.enter(0)
    for _ in range(400):
        group.heartbeat()
    assert group.state is ClassicState.STABLE
    assert last_join(group).rebalance_timeout_ms == 2**31 - 1


def test_static_member_sends_no_leave_request() -> None:
    group = ScriptedGroup(group_instance_id="static")
    group.subscribe("t")
    group.enter(0)
    group.receive(Unsubscribed("the consumer is closed"))
    assert group.member.actions() == []
    assert group.state is ClassicState.UNSUBSCRIBED


def test_dynamic_member_sends_leave_request() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.enter(0)
    group.receive(Unsubscribed("the consumer is closed"))
    assert [type(action).__name__ for action in group.member.actions()] == ["LeaveGroup"]
    assert group.member.deadline_ms() is None


def test_member_with_fenced_instance_id_does_not_rejoin() -> None:
    group = ScriptedGroup(group_instance_id="static")
    group.subscribe("t")
    group.enter(0)
    group.heartbeat(ErrorCode.FENCED_INSTANCE_ID)
    for _ in range(3):
        with pytest.raises(FencedInstanceIdError, match="group_instance_id='static'"):
            group.poll()
    assert group.member.deadline_ms() is None


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
def test_fatal_error_is_raised_once_and_member_rejoins(code: int, error: type[KafkaError], words: str) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(code=code)
    assert group.member.deadline_ms() is None
    with pytest.raises(error, match=words):
        group.poll()
    group.settle()


def test_changed_subscription_rejoins() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.topics["u"] = [NO_RACK]
    group.subscribe("t")
    group.settle()
    group.subscribe("u")
    assert group.poll() == AssignmentChange(revoked=partitions(0, 1, 2, 3))
    group.settle()
    assert group.owned == partitions(0, topic="u")


def test_subscription_changed_during_rebalance_rejoins_after_it() -> None:
    group = rebalancing()
    group.join()
    group.subscribe("u")
    assert group.state is ClassicState.COMPLETING_REBALANCE
    group.sync(0, 1)
    assert group.poll() == AssignmentChange(revoked=partitions(0, 1))


def test_leader_rejoins_if_partition_count_changes() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.settle()
    assert group.member.watched_topics == ("t",)
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 4}))
    assert group.state is ClassicState.STABLE
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 5}))
    assert group.state is ClassicState.UNJOINED
    group.enter(0)
    assert group.member.watched_topics == ()


def test_member_of_group_without_leader_watches_topics() -> None:
    group = ScriptedGroup("cooperative-sticky")
    group.subscribe("t")
    group.join(leader=None)
    assert group.member.watched_topics == ("t",)
    group.sync(0)
    group.poll()
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 4}))
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 4}))
    assert group.state is ClassicState.STABLE
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 5}))
    assert group.state is ClassicState.UNJOINED
    group.enter(0)
    assert group.member.watched_topics == (), "the group has a leader now"


def test_rejoined_static_leader_skips_assignment_and_watches_topics() -> None:
    group = ScriptedGroup("cooperative-sticky", group_instance_id="one")
    group.subscribe("t")
    action = group.next_action(JOIN_GROUP)
    group.answer(action, replace(group.joined(last_join(group), leader=True), skip_assignment=True))
    group.receive(TopicsFound(group.next_action().attempt, group.topics))
    group.sync(0, 1)
    assert group.poll() == AssignmentChange(assigned=partitions(0, 1), after=partitions(0, 1))
    sync = next(message for key, message in reversed(group.sent) if key == SYNC_GROUP)
    assert isinstance(sync, SyncGroupRequest)
    assert sync.assignments == []
    group.receive(TopicsRefreshed({"t": [NO_RACK] * 5}))
    assert group.state is ClassicState.UNJOINED


def test_error_of_assignor_is_raised_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join(leader=True)
    assignor = group.member.settings.assignors[0]
    monkeypatch.setattr(assignor, "assign", lambda *_: 1 / 0)
    action = group.next_action()
    assert isinstance(action, FindTopics)
    group.receive(TopicsFound(action.attempt, group.topics))
    with pytest.raises(GroupError, match=r"assignor 'range': .* raised ZeroDivisionError"):
        group.poll()


@pytest.mark.parametrize("method", ["user_data", "assigned"])
def test_error_of_assignor_of_follower_is_raised_and_member_rejoins(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    assignor = group.member.settings.assignors[0]
    with monkeypatch.context() as patched:
        patched.setattr(assignor, method, lambda *_: 1 / 0)
        group.pass_time(0)
        if group.state is not ClassicState.FAILED:
            group.join()
            group.sync(0)
    with pytest.raises(GroupError, match=rf"assignor 'range': .*{method}\(\) raised ZeroDivisionError"):
        group.poll()
    group.settle()


def test_assignment_of_unsubscribed_topic_is_refused_with_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    group.join()
    action = group.next_action(SYNC_GROUP)
    group.answer(action, SyncGroupResponse(error_code=0, assignment=encode_assignment(partitions(0, topic="u"))))
    assert group.state is ClassicState.UNJOINED
    assert group.member.deadline_ms() is not None
    assert group.member.deadline_ms() > group.now_ms
    assert "gave this member partitions of u, which it has not subscribed to" in caplog.text
    group.settle()
    assert group.owned == partitions(0, 1, 2, 3)


def test_response_to_superseded_request_is_ignored() -> None:
    group = ScriptedGroup()
    group.subscribe("t")
    late = group.next_action(JOIN_GROUP)
    group.receive(RequestFailed(late.attempt, OUTAGE))
    assert isinstance(late, Send)
    request = late.make(VERSION)
    assert isinstance(request, JoinGroupRequest)
    group.answer(late, group.joined(request))
    assert group.state is ClassicState.UNJOINED


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


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from((("range",), ("cooperative-sticky",), ("range", "sticky"))),
    st.sampled_from((None, "static")),
    st.lists(STEPS, max_size=40),
)
def test_any_sequence_of_events_ends_in_stable_member(
    assignors: tuple[str, ...], instance: str | None, steps: list[Step]
) -> None:
    group = ScriptedGroup(*assignors, group_instance_id=instance)
    group.topics["u"] = [NO_RACK] * 2
    group.subscribe("t")
    for step in steps:
        take(group, *step)
        check_reconciled(group)
    group.subscribe("t")
    for _ in range(3):
        try:
            group.settle()
            break
        except KafkaError:
            continue
    assert group.state is ClassicState.STABLE
    check_reconciled(group)


def take(group: ScriptedGroup, what: str, value: int, numbers: list[int]) -> None:
    """Take one step; `value` is an error code or a time, `numbers` are partitions."""
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
        group.receive(TopicsRefreshed({"t": [NO_RACK] * 7}))
    elif what == "commit":
        if value:
            group.reject_commit(value, member.identity.generation_id)
    elif (action := group.next_action_if_any()) is not None:
        if what == "fail":
            group.receive(RequestFailed(action.attempt, OUTAGE))
        elif isinstance(action, FindTopics):
            group.receive(TopicsFound(action.attempt, group.topics))
        elif action.api_key == HEARTBEAT:
            group.answer(action, HeartbeatResponse(error_code=value))
        elif action.api_key == SYNC_GROUP:
            assignment = encode_assignment(partitions(*numbers))
            group.answer(action, SyncGroupResponse(error_code=value, assignment=assignment))
        else:
            request = action.make(VERSION)
            assert isinstance(request, JoinGroupRequest)
            group.answer(action, group.joined(request, leader=bool(numbers), code=value))


def check_reconciled(group: ScriptedGroup) -> None:
    """The changes that the listener was called with add up to the owned partitions."""
    owned: frozenset[object] = frozenset()
    for change in group.reconciled:
        assert change.lost <= owned
        assert change.revoked <= owned
        owned = owned - change.lost - change.revoked | (change.assigned or frozenset())
        assert owned == change.after
    assert owned == group.owned
    if group.in_progress:  # no JoinGroup before the listener has returned
        assert group.state not in (ClassicState.UNJOINED, ClassicState.PREPARING_REBALANCE)
