"""`TelemetryReporter`: when a client asks which metrics it has to push, and when it pushes them (KIP-714). Pure.

A client asks one broker for its subscription (GetTelemetrySubscriptions): an id of the client, prefixes of metrics and
an interval. If metrics are requested, it pushes them (PushTelemetry), for the first time after 50 % to 150 % of the
interval, so that clients that start together do not push together, and then once per interval. Without requested
metrics it asks again after the interval. After an error it asks again, at once or later, or never (`REACTIONS`). A
client that closes pushes once more, at once.

The driver performs `actions()`, reports each outcome with `receive()`, and calls `tick()` at `deadline_ms()`. Which
broker is asked and what the metrics are is not decided here. Start at `TelemetryReporter.tick`.

Source: Kafka classes ClientTelemetryState, ClientTelemetryReporter.DefaultClientTelemetrySender and
ClientTelemetryUtils of Kafka 4.3, with the same states.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from kafkaraw.core.retry import RandomSource
from kafkaraw.errors import InternalError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

DEFAULT_INTERVAL_MS: Final = 300_000
"""The interval until a broker gives one."""
INTERVAL_MS_MIN: Final = 100
"""The shortest interval that Kafka's subscriptions allow; a broker that gives a shorter one gets this one."""
FIRST_PUSH_MIN: Final = 0.5
FIRST_PUSH_MAX: Final = 1.5
"""The first push after a subscription comes after this share of the interval."""
ALL_METRICS: Final = "*"
CODEC_IDS: Final = frozenset(range(5))
"""The codecs that this client has, by their ids on the wire."""


class TelemetryState(Enum):
    """The state of a client; a value ends the sentence "the client ..."."""

    SUBSCRIPTION_NEEDED = "asks for its subscription when the interval is over"
    SUBSCRIPTION_IN_PROGRESS = "waits for its subscription"
    PUSH_NEEDED = "pushes its metrics when the interval is over"
    PUSH_IN_PROGRESS = "waits for the response to a push"
    TERMINATING_PUSH_NEEDED = "pushes its metrics for the last time"
    TERMINATING_PUSH_IN_PROGRESS = "waits for the response to the last push"
    TERMINATED = "is closed"


class TelemetryTrigger(Enum):
    """What moves a client from one state to the next."""

    ASK = "GetTelemetrySubscriptions sent"
    SUBSCRIBED = "metrics requested"
    NOT_SUBSCRIBED = "no metrics requested"
    PUSH = "PushTelemetry sent"
    PUSHED = "push accepted"
    FAILED = "error, or no response"
    CLOSE = "closes, with metrics to push"
    TERMINATE = "closed"


_S, _T = TelemetryState, TelemetryTrigger
TRANSITIONS: Final[Mapping[tuple[TelemetryState, TelemetryTrigger], TelemetryState]] = MappingProxyType(
    {
        (_S.SUBSCRIPTION_NEEDED, _T.ASK): _S.SUBSCRIPTION_IN_PROGRESS,
        (_S.SUBSCRIPTION_IN_PROGRESS, _T.SUBSCRIBED): _S.PUSH_NEEDED,
        (_S.SUBSCRIPTION_IN_PROGRESS, _T.NOT_SUBSCRIBED): _S.SUBSCRIPTION_NEEDED,
        (_S.SUBSCRIPTION_IN_PROGRESS, _T.FAILED): _S.SUBSCRIPTION_NEEDED,
        (_S.SUBSCRIPTION_IN_PROGRESS, _T.CLOSE): _S.TERMINATING_PUSH_NEEDED,
        (_S.PUSH_NEEDED, _T.PUSH): _S.PUSH_IN_PROGRESS,
        (_S.PUSH_NEEDED, _T.CLOSE): _S.TERMINATING_PUSH_NEEDED,
        (_S.PUSH_IN_PROGRESS, _T.PUSHED): _S.PUSH_NEEDED,
        (_S.PUSH_IN_PROGRESS, _T.FAILED): _S.SUBSCRIPTION_NEEDED,
        (_S.PUSH_IN_PROGRESS, _T.CLOSE): _S.TERMINATING_PUSH_NEEDED,
        (_S.TERMINATING_PUSH_NEEDED, _T.PUSH): _S.TERMINATING_PUSH_IN_PROGRESS,
        **{(state, _T.TERMINATE): _S.TERMINATED for state in _S if state is not _S.TERMINATED},
    }
)


class Reaction(Enum):
    """When a client asks for its subscription again, after an error code."""

    AT_ONCE = "at once"
    NEXT_INTERVAL = "after the interval"
    NEVER = "never"


REACTIONS: Final[Mapping[int, Reaction]] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Reaction.AT_ONCE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Reaction.AT_ONCE,
        ErrorCode.TELEMETRY_TOO_LARGE: Reaction.NEXT_INTERVAL,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: Reaction.NEXT_INTERVAL,
    }
)
"""Any other code (INVALID_REQUEST, INVALID_RECORD, INVALID_CONFIG, UNSUPPORTED_VERSION ...) ends it: `NEVER`."""


@dataclass(frozen=True, slots=True)
class TelemetrySubscription:
    """What a broker wants to know.

    Attributes:
        client_instance_id: identifies the client; the same in each subscription.
        subscription_id: identifies metrics and interval; pushes name it.
        interval_ms: time between two pushes, in milliseconds.
        codec_id: the codec of pushes.
        is_delta: whether counters are pushed as the change since the push before.
        prefixes: of the names of metrics; `ALL_METRICS` alone is all of them, none is none.
    """

    client_instance_id: Uuid
    subscription_id: int
    interval_ms: int
    codec_id: int
    is_delta: bool
    prefixes: tuple[str, ...]

    def wants(self, name: str) -> bool:
        """Return whether a metric is requested."""
        return self.prefixes == (ALL_METRICS,) or name.startswith(self.prefixes)


# Events


@dataclass(frozen=True, slots=True)
class SubscriptionAnswered:
    """GetTelemetrySubscriptions was answered."""

    response: GetTelemetrySubscriptionsResponse


@dataclass(frozen=True, slots=True)
class PushAnswered:
    """PushTelemetry was answered."""

    error_code: int


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request got no response, or could not be sent; `is_retriable`: a later one may get one."""

    is_retriable: bool


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The client closes; its earlier request, if there is one, is abandoned."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The client is closed."""


Event: TypeAlias = SubscriptionAnswered | PushAnswered | RequestFailed | CloseRequested | Closed


# Actions


@dataclass(frozen=True, slots=True)
class AskForSubscription:
    """Send GetTelemetrySubscriptions; the id is zero the first time."""

    client_instance_id: Uuid


@dataclass(frozen=True, slots=True)
class Push:
    """Send PushTelemetry; `is_terminating`: for the last time."""

    subscription: TelemetrySubscription
    is_terminating: bool


Action: TypeAlias = AskForSubscription | Push


class TelemetryReporter:
    """The decisions of one client.

    Args:
        rng: source of the jitter.

    Attributes:
        state: see `TelemetryState`.
        subscription: the last one; None before the first.
        ended_by: the error code that ended it, or -1 for an error without a code; None while it is not ended.
    """

    def __init__(self, rng: RandomSource) -> None:
        self.state: TelemetryState = TelemetryState.SUBSCRIPTION_NEEDED
        self.subscription: TelemetrySubscription | None = None
        self.ended_by: int | None = None
        self._rng = rng
        self._due_ms: float = 0.0
        self._actions: list[Action] = []

    def receive(self, event: Event, now_ms: float) -> None:
        """Take an event. Responses that arrive once the client closes change nothing.

        Args:
            event: what happened.
            now_ms: now, in milliseconds.
        """
        match event:
            case CloseRequested():
                self._close()
            case Closed():
                self._terminate()
            case _ if self.state is _S.TERMINATING_PUSH_IN_PROGRESS:
                self._terminate()
            case _ if self.state in (_S.TERMINATING_PUSH_NEEDED, _S.TERMINATED):
                pass
            case SubscriptionAnswered(response) if response.error_code:
                self._failed(response.error_code, now_ms)
                self._due_ms = now_ms + self._interval_ms  # even if the code says "at once": no busy loop
            case SubscriptionAnswered(response):
                self._subscribed(response, now_ms)
            case PushAnswered(error_code) if error_code:
                self._failed(error_code, now_ms)
            case PushAnswered():
                self._move(_T.PUSHED)
                self._due_ms = now_ms + self._interval_ms
            case RequestFailed(is_retriable):
                self._move(_T.FAILED)
                self._due_ms = now_ms + DEFAULT_INTERVAL_MS
                self.ended_by = None if is_retriable else -1

    def tick(self, now_ms: float) -> None:
        """Begin the request that is due.

        Args:
            now_ms: now, in milliseconds.
        """
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or now_ms < deadline_ms:
            return
        if self.state is _S.SUBSCRIPTION_NEEDED:
            known = self.subscription
            self._actions.append(AskForSubscription(ZERO_UUID if known is None else known.client_instance_id))
            self._move(_T.ASK)
        else:
            assert self.subscription is not None
            self._actions.append(Push(self.subscription, self.state is _S.TERMINATING_PUSH_NEEDED))
            self._move(_T.PUSH)

    def actions(self) -> list[Action]:
        """Return what to do, and forget it."""
        actions, self._actions = self._actions, []
        return actions

    def deadline_ms(self) -> float | None:
        """Return when to call `tick`, in milliseconds; None while a request is in flight, or when nothing follows."""
        if self.state is _S.TERMINATING_PUSH_NEEDED:
            return 0.0
        if self.ended_by is not None or self.state not in (_S.SUBSCRIPTION_NEEDED, _S.PUSH_NEEDED):
            return None
        return self._due_ms

    # -- inside

    @property
    def _interval_ms(self) -> int:
        return DEFAULT_INTERVAL_MS if self.subscription is None else self.subscription.interval_ms

    def _subscribed(self, response: GetTelemetrySubscriptionsResponse, now_ms: float) -> None:
        if response.client_instance_id == ZERO_UUID:
            self._move(_T.FAILED)
            self.ended_by = -1
            return
        self.subscription = subscription = _subscription(response)
        self._move(_T.SUBSCRIBED if subscription.prefixes else _T.NOT_SUBSCRIBED)
        share = self._rng.uniform(FIRST_PUSH_MIN, FIRST_PUSH_MAX) if subscription.prefixes else 1.0
        self._due_ms = now_ms + subscription.interval_ms * share

    def _failed(self, error_code: int, now_ms: float) -> None:
        self._move(_T.FAILED)
        reaction = REACTIONS.get(error_code, Reaction.NEVER)
        self._due_ms = now_ms + (0 if reaction is Reaction.AT_ONCE else self._interval_ms)
        if reaction is Reaction.NEVER:
            self.ended_by = error_code

    def _close(self) -> None:
        """Begin the last push, if metrics are requested and the broker takes them."""
        known = self.subscription
        if known is not None and known.prefixes and (self.state, _T.CLOSE) in TRANSITIONS:
            self._move(_T.CLOSE)
        elif self.state not in (_S.TERMINATING_PUSH_NEEDED, _S.TERMINATING_PUSH_IN_PROGRESS):
            self._terminate()

    def _terminate(self) -> None:
        if self.state is not _S.TERMINATED:
            self._move(_T.TERMINATE)

    def _move(self, trigger: TelemetryTrigger) -> None:
        after = TRANSITIONS.get((self.state, trigger))
        if after is None:
            raise InternalError(f"telemetry: {trigger.value!r} is not expected while the client {self.state.value}")
        self.state = after


def _subscription(response: GetTelemetrySubscriptionsResponse) -> TelemetrySubscription:
    """Read a response; values that make no sense count as Java counts them."""
    codecs = [codec_id for codec_id in response.accepted_compression_types if codec_id in CODEC_IDS]
    return TelemetrySubscription(
        response.client_instance_id,
        response.subscription_id,
        max(response.push_interval_ms, INTERVAL_MS_MIN) if response.push_interval_ms > 0 else DEFAULT_INTERVAL_MS,
        codecs[0] if codecs else 0,
        response.delta_temporality,
        tuple(response.requested_metrics),
    )
