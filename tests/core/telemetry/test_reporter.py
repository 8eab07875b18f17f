"""`TelemetryReporter`: intervals, jitter, errors and the end, on a virtual clock and against a model of a broker."""

from __future__ import annotations

import random

import pytest

from kafkaraw.core.telemetry.reporter import (
    DEFAULT_INTERVAL_MS,
    TRANSITIONS,
    AskForSubscription,
    Closed,
    CloseRequested,
    Push,
    PushAnswered,
    RequestFailed,
    SubscriptionAnswered,
    TelemetryReporter,
    TelemetryState,
    TelemetryTrigger,
)
from kafkaraw.errors import InternalError
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

ID = Uuid(b"client-instance!")
S = TelemetryState


def answer(
    metrics: list[str] | None = None, interval_ms: int = 1000, error_code: int = 0, **fields: object
) -> SubscriptionAnswered:
    given: dict[str, object] = {
        "error_code": error_code,
        "client_instance_id": ZERO_UUID if error_code else ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 1],
        "push_interval_ms": interval_ms,
        "telemetry_max_bytes": 1 << 20,
        "delta_temporality": True,
        "requested_metrics": ["*"] if metrics is None else metrics,
    }
    return SubscriptionAnswered(GetTelemetrySubscriptionsResponse(**given | fields))


def asked(seed: int = 1) -> TelemetryReporter:
    """A client that waits for its first subscription."""
    reporter = TelemetryReporter(random.Random(seed))
    reporter.tick(0)
    assert reporter.actions() == [AskForSubscription(ZERO_UUID)]
    assert (reporter.state, reporter.deadline_ms()) == (S.SUBSCRIPTION_IN_PROGRESS, None)
    return reporter


def due(reporter: TelemetryReporter) -> float:
    deadline_ms = reporter.deadline_ms()
    assert deadline_ms is not None
    return deadline_ms


def pushing(reporter: TelemetryReporter) -> float:
    """Subscribe at 0 and begin the first push; returns its time."""
    reporter.receive(answer(), 0)
    at_ms = due(reporter)
    reporter.tick(at_ms - 1)
    assert reporter.actions() == []
    reporter.tick(at_ms)
    [push] = reporter.actions()
    assert isinstance(push, Push) and not push.is_terminating
    return at_ms


def test_first_push_comes_after_half_to_one_and_a_half_of_the_interval_and_later_ones_after_the_interval():
    first = []
    for seed in range(50):
        reporter = asked(seed)
        first.append(at_ms := pushing(reporter))
        reporter.receive(PushAnswered(0), at_ms + 20)
        assert (reporter.state, due(reporter)) == (S.PUSH_NEEDED, at_ms + 20 + 1000)
    assert 500 <= min(first) < 600 and 1400 < max(first) <= 1500


def test_without_requested_metrics_a_client_asks_again_after_the_interval_with_its_id():
    reporter = asked()
    reporter.receive(answer([]), 5)
    assert (reporter.state, due(reporter)) == (S.SUBSCRIPTION_NEEDED, 1005)
    reporter.tick(1005)
    assert reporter.actions() == [AskForSubscription(ID)]


def test_values_of_a_subscription_that_make_no_sense_are_replaced():
    reporter = asked()
    reporter.receive(answer(interval_ms=0, accepted_compression_types=[9, -1, 3]), 0)
    subscription = reporter.subscription
    assert subscription is not None
    assert (subscription.interval_ms, subscription.codec_id) == (DEFAULT_INTERVAL_MS, 3)
    reporter = asked()
    reporter.receive(answer(interval_ms=1, accepted_compression_types=[]), 0)
    subscription = reporter.subscription
    assert subscription is not None
    assert (subscription.interval_ms, subscription.codec_id) == (100, 0)


def test_metrics_are_requested_by_prefix_or_all():
    reporter = asked()
    reporter.receive(answer(["org.apache.kafka.producer.", "x"]), 0)
    assert reporter.subscription is not None
    names = ("org.apache.kafka.producer.record.send.total", "xyz", "org.apache.kafka.consumer.", "*")
    assert [reporter.subscription.wants(name) for name in names] == [True, True, False, False]
    reporter = asked()
    reporter.receive(answer(["*"]), 0)
    assert reporter.subscription is not None and reporter.subscription.wants("anything")


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_a_push_for_another_subscription_asks_again_at_once(code: ErrorCode):
    reporter = asked()
    at_ms = pushing(reporter)
    reporter.receive(PushAnswered(code), at_ms)
    reporter.tick(at_ms)
    assert reporter.actions() == [AskForSubscription(ID)]
    reporter.receive(answer(error_code=code), at_ms)  # a broker that always says so is not asked in a busy loop
    assert due(reporter) == at_ms + 1000


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_a_push_that_is_too_large_or_too_early_asks_again_after_the_interval(code: ErrorCode):
    reporter = asked()
    reporter.receive(answer(error_code=code), 3)
    assert due(reporter) == 3 + DEFAULT_INTERVAL_MS
    reporter = asked()
    at_ms = pushing(reporter)
    reporter.receive(PushAnswered(code), at_ms)
    assert (reporter.state, due(reporter)) == (S.SUBSCRIPTION_NEEDED, at_ms + 1000)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_end_it(code: ErrorCode):
    for reporter, event in ((asked(), answer(error_code=code)), (asked(), PushAnswered(code))):
        at_ms = 0.0
        if isinstance(event, PushAnswered):
            at_ms = pushing(reporter)
        reporter.receive(event, at_ms)
        assert (reporter.ended_by, reporter.deadline_ms()) == (code, None)
        reporter.tick(10**12)
        assert reporter.actions() == []


def test_without_a_response_a_client_asks_again_after_five_minutes_unless_no_retry_can_help():
    reporter = asked()
    reporter.receive(RequestFailed(is_retriable=True), 10)
    assert (reporter.state, due(reporter)) == (S.SUBSCRIPTION_NEEDED, 10 + DEFAULT_INTERVAL_MS)
    reporter = asked()
    reporter.receive(RequestFailed(is_retriable=False), 10)
    assert reporter.deadline_ms() is None


def test_a_subscription_without_an_id_ends_it():
    reporter = asked()
    reporter.receive(answer(client_instance_id=ZERO_UUID), 0)
    assert (reporter.subscription, reporter.deadline_ms(), reporter.ended_by) == (None, None, -1)


def test_closing_pushes_once_more_while_metrics_are_requested():
    for outcome in (PushAnswered(0), PushAnswered(ErrorCode.TELEMETRY_TOO_LARGE), RequestFailed(True)):
        reporter = asked()
        pushing(reporter)
        reporter.receive(CloseRequested(), 2000)
        reporter.receive(CloseRequested(), 2000)
        reporter.receive(PushAnswered(0), 2000)  # of the earlier push
        reporter.tick(2000)
        [push] = reporter.actions()
        assert isinstance(push, Push) and push.is_terminating
        reporter.receive(outcome, 2001)
        assert (reporter.state, reporter.deadline_ms()) == (S.TERMINATED, None)


def test_closing_pushes_nothing_without_a_subscription_or_requested_metrics_or_after_the_end():
    never, without, ended = asked(), asked(), asked()
    without.receive(answer([]), 0)
    pushing(ended)
    ended.receive(PushAnswered(ErrorCode.INVALID_RECORD), 0)
    for reporter in (TelemetryReporter(random.Random(1)), never, without, ended):
        reporter.receive(CloseRequested(), 9)
        reporter.tick(9)
        assert (reporter.state, reporter.actions()) == (S.TERMINATED, [])


def test_a_trigger_that_is_not_expected_is_a_fault_of_the_program():
    reporter = asked()
    with pytest.raises(InternalError, match="waits for its subscription"):
        reporter.receive(PushAnswered(0), 0)


class _Broker:
    """A broker that answers as it likes, and checks what it is asked."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.given: Uuid | None = None
        self.requests: list[tuple[float, object]] = []

    def outcome(self, action: object, now_ms: float) -> object:
        """The end of a request."""
        rng = self._rng
        self.requests.append((now_ms, action))
        if rng.random() < 0.1:
            return RequestFailed(is_retriable=True)
        code = 0
        if rng.random() < 0.2:
            code = rng.choice(
                (
                    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                    ErrorCode.TELEMETRY_TOO_LARGE,
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                )
            )
        if isinstance(action, AskForSubscription):
            assert action.client_instance_id == (self.given or ZERO_UUID)
            if code:
                return answer(error_code=code)
            self.given = ID
            return answer(rng.choice(([], ["*"], ["a", "b"])), rng.choice((-1, 0, 50, 1000, 60_000)))
        assert isinstance(action, Push) and action.subscription.prefixes
        return PushAnswered(code)


@pytest.mark.parametrize("seed", range(20))
def test_a_client_is_never_stuck_and_never_in_a_busy_loop_whatever_brokers_answer(seed: int):
    rng = random.Random(seed)
    broker, reporter = _Broker(rng), TelemetryReporter(rng)
    now_ms = 0.0
    visited = set()
    for _ in range(200):
        reporter.tick(now_ms)
        visited.add(reporter.state)
        for action in reporter.actions():
            now_ms += rng.choice((0, 1, 30))
            reporter.receive(broker.outcome(action, now_ms), now_ms)
        now_ms = max(now_ms, due(reporter))
    assert len(broker.requests) >= 200
    assert now_ms > len(broker.requests) * 20  # most requests wait for an interval of 100 ms or more
    for (before_ms, before), (after_ms, after) in zip(broker.requests, broker.requests[1:], strict=False):
        if after_ms - before_ms < 50:  # only what answers a push may follow at once
            assert isinstance(before, Push) and isinstance(after, AskForSubscription)
    assert visited >= {S.SUBSCRIPTION_IN_PROGRESS, S.PUSH_IN_PROGRESS}
    reporter.receive(CloseRequested(), now_ms)
    reporter.tick(now_ms)
    reporter.receive(Closed(), now_ms)
    assert reporter.state is S.TERMINATED


def test_every_state_can_be_closed_and_nothing_leaves_the_last_one():
    for state in S:
        assert ((state, TelemetryTrigger.TERMINATE) in TRANSITIONS) == (state is not S.TERMINATED)
    assert not any(before is S.TERMINATED for before, _ in TRANSITIONS)
