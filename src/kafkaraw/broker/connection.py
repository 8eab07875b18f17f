"""One client's connection: handles requests in order and sends the responses in order.

A request that waits (the long poll of a Fetch) blocks later ones, as in Kafka. While too many responses are unsent or
too many requests are queued, the connection reads nothing: a slow client uses a limited amount of memory. A client
above its quota gets its response, and then the connection is muted for the throttle time (KIP-219).
An unknown API or version, or invalid bytes, close the connection with one line in the log; unknown versions of
ApiVersions get a response (KIP-511).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.connection_limits import AUTHENTICATION_TIMEOUT, UNSENT_LIMIT
from kafkaraw.broker.faults import Damaged, FaultReply, Faults, Incoming, Outgoing
from kafkaraw.broker.handlers.api_versions import API_VERSIONS_KEY, software_of, unsupported
from kafkaraw.broker.handlers.context import UNKNOWN_SOFTWARE, RequestContext
from kafkaraw.broker.handlers.registration import handler_of, registration_of, served_apis
from kafkaraw.broker.large_requests import LARGE_REQUEST_BYTES
from kafkaraw.broker.quotas.throttled_responses import Served, throttled
from kafkaraw.broker.quotas.throttling import Client
from kafkaraw.broker.read_only import is_refused, refused
from kafkaraw.broker.replies import CloseConnection, Deferred, Failed, NoReply
from kafkaraw.broker.security.listener_security import ANONYMOUS
from kafkaraw.broker.security.principals import PrincipalMapping
from kafkaraw.broker.slow_readers import SlowReaderWatch
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Steps, Turn, run_in_turns
from kafkaraw.errors import AuthenticationError, InternalError, KafkaError, ProtocolError
from kafkaraw.net import Link
from kafkaraw.protocol import (
    REQUEST_HEADER_SIZE_MIN,
    RequestHeader,
    ResponseHeader,
    Segment,
    decode_in_steps,
    decode_message,
    decode_request_header,
    encode_response_in_steps,
    encode_response_segments,
)
from kafkaraw.protocol.apis import API_BY_KEY, Api
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.printable import printable

if TYPE_CHECKING:
    from kafkaraw.broker.security.sasl_authenticator import SaslAuthenticator

WAITING_BYTES_MAX: Final = 1 << 20
"""Maximum size of the requests queued in memory behind one in progress; further ones stay in socket buffers."""
FRAME_COST_BYTES: Final = 512
"""Overhead that counts for each queued request: its buffer, the view of it and its queue entry.

These take about 300 bytes. The overhead limits the queue to 2,048 requests, even if they are very short.
"""
TURN_GAP_S: Final = 0.0005
"""A request that arrives within this time after the last response counts as part of the same turn."""

_logger = logging.getLogger("kafkaraw.broker")


class BrokerConnection:
    """The broker's end of one link.

    Args:
        state: the node's state.
        listener: name of the client's listener.
        on_lost: called when the connection is closed or lost.
        faults: the fault plan; None for no faults.
    """

    def __init__(
        self,
        state: BrokerState,
        listener: str,
        on_lost: Callable[[BrokerConnection], None],
        *,
        faults: Faults | None = None,
    ) -> None:
        self._state = state
        self._faults = faults
        self._listener = listener
        self._on_lost = on_lost
        self._link: Link | None = None
        self._login: SaslAuthenticator | None = None
        self._principal = ANONYMOUS
        self._software = UNKNOWN_SOFTWARE
        self._context: RequestContext | None = None
        self._frames: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._closing = False
        self._is_lost = False
        self._waiting: Deferred[Any] | None = None
        self._working = False
        self._is_large = False  # a large request is being answered, or waits for those of other connections
        self._turn: Turn | None = None
        self._reading_paused = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._quiet_timer: asyncio.TimerHandle | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._sending: SlowReaderWatch | None = None
        self._last_used = 0.0
        self._now: Callable[[], float] = lambda: 0.0

    def link_made(self, link: Link) -> None:
        """The connection is established."""
        self._link = link
        self._now = asyncio.get_running_loop().time
        self._turn = Turn()
        security = self._state.config.security
        if security.requires_sasl(self._listener):
            self._begin_authentication(link)
        elif security.tls_of(self._listener) is not None and link.peer_certificate is not None:
            principals = security.listeners[self._listener].principals
            self._closing_on_failure(link, self._identify, link.peer_certificate, principals)
        idle_ms = self._state.config.connections_max_idle_ms
        limit_ms = self._state.config.connection_limits.unsent_limit_ms
        self._sending = SlowReaderWatch(
            link, min(limit_ms, idle_ms if idle_ms > 0 else limit_ms) / 1000, self._end_stuck
        )
        if idle_ms > 0:
            self._last_used = asyncio.get_running_loop().time()
            self._watch_idleness(idle_ms / 1000)

    def _begin_authentication(self, link: Link) -> None:
        from kafkaraw.broker.security.sasl_authenticator import SaslAuthenticator  # only for listeners with SASL

        loop = asyncio.get_running_loop()
        self._login = SaslAuthenticator(self._state.sasl_servers, self._listener, link.peer, loop.time)
        timeout_ms = self._state.config.connection_limits.authentication_timeout_ms
        self._login_timer = loop.call_later(timeout_ms / 1000, self._end_slow_authentication, link, timeout_ms)

    def _end_slow_authentication(self, link: Link, timeout_ms: int) -> None:
        _logger.warning(
            "closing the connection from %s: not authenticated after %d ms (%s)",
            link.peer,
            timeout_ms,
            AUTHENTICATION_TIMEOUT,
        )
        self.abort()

    def _end_stuck(self, limit_s: float) -> None:
        link = self._link
        if link is None:
            return
        _logger.warning(
            "aborting the connection from %s: it read none of %d unsent bytes for %g s (%s)",
            link.peer,
            link.unsent_bytes,
            limit_s,
            UNSENT_LIMIT,
        )
        self.abort()

    def _identify(self, certificate: bytes, principals: PrincipalMapping) -> None:
        """Set the client's principal from its certificate."""
        from kafkaraw.broker.security.distinguished_names import subject_of  # only for TLS with client certificates

        subject = subject_of(certificate)
        user = principals.user(subject)
        if user is None:
            raise CloseConnectionError(f"no rule of ssl.principal.mapping.rules is for the certificate of {subject}")
        self._principal = f"User:{user}"

    def frame_received(self, frame: memoryview) -> None:
        """A request has arrived."""
        if self._closing:
            return
        if len(frame) < REQUEST_HEADER_SIZE_MIN and self._link is not None and self._is_authenticated:
            self._closing_on_failure(self._link, decode_request_header, frame)
            return
        self._frames.append(frame)
        self._waiting_bytes += len(frame) + FRAME_COST_BYTES
        self._work()

    @property
    def _is_authenticated(self) -> bool:
        """Whether each frame must have a request header. Some SASL tokens are sent without one, and are short."""
        return self._login is None or self._login.is_complete

    def writing_paused(self, paused: bool) -> None:
        """The client reads too slowly, or has caught up."""
        if not paused:
            self._work()

    def link_lost(self, error: KafkaError | None) -> None:
        """The connection is lost; requests that the client sent before are still handled.

        A client that sends with acks=0 may close as soon as its bytes have left. Source: Kafka's Selector, which keeps
        channels with pending requests in `closingChannels`.
        """
        link, self._is_lost = self._link, True
        if link is not None:
            self._state.client_disconnected(link.peer)
        if self._sending is not None:
            self._sending.stop()
            self._sending = None  # it refers to the link, and that to this: they would wait for the garbage collector
        for timer in (self._idle_timer, self._quiet_timer, self._login_timer):
            if timer is not None:
                timer.cancel()
        self._quiet_timer = None
        if error is not None and link is not None:
            self._log_loss(link, error)
        self._cancel_waiting()
        if self._closing or not self._is_authenticated:
            self.close()
        else:
            self._work()

    @staticmethod
    def _log_loss(link: Link, error: KafkaError) -> None:
        """Log why a connection ended: many are lost; bytes that are no frame come from clients of another port."""
        if isinstance(error, InternalError):
            _logger.error("connection from %s lost: %s", link.peer, error, exc_info=error)
        else:
            level = logging.WARNING if isinstance(error, ProtocolError) else logging.INFO
            _logger.log(level, "connection from %s lost: %s", link.peer, printable(error))

    def _cancel_waiting(self) -> None:
        """Cancel a request that waits, such as a long poll; a request that is being worked on is completed."""
        if self._waiting is not None and not self._waiting.is_working:
            self._waiting.cancel()
            self._waiting = None
            self._end_large()

    def close(self) -> None:
        """Stop handling requests, and close the link once all responses are sent."""
        self._closing = True
        self._frames.clear()
        self._waiting_bytes = 0
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._end_large()
        if self._is_lost:
            if self._link is not None:
                self._link = None
                self._on_lost(self)
        elif self._link is not None:
            self._link.close()
            if self._sending is not None:
                self._sending.closing()

    def abort(self) -> None:
        """Close the link immediately, and drop unsent responses."""
        link = self._link
        self.close()
        if self._sending is not None:
            self._sending.stop()
        if link is not None:
            link.abort()

    def close_later(self, delay_s: float) -> None:
        """Stop handling requests, and close the link after a delay."""
        self._closing = True
        self._quiet_timer = asyncio.get_running_loop().call_later(delay_s, self.close)
        self._set_reading()

    def _work(self) -> None:
        """Answer requests until one has to wait, or the client has to catch up."""
        if self._working:
            return  # called from below, by an answer that came at once
        self._working = True
        try:
            while self._frames and self._link is not None and self._may_answer(self._link):
                frame = self._frames.popleft()
                self._waiting_bytes -= len(frame) + FRAME_COST_BYTES
                self._answer(self._link, frame)
                if self._is_large and self._waiting is None:
                    self._end_large()
                if self._turn is not None and self._turn.is_over(self._last_used):
                    self._turn.pass_on(self._work)
        finally:
            self._working = False
        if self._is_large and self._waiting is None:
            self._end_large()
        if self._is_lost and not self._frames and self._waiting is None:
            self.close()
        self._set_reading()

    def _may_answer(self, link: Link) -> bool:
        is_others_turn = self._turn is not None and self._turn.is_others
        busy = is_others_turn or self._waiting is not None or self._quiet_timer is not None
        return not busy and (self._is_lost or not link.write_paused)

    def _keep_quiet(self, delay_s: float) -> None:
        """Mute the connection: read and answer nothing for the throttle time."""
        self._quiet_timer = asyncio.get_running_loop().call_later(delay_s, self._go_on)

    def _go_on(self) -> None:
        self._quiet_timer = None
        self._work()

    def _set_reading(self) -> None:
        if self._link is None or self._is_lost:
            return
        late = self._waiting_bytes > WAITING_BYTES_MAX
        pause = late or self._link.write_paused or self._quiet_timer is not None
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                self._link.pause_reading()
            else:
                self._link.resume_reading()

    def _answer(self, link: Link, frame: memoryview) -> None:
        began = self._now()
        if began - self._last_used > TURN_GAP_S and self._turn is not None:
            self._turn.begin(began)
        self._closing_on_failure(link, self._take, link, frame)
        self._last_used = self._now()

    def _take(self, link: Link, frame: memoryview) -> None:
        if self._login is not None and self._login.takes_bare_token:
            self._take_bare_token(link, self._login, frame)
            return
        header, at = decode_request_header(frame)
        self._dispatch(link, header, frame, at)

    def _closing_on_failure(self, link: Link, act: Callable[..., object], *arguments: object) -> None:
        """Handle a request: an invalid request closes its connection, but never affects the broker or other clients."""
        try:
            act(*arguments)
        except (ProtocolError, CloseConnectionError) as error:
            _logger.warning("closing the connection from %s: %s", link.peer, printable(error))
            self.close()
        except Exception:
            _logger.exception("a request from %s failed with an unexpected error; closing the connection", link.peer)
            self.close()

    def _dispatch(self, link: Link, header: RequestHeader, frame: memoryview, at: int) -> None:
        api = served_apis().get(header.api_key)
        if api is None:
            raise CloseConnectionError(f"API key {header.api_key} is not supported by this broker")
        if self._login is not None:
            self._login.check_allowed(api.key, api.name)
        offered = self._state.offer.versions(api)
        if not offered.includes(header.api_version):
            if header.api_key == API_VERSIONS_KEY:
                self._send(link, header, unsupported(self._state), version=0)
                return
            raise CloseConnectionError(f"{api.name} version {header.api_version} is not in {offered}")
        if len(frame) > LARGE_REQUEST_BYTES and registration_of(api).divided:
            self._is_large = True
            self._waiting = Deferred(lambda: None)
            self._state.large_requests.enter(
                self, lambda: self._closing_on_failure(link, self._begin_large, link, header, frame, at)
            )
            return
        try:
            request = decode_message(api.request, header.api_version, frame, at, allow_trailing_bytes=True)
        except ProtocolError as error:
            raise _not_decoded(api, header, error) from error
        self._ask(link, header, request, len(frame) - at)

    def _begin_large(self, link: Link, header: RequestHeader, frame: memoryview, at: int) -> None:
        """Decode a large request in turns with other connections; no other large request of the node is in progress."""
        decoded, size_bytes = run_in_turns(_decoding(header, frame, at)), len(frame) - at
        if isinstance(decoded, Deferred):
            self._waiting = decoded
            decoded.when_done(lambda request: self._ask_decoded(link, header, request, size_bytes))
        else:
            self._go_on_large(link, self._ask, link, header, decoded, size_bytes)

    def _ask_decoded(
        self, link: Link, header: RequestHeader, request: Request[Response] | Failed, size_bytes: int
    ) -> None:
        self._go_on_large(link, _raise_failure, request)
        if not self._closing:
            self._go_on_large(link, self._ask, link, header, request, size_bytes)

    def _go_on_large(self, link: Link, act: Callable[..., object], *arguments: object) -> None:
        """Do the next step of a large request, and schedule the one after it."""
        self._waiting = None
        if self._link is not None:
            self._closing_on_failure(link, act, *arguments)
            asyncio.get_running_loop().call_soon(self._work)

    def _step_aside(self) -> None:
        """The large request only waits for something: another connection's may begin."""
        self._state.large_requests.step_aside(self)

    def _end_large(self) -> None:
        if self._is_large:
            self._is_large = False
            self._state.large_requests.leave(self)

    def _ask(self, link: Link, header: RequestHeader, request: Request[Response], size_bytes: int) -> None:
        api = API_BY_KEY[header.api_key]
        handler = handler_of(api)
        if header.api_key == API_VERSIONS_KEY:
            self._software, self._context = software_of(request), None
        context = self._context_of(header, link)
        if self._login is not None:
            login_answer = self._login.answer(header.api_version, request)
            if login_answer is not None:
                self._send(link, header, login_answer, version=header.api_version)
                self._authentication_moved(link, self._login)
                return
        served = None
        if self._state.throttling.active:
            client = Client(self._principal, header.client_id)
            served = Served(header, client, request, size_bytes, began=asyncio.get_running_loop().time())
        if self._state.config.read_only and is_refused(api):
            self._give(link, header, refused(api, header.api_version, request), served)
            return
        if self._faults is None or not self._faults.are_set:
            self._give(link, header, handler(self._state, context, request), served)
            return
        incoming = Incoming(
            api,
            header,
            self._state.node_id,
            request,
            self._topic_name,
            lambda asked: handler(self._state, context, asked),
            size_bytes,
        )
        self._give(link, header, self._faults.answer(incoming), served)

    def _context_of(self, header: RequestHeader, link: Link) -> RequestContext:
        """Return the context of a request; the last one is reused if it is the same."""
        last = self._context
        if (
            last is None
            or last.api_version != header.api_version
            or last.client_id != header.client_id
            or last.principal != self._principal
        ):
            by_token = self._login is not None and self._login.token_authenticated
            last = RequestContext(
                header.api_version,
                self._listener,
                header.client_id,
                link.peer,
                self._principal,
                by_token,
                self._software,
            )
            self._context = last
        return last

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._state.catalog.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _give(self, link: Link, header: RequestHeader, reply: FaultReply | Failed, served: Served | None) -> None:
        """Send a response, wait for it, or close the connection."""
        if isinstance(reply, Response):
            if served is None:
                self._send(link, header, reply, version=header.api_version)
            else:
                self._send_throttled(link, served, reply)
        elif isinstance(reply, Deferred):
            self._wait_for(header, reply, served)
        elif isinstance(reply, NoReply):
            if served is not None:
                self._send_throttled(link, served, None)
        elif isinstance(reply, Damaged):
            version = header.api_version
            reply.send(link, encode_response_segments(ResponseHeader(header.correlation_id), reply.response, version))
        elif isinstance(reply, CloseConnection):
            raise CloseConnectionError(reply.reason)
        else:
            raise reply.error

    def _wait_for(self, header: RequestHeader, reply: Deferred[Outgoing], served: Served | None) -> None:
        self._waiting = reply
        if served is not None:
            served.worked_until(asyncio.get_running_loop().time())
        reply.when_done(lambda answer: self._answer_late(header, answer, served))
        if self._is_large:
            reply.when_idle(self._step_aside)
        if self._is_lost:
            self._cancel_waiting()

    def _send_throttled(self, link: Link, served: Served, response: Response | None) -> None:
        served.worked_until(asyncio.get_running_loop().time())
        segments, quiet_ms = throttled(self._state.throttling, served, response)
        if segments is not None:
            link.send(segments)
        if quiet_ms:
            self._keep_quiet(quiet_ms / 1000)

    def _take_bare_token(self, link: Link, login: SaslAuthenticator, token: memoryview) -> None:
        try:
            link.send([login.take(bytes(token))])
        except AuthenticationError as error:
            raise CloseConnectionError(str(error)) from error
        self._authentication_moved(link, login)

    def _authentication_moved(self, link: Link, login: SaslAuthenticator) -> None:
        if login.has_failed:
            self.close()
        elif login.is_complete:
            if self._login_timer is not None:
                self._login_timer.cancel()
            self._principal = f"User:{login.user}"
            self._context = None
            link.limit_frames(self._state.config.socket_request_max_bytes)

    def _answer_late(self, header: RequestHeader, answer: Outgoing | Failed, served: Served | None) -> None:
        self._waiting = None
        if self._link is not None:
            self._closing_on_failure(self._link, self._give, self._link, header, answer, served)
            # Not immediately: the operation that ended the wait (an append, a deletion) may not be complete yet.
            asyncio.get_running_loop().call_soon(self._work)

    def _send(self, link: Link, header: RequestHeader, response: Response, *, version: int) -> None:
        if self._is_large:
            self._send_in_turns(link, header, response, version)
            return
        link.send(encode_response_segments(ResponseHeader(header.correlation_id), response, version))

    def _send_in_turns(self, link: Link, header: RequestHeader, response: Response, version: int) -> None:
        """Encode a large answer in turns with other connections, and send it."""
        encoded = run_in_turns(encode_response_in_steps(ResponseHeader(header.correlation_id), response, version))
        if isinstance(encoded, Deferred):
            self._waiting = encoded
            encoded.when_done(lambda segments: self._go_on_large(link, _send_encoded, link, segments))
        else:
            link.send(encoded)

    def _watch_idleness(self, idle_seconds: float) -> None:
        """Close the connection if it was idle for the limit; otherwise check again when that may be the case.

        Answers that are still unsent keep it open, as long as bytes leave (`SlowReaderWatch`).
        """
        loop = asyncio.get_running_loop()
        due = self._last_used + idle_seconds
        if self._link is None:
            return
        if loop.time() >= due and self._waiting is None and not self._link.unsent_bytes:
            _logger.info("closing the connection from %s: idle for %g s", self._link.peer, idle_seconds)
            self.close()
            return
        self._idle_timer = loop.call_at(max(due, loop.time() + 1), self._watch_idleness, idle_seconds)


def _decoding(header: RequestHeader, frame: memoryview, at: int) -> Steps[Request[Response]]:
    """Decode a large request, in steps."""
    api = API_BY_KEY[header.api_key]
    try:
        return (yield from decode_in_steps(api.request, header.api_version, frame, at))
    except ProtocolError as error:
        raise _not_decoded(api, header, error) from error


def _not_decoded(api: Api, header: RequestHeader, error: ProtocolError) -> CloseConnectionError:
    return CloseConnectionError(f"{api.name} version {header.api_version} cannot be decoded: {error}")


def _raise_failure(result: object) -> None:
    if isinstance(result, Failed):
        raise result.error


def _send_encoded(link: Link, segments: list[Segment]) -> None:
    _raise_failure(segments)
    link.send(segments)
