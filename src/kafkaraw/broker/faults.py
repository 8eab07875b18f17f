"""Faults on demand: which requests go wrong, how, and whether that has happened yet.

    fault = broker.faults.on(api="Produce", topic="flights", nth=2).answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ...
    assert fault.consumed

A plan is shared by the thread of the test and the loops of the brokers: everything on `Faults`, `Fault` and `Held` may
be called from any thread. A connection hands each request to `Faults.answer`; time is that of its running loop, so
that delays are virtual in simulations. Nothing here knows links or bytes, apart from `Damaged.send`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from kafkaraw.broker.fault_answers import Refused, refuse
from kafkaraw.broker.replies import Answer, CloseConnection, Deferred, Reply, after_answer, after_response, following
from kafkaraw.errors import KafkaTimeoutError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.net import Link, Segments
from kafkaraw.net.interruptible import wait_interruptibly
from kafkaraw.protocol import FileSlice, RequestHeader
from kafkaraw.protocol.apis import API_BY_KEY, API_BY_NAME, Api
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.error_codes import ErrorCode

WAIT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it comes to a node.

    Attributes:
        topic_name: the name of the topic with an id.
        handle: lets the handler answer a request of this API.
    """

    api: Api
    header: RequestHeader
    node_id: int
    request: Request[Response]
    topic_name: Callable[[bytes], str | None]
    handle: Callable[[Request[Response]], Reply[Response]]


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
    """Which requests a fault is for; None is any."""

    api: int | None = None
    version: int | None = None
    node: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    def fits(self, incoming: Incoming) -> bool:
        """Whether a request is meant."""
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
        """Refuse what is meant of a request."""
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
        given = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        if self.api is not None:
            given["api"] = API_BY_KEY[self.api].name
        return ", ".join(f"{name}={value}" for name, value in given.items()) or "any request"


class _Answerable(Match):
    """Requests in whose answer there is room for an error code."""

    __slots__ = ()

    def fits(self, incoming: Incoming) -> bool:
        """Whether a request is meant."""
        return Match.fits(self, incoming) and self.refuse(incoming, ErrorCode.UNKNOWN_SERVER_ERROR) is not None


class Fault:
    """One thing that goes wrong. Made by `Faults.on(...)` and one of its verbs."""

    def __init__(self, match: Match, what: str, nth: int, times: int | None, action: Action) -> None:
        self.match = match
        self.description = f"{what} on {match}" + (f", from the {nth}. on" if nth > 1 else "")
        self.hits = 0
        self._seen = 0
        self._ended = 0  # hits whose action is over; the nodes of a cluster may have loops of their own
        self._ended_lock = threading.Lock()
        self._nth = nth
        self._times = times
        self._action = action
        self._consumed = threading.Event()
        self._waiters: list[Callable[[], None]] = []

    @property
    def consumed(self) -> bool:
        """Whether it has happened as often as it was to (one without a limit: at least once)."""
        return self._consumed.is_set()

    @property
    def is_over(self) -> bool:
        """Whether it will not happen again."""
        return self._times is not None and self.hits >= self._times

    def wait_until_consumed(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Block until it has happened.

        Raises:
            KafkaTimeoutError: it did not within `timeout` seconds.
        """
        if not wait_interruptibly(self._consumed.wait, timeout):
            raise self._not_consumed(timeout)

    async def until_consumed(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Wait until it has happened; on any event loop.

        Raises:
            KafkaTimeoutError: it did not within `timeout` seconds.
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
        return KafkaTimeoutError(f"after {timeout:g} s this fault has not happened: {self}")

    def takes(self, incoming: Incoming, *, taken: bool) -> bool:
        """Count a request, and say whether it is this fault's; called by the plan, under its lock.

        Args:
            incoming: the request.
            taken: another fault has it already, so that it is only counted.
        """
        if self.is_over or not self.match.fits(incoming):
            return False
        self._seen += 1
        if taken or self._seen < self._nth:
            return False
        self.hits += 1
        return True

    def act(self, incoming: Incoming) -> FaultReply:
        """Let it happen; it has, too, when the action or the request's handler raises."""
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
    """A fault that holds requests back until they are released."""

    def __init__(self, match: Match, nth: int, times: int | None) -> None:
        super().__init__(match, "hold", nth, times, self._hold)
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
        """Let everything that is held go on to be answered, and hold nothing more."""
        with self._lock:
            self._released = True
            waiting, self._waiting = self._waiting, []
        for loop, resolve in waiting:
            _call_in(loop, resolve)


FaultT = TypeVar("FaultT", bound=Fault)


class Faults:
    """A plan of faults, in the order in which they were set: a request goes to the first that fits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.are_set = False

    def on(
        self,
        api: str | int | None = None,
        *,
        version: int | None = None,
        node: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> Trigger:
        """Say which requests are meant; a verb of what is returned says what happens to them.

        Args:
            api: Kafka's name or the key of the API; None is any.
            version: of the request.
            node: id of the node that gets it.
            client_id: what the client calls itself.
            topic: a topic that the request names.
            partition: a partition that it names.
            nth: the first such request that is meant, counted from now: 1 is the next.
            times: how many of them; None is all until `clear`.

        Raises:
            UsageError: there is no such API, or a number is not positive.
        """
        if nth < 1 or (times is not None and times < 1):
            raise UsageError("nth and times count from 1")
        key = None if api is None else _api(api).key
        return Trigger(self, Match(key, version, node, client_id, topic, partition), nth, times)

    def add(self, fault: FaultT) -> FaultT:
        """Set a fault; the verbs of `on` do this."""
        with self._lock:
            self._faults.append(fault)
            self.are_set = True
        return fault

    def clear(self) -> None:
        """Forget every fault; what is held goes on."""
        with self._lock:
            faults, self._faults = self._faults, []
            self.are_set = False
        for fault in faults:
            if isinstance(fault, Held):
                fault.release()

    @property
    def unconsumed(self) -> list[Fault]:
        """Those that have not happened (as often as they were to)."""
        with self._lock:
            return [fault for fault in self._faults if not fault.consumed]

    def assert_all_consumed(self) -> None:
        """Check that everything has happened that was to.

        Raises:
            AssertionError: something has not; it says what, and what was seen instead.
        """
        missing = self.unconsumed
        if missing:
            raise AssertionError("faults that did not happen: " + "; ".join(map(str, missing)))

    def answer(self, incoming: Incoming) -> FaultReply:
        """Answer a request: as its handler does, unless a fault is meant for it. Called by connections."""
        chosen: Fault | None = None
        with self._lock:
            for fault in self._faults:
                if fault.takes(incoming, taken=chosen is not None):
                    chosen = fault
        return incoming.handle(incoming.request) if chosen is None else chosen.act(incoming)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Which requests are meant; each method sets a fault for them."""

    faults: Faults
    match: Match
    nth: int
    times: int | None

    def answer(self, code: ErrorCode) -> Fault:
        """Answer with an error code, without handling what is meant; the rest of the request is handled.

        A request whose response has no room for the code is not meant. Produce without acknowledgements has no
        answer: its connection is closed, as Kafka does.
        """
        match = _Answerable(*(getattr(self.match, name) for name in Match.__slots__))
        return self._set(f"answer {code.name}", lambda incoming: _refusal(incoming, match, code), match)

    def delay(self, seconds: float) -> Fault:
        """Answer later; requests behind it on the same connection wait too."""
        return self._set(f"delay {seconds:g} s", lambda incoming: _after(seconds, incoming))

    def close(self, *, handled: bool = False) -> Fault:
        """Close the connection instead of answering; with `handled` the request has been carried out by then."""
        if not handled:
            return self._set("close", lambda _: _CLOSE)
        return self._set("close when handled", lambda incoming: _instead(incoming, lambda _: _CLOSE))

    def swallow(self, *, handled: bool = False) -> Fault:
        """Never answer, nor anything behind it on the connection; with `handled` it is carried out all the same."""
        if not handled:
            return self._set("swallow", lambda _: _never())
        return self._set("swallow when handled", lambda incoming: _instead(incoming, lambda _: _never()))

    def cut(self, at: int) -> Fault:
        """Send the first `at` bytes of the answer, its size included, then close the connection."""

        def send(link: Link, segments: Segments) -> None:
            frame = _joined(segments)
            link.send_raw((len(frame).to_bytes(4, "big") + frame)[:at])
            link.close()

        return self._damage(f"cut at byte {at}", send)

    def corrupt(self, *, seed: int = 0, flips: int = 8) -> Fault:
        """Flip bits of the answer, behind its size and correlation id; the same seed flips the same."""
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
        return self.faults.add(Held(self.match, self.nth, self.times))

    def _damage(self, what: str, send: Callable[[Link, Segments], None]) -> Fault:
        def damage(answer: Answer[Response]) -> Outgoing:
            return Damaged(answer, send) if isinstance(answer, Response) else answer

        return self._set(what, lambda incoming: _instead(incoming, damage))

    def _set(self, what: str, action: Action, match: Match | None = None) -> Fault:
        return self.faults.add(Fault(match or self.match, what, self.nth, self.times, action))


def _api(name: str | int) -> Api:
    api = API_BY_KEY.get(name) if isinstance(name, int) else API_BY_NAME.get(name)
    if api is None:
        raise UsageError(f"Kafka has no API {name!r}; use its name, as in 'Produce', or its key")
    return api


def _refusal(incoming: Incoming, match: Match, code: ErrorCode) -> FaultReply:
    refused = match.refuse(incoming, code)
    assert refused is not None, "only what can be refused is meant"
    if getattr(incoming.request, "acks", None) == 0:
        return _CLOSE
    if refused.rest is None:
        return refused.response
    return after_response(incoming.handle(_at_once(refused.rest)), refused.completed)


def _at_once(request: Request[Response]) -> Request[Response]:
    """Make a request (a copy, made by `refuse`) not wait for more data: what is refused is to be told now."""
    if hasattr(request, "max_wait_ms"):
        request.max_wait_ms = 0
    return request


def _after(seconds: float, incoming: Incoming) -> FaultReply:
    due: Deferred[None] = Deferred(lambda: timer.cancel())
    timer = asyncio.get_running_loop().call_later(seconds, due.resolve, None)
    return _handled_after(due, incoming)


def _handled_after(event: Deferred[None], incoming: Incoming) -> FaultReply:
    return following(event, lambda _: incoming.handle(incoming.request))


def _never() -> Deferred[Outgoing]:
    return Deferred(lambda: None)


def _instead(incoming: Incoming, change: Callable[[Answer[Response]], FaultReply]) -> FaultReply:
    return after_answer(incoming.handle(incoming.request), change)


def _roll(seed: int, number: int) -> int:
    """A number that follows from a seed and a count."""
    import hashlib  # only for faults with a probability: it takes 6 ms

    return int.from_bytes(hashlib.blake2b(b"%d:%d" % (seed, number), digest_size=8).digest())


def _joined(segments: Segments) -> bytes:
    return b"".join(
        os.pread(segment.fd, segment.size, segment.offset) if isinstance(segment, FileSlice) else segment
        for segment in segments
    )


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
        loop.call_soon_threadsafe(callback)
