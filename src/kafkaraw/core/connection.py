"""The state machine of one client connection: versions, authentication, matching responses, deadlines. Pure.

Theory of operation. A connection starts NEW. When the link is made, the client sends ApiVersions in the highest version
that it knows; if the broker refuses, it retries with a lower version, at most down to 0 (`core.negotiation`). Then it
authenticates, if SASL is configured (`core.sasl.conversation` makes the messages). Then it is READY.
Requests are encoded when they are submitted. They wait while `max_in_flight` requests are unanswered or while the
broker throttles the client, and are sent in the order of submission. A broker answers one connection's requests in
order, so a response belongs to the oldest unanswered request and has its correlation id. If the correlation id differs,
the connection ends, because no later response can be matched either.

Each request has a deadline. When it passes, the request fails, and its response is dropped if it arrives later. The
connection ends when the deadline of the oldest unanswered request has passed and the broker has sent nothing for
`request_timeout_ms`. When a connection ends, for any reason, each unanswered request fails once.

The broker does not answer a Produce request with acks=0. Such a request succeeds when the operating system has taken
its bytes (`BytesLeft`), so that a peer that stops reading slows its sender down. If that takes longer than the
request's deadline, the connection ends (as in Kafka's NetworkClient.handleTimedOutRequests).

A SASL session may have a lifetime (KIP-368). After a share of it (Kafka's clients draw it between 85 and 95 %), the
first request makes the connection DRAINING: it sends no more requests, waits for the pending responses, and requests a
new mechanism. Then it re-authenticates on the same connection, and sends the waiting requests. An idle connection
re-authenticates before its next request; brokers allow that after the end of the session, too. If the broker refuses
the re-authentication, the connection ends.

The driver (`client.connection`) passes events to `receive`, carries out `actions`, and calls `tick` at `deadline_ms`.
`Submit` and `FrameReceived`, the two events of every request, are also methods, so that no event object has to be
created for them. Start at `ConnectionMachine.receive`.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkaraw._version import __version__
from kafkaraw.core.connection_events import (
    Abandon,
    Action,
    BecomeReady,
    BytesLeft,
    CloseRequested,
    Compute,
    Computed,
    ConnectionLimits,
    End,
    Event,
    Fail,
    FrameReceived,
    LinkLost,
    LinkMade,
    MechanismFailed,
    MechanismReady,
    NeedMechanism,
    Send,
    SendOneway,
    Submit,
    Succeed,
    at_stage,
    copy_for,
    with_stage,
)
from kafkaraw.core.negotiation import (
    API_VERSIONS_KEY,
    ApiVersionTable,
    RetryApiVersions,
    binding_throttle_ms,
    read_api_versions,
)
from kafkaraw.errors import (
    AuthenticationError,
    ClosedError,
    InternalError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    ProtocolError,
    Stage,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import RequestHeader, Segment, VersionRange, decode_response, encode_request_segments
from kafkaraw.protocol.apis import API_BY_KEY, Api, api_of
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.frames import HandWritten
from kafkaraw.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kafkaraw.core.sasl.conversation import SaslConversation
    from kafkaraw.core.sasl.mechanism import ClientMechanism

log: logging.Logger = logging.getLogger(__name__)

CORRELATION_ID_MAX: Final = 2**31 - 9
"""Kafka's clients keep the eight ids above for re-authentication."""


class ConnectionState(Enum):
    """Where a connection is in its life."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    THROTTLED = "throttled"
    DRAINING = "waiting for responses before it re-authenticates"
    REAUTHENTICATING = "re-authenticating"
    CLOSED = "closed"


_S = ConnectionState
TRANSITIONS: Final[dict[ConnectionState, frozenset[ConnectionState]]] = {
    _S.NEW: frozenset({_S.NEGOTIATING, _S.CLOSED}),
    _S.NEGOTIATING: frozenset({_S.AUTHENTICATING, _S.READY, _S.CLOSED}),
    _S.AUTHENTICATING: frozenset({_S.READY, _S.CLOSED}),
    _S.READY: frozenset({_S.THROTTLED, _S.DRAINING, _S.CLOSED}),
    _S.THROTTLED: frozenset({_S.READY, _S.CLOSED}),
    _S.DRAINING: frozenset({_S.REAUTHENTICATING, _S.CLOSED}),
    _S.REAUTHENTICATING: frozenset({_S.READY, _S.CLOSED}),
    _S.CLOSED: frozenset(),
}

_READY: Final = ConnectionState.READY  # members of an enum are slow to look up
_CLOSED: Final = ConnectionState.CLOSED
_AUTHENTICATING: Final = ConnectionState.AUTHENTICATING
_AUTHENTICATING_STATES: Final = frozenset({ConnectionState.AUTHENTICATING, ConnectionState.REAUTHENTICATING})
_PREPARING: Final = _AUTHENTICATING_STATES | {ConnectionState.NEGOTIATING}
"""The states in which the machine sends its own requests, all of which share one deadline."""
_NEVER: Final = float("inf")
_CORRELATION_ID: Final = struct.Struct(">i")


@dataclass(slots=True)
class _Pending:
    """A request that waits to be sent or answered.

    Its `key` is None when its caller has abandoned it, and the machine itself for a request of the machine's own.
    `reader` decodes the response where the general decoder does not.
    """

    key: object | None
    api: Api
    version: int
    correlation_id: int
    segments: list[Segment]
    timeout_ms: float
    deadline_ms: float
    oneway: bool
    reader: HandWritten[Response] | None

    @property
    def name(self) -> str:
        return f"{self.api.name} v{self.version}"

    def is_awaited(self, machine: object) -> bool:
        """Whether a caller waits for the response; the machine itself does not count."""
        return self.key is not None and self.key is not machine


class ConnectionMachine:
    """The client's half of one connection.

    Args:
        peer: the broker as "host:port", for messages.
        limits: see there.
    """

    def __init__(self, peer: str, limits: ConnectionLimits) -> None:
        self.peer = peer
        self.state: ConnectionState = ConnectionState.NEW
        self.api_versions: ApiVersionTable | None = None
        self._limits = limits
        self._actions: list[Action] = []
        self._waiting: deque[_Pending] = deque()
        self._in_flight: deque[_Pending] = deque()
        self._leaving: deque[_Pending] = deque()  # one-way requests whose bytes the operating system has not all taken
        self._correlation_id = limits.first_correlation_id
        self._began_ms = 0.0  # what must be done by
        self._until_ms = 0.0
        self._throttled_until_ms = 0.0  # by the broker
        self._login: SaslConversation | None = None
        self._renewal: ClientMechanism | None = None
        self._renew_at_ms = _NEVER
        self._answered_once = False  # since it is READY
        self._alive_ms = 0.0  # when the broker last answered, or began to owe an answer
        self._versions: dict[int, int] = {}  # by API key, as `version_for` found them

    # -- the four verbs --------------------------------------------------------------------------------------------

    def receive(self, event: Event, now_ms: float) -> None:
        """Process an event."""
        match event:
            case FrameReceived(frame):
                self.frame_received(frame, now_ms)
            case Submit(key, message, version, timeout_ms, oneway):
                self.submit(key, message, version, timeout_ms, now_ms, oneway=oneway)
            case Abandon(key):
                self._abandon(key)
            case BytesLeft():
                self._bytes_left()
            case LinkMade():
                self._link_made(event, now_ms)
            case MechanismReady(mechanism):
                self._mechanism_ready(mechanism, now_ms)
            case MechanismFailed(error):
                self._end(error)
            case Computed():
                self._computed(now_ms)
            case LinkLost(error):
                self._link_lost(error)
            case CloseRequested():
                self._end(ClosedError(f"the connection to {self.peer} was closed by this client"))

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""
        actions, self._actions = self._actions, []
        return actions

    def deadline_ms(self) -> float | None:
        """Return when to call `tick`; None without a deadline."""
        soonest = min(self._deadlines_of_state(), default=_NEVER)
        for requests in (self._in_flight, self._waiting, self._leaving):
            for pending in requests:
                if pending.deadline_ms < soonest and pending.is_awaited(self):
                    soonest = pending.deadline_ms
        return None if soonest == _NEVER else soonest

    def tick(self, now_ms: float) -> None:
        """Process the deadlines that have passed."""
        if self._is_preparing and now_ms >= self._until_ms:
            self._end(self._silence_error(now_ms))
        elif self.state is ConnectionState.THROTTLED and now_ms >= self._throttled_until_ms:
            self._move_to(ConnectionState.READY)
        self._renew_when_drained(now_ms)
        self._expire(now_ms)
        if self._in_flight and self.state not in _PREPARING and now_ms >= self._silence_limit_ms():
            seconds = (now_ms - self._alive_ms) / 1000
            self._end(
                NetworkError(
                    f"{self.peer} has not responded to {self._in_flight[0].name} and has sent nothing for "
                    f"{seconds:.3g} s",
                    stage=Stage.REQUEST,
                )
            )
        if self._leaving and now_ms >= self._leaving[0].deadline_ms:
            oldest = self._leaving[0]
            within = f"within {oldest.timeout_ms / 1000:g} s"
            self._end(
                NetworkError(f"{self.peer} did not accept the bytes of {oldest.name} {within}", stage=Stage.REQUEST)
            )
        self._flush(now_ms)

    def version_for(self, api_key: int) -> int:
        """Return the highest version of an API that both ends know.

        Raises:
            UnsupportedVersionError: there is none; names both ranges.
            UsageError: the connection is not ready yet.
        """
        version = self._versions.get(api_key)
        if version is None:
            if self.api_versions is None:
                raise UsageError(f"the versions of {self.peer} are not known yet")
            version = self._versions[api_key] = self.api_versions.version_for(api_key)
        return version

    # -- negotiation -----------------------------------------------------------------------------------------------

    def _link_made(self, event: LinkMade, now_ms: float) -> None:
        self._began_ms, self._until_ms = now_ms, event.deadline_ms
        self._move_to(ConnectionState.NEGOTIATING)
        if event.wants_login:
            self._login = _new_login(self.peer, renews=False)
            self._login.versions_asked()
        self._ask_api_versions(API_BY_KEY[API_VERSIONS_KEY].supported.max, now_ms)

    def _ask_api_versions(self, version: int, now_ms: float) -> None:
        message = ApiVersionsRequest()
        if version >= 3:
            message = ApiVersionsRequest(client_software_name="kafkaraw", client_software_version=__version__)
        self._ask(message, version, now_ms)

    def _ask(self, message: Request[Response], version: int, now_ms: float) -> None:
        """Send a request of the machine's own at once; submitted requests wait meanwhile."""
        question = self._encode(self, message, version, self._until_ms - now_ms, now_ms, oneway=False)
        self._in_flight.append(question)
        self._alive_ms = now_ms
        self._actions.append(Send(question.segments))

    def _api_versions_received(self, frame: memoryview, now_ms: float) -> None:
        question = self._in_flight.popleft()
        try:
            answer = read_api_versions(frame, question.version, self.peer)
        except ProtocolError as error:
            self._end(at_stage(error, f"{self.peer}: API versions"))
            return
        except KafkaError as error:
            self._end(error)
            return
        if isinstance(answer, RetryApiVersions):
            log.debug("%s: ApiVersions v%d refused, asking v%d", self.peer, question.version, answer.version)
            self._ask_api_versions(answer.version, now_ms)
            return
        self.api_versions = answer
        self._versions.clear()
        self._note_throttle(now_ms + answer.throttle_ms)
        if self._login is None:
            self._become_ready(now_ms)
            return
        self._move_to(ConnectionState.AUTHENTICATING)
        self._actions.append(NeedMechanism(self._until_ms))

    def _become_ready(self, now_ms: float) -> None:
        assert self.api_versions is not None
        first = self.state is not ConnectionState.REAUTHENTICATING
        self._move_to(ConnectionState.READY)
        if first:
            self._actions.append(BecomeReady(self.api_versions))
        self._throttle_if_needed(now_ms)

    def _silence_error(self, now_ms: float) -> NetworkError:
        if self._login is not None and self.state is not ConnectionState.NEGOTIATING:
            within = f"within {(now_ms - self._began_ms) / 1000:.3g} s"
            missing = self.state is ConnectionState.DRAINING or not self._login.begun
            what = (
                f"the credentials (token or ticket) for {self.peer} were not available {within}"
                if missing
                else f"{self.peer} did not complete the authentication (SASL) {within}; see the broker's log"
            )
            return NetworkError(what, stage=Stage.SASL)
        seconds = (now_ms - self._alive_ms) / 1000
        return NetworkError(
            f"{self.peer} accepted the connection but did not answer ApiVersions within {seconds:.3g} s; "
            "it may not be a Kafka broker, may require TLS, or may be overloaded",
            stage=Stage.API_VERSIONS,
        )

    # -- logging in ------------------------------------------------------------------------------------------------

    def _mechanism_ready(self, mechanism: ClientMechanism, now_ms: float) -> None:
        if self.state is ConnectionState.AUTHENTICATING and self._login is not None and not self._login.begun:
            self._begin_login(self._login, mechanism, now_ms)
        elif self.state is ConnectionState.DRAINING:
            self._renewal = mechanism
            self._renew_when_drained(now_ms)

    def _begin_login(self, login: SaslConversation, mechanism: ClientMechanism, now_ms: float) -> None:
        from kafkaraw.core.sasl.mechanism import SASL_HANDSHAKE_KEY  # few connections authenticate with SASL

        try:
            login.begin(mechanism, self.version_for(SASL_HANDSHAKE_KEY))
        except KafkaError as error:
            self._end(error)
            return
        self._continue_authentication(login, now_ms)

    def _continue_authentication(self, login: SaslConversation, now_ms: float) -> None:
        """Send the next message of the authentication; when it is complete, the connection is READY."""
        from kafkaraw.core.sasl.mechanism import BareToken  # as in `_begin_login`

        try:
            message = login.next_request()
            if isinstance(message, BareToken):
                self._actions.append(Send([message.token]))
            elif message is not None:
                self._ask(message, self.version_for(api_of(message).key), now_ms)
        except KafkaError as error:
            self._end(error)
            return
        if message is None:
            lifetime_ms = login.session_lifetime_ms
            self._renew_at_ms = now_ms + lifetime_ms * self._limits.session_share if lifetime_ms > 0 else _NEVER
            self._become_ready(now_ms)
            self._flush(now_ms)

    def _login_answered(self, login: SaslConversation, frame: memoryview, now_ms: float) -> None:
        from kafkaraw.core.sasl.mechanism import BareToken  # as in `_begin_login`

        try:
            if login.awaits_bare_token:
                login.receive(BareToken(bytes(frame)))
            else:
                asked = self._in_flight.popleft()
                _, response = decode_response(frame, asked.api.key, asked.version, allow_trailing_bytes=True)
                login.receive(response)
        except ProtocolError as error:
            self._end_by_peer(at_stage(error, f"{self.peer}: during the authentication"))
        except KafkaError as error:
            self._end(error)
        else:
            if login.computation is None:
                self._continue_authentication(login, now_ms)
            else:
                self._actions.append(Compute(login.computation))

    def _computed(self, now_ms: float) -> None:
        login = self._login
        if login is None or login.computation is None or self.state not in _AUTHENTICATING_STATES:
            return
        try:
            login.computed()
        except KafkaError as error:
            self._end(error)
        else:
            self._continue_authentication(login, now_ms)

    def _drain(self, now_ms: float) -> None:
        """Send no more requests until the connection has re-authenticated."""
        self._move_to(ConnectionState.DRAINING)
        self._renewal = None
        self._began_ms, self._until_ms = now_ms, now_ms + self._limits.login_timeout_ms
        self._actions.append(NeedMechanism(self._until_ms))

    def _renew_when_drained(self, now_ms: float) -> None:
        if self.state is not ConnectionState.DRAINING or self._in_flight or now_ms < self._throttled_until_ms:
            return
        if self._renewal is not None:
            mechanism, self._renewal = self._renewal, None
            self._began_ms, self._until_ms = now_ms, now_ms + self._limits.login_timeout_ms
            self._move_to(ConnectionState.REAUTHENTICATING)
            self._login = _new_login(self.peer, renews=True)
            self._begin_login(self._login, mechanism, now_ms)

    # -- requests --------------------------------------------------------------------------------------------------

    def submit(
        self,
        key: object,
        message: Request[Response],
        version: int | None,
        timeout_ms: float,
        now_ms: float,
        *,
        oneway: bool = False,
    ) -> None:
        """Process a request: the event `Submit`, with its attributes as arguments."""
        try:
            chosen = self._version_of(message, version)
            pending = self._encode(key, message, chosen, timeout_ms, now_ms, oneway=oneway)
        except KafkaError as error:
            self._actions.append(Fail(key, error))
            return
        self._waiting.append(pending)
        self._flush(now_ms)

    def _version_of(self, message: Request[Response], version: int | None) -> int:
        if self.state is _CLOSED:
            raise NetworkError(f"the connection to {self.peer} is closed", stage=Stage.REQUEST)
        api = message.api if isinstance(message, HandWritten) else api_of(message)
        if self.api_versions is None or self.state is _AUTHENTICATING:
            raise UsageError(f"the connection to {self.peer} is not ready yet")
        if version is None:
            return self.version_for(api.key)
        offered = self.api_versions.offered.get(api.key, VersionRange(0, -1))
        if not offered.includes(version):
            raise UnsupportedVersionError(
                f"{self.peer} offers {api.name} in versions {offered}, version {version} was requested"
            )
        return version

    def _encode(
        self, key: object, message: Request[Response], version: int, timeout_ms: float, now_ms: float, *, oneway: bool
    ) -> _Pending:
        correlation_id, client_id = self._correlation_id, self._limits.client_id
        reader: HandWritten[Response] | None = None
        if isinstance(message, HandWritten):
            api, reader = message.api, message
            segments = message.segments(version, correlation_id, client_id)
        else:
            api = api_of(message)
            segments = encode_request_segments(RequestHeader(api.key, version, correlation_id, client_id), message)
        self._correlation_id = 0 if correlation_id >= CORRELATION_ID_MAX else correlation_id + 1
        return _Pending(key, api, version, correlation_id, segments, timeout_ms, now_ms + timeout_ms, oneway, reader)

    def _flush(self, now_ms: float) -> None:
        """Send what may be sent now."""
        waiting, in_flight = self._waiting, self._in_flight
        while waiting and self.state is _READY and len(in_flight) < self._limits.max_in_flight:
            if waiting[0].key is None:
                waiting.popleft()
                continue
            if now_ms >= self._renew_at_ms:
                self._drain(now_ms)
                return
            pending = waiting.popleft()
            if pending.oneway:
                self._leaving.append(pending)
                self._actions.append(SendOneway(pending.segments))
            else:
                if not in_flight:
                    self._alive_ms = now_ms
                in_flight.append(pending)
                self._actions.append(Send(pending.segments))
            pending.segments = []

    def _abandon(self, key: object) -> None:
        for pending in (*self._in_flight, *self._waiting, *self._leaving):
            if pending.key is key:
                pending.key = None

    def _bytes_left(self) -> None:
        if not self._leaving:  # the connection has ended meanwhile
            return
        pending = self._leaving.popleft()
        if pending.key is not None:
            self._actions.append(Succeed(pending.key, None))

    # -- answers ---------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview, now_ms: float) -> None:
        """Process a whole frame: the event `FrameReceived`."""
        if self.state is _CLOSED:
            return
        bare = self._login is not None and self._login.awaits_bare_token
        if not bare and (misfit := self._misfit(frame)):
            self._end_by_peer(ProtocolError(f"{self.peer} {misfit}"))
            return
        self._alive_ms = now_ms
        if self.state is _READY:
            self._take_answer(frame, now_ms)
        elif self.state is ConnectionState.NEGOTIATING:
            self._api_versions_received(frame, now_ms)
        elif self.state in _AUTHENTICATING_STATES:
            assert self._login is not None
            self._login_answered(self._login, frame, now_ms)
        else:
            self._take_answer(frame, now_ms)
            self._renew_when_drained(now_ms)

    def _take_answer(self, frame: memoryview, now_ms: float) -> None:
        pending = self._in_flight.popleft()
        if pending.key is not None:
            self._answered(pending, frame, now_ms)
        if self._waiting:
            self._flush(now_ms)

    def _misfit(self, frame: memoryview) -> str:
        """Return why a frame cannot be the answer to the oldest request; an empty string when it can."""
        if not self._in_flight:
            return f"sent {len(frame)} bytes without a pending request"
        if len(frame) < 4:
            return f"answered with {len(frame)} bytes, too few for a response"
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        expected = self._in_flight[0]
        if correlation_id == expected.correlation_id:
            return ""
        return f"answered {expected.name} out of step: correlation id {correlation_id}, not {expected.correlation_id}"

    def _answered(self, pending: _Pending, frame: memoryview, now_ms: float) -> None:
        try:
            if pending.reader is not None:
                response = pending.reader.read(frame, pending.version)
            else:
                _, response = decode_response(frame, pending.api.key, pending.version, allow_trailing_bytes=True)
        except ProtocolError as error:
            explained = at_stage(error, f"{self.peer}: response to {pending.name}")
            self._actions.append(Fail(pending.key, explained))
            self._end_by_peer(explained)
            return
        self._answered_once = True
        self._actions.append(Succeed(pending.key, response))
        throttle_ms = binding_throttle_ms(response, pending.api.key, pending.version)
        if throttle_ms:
            self._note_throttle(now_ms + throttle_ms)
        if now_ms < self._throttled_until_ms:
            self._throttle_if_needed(now_ms)

    def _note_throttle(self, until_ms: float) -> None:
        """Send nothing until then, because the broker throttles the client."""
        self._throttled_until_ms = max(self._throttled_until_ms, until_ms)

    def _throttle_if_needed(self, now_ms: float) -> None:
        if self.state is ConnectionState.READY and now_ms < self._throttled_until_ms:
            self._move_to(ConnectionState.THROTTLED)

    # -- time ------------------------------------------------------------------------------------------------------

    def _deadlines_of_state(self) -> Iterator[float]:
        if self._is_preparing:
            yield self._until_ms
        if self._in_flight and self.state not in _PREPARING:
            yield self._silence_limit_ms()
        elif self.state is ConnectionState.DRAINING and self._renewal is not None:
            yield self._throttled_until_ms
        if self.state is ConnectionState.THROTTLED:
            yield self._throttled_until_ms

    @property
    def _is_preparing(self) -> bool:
        """Whether the present state must end by `_until_ms`."""
        return self.state in _PREPARING or (self.state is ConnectionState.DRAINING and self._renewal is None)

    def _silence_limit_ms(self) -> float:
        oldest = self._in_flight[0]
        return max(oldest.deadline_ms, self._alive_ms + self._limits.request_timeout_ms)

    def _expire(self, now_ms: float) -> None:
        for requests, what in ((self._in_flight, "did not answer"), (self._waiting, "could not be sent")):
            for pending in requests:
                if pending.key is None or pending.key is self or now_ms < pending.deadline_ms:
                    continue
                within = f"within {pending.timeout_ms / 1000:g} s"
                reason = (
                    f"{self.peer} {what} {pending.name} {within}"
                    if requests is self._in_flight
                    else f"{pending.name} {what} to {self.peer} {within}: the connection is {self._excuse}"
                )
                self._actions.append(Fail(pending.key, KafkaTimeoutError(reason)))
                pending.key = None

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def _excuse(self) -> str:
        return "busy" if self.state is ConnectionState.READY else self.state.value

    def _link_lost(self, error: KafkaError | None) -> None:
        if isinstance(error, ClosedError | InternalError):  # not caused by the peer: the loop ends, or a bug
            self._end(error)
            return
        if self._login is not None and self.state in _AUTHENTICATING_STATES:
            self._end(self._lost_while_authenticating(error, self._login))
            return
        if error is None and self.state is ConnectionState.NEGOTIATING:
            error = NetworkError(
                f"{self.peer} closed the connection instead of answering ApiVersions; it may require "
                "TLS or authentication (see security_protocol), or may not be a Kafka broker",
                stage=Stage.API_VERSIONS,
            )
        # Kafka closes the connection of a client that should have authenticated, and has not.
        refused = self._in_flight and not self._answered_once
        hint = (
            "; it responded to no request: does it require authentication (see security_protocol), or a client "
            "certificate?"
            if refused
            else ""
        )
        self._end_by_peer(error or NetworkError(f"{self.peer} closed the connection{hint}", stage=Stage.REQUEST))

    def _lost_while_authenticating(self, error: KafkaError | None, login: SaslConversation) -> KafkaError:
        if error is None and login.awaits_bare_token:
            return AuthenticationError(
                f"{self.peer} [SASL]: authentication failed: the broker closed the connection after the token, as "
                "brokers before Kafka 1.0 do to refuse it; check the mechanism, user and password"
            )
        reason = error or f"{self.peer} closed the connection"
        return NetworkError(
            f"{reason}; this was during the authentication (SASL), see the broker's log", stage=Stage.SASL
        )

    def _end_by_peer(self, error: KafkaError) -> None:
        """End the connection because of the peer, with an error for the stage that was reached."""
        if self.api_versions is not None:
            if isinstance(error, NetworkError):
                self._end(error)
                return
            stage = Stage.SASL if self.state in _AUTHENTICATING_STATES else Stage.REQUEST
            lost = NetworkError(f"the connection to {self.peer} was closed: {error}", stage=stage)
            lost.__cause__ = error
            self._end(lost)
        elif isinstance(error, ProtocolError) and self.peer not in str(error):
            self._end(at_stage(error, f"{self.peer} is not a Kafka broker"))
        elif isinstance(error, NetworkError):
            self._end(with_stage(error, Stage.API_VERSIONS))
        else:
            self._end(error)

    def _end(self, error: KafkaError) -> None:
        if self.state is ConnectionState.CLOSED:
            return
        self._move_to(ConnectionState.CLOSED)
        if self._login is not None:
            self._login.fail()
        fates = (
            (self._in_flight, "was not answered"),
            (self._leaving, "was not sent completely"),
            (self._waiting, "was not sent"),
        )
        for requests, fate in fates:
            for pending in requests:
                if pending.key is not None and pending.key is not self:
                    self._actions.append(Fail(pending.key, copy_for(error, f"{pending.name} {fate}")))
            requests.clear()
        self._actions.append(End(error))

    def _move_to(self, state: ConnectionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        log.debug("%s: %s -> %s", self.peer, self.state.name, state.name)
        self.state = state


def _new_login(peer: str, *, renews: bool) -> SaslConversation:
    from kafkaraw.core.sasl.conversation import SaslConversation  # only for connections with SASL

    return SaslConversation(peer, renews=renews)
