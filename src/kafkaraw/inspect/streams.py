"""TCP connections out of segments: the bytes of each direction in order, and the holes in them.

Segments may be reordered, repeated or overlapping, and may be missing from the capture. A hole is reported as soon as
the other end has acknowledged its bytes and goes on, when too much waits behind it, or at the end. Memory is bounded by
`WAITING_BYTES_MAX` for a direction and `CONNECTIONS_MAX` connections. This module must not know the protocol above TCP.
Start at `Streams`; `Direction` holds the rules for sequence numbers (RFC 9293).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from kafkaraw.inspect.packets import ACK, FIN, RST, SYN, Endpoint, Segment

WAITING_BYTES_MAX: Final = 4 << 20
CONNECTIONS_MAX: Final = 20_000
SEQUENCE_SPACE: Final = 1 << 32
JUMP_BACK_MAX: Final = 64 << 20
"""A segment so far before the expected one is not repeated: the ports are used again."""


class End(Enum):
    """Why a connection ended."""

    CLOSED = "closed by both ends"
    RESET = "reset"
    REUSED = "its ports are used by a new connection"
    CAPTURE = "the capture ends"
    EVICTED = "too many connections are open"


class Bytes(NamedTuple):
    """The next bytes of a direction."""

    time_ns: int
    data: bytes


class Hole(NamedTuple):
    """Bytes of a direction that the capture does not have."""

    time_ns: int
    size: int


class Closed(NamedTuple):
    """A connection has ended."""

    time_ns: int
    reason: End


@dataclass(slots=True, eq=False)
class Connection:
    """A TCP connection.

    Attributes:
        number: 1 for the first of the capture.
        client: the end that sent SYN; if the capture begins later, the end that was seen first.
        server: the other end.
        has_start: whether the capture has the SYN of the client.
    """

    number: int
    client: Endpoint
    server: Endpoint
    has_start: bool


class Event(NamedTuple):
    """What happened in a connection.

    Attributes:
        connection: the connection.
        from_client: the direction; of no meaning for `Closed`.
        what: the event.
    """

    connection: Connection
    from_client: bool
    what: Bytes | Hole | Closed


@dataclass(slots=True)
class _Waiting:
    """A segment behind a hole; `start` counts from the expected byte when it arrived, in `Direction.total` terms."""

    start: int
    data: bytes
    cut: int
    time_ns: int


@dataclass(slots=True)
class Direction:
    """One direction of a connection: where its next byte is expected.

    Attributes:
        next: sequence number of the next byte; None before the first segment.
        total: how many bytes have passed, holes included.
        acknowledged: up to which byte the other end has confirmed, counted as `total`.
        waiting: segments behind a hole, by their position.
        is_finished: whether FIN was seen, and all bytes before it.
    """

    next: int | None = None
    total: int = 0
    acknowledged: int = 0
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    waiting_bytes: int = 0
    finish: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the last byte has passed."""
        return self.finish is not None and self.total >= self.finish

    def position(self, sequence: int) -> int:
        """Return where a sequence number is, counted as `total`; it may have wrapped around."""
        if self.next is None:
            self.next = sequence
        distance = (sequence - self.next) % SEQUENCE_SPACE
        return self.total + (distance - SEQUENCE_SPACE if distance >= SEQUENCE_SPACE // 2 else distance)

    def advance(self, size: int) -> None:
        """Pass over `size` bytes."""
        assert self.next is not None
        self.next = (self.next + size) % SEQUENCE_SPACE
        self.total += size

    def take(self, start: int, segment: Segment) -> Iterator[Bytes | Hole]:
        """Take a segment at a position; yield what is in order now."""
        end = start + len(segment.payload) + segment.cut
        if end <= self.total:
            return
        if start > self.total:
            self._keep(start, segment)
            if self.waiting_bytes > WAITING_BYTES_MAX:
                yield from self.give_up(segment.time_ns)
            return
        yield from self._pass(start, segment.payload, segment.cut, segment.time_ns)
        yield from self._drain()

    def _keep(self, start: int, segment: Segment) -> None:
        known = self.waiting.get(start)
        if known is None or len(segment.payload) > len(known.data):
            self.waiting[start] = _Waiting(start, segment.payload, segment.cut, segment.time_ns)
            self.waiting_bytes += len(segment.payload) - (len(known.data) if known else 0)

    def _pass(self, start: int, data: bytes, cut: int, time_ns: int) -> Iterator[Bytes | Hole]:
        new = data[self.total - start :]
        if new:
            self.advance(len(new))
            yield Bytes(time_ns, new)
        missing = start + len(data) + cut - self.total
        if missing > 0 and cut:
            self.advance(missing)
            yield Hole(time_ns, missing)

    def _drain(self) -> Iterator[Bytes | Hole]:
        while self.waiting:
            first = min(self.waiting)
            if first > self.total:
                return
            kept = self.waiting.pop(first)
            self.waiting_bytes -= len(kept.data)
            if kept.start + len(kept.data) + kept.cut > self.total:
                yield from self._pass(kept.start, kept.data, kept.cut, kept.time_ns)

    def give_up(self, time_ns: int) -> Iterator[Bytes | Hole]:
        """Declare the bytes before the first waiting segment missing, and pass on what follows it."""
        if self.waiting:
            size = min(self.waiting) - self.total
            self.advance(size)
            yield Hole(time_ns, size)
            yield from self._drain()

    def give_up_acknowledged(self, time_ns: int) -> Iterator[Bytes | Hole]:
        """Declare missing what the other end has confirmed: it came, and the capture does not have it."""
        while self.waiting and min(self.waiting) <= self.acknowledged:
            yield from self.give_up(time_ns)

    def end(self, time_ns: int) -> Iterator[Bytes | Hole]:
        """Pass on all that waits, with its holes, and name the confirmed bytes that are missing behind it."""
        while self.waiting:
            yield from self.give_up(time_ns)
        last = self.acknowledged if self.finish is None else min(self.acknowledged, self.finish)
        if last > self.total:
            size = last - self.total
            self.advance(size)
            yield Hole(time_ns, size)


@dataclass(slots=True)
class _Open:
    connection: Connection
    to_server: Direction = field(default_factory=Direction)
    to_client: Direction = field(default_factory=Direction)
    is_closed: bool = False


class Streams:
    """Follows the connections of a capture.

    Attributes:
        connections: how many connections were seen.
        evicted: how many were forgotten while open, since too many were.
    """

    def __init__(self) -> None:
        self.connections: int = 0
        self.evicted: int = 0
        self._numbers = count(1)
        self._open: OrderedDict[tuple[Endpoint, Endpoint], _Open] = OrderedDict()
        self._last_ns = 0

    def follow(self, segments: Iterable[Segment]) -> Iterator[Event]:
        """Yield what happens in all connections, in the order of the capture."""
        for segment in segments:
            yield from self.take(segment)
        yield from self.end()

    def take(self, segment: Segment) -> Iterator[Event]:
        """Take the next segment."""
        self._last_ns = segment.time_ns
        key = min(segment.source, segment.target), max(segment.source, segment.target)
        found = self._open.get(key)
        if found is not None and self._is_new(found, segment):
            yield from self._end(key, found, End.REUSED)
            found = None
        if found is None:
            if not (segment.payload or segment.cut or segment.flags & SYN):
                return  # an acknowledgement or the end of a connection of which nothing else is known
            if len(self._open) >= CONNECTIONS_MAX:
                oldest, evicted = next(iter(self._open.items()))
                self.evicted += not evicted.is_closed
                yield from self._end(oldest, evicted, End.EVICTED)
            found = self._open[key] = self._begin(segment)
        self._open.move_to_end(key)
        if not found.is_closed:
            yield from self._take(found, segment)

    def end(self) -> Iterator[Event]:
        """End the capture."""
        for key, found in list(self._open.items()):
            yield from self._end(key, found, End.CAPTURE)

    def _begin(self, segment: Segment) -> _Open:
        self.connections += 1
        # SYN with ACK is the server's.
        from_server = segment.flags & (SYN | ACK) == SYN | ACK
        ends = (segment.target, segment.source) if from_server else (segment.source, segment.target)
        return _Open(Connection(next(self._numbers), *ends, has_start=bool(segment.flags & SYN)))

    def _is_new(self, found: _Open, segment: Segment) -> bool:
        """Return whether the segment begins another connection between the same ports."""
        to_server = segment.source == found.connection.client
        direction = found.to_server if to_server else found.to_client
        if direction.next is None:
            return False
        if segment.flags & SYN:
            return direction.position((segment.sequence + 1) % SEQUENCE_SPACE) != 0
        return bool(segment.payload) and direction.position(segment.sequence) < direction.total - JUMP_BACK_MAX

    def _take(self, found: _Open, segment: Segment) -> Iterator[Event]:
        connection = found.connection
        from_client = segment.source == connection.client
        mine, other = (found.to_server, found.to_client) if from_client else (found.to_client, found.to_server)
        sequence = segment.sequence
        if segment.flags & SYN:
            sequence = (sequence + 1) % SEQUENCE_SPACE  # SYN takes a number
        if mine.next is None and not (segment.payload or segment.cut or segment.flags & SYN):
            return
        if segment.acknowledged >= 0 and other.next is not None:
            at = other.position(segment.acknowledged)
            # The number behind FIN is no byte; and what cannot be true is not believed.
            if at - other.total < SEQUENCE_SPACE // 4:
                other.acknowledged = max(other.acknowledged, at)
            if segment.payload:
                for what in other.give_up_acknowledged(segment.time_ns):
                    yield Event(connection, not from_client, what)
        start = mine.position(sequence)
        if segment.payload or segment.cut:
            for what in mine.take(start, segment):
                yield Event(connection, from_client, what)
        if segment.flags & FIN and mine.finish is None:
            mine.finish = start + len(segment.payload) + segment.cut
        if segment.flags & RST:
            yield from self._close(found, End.RESET)
        elif mine.is_finished and other.is_finished:
            yield from self._close(found, End.CLOSED)

    def _close(self, found: _Open, reason: End) -> Iterator[Event]:
        """End a connection; it stays known, so that late segments do not begin another one."""
        if found.is_closed:
            return
        found.is_closed = True
        for from_client, direction in ((True, found.to_server), (False, found.to_client)):
            for what in direction.end(self._last_ns):
                yield Event(found.connection, from_client, what)
        yield Event(found.connection, True, Closed(self._last_ns, reason))

    def _end(self, key: tuple[Endpoint, Endpoint], found: _Open, reason: End) -> Iterator[Event]:
        del self._open[key]
        yield from self._close(found, reason)
