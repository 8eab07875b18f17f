"""What one client connection does: negotiate versions, match answers to requests, keep deadlines. Pure.

Theory of operation. A connection starts NEW. When the link is made it asks for ApiVersions with the highest version
that we know; a broker that refuses is asked again lower, at most down to 0 (`core.negotiation`). Then it is READY.
Requests are encoded as they are submitted, wait while `max_in_flight` are unanswered or while the broker throttles us,
and are sent in the order of submission. A broker answers one connection's requests in order, so an answer belongs to
the oldest unanswered request, and its correlation id must say the same; when it does not, the two ends are out of step
and nothing on this connection can be trusted any more: it ends.

Each request has a deadline; when it passes, that request fails and its answer, should it come, is thrown away. The
connection itself ends when the oldest unanswered request has had neither an answer by its own deadline nor any sign of
life from the broker for `request_timeout_ms`. Whatever ends it fails everything unanswered, each request once.

The driver (`client.connection`) passes events to `receive`, does what `actions` says, and calls `tick` at
`deadline_ms`. Start at `ConnectionMachine.receive`.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from kafkaraw._version import __version__
from kafkaraw.core.negotiation import API_VERSIONS_KEY, ApiVersionTable, AskAgain, read_api_versions
from kafkaraw.core.throttle import binding_throttle_ms
from kafkaraw.errors import (
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol import RequestHeader, Segment, VersionRange, decode_response, encode_request_segments
from kafkaraw.protocol.apis import API_BY_KEY, Api, api_of
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest

log = logging.getLogger(__name__)

CORRELATION_ID_MAX: Final = 2**31 - 9
"""Kafka's clients keep the eight ids above for re-authentication."""


class ConnectionState(Enum):
    """Where a connection is in its life."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    READY = "ready"
    THROTTLED = "throttled"
    CLOSED = "closed"


TRANSITIONS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    ConnectionState.NEW: frozenset({ConnectionState.NEGOTIATING, ConnectionState.CLOSED}),
    ConnectionState.NEGOTIATING: frozenset({ConnectionState.READY, ConnectionState.CLOSED}),
    ConnectionState.READY: frozenset({ConnectionState.THROTTLED, ConnectionState.CLOSED}),
    ConnectionState.THROTTLED: frozenset({ConnectionState.READY, ConnectionState.CLOSED}),
    ConnectionState.CLOSED: frozenset(),
}


# -- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkMade:
    """The link stands; the versions must be known by `deadline_ms`."""

    deadline_ms: float


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A whole frame has come."""

    frame: memoryview


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The link is gone; `error` as in `LinkHandler.link_lost`."""

    error: KafkaError | None


@dataclass(frozen=True, slots=True)
class Submit:
    """Somebody has a request.

    Attributes:
        key: names the request in `Succeed`, `Fail` and `Abandon`; compared by identity.
        message: the request.
        version: to encode it in; None for the highest that both ends know.
        timeout_ms: for waiting, sending and answering together, in milliseconds.
        oneway: the broker will not answer (Produce with acks=0); no action will name it unless it fails.
    """

    key: object
    message: object
    version: int | None
    timeout_ms: float
    oneway: bool = False


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody waits for this request any more."""

    key: object


@dataclass(frozen=True, slots=True)
class CloseAsked:
    """The client wants the connection closed."""


Event: TypeAlias = LinkMade | FrameReceived | LinkLost | Submit | Abandon | CloseAsked


# -- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this frame."""

    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class BecomeReady:
    """The versions are known: requests may be submitted."""

    api_versions: ApiVersionTable


@dataclass(frozen=True, slots=True)
class Succeed:
    """The request was answered."""

    key: object
    response: object


@dataclass(frozen=True, slots=True)
class Fail:
    """The request failed."""

    key: object
    error: KafkaError


@dataclass(frozen=True, slots=True)
class End:
    """The connection is over, for this reason; close the link. Comes once, after the `Fail` of every request."""

    error: KafkaError


Action: TypeAlias = Send | BecomeReady | Succeed | Fail | End


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may do.

    Attributes:
        client_id: sent with every request, for the broker's logs and quotas.
        request_timeout_ms: how long a broker may be silent while it owes an answer, in milliseconds.
        max_in_flight: how many requests may be unanswered at once.
        first_correlation_id: of the first request.
    """

    client_id: str | None = None
    request_timeout_ms: float = 30_000
    max_in_flight: int = 5
    first_correlation_id: int = 0


@dataclass(slots=True)
class _Pending:
    """A request that waits to be sent or answered; `key` is None when nobody waits for it."""

    key: object | None
    api: Api
    version: int
    correlation_id: int
    segments: list[Segment]
    timeout_ms: float
    deadline_ms: float
    oneway: bool

    @property
    def name(self) -> str:
        return f"{self.api.name} v{self.version}"


class ConnectionMachine:
    """The client's half of one connection.

    Args:
        peer: the broker as "host:port", for messages.
        limits: see there.
    """

    def __init__(self, peer: str, limits: ConnectionLimits) -> None:
        self.peer = peer
        self.state = ConnectionState.NEW
        self.api_versions: ApiVersionTable | None = None
        self._limits = limits
        self._actions: list[Action] = []
        self._waiting: deque[_Pending] = deque()
        self._in_flight: deque[_Pending] = deque()
        self._correlation_id = limits.first_correlation_id
        self._until_ms = 0.0  # of negotiating or of being throttled
        self._answered_once = False  # since it is READY
        self._alive_ms = 0.0  # when the broker last answered, or began to owe an answer

    # -- the four verbs --------------------------------------------------------------------------------------------

    def receive(self, event: Event, now_ms: float) -> None:
        """Take note of something that happened."""
        match event:
            case FrameReceived(frame):
                self._frame_received(frame, now_ms)
            case Submit():
                self._submit(event, now_ms)
            case Abandon(key):
                self._abandon(key)
            case LinkMade(deadline_ms):
                self._until_ms = deadline_ms
                self._move_to(ConnectionState.NEGOTIATING)
                api = API_BY_KEY[API_VERSIONS_KEY]
                self._ask_api_versions(api.supported.max, now_ms)
            case LinkLost(error):
                self._link_lost(error)
            case CloseAsked():
                self._end(ClosedError(f"the connection to {self.peer} was closed by this client"))

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""
        actions, self._actions = self._actions, []
        return actions

    def deadline_ms(self) -> float | None:
        """Return when `tick` wants to be called, None when nothing is awaited."""
        return min(self._deadlines(), default=None)

    def tick(self, now_ms: float) -> None:
        """Take note that time has passed."""
        if self.state is ConnectionState.NEGOTIATING and now_ms >= self._until_ms:
            self._end(self._silence_error(now_ms))
        elif self.state is ConnectionState.THROTTLED and now_ms >= self._until_ms:
            self._move_to(ConnectionState.READY)
        self._expire(now_ms)
        if self._in_flight and now_ms >= self._give_up_ms():
            seconds = (now_ms - self._alive_ms) / 1000
            self._end(
                NetworkError(
                    f"{self.peer} owes an answer to {self._in_flight[0].name} and has been silent for {seconds:.3g} s",
                    stage=Stage.REQUEST,
                )
            )
        self._flush(now_ms)

    def version_for(self, api_key: int) -> int:
        """Return the highest version of an API that both ends know.

        Raises:
            UnsupportedVersionError: there is none; names both ranges.
            UsageError: the connection is not ready yet.
        """
        if self.api_versions is None:
            raise UsageError(f"the versions of {self.peer} are not known yet")
        return self.api_versions.version_for(api_key)

    # -- negotiation -----------------------------------------------------------------------------------------------

    def _ask_api_versions(self, version: int, now_ms: float) -> None:
        message = ApiVersionsRequest()
        if version >= 3:
            message = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version=__version__)
        question = self._encode(Submit(self, message, version, self._until_ms - now_ms), version, now_ms)
        self._in_flight.append(question)
        self._alive_ms = now_ms
        self._actions.append(Send(question.segments))

    def _api_versions_received(self, frame: memoryview, now_ms: float) -> None:
        question = self._in_flight.popleft()
        try:
            answer = read_api_versions(frame, question.version, self.peer)
        except ProtocolError as error:
            self._end(_at_stage(error, f"{self.peer}: API versions"))
            return
        except KafkaError as error:
            self._end(error)
            return
        if isinstance(answer, AskAgain):
            log.debug("%s: ApiVersions v%d refused, asking v%d", self.peer, question.version, answer.version)
            self._ask_api_versions(answer.version, now_ms)
            return
        self.api_versions = answer
        self._move_to(ConnectionState.READY)
        self._actions.append(BecomeReady(answer))
        if answer.throttle_ms:
            self._throttle(now_ms + answer.throttle_ms)

    def _silence_error(self, now_ms: float) -> NetworkError:
        seconds = (now_ms - self._alive_ms) / 1000
        return NetworkError(
            f"{self.peer} accepted the connection but did not answer ApiVersions within {seconds:.3g} s; "
            "it may not be a Kafka broker, may want TLS, or may be overloaded",
            stage=Stage.API_VERSIONS,
        )

    # -- requests --------------------------------------------------------------------------------------------------

    def _submit(self, event: Submit, now_ms: float) -> None:
        try:
            self._waiting.append(self._encode(event, self._version_of(event), now_ms))
        except KafkaError as error:
            self._actions.append(Fail(event.key, error))
            return
        self._flush(now_ms)

    def _version_of(self, event: Submit) -> int:
        if self.state is ConnectionState.CLOSED:
            raise NetworkError(f"the connection to {self.peer} is closed", stage=Stage.REQUEST)
        api = api_of(event.message)
        if event.version is None:
            return self.version_for(api.key)
        if self.api_versions is None:
            raise UsageError(f"the versions of {self.peer} are not known yet")
        offered = self.api_versions.offered.get(api.key, VersionRange(0, -1))
        if not offered.includes(event.version):
            raise UnsupportedVersionError(
                f"{self.peer} offers {api.name} in versions {offered}, version {event.version} was asked for"
            )
        return event.version

    def _encode(self, event: Submit, version: int, now_ms: float) -> _Pending:
        api = api_of(event.message)
        correlation_id = self._correlation_id
        header = RequestHeader(api.key, version, correlation_id, self._limits.client_id)
        segments = encode_request_segments(header, event.message)
        self._correlation_id = 0 if correlation_id >= CORRELATION_ID_MAX else correlation_id + 1
        deadline_ms = now_ms + event.timeout_ms
        return _Pending(event.key, api, version, correlation_id, segments, event.timeout_ms, deadline_ms, event.oneway)

    def _flush(self, now_ms: float) -> None:
        """Send what may be sent now."""
        waiting, in_flight = self._waiting, self._in_flight
        while waiting and self.state is ConnectionState.READY and len(in_flight) < self._limits.max_in_flight:
            pending = waiting.popleft()
            if pending.key is None:
                continue
            if not pending.oneway:
                if not in_flight:
                    self._alive_ms = now_ms
                in_flight.append(pending)
            self._actions.append(Send(pending.segments))
            pending.segments = []

    def _abandon(self, key: object) -> None:
        for pending in (*self._in_flight, *self._waiting):
            if pending.key is key:
                pending.key = None

    # -- answers ---------------------------------------------------------------------------------------------------

    def _frame_received(self, frame: memoryview, now_ms: float) -> None:
        if self.state is ConnectionState.CLOSED:
            return
        if misfit := self._misfit(frame):
            self._end_by_peer(ProtocolError(f"{self.peer} {misfit}"))
            return
        self._alive_ms = now_ms
        if self.state is ConnectionState.NEGOTIATING:
            self._api_versions_received(frame, now_ms)
            return
        pending = self._in_flight.popleft()
        if pending.key is not None:
            self._answered(pending, frame, now_ms)
        self._flush(now_ms)

    def _misfit(self, frame: memoryview) -> str:
        """Return why a frame cannot be the answer to the oldest request; an empty string when it can."""
        if not self._in_flight:
            return f"sent {len(frame)} bytes that nobody asked for"
        if len(frame) < 4:
            return f"answered with {len(frame)} bytes, too few for a response"
        (correlation_id,) = struct.unpack_from(">i", frame)
        expected = self._in_flight[0]
        if correlation_id == expected.correlation_id:
            return ""
        return f"answered {expected.name} out of step: correlation id {correlation_id}, not {expected.correlation_id}"

    def _answered(self, pending: _Pending, frame: memoryview, now_ms: float) -> None:
        try:
            _, response = decode_response(frame, pending.api.key, pending.version, allow_trailing_bytes=True)
        except ProtocolError as error:
            explained = _at_stage(error, f"{self.peer}: response to {pending.name}")
            self._actions.append(Fail(pending.key, explained))
            self._end_by_peer(explained)
            return
        self._answered_once = True
        self._actions.append(Succeed(pending.key, response))
        throttle_ms = binding_throttle_ms(response, pending.api.key, pending.version)
        if throttle_ms:
            self._throttle(now_ms + throttle_ms)

    def _throttle(self, until_ms: float) -> None:
        if self.state is ConnectionState.THROTTLED:
            self._until_ms = max(self._until_ms, until_ms)
        else:
            self._until_ms = until_ms
            self._move_to(ConnectionState.THROTTLED)

    # -- time ------------------------------------------------------------------------------------------------------

    def _deadlines(self) -> Iterator[float]:
        if self.state in (ConnectionState.NEGOTIATING, ConnectionState.THROTTLED):
            yield self._until_ms
        if self._in_flight and self.state is not ConnectionState.NEGOTIATING:
            yield self._give_up_ms()
        for requests in (self._in_flight, self._waiting):
            for pending in requests:
                if pending.key is not None and pending.key is not self and not pending.oneway:
                    yield pending.deadline_ms

    def _give_up_ms(self) -> float:
        oldest = self._in_flight[0]
        return max(oldest.deadline_ms, self._alive_ms + self._limits.request_timeout_ms)

    def _expire(self, now_ms: float) -> None:
        if self.state is ConnectionState.NEGOTIATING:
            return
        for requests, what in ((self._in_flight, "did not answer"), (self._waiting, "could not be sent")):
            for pending in requests:
                if pending.key is None or now_ms < pending.deadline_ms:
                    continue
                within = f"within {pending.timeout_ms / 1000:g} s"
                reason = (
                    f"{self.peer} {what} {pending.name} {within}"
                    if requests is self._in_flight
                    else f"{pending.name} {what} to {self.peer} {within}: the connection is busy or throttled"
                )
                self._actions.append(Fail(pending.key, KafkaTimeoutError(reason)))
                pending.key = None

    # -- the end ---------------------------------------------------------------------------------------------------

    def _link_lost(self, error: KafkaError | None) -> None:
        if error is None and self.state is ConnectionState.NEGOTIATING:
            error = NetworkError(
                f"{self.peer} closed the connection instead of answering ApiVersions; it may want TLS or SASL, "
                "or be no Kafka broker",
                stage=Stage.API_VERSIONS,
            )
        # What Kafka does with a client that should have logged in, and has not.
        refused = self._in_flight and not self._answered_once
        hint = (
            "; it answered no request on it: does it want a login (SASL), or a client certificate?" if refused else ""
        )
        self._end_by_peer(error or NetworkError(f"{self.peer} closed the connection{hint}", stage=Stage.REQUEST))

    def _end_by_peer(self, error: KafkaError) -> None:
        """End because of what the peer did, in the terms of the stage that was reached."""
        if self.api_versions is not None:
            if isinstance(error, NetworkError):
                self._end(error)
                return
            lost = NetworkError(f"the connection to {self.peer} was given up: {error}", stage=Stage.REQUEST)
            lost.__cause__ = error
            self._end(lost)
        elif isinstance(error, ProtocolError) and self.peer not in str(error):
            self._end(_at_stage(error, f"{self.peer} is not a Kafka broker"))
        elif isinstance(error, NetworkError):
            self._end(_with_stage(error, Stage.API_VERSIONS))
        else:
            self._end(error)

    def _end(self, error: KafkaError) -> None:
        if self.state is ConnectionState.CLOSED:
            return
        self._move_to(ConnectionState.CLOSED)
        for requests, fate in ((self._in_flight, "was not answered"), (self._waiting, "was not sent")):
            for pending in requests:
                if pending.key is not None and pending.key is not self:
                    self._actions.append(Fail(pending.key, _copy_for(error, f"{pending.name} {fate}")))
            requests.clear()
        self._actions.append(End(error))

    def _move_to(self, state: ConnectionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        log.debug("%s: %s -> %s", self.peer, self.state.name, state.name)
        self.state = state


def _at_stage(error: ProtocolError, where: str) -> ProtocolError:
    """Return the same error with the place where it happened in front."""
    if isinstance(error, UnsupportedVersionError):
        return error
    explained = ProtocolError(f"{where}: {error.message}", path=error.path, offset=error.offset)
    explained.__cause__ = error
    return explained


def _with_stage(error: NetworkError, stage: Stage) -> NetworkError:
    moved = NetworkError(str(error), stage=stage)
    moved.__cause__ = error.__cause__
    return moved


def _copy_for(error: KafkaError, fate: str) -> KafkaError:
    """Return an error of its own for one request: a shared one would collect everybody's tracebacks."""
    copy: KafkaError
    if isinstance(error, NetworkError):
        copy = NetworkError(f"{error}; {fate}", stage=error.stage)
    else:
        copy = ClosedError(f"{error}; {fate}")
    copy.__cause__ = error.__cause__
    return copy
