"""Fault injection: which requests go wrong, how, and whether the fault has happened yet.

    fault = broker.faults.on(api="Produce", topic="flights", nth=2).answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ...
    assert fault.consumed

The thread of the test and the event loops of the brokers share one plan: all methods of `Faults`, `Fault` and `Held`
may be called from any thread. A connection passes each request to `Faults.answer`. Delays use the clock of the running
loop, so they take virtual time in simulations. Only `Damaged.send` works on links and bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from kafkaraw.broker.fault_responses import Refused, refuse
from kafkaraw.broker.replies import Answer, CloseConnection, Deferred, Reply, after_answer, after_response, following
from kafkaraw.errors import KafkaTimeoutError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.net import Link, Segments
from kafkaraw.net.threads import wait_interruptibly
from kafkaraw.protocol import FileSlice, RequestHeader, ResponseHeader, encode_response_segments, segments_size
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, Api
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode

WAIT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request that a node has received.

    Attributes:
        topic_name: returns the name of the topic with a given id; None if it is unknown.
        handle: calls the handler with a request of this API.
        size_bytes: of the request.
    """

    api: Api
    header: RequestHeader
    node_id: int
    request: Request[Response]
    topic_name: Callable[[bytes], str | None]
    handle: Callable[[Request[Response]], Reply[Response]]
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Undecoded(Response):
    """A response that a proxy passes on as it is."""

    frame: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Damaged:
    """A response whose bytes are damaged before they are sent."""

    response: Response
    send: Callable[[Link, Segments], None]


_CLOSE: Final = CloseConnection("a fault says so")
Outgoing: TypeAlias = Answer[Response] | Damaged
FaultReply: TypeAlias = Outgoing | Deferred[Outgoing]
"""A `Reply`, or a damaged response."""
Action = Callable[[Incoming], FaultReply]


@dataclass(frozen=True, slots=True)
class Match:
    """The requests to which a fault applies; a field that is None matches any value."""

    api: int | None = None
    version: int | None = None
    node: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    def fits(self, incoming: Incoming) -> bool:
        """Return whether a request matches."""
        header = incoming.header
        pairs = (
            (self.api, header.api_key),
            (self.version, header.api_version),
            (self.node, incoming.node_id),
            (self.client_id, header.client_id),
        )
        if any(wanted is not None and wanted != given for wanted, given in pairs):
            return False
        if self.topic is None and self.partition is None:
            return True
        return self.refuse(incoming, ErrorCode.UNKNOWN_SERVER_ERROR) is not None

    def refuse(self, incoming: Incoming, code: ErrorCode) -> Refused | None:
        """Refuse the part of a request that matches; None if nothing does."""
        return refuse(
            incoming.api,
            incoming.header.api_version,
            incoming.request,
            code,
            topic=self.topic,
            partition=self.partition,
            topic_name=incoming.topic_name,
        )

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in Match.__slots__ if getattr(self, name) is not None}
        if self.api is not None:
            given["api"] = API_BY_KEY[self.api].name
        return ", ".join(f"{name}={value}" for name, value in given.items()) or "any request"


class _Answerable(Match):
    """Requests whose response has a field for an error code."""

    __slots__ = ()

    def fits(self, incoming: Incoming) -> bool:
        """Return whether a request matches."""
        return Match.fits(self, incoming) and self.refuse(incoming, ErrorCode.UNKNOWN_SERVER_ERROR) is not None


class Fault:
    """One fault. `Faults.on(...)` and a method of the returned `Trigger` create it."""

    def __init__(self, match: Match, what: str, nth: int, times: int | None, action: Action, *, every: int = 1) -> None:
        self.match = match
        chosen = (f", from the {nth}. on" if nth > 1 else "") + (f", each {every}. one" if every > 1 else "")
        self.description: str = f"{what} on {match}{chosen}"
        self.hits: int = 0
        self._seen = 0
        self._ended = 0  # hits whose action has completed; each node of a cluster may have its own loop
        self._ended_lock = threading.Lock()
        self._nth = nth
        self._every = every
        self._times = times
        self._action = action
        self._consumed = threading.Event()
        self._waiters: list[Callable[[], None]] = []

    @property
    def consumed(self) -> bool:
        """Whether the fault has happened `times` times; at least once if it has no limit."""
        return self._consumed.is_set()

    @property
    def is_over(self) -> bool:
        """Whether the fault will not happen again."""
        return self._times is not None and self.hits >= self._times

    def wait_until_consumed(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Block until the fault is `consumed`.

        Raises:
            KafkaTimeoutError: the fault was not consumed within `timeout` seconds.
        """
        if not wait_interruptibly(self._consumed.wait, timeout):
            raise self._not_consumed(timeout)

    async def until_consumed(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Wait until the fault is `consumed`; may be awaited on any event loop.

        Raises:
            KafkaTimeoutError: the fault was not consumed within `timeout` seconds.
        """
        loop = asyncio.get_running_loop()
        happened = asyncio.Event()
        self._waiters.append(lambda: _call_in(loop, happened.set))
        if self.consumed:
            return
        try:
            await asyncio.wait_for(happened.wait(), timeout)
        except TimeoutError:
            raise self._not_consumed(timeout) from None

    def _not_consumed(self, timeout: float) -> KafkaTimeoutError:
        return KafkaTimeoutError(f"after {timeout:g} s this fault did not occur: {self}")

    def takes(self, incoming: Incoming, *, taken: bool) -> bool:
        """Count a request and return whether this fault applies to it. The plan calls this while it holds its lock.

        Args:
            incoming: the request.
            taken: an earlier fault already applies to the request, so this fault only counts it.
        """
        if self.is_over or not self.match.fits(incoming):
            return False
        self._seen += 1
        if taken or self._seen < self._nth or (self._seen - self._nth) % self._every:
            return False
        self.hits += 1
        return True

    def act(self, incoming: Incoming) -> FaultReply:
        """Run the action on a request. It counts as happened even if the action or the request's handler raises."""
        try:
            return self._action(incoming)
        finally:
            self._note_end()

    def _note_end(self) -> None:
        with self._ended_lock:
            self._ended += 1
            happened = self._times is None or self._ended >= self._times
        if happened:
            self._consumed.set()
            for tell in list(self._waiters):
                tell()

    def __str__(self) -> str:
        times = "no limit" if self._times is None else str(self._times)
        return f"{self.description} (happened {self.hits} of {times}; {self._seen} such requests seen)"


class Held(Fault):
    """A fault that holds requests until `release` is called."""

    def __init__(self, match: Match, nth: int, times: int | None, *, every: int = 1) -> None:
        super().__init__(match, "hold", nth, times, self._hold, every=every)
        self._lock = threading.Lock()
        self._released = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []

    def _hold(self, incoming: Incoming) -> FaultReply:
        with self._lock:
            if self._released:
                return incoming.handle(incoming.request)
            released: Deferred[None] = Deferred(lambda: None)
            self._waiting.append((asyncio.get_running_loop(), lambda: released.resolve(None)))
            return _handled_after(released, incoming)

    def release(self) -> None:
        """Pass all held requests on to their handlers, and hold no further requests."""
        with self._lock:
            self._released = True
            waiting, self._waiting = self._waiting, []
        for loop, resolve in waiting:
            _call_in(loop, resolve)


FaultT = TypeVar("FaultT", bound=Fault)


class Faults:
    """A plan of faults, in the order in which they were set. The first fault that matches a request applies to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spared: frozenset[str] = frozenset()
        self._faults: list[Fault] = []
        self.are_set: bool = False

    def on(  # noqa: PLR0913 -- one for each condition
        self,
        api: str | int | None = None,
        *,
        version: int | None = None,
        node: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        nth: int = 1,
        every: int = 1,
        times: int | None = 1,
    ) -> Trigger:
        """Select the requests of a fault. The methods of the returned `Trigger` set what happens to them.

        Args:
            api: name or key of the API, as in Kafka; None is any.
            version: API version of the request.
            node: id of the node that receives the request.
            client_id: client id in the request's header.
            topic: a topic in the request.
            partition: a partition in the request.
            nth: the first matching request to which the fault applies, counted from now: 1 is the next one.
            every: from the `nth` on, the fault applies to each so many matching requests.
            times: number of requests to which the fault applies; None is all until `clear`.

        Raises:
            UsageError: the API does not exist, or a number is not positive.
        """
        if nth < 1 or every < 1 or (times is not None and times < 1):
            raise UsageError("nth, every and times count from 1")
        key = None if api is None else _api(api).key
        return Trigger(self, Match(key, version, node, client_id, topic, partition), nth, times, every)

    def spare(self, client_id: str) -> None:
        """Apply no fault to requests of a client, such as a console that sets the faults."""
        self._spared |= {client_id}

    def add(self, fault: FaultT) -> FaultT:
        """Add a fault to the plan. The methods of `Trigger` call this."""
        with self._lock:
            self._faults.append(fault)
            self.are_set = True
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove a fault from the plan and release the requests that it holds; without effect if it is not there."""
        with self._lock:
            self._faults = [each for each in self._faults if each is not fault]
            self.are_set = bool(self._faults)
        if isinstance(fault, Held):
            fault.release()

    @property
    def active(self) -> list[Fault]:
        """The faults that may still happen."""
        with self._lock:
            return [fault for fault in self._faults if not fault.is_over]

    def clear(self) -> None:
        """Remove all faults and release all held requests."""
        with self._lock:
            faults, self._faults = self._faults, []
            self.are_set = False
        for fault in faults:
            if isinstance(fault, Held):
                fault.release()

    @property
    def unconsumed(self) -> list[Fault]:
        """The faults that are not `consumed`."""
        with self._lock:
            return [fault for fault in self._faults if not fault.consumed]

    def assert_all_consumed(self) -> None:
        """Check that all faults are `consumed`.

        Raises:
            AssertionError: a fault is not. The message lists such faults and the matching requests seen so far.
        """
        missing = self.unconsumed
        if missing:
            raise AssertionError("faults that did not occur: " + "; ".join(map(str, missing)))

    def chosen(self, incoming: Incoming) -> Fault | None:
        """Count a request, and return the fault that applies to it; None if there is none."""
        chosen: Fault | None = None
        if incoming.header.client_id in self._spared:
            return None
        with self._lock:
            for fault in self._faults:
                if fault.takes(incoming, taken=chosen is not None):
                    chosen = fault
        return chosen

    def answer(self, incoming: Incoming) -> FaultReply:
        """Answer a request: by the fault that applies to it, else by its handler. Connections call this."""
        chosen = self.chosen(incoming)
        return incoming.handle(incoming.request) if chosen is None else chosen.act(incoming)


@dataclass(frozen=True, slots=True)
class Trigger:
    """The requests that `Faults.on` selected; each method adds a fault for them to the plan."""

    faults: Faults
    match: Match
    nth: int
    times: int | None
    every: int = 1

    def answer(self, code: ErrorCode) -> Fault:
        """Answer the matching part of a request with an error code; the handler answers the rest.

        A request whose response has no field for the code does not match. Produce with acks=0 has no response: its
        connection is closed, as in Kafka.
        """
        match = _Answerable(*(getattr(self.match, name) for name in Match.__slots__))
        return self._set(f"answer {code.name}", lambda incoming: _error_response(incoming, match, code), match)

    def delay(self, seconds: float) -> Fault:
        """Handle the request after a delay. Later requests on the same connection wait, too."""
        return self._set(f"delay {seconds:g} s", lambda incoming: _after(seconds, incoming))

    def limit(self, bytes_per_s: float) -> Fault:
        """Delay the request and its response by the time that their bytes take at this rate.

        Raises:
            UsageError: the rate is not positive.
        """
        if bytes_per_s <= 0:
            raise UsageError(f"a rate of {bytes_per_s:g} bytes per second lets nothing through: use swallow()")
        return self._set(f"limit {bytes_per_s:g} B/s", lambda incoming: _limited(bytes_per_s, incoming))

    def close(self, *, handled: bool = False) -> Fault:
        """Close the connection without a response; with `handled`, the request is carried out first."""
        if not handled:
            return self._set("close", lambda _: _CLOSE)
        return self._set("close when handled", lambda incoming: _instead(incoming, lambda _: _CLOSE))

    def swallow(self, *, handled: bool = False) -> Fault:
        """Never answer this request or later ones on the connection; with `handled`, the request is carried out."""
        if not handled:
            return self._set("swallow", lambda _: _never())
        return self._set("swallow when handled", lambda incoming: _instead(incoming, lambda _: _never()))

    def cut(self, at: int) -> Fault:
        """Send the first `at` bytes of the response, including its size field, then close the connection."""

        def send(link: Link, segments: Segments) -> None:
            frame = _joined(segments)
            link.send_raw((len(frame).to_bytes(4, "big") + frame)[:at])
            link.close()

        return self._damage(f"cut at byte {at}", send)

    def corrupt(self, *, seed: int = 0, flips: int = 8) -> Fault:
        """Flip bits of the response after its size and correlation id. The same seed flips the same bits."""
        rolls = itertools.count()

        def send(link: Link, segments: Segments) -> None:
            frame = bytearray(_joined(segments))
            for _ in range(flips if len(frame) > 4 else 0):
                roll = _roll(seed, next(rolls))
                frame[4 + (roll >> 3) % (len(frame) - 4)] ^= 1 << (roll & 7)
            link.send([frame])

        return self._damage("corrupt", send)

    def hold(self) -> Held:
        """Hold the request until `release` is called."""
        return self.faults.add(Held(self.match, self.nth, self.times, every=self.every))

    def _damage(self, what: str, send: Callable[[Link, Segments], None]) -> Fault:
        def damage(answer: Answer[Response]) -> Outgoing:
            return Damaged(answer, send) if isinstance(answer, Response) else answer

        return self._set(what, lambda incoming: _instead(incoming, damage))

    def _set(self, what: str, action: Action, match: Match | None = None) -> Fault:
        return self.faults.add(Fault(match or self.match, what, self.nth, self.times, action, every=self.every))


def _api(name: str | int) -> Api:
    api = API_BY_KEY.get(name) if isinstance(name, int) else API_BY_NAME.get(name)
    if api is None:
        raise UsageError(f"Kafka has no API {name!r}; use its name, as in 'Produce', or its key")
    return api


def _error_response(incoming: Incoming, match: Match, code: ErrorCode) -> FaultReply:
    refused = match.refuse(incoming, code)
    assert refused is not None, "requests that can be refused"
    if getattr(incoming.request, "acks", None) == 0:
        return _CLOSE
    if refused.rest is None:
        return refused.response
    return after_response(incoming.handle(_at_once(refused.rest)), refused.completed)


def _at_once(request: Request[Response]) -> Request[Response]:
    """Make a request (a copy from `refuse`) not wait for more data: the error code must be answered immediately."""
    if hasattr(request, "max_wait_ms"):
        request.max_wait_ms = 0
    return request


def _after(seconds: float, incoming: Incoming) -> FaultReply:
    return _handled_after(_due(seconds), incoming)


def _due(seconds: float) -> Deferred[None]:
    due: Deferred[None] = Deferred(lambda: timer.cancel())
    timer = asyncio.get_running_loop().call_later(seconds, due.resolve, None)
    return due


def _limited(bytes_per_s: float, incoming: Incoming) -> FaultReply:
    def late(answer: Answer[Response]) -> Deferred[Outgoing]:
        size = _size_of(answer, incoming.header) if isinstance(answer, Response) else 0
        return following(_due(size / bytes_per_s), lambda _: answer)

    sent = _due(incoming.size_bytes / bytes_per_s)
    return following(sent, lambda _: after_answer(incoming.handle(incoming.request), late))


def _size_of(response: Response, header: RequestHeader) -> int:
    if isinstance(response, Undecoded):
        return len(response.frame)
    return segments_size(encode_response_segments(ResponseHeader(header.correlation_id), response, header.api_version))


def _handled_after(event: Deferred[None], incoming: Incoming) -> FaultReply:
    return following(event, lambda _: incoming.handle(incoming.request))


def _never() -> Deferred[Outgoing]:
    return Deferred(lambda: None)


def _instead(incoming: Incoming, change: Callable[[Answer[Response]], FaultReply]) -> FaultReply:
    return after_answer(incoming.handle(incoming.request), change)


def _roll(seed: int, number: int) -> int:
    """Return a pseudo-random number that depends only on a seed and a counter."""
    import hashlib  # only for faults with a probability: it takes 6 ms

    return int.from_bytes(hashlib.blake2b(b"%d:%d" % (seed, number), digest_size=8).digest())


def _joined(segments: Segments) -> bytes:
    return b"".join(
        os.pread(segment.fd, segment.size, segment.offset) if isinstance(segment, FileSlice) else segment
        for segment in segments
    )


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and its waiters with it
        loop.call_soon_threadsafe(callback)
