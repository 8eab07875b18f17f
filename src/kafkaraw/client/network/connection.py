"""One connection to one broker: `core.connection`'s decisions carried out on a link.

Opens the link, asks which versions the broker speaks, and then exchanges requests and responses. It does not retry and
does not know the cluster. Start at `Connection.open` and `Connection.request`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from kafkaraw.client.metrics.client_metrics import BOOTSTRAP, NodeMetrics
from kafkaraw.core.connection import ConnectionMachine, ConnectionState
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
    LinkLost,
    LinkMade,
    MechanismFailed,
    MechanismReady,
    NeedMechanism,
    Send,
    SendOneway,
    Succeed,
)
from kafkaraw.core.negotiation import ApiVersionTable
from kafkaraw.errors import AuthenticationError, ClosedError, KafkaError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.net import Link, Network
from kafkaraw.net.threads import run_in_daemon_thread
from kafkaraw.net.wire_log import tapped
from kafkaraw.protocol import segments_size
from kafkaraw.protocol.declare import Request, Response

if TYPE_CHECKING:
    from kafkaraw.core.sasl.mechanism import ClientMechanism

FRAME_SIZE_MAX = 1 << 28
"""Largest response, in bytes. Below 0x20000000, so that text on the wire is never taken for a size."""
FRAME_SIZE_MAX_AT_FIRST = 1 << 20
"""Largest response before the broker is known to be one: until ApiVersions is answered and the login complete."""
CLOSE_TIMEOUT_S = 1.0
"""How long the last bytes of a connection may take to leave, in seconds."""
SIZE_PREFIX_BYTES = 4
R = TypeVar("R", bound=Response)

_GET_TELEMETRY_SUBSCRIPTIONS_KEY: Final = 71
_READY: Final = ConnectionState.READY  # members of an enum are slow to look up


@dataclass(frozen=True, slots=True)
class Login:
    """How a connection logs in.

    Attributes:
        mechanism: makes the client's half of one login; called for the first one and for each renewal with the seconds
            that it may take. It may ask a server, and is cancelled when that takes longer. Raises KafkaError only.
        session_share: the part of a login's lifetime after which it is renewed.
    """

    mechanism: Callable[[float], Awaitable[ClientMechanism]]
    session_share: float = 0.85


class Connection:
    """An open connection; made by `open`, never directly. It is also the link's handler.

    Args:
        limits: of the connection machine.
        peer: the broker as "host:port".
        open_deadline: when it must be ready, on the loop's clock, in seconds.
        metrics: where to count.
        login: how to log in; None where no login is wanted.
        frame_size_max: largest response, once the connection is ready, in bytes.

    Attributes:
        is_held: the broker would end something with it that is in use, so it is not closed because it is idle.
    """

    def __init__(
        self,
        peer: str,
        limits: ConnectionLimits,
        open_deadline: float,
        metrics: NodeMetrics,
        login: Login | None = None,
        frame_size_max: int = FRAME_SIZE_MAX,
    ) -> None:
        self.is_held: bool = False
        self._loop = asyncio.get_running_loop()
        self._machine = ConnectionMachine(peer, limits)
        self._open_deadline = open_deadline
        self._link: Link | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ready.add_done_callback(_retrieve)
        self._lost = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._actions: deque[Action] = deque()
        self._acting = False
        self._error: KafkaError | None = None
        self._metrics = metrics
        self._pending_count = 0
        self._used_at = self._loop.time()
        self._login = login
        self._frame_size_max = frame_size_max
        self._logging_in: asyncio.Task[None] | None = None

    @classmethod
    async def open(  # noqa: PLR0913 - what a connection needs is one list, given by the pool alone
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str | None,
        connect_timeout: float,
        request_timeout: float = 30.0,
        max_in_flight: int = 5,
        frame_size_max: int = FRAME_SIZE_MAX,
        metrics: NodeMetrics | None = None,
        login: Login | None = None,
    ) -> Connection:
        """Connect to a broker, learn which versions it speaks, and log in.

        Args:
            network: how to reach it.
            host: name or address.
            port: TCP port.
            client_id: sent with every request.
            connect_timeout: for resolving, connecting, ApiVersions and authentication together, in seconds; also for
                each re-authentication.
            request_timeout: the connection ends if a request is unanswered and the broker is silent for this long, in
                seconds.
            max_in_flight: the maximum number of unanswered requests; further requests are queued.
            frame_size_max: largest response to accept, in bytes; until the login is complete, or without one until
                ApiVersions is answered, it is `FRAME_SIZE_MAX_AT_FIRST` at most.
            metrics: of the broker, where to count; its name stands in the connection log.
            login: how to log in; None for a listener that wants no login.

        Raises:
            NetworkError: the broker cannot be reached, or does not answer; `stage` is the stage that was reached.
            ProtocolError: the server at this address is not a Kafka broker.
            BrokerError: the broker refuses ApiVersions.
            AuthenticationError: the broker refuses the authentication, or the client cannot get its credentials.
        """
        loop = asyncio.get_running_loop()
        share = 1.0 if login is None else login.session_share
        limits = ConnectionLimits(
            client_id,
            request_timeout * 1000,
            max_in_flight,
            login_timeout_ms=connect_timeout * 1000,
            session_share=share,
        )
        peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        metrics = metrics or NodeMetrics(BOOTSTRAP)
        connection = cls(peer, limits, loop.time() + connect_timeout, metrics, login, frame_size_max)
        try:
            handler = tapped(connection, connection._name_in_log, "client")
            at_first = min(frame_size_max, FRAME_SIZE_MAX_AT_FIRST)
            await network.dial(host, port, handler, timeout=connect_timeout, frame_size_max=at_first)
            await connection._ready
        except BaseException as error:
            metrics.connections_failed += isinstance(error, KafkaError)
            connection._ready.cancel()
            connection.abort()
            raise
        metrics.connections_opened += 1
        return connection

    # -- for the client --------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The broker as "host:port"."""
        return self._machine.peer

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, for any reason."""
        return self._machine.state is ConnectionState.CLOSED

    @property
    def error(self) -> KafkaError | None:
        """The error that ended the connection; None while it is open."""
        return self._error

    @property
    def idle_since(self) -> float | None:
        """The time since when no request has been pending, on the loop's clock, in seconds; None while it is used."""
        return None if self._pending_count or self.is_held else self._used_at

    def count_for(self, metrics: NodeMetrics) -> None:
        """Count for another node from now on: the one that this connection turned out to lead to."""
        self._metrics.connections_opened -= 1
        metrics.connections_opened += 1
        self._metrics = metrics

    @property
    def api_versions(self) -> ApiVersionTable:
        """The API versions that the broker offers."""
        if self._machine.api_versions is None:
            raise UsageError(f"the versions of {self.peer} are not known yet")
        return self._machine.api_versions

    @property
    def takes_metrics(self) -> bool:
        """Whether the broker offers the APIs of KIP-714: Kafka's brokers do if a metrics reporter is configured."""
        return _GET_TELEMETRY_SUBSCRIPTIONS_KEY in self.api_versions.offered

    def version_for(self, api_key: int) -> int:
        """Return the highest version of an API that both ends know.

        Raises:
            UnsupportedVersionError: there is none; names both ranges.
        """
        return self._machine.version_for(api_key)

    async def request(self, message: Request[R], *, version: int | None = None, timeout: float) -> R:
        """Send a request and return its response.

        Being cancelled abandons the request, not the connection.

        Args:
            message: the request.
            version: to send it in; None for the highest that both ends know.
            timeout: for waiting its turn, sending and answering together, in seconds.

        Raises:
            KafkaTimeoutError: no answer in time.
            NetworkError: the connection was lost; the broker may or may not have acted on the request.
            UnsupportedVersionError: no common version, or `version` is not offered.
            ProtocolError: the message does not fit the version, or the answer makes no sense.
            ClosedError: the connection was closed meanwhile.
        """
        # The machine decodes the answer as the response of this request: that makes it an `R`.
        answer: asyncio.Future[R] = self._loop.create_future()
        began, metrics = self.request_began()
        outcome: R | BaseException | None = None
        try:
            self._submit(answer, message, version, timeout)
            outcome = response = await answer
        except BaseException as error:
            outcome = error
            if isinstance(error, asyncio.CancelledError):
                self._handle(Abandon(answer))
            raise
        finally:
            self.request_ended(metrics, began, outcome)
        return response

    @overload
    def submit(
        self,
        message: Request[R],
        answered: Callable[[R | KafkaError], None],
        *,
        version: int | None = None,
        timeout: float,
    ) -> None: ...

    @overload
    def submit(
        self,
        message: Request[R],
        answered: Callable[[R | KafkaError | None], None],
        *,
        version: int | None = None,
        timeout: float,
        oneway: bool,
    ) -> None: ...

    def submit(
        self,
        message: Request[R],
        answered: Callable[..., None],
        *,
        version: int | None = None,
        timeout: float,
        oneway: bool = False,
    ) -> None:
        """Send a request without a task that waits: what many requests in a row are sent with.

        Args:
            message: the request.
            answered: called once, with the response or with the KafkaError that `request` would raise; perhaps before
                this returns. It must not raise.
            version: to send it in; None for the highest that both ends know.
            timeout: for waiting its turn, sending and answering together, in seconds.
            oneway: the broker does not answer (Produce with acks=0): `answered` is called with None once the operating
                system has taken all bytes of the request. If that takes longer than `timeout`, the connection ends.
        """
        self._submit(_Call(self, answered), message, version, timeout, oneway=oneway)

    def pause_reading(self) -> None:
        """Take no more responses from the broker for now; deadlines keep running."""
        if self._link is not None:
            self._link.pause_reading()

    def resume_reading(self) -> None:
        """Take responses again."""
        if self._link is not None:
            self._link.resume_reading()

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Fail what is unanswered, send what is unsent as far as there is time, close.

        Args:
            timeout: seconds; more than `CLOSE_TIMEOUT_S` counts as that.
        """
        self._handle(CloseRequested())
        if self._link is None:
            return
        self._link.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), min(timeout, CLOSE_TIMEOUT_S))
        self._link.abort()

    def abort(self) -> None:
        """Fail what is unanswered and close at once."""
        self._handle(CloseRequested())
        if self._link is not None:
            self._link.abort()

    # -- for the link (`net.LinkHandler`) --------------------------------------------------------------------------

    def link_made(self, link: Link) -> None:
        """Called when the connection is established."""
        self._link = link
        self._handle(LinkMade(self._open_deadline * 1000, self._login is not None))

    def frame_received(self, frame: memoryview) -> None:
        """One whole frame has come, without its size. It has a buffer of its own: keep slices as long as you like."""
        self._metrics.bytes_in += len(frame) + SIZE_PREFIX_BYTES
        self._machine.frame_received(frame, self._loop.time() * 1000)
        self._act()
        if self._timer is None or self._machine.state is not _READY:
            self._arm_timer()

    def link_lost(self, error: KafkaError | None) -> None:
        """The connection is gone."""
        self._lost.set()
        self._handle(LinkLost(error))

    def writing_paused(self, paused: bool) -> None:
        """See `LinkHandler.writing_paused`; senders limit what is in flight, and wait for `BytesLeft` with acks=0."""

    # -- inside ----------------------------------------------------------------------------------------------------

    def request_began(self) -> tuple[float, NodeMetrics]:
        """Count a request that begins; gives the time, and where it counts."""
        metrics = self._metrics
        metrics.requests += 1
        metrics.in_flight += 1
        self._pending_count += 1
        return self._loop.time(), metrics

    def request_ended(self, metrics: NodeMetrics, began: float, outcome: object) -> None:
        """Count a request that is over: with a response, or an error."""
        metrics.in_flight -= 1
        self._pending_count -= 1
        self._used_at = now = self._loop.time()
        if isinstance(outcome, BaseException):
            metrics.requests_failed += 1
        elif outcome is not None:  # one-way requests have no answer
            metrics.answered(outcome, now - began)

    def _name_in_log(self) -> str:
        name = self._metrics.name
        return f"{name if name == BOOTSTRAP else f'node {name}'} ({self.peer})"

    async def _prepare_login(self, login: Login, timeout: float) -> None:
        try:
            mechanism = await login.mechanism(timeout)
        except KafkaError as error:
            self._handle(MechanismFailed(error))
        else:
            self._handle(MechanismReady(mechanism))

    async def _compute(self, computation: Callable[[], None]) -> None:
        try:
            await run_in_daemon_thread(computation, "kafkaraw-login")
        except Exception as error:  # noqa: BLE001 - a hash that this machine's OpenSSL does not allow, or no memory
            failure = AuthenticationError(f"{self.peer} [SASL]: the login cannot be computed: {error!r}")
            failure.__cause__ = error
            self._handle(MechanismFailed(failure))
        else:
            self._handle(Computed())

    def _handle(self, event: Event) -> None:
        self._machine.receive(event, self._loop.time() * 1000)
        self._act()
        self._arm_timer()

    # A timer that is set already is early enough after an answer, and for a request that may take as long: then the
    # machine need not be asked when it wants to be woken, which takes longer the more is in flight.

    def _submit(
        self, key: object, message: Request[Response], version: int | None, timeout: float, *, oneway: bool = False
    ) -> None:
        now = self._loop.time()
        self._machine.submit(key, message, version, timeout * 1000, now * 1000, oneway=oneway)
        self._act()
        timer = self._timer
        if timer is None or timer.when() > now + timeout or self._machine.state is not _READY:
            self._arm_timer()

    def _bytes_left(self) -> None:
        self._machine.receive(BytesLeft(), self._loop.time() * 1000)
        self._act()

    def _act(self) -> None:
        """Do what the machine says, in its order: what it says while this runs is done after the rest."""
        self._actions += self._machine.actions()
        if self._acting:
            return
        self._acting = True
        try:
            while self._actions:
                self._do(self._actions.popleft())
        finally:
            self._acting = False
            if self._actions:  # the callback of a request raised SystemExit or KeyboardInterrupt
                self._loop.call_soon(self._act)

    def _wake(self, deadline_ms: float) -> None:
        # The loop's clock, turned into milliseconds, may be a rounding error short of the deadline that it has reached.
        self._timer = None
        self._machine.tick(max(self._loop.time() * 1000, deadline_ms))
        self._act()
        self._arm_timer()

    def _do(self, action: Action) -> None:
        match action:
            case Send(segments) | SendOneway(segments):
                if self._link is not None:
                    self._metrics.bytes_out += segments_size(segments) + SIZE_PREFIX_BYTES
                    self._link.send(segments)
                    if isinstance(action, SendOneway):
                        self._link.when_sent(self._bytes_left)
            case Succeed(key, response):
                _settle(key, response)
            case Fail(key, error):
                _settle(key, error)
            case BecomeReady():
                if self._link is not None:
                    self._link.limit_frames(self._frame_size_max)
                _settle(self._ready, None)
            case NeedMechanism(deadline_ms):
                assert self._login is not None
                preparing = self._prepare_login(self._login, deadline_ms / 1000 - self._loop.time())
                self._logging_in = self._loop.create_task(preparing, name=f"log in at {self.peer}")
            case Compute(computation):
                self._logging_in = self._loop.create_task(self._compute(computation), name=f"compute for {self.peer}")
            case End(error):
                if self._logging_in is not None:
                    self._logging_in.cancel()
                if self._ready.done() and not self._ready.cancelled() and self._ready.exception() is None:
                    self._metrics.connections_closed += 1
                self._error = error
                _settle(self._ready, error)
                # Closed by `close` or `abort`, which see to the link themselves: what is unsent may still go out.
                if self._link is not None and not isinstance(error, ClosedError):
                    self._link.abort()

    def _arm_timer(self) -> None:
        """Keep one timer, at or before the machine's deadline: one that is early costs less than setting it anew."""
        deadline_ms = self._machine.deadline_ms()
        if self._timer is not None:
            if deadline_ms is not None and self._timer.when() * 1000 <= deadline_ms:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            self._timer = self._loop.call_at(deadline_ms / 1000, self._wake, deadline_ms)


class _Call:
    """A request made by `Connection.submit`, until it is over."""

    __slots__ = ("_answered", "_began", "_connection", "_metrics")

    def __init__(self, connection: Connection, answered: Callable[..., None]) -> None:
        self._connection = connection
        self._answered = answered
        self._began, self._metrics = connection.request_began()

    def finish(self, outcome: object) -> None:
        """Count the request, and call `answered`."""
        self._connection.request_ended(self._metrics, self._began, outcome)
        self._answered(outcome)


def _settle(key: Any, outcome: object) -> None:  # noqa: ANN401 - a loop need not make futures of asyncio's own class
    if type(key) is _Call:
        key.finish(outcome)
        return
    future: asyncio.Future[object] = key
    if future.done():
        return
    if isinstance(outcome, KafkaError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _retrieve(future: asyncio.Future[None]) -> None:
    """Look at a future's exception, so that asyncio does not report one that is also raised elsewhere."""
    if not future.cancelled():
        future.exception()
