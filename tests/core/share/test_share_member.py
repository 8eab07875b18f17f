"""The membership of a share group, on a virtual clock: joining, assignments, fencing, leaving."""

from __future__ import annotations

import random
from typing import cast

import pytest

from kafkaraw.core.group.events import (
    ErrorReported,
    GroupSettings,
    LeaveGroup,
    PollEnded,
    PollStarted,
    RequestFailed,
    ResponseReceived,
    Send,
    Subscription,
    SubscriptionChanged,
    Unsubscribed,
)
from kafkaraw.core.retry import Backoff
from kafkaraw.core.share.member import ShareMember, ShareMemberState
from kafkaraw.errors import BrokerError, GroupError, KafkaTimeoutError, MaxPollExceededError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = Uuid(bytes([7]) * 16)
INTERVAL_MS = 5_000


def new_member(**settings: int | None) -> ShareMember:
    given = GroupSettings("g", max_poll_interval_ms=settings.get("max_poll_interval_ms", 300_000))
    return ShareMember(given, Backoff(100, 1_000), random.Random(1), "me")


def answered(epoch: int = 1, partitions: list[int] | None = None, code: int = 0) -> ShareGroupHeartbeatResponse:
    topics = [TopicPartitions(topic_id=TOPIC, partitions=partitions or [])] if partitions else []
    return ShareGroupHeartbeatResponse(
        error_code=code,
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=None if partitions is None else Assignment(topic_partitions=topics),
    )


def sent(member: ShareMember, now_ms: int) -> tuple[int, ShareGroupHeartbeatRequest]:
    """Let the time pass; return the attempt and the request of the only action."""
    member.tick(now_ms)
    (action,) = member.actions()
    assert isinstance(action, Send)
    return action.attempt, cast("ShareGroupHeartbeatRequest", action.make(1))


def joined(member: ShareMember, now_ms: int = 0) -> ShareMember:
    member.receive(SubscriptionChanged(Subscription(frozenset({"t"}))), now_ms)
    attempt, _ = sent(member, now_ms)
    member.receive(ResponseReceived(attempt, answered(1, [0, 1])), now_ms)
    return member


def test_join_says_epoch_0_and_the_subscription():
    member = new_member()
    member.receive(SubscriptionChanged(Subscription(frozenset({"b", "a"}))), 0)
    _, request = sent(member, 0)
    assert (request.member_epoch, request.member_id) == (0, "me")
    assert request.subscribed_topic_names == ["a", "b"]


def test_response_brings_the_assignment_and_the_interval():
    member = joined(new_member())
    assert member.state is ShareMemberState.STABLE
    assert member.assignment == {TOPIC: (0, 1)}
    assert member.deadline_ms() == INTERVAL_MS
    _, request = sent(member, INTERVAL_MS)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, None)


def test_null_assignment_leaves_the_last_one():
    member = joined(new_member())
    attempt, _ = sent(member, INTERVAL_MS)
    member.receive(ResponseReceived(attempt, answered(2)), INTERVAL_MS)
    assert member.assignment == {TOPIC: (0, 1)}
    assert member.identity.generation_id == 2


def test_heartbeats_come_early_until_the_first_assignment():
    member = new_member()
    member.receive(SubscriptionChanged(Subscription(frozenset({"t"}))), 0)
    attempt, _ = sent(member, 0)
    member.receive(ResponseReceived(attempt, answered(1)), 0)
    assert member.deadline_ms() == 500


def test_new_subscription_is_sent_at_once():
    member = joined(new_member())
    member.receive(SubscriptionChanged(Subscription(frozenset({"u"}))), 10)
    _, request = sent(member, 10)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["u"])


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_fenced_member_joins_again_without_an_assignment(code: ErrorCode):
    member = joined(new_member())
    attempt, _ = sent(member, INTERVAL_MS)
    member.receive(ResponseReceived(attempt, answered(code=code)), INTERVAL_MS)
    assert member.assignment == {}
    _, request = sent(member, INTERVAL_MS)
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["t"])


def test_lost_response_makes_the_next_heartbeat_say_everything():
    member = joined(new_member())
    attempt, _ = sent(member, INTERVAL_MS)
    member.receive(RequestFailed(attempt, KafkaTimeoutError("no response")), INTERVAL_MS)
    due_ms = member.deadline_ms()
    assert due_ms is not None and INTERVAL_MS < due_ms <= INTERVAL_MS + 200
    _, request = sent(member, due_ms)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["t"])


def test_response_to_an_earlier_attempt_is_ignored():
    member = joined(new_member())
    attempt, _ = sent(member, INTERVAL_MS)
    member.receive(ResponseReceived(attempt - 1, answered(9, [5])), INTERVAL_MS)
    assert member.assignment == {TOPIC: (0, 1)}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, "share.version"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "another type"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.share.max.size"),
    ],
)
def test_fatal_error_says_what_to_do_and_the_next_call_joins_again(code: ErrorCode, words: str):
    member = new_member()
    member.receive(SubscriptionChanged(Subscription(frozenset({"t"}))), 0)
    attempt, _ = sent(member, 0)
    member.receive(ResponseReceived(attempt, answered(code=code)), 0)
    assert isinstance(member.error, GroupError)
    assert words in str(member.error)
    assert member.deadline_ms() is None
    member.receive(ErrorReported(), 1)
    assert sent(member, 1)[1].member_epoch == 0


def test_inconsistent_group_protocol_is_reported():
    member = new_member()
    member.receive(SubscriptionChanged(Subscription(frozenset({"t"}))), 0)
    attempt, _ = sent(member, 0)
    member.receive(ResponseReceived(attempt, answered(code=ErrorCode.INVALID_REQUEST)), 0)
    assert isinstance(member.error, BrokerError)
    assert member.state is ShareMemberState.FAILED


def test_member_that_does_not_poll_leaves():
    member = new_member(max_poll_interval_ms=1_000)
    member.receive(PollStarted(), 0)
    joined(member)
    member.receive(PollEnded(), 0)
    member.tick(1_000)
    (action,) = member.actions()
    assert isinstance(action, LeaveGroup)
    assert isinstance(member.error, MaxPollExceededError)
    assert member.state is ShareMemberState.STALE


def test_unsubscribing_sends_a_leave_request():
    member = joined(new_member())
    member.receive(Unsubscribed("closing"), 5)
    (action,) = member.actions()
    assert isinstance(action, LeaveGroup)
    assert cast("ShareGroupHeartbeatRequest", action.make(1)).member_epoch == -1
    assert member.assignment == {}
    assert member.deadline_ms() is None
