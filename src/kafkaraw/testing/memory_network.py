"""A network in memory: links with latency, order and faults, from a seed, and a record of every byte.

It replaces `net.AsyncioNetwork` on a `VirtualLoop`; neither client nor broker can detect it. Like the real network, it
delivers bytes late, in order, and cut in odd places; addresses fail at the same stages with the same errors.
Start at `MemoryNetwork`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kafkaraw.errors import KafkaError, NetworkError, Stage, UsageError
from kafkaraw.net import Link, LinkHandler, Segments
from kafkaraw.net.link import WRITE_HIGH_BYTES, WRITE_LOW_BYTES
from kafkaraw.net.listener import Listener
from kafkaraw.net.os_errors import host_port
from kafkaraw.protocol import FileSlice, FrameReader, segments_size

_ALIASES = {"localhost": "127.0.0.1", "": "127.0.0.1", "0.0.0.0": "127.0.0.1"}
_FIRST_PORT = 40_000
_CUT_PROBABILITY = 0.25
_SIZE_BYTES = 4
SOCKET_BUFFER_BYTES = 1 << 18
"""How many bytes that the other end has not read count as taken by the operating system."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """One entry of a network's history: bytes that one end of a link sent.

    Attributes:
        at_s: when they were sent, on the loop's clock, in seconds.
        link: the number of the link, from 0, in the order of dialling.
        by: "client", the end that dialled, or "server".
        data: the bytes of one frame, size prefix included.
    """

    at_s: float
    link: int
    by: str
    data: bytes


class MemoryNetwork:
    """Dials and listens within one process.

    Args:
        loop: the loop on whose time the bytes travel.
        rng: decides every latency and where bytes are cut; the same seed gives the same history.
        latency_ms: minimum and maximum time that bytes travel, one way, in milliseconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rng: random.Random, *, latency_ms: tuple[float, float] = (0.05, 2.0)
    ) -> None:
        self.history: list[Sent] = []
        self._loop = loop
        self._rng = rng
        self._latency_ms = latency_ms
        self._hosts: set[str] = set()
        self._listeners: dict[Address, MemoryListener] = {}
        self._silent: dict[Address, asyncio.Event] = {}  # the event: no longer silent
        self._slow: dict[Address, tuple[float, float]] = {}
        self._repeated: dict[Address, tuple[Callable[[bytes], bool], tuple[float, float]]] = {}
        self._nameless: set[str] = set()
        self._links: list[MemoryLink] = []
        self._links_made = 0

    # -- net.Network -----------------------------------------------------------------------------------------------

    async def dial(self, host: str, port: int, handler: LinkHandler, *, timeout: float, frame_size_max: int) -> Link:
        """Connect to a host."""
        address, where = _address(host, port), host_port(host, port)
        if address[0] not in self._hosts or address[0] in self._nameless:
            raise NetworkError(f"cannot resolve {host!r} (of {where}): unknown host", stage=Stage.RESOLVE)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.sleep(self.latency_s(address))
                while heard := self._silent.get(address):
                    await heard.wait()
        except TimeoutError:
            raise NetworkError(f"cannot connect to {where}: no answer in time", stage=Stage.CONNECT) from None
        listener = self._listeners.get(address)
        if listener is None:
            raise NetworkError(f"cannot connect to {where}: Connection refused", stage=Stage.CONNECT)
        return self._join(listener, address, where, handler, frame_size_max)

    def _join(
        self, listener: MemoryListener, address: Address, where: str, handler: LinkHandler, frame_size_max: int
    ) -> MemoryLink:
        number, self._links_made = self._links_made, self._links_made + 1
        names = (f"127.0.0.1:{60_000 + number}", where)
        client = MemoryLink(self, number, "client", handler, names, frame_size_max, address)
        server = MemoryLink(
            self, number, "server", listener.make_handler(), (where, names[0]), listener.frame_size_max, address
        )
        client.other, server.other = server, client
        self._links += [client, server]
        server.handler.link_made(server)
        client.handler.link_made(client)
        return client

    async def listen(
        self,
        host: str,
        port: int,
        make_handler: Callable[[], LinkHandler],
        *,
        frame_size_max: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Accept connections on an address of this machine."""
        if tls is not None:
            raise UsageError("a network in memory has no TLS")
        while port == 0:
            free = _FIRST_PORT + len(self._listeners)
            port = free if _address(host, free) not in self._listeners else 0
        address = _address(host, port)
        if address in self._listeners:
            raise NetworkError(f"cannot listen on {host_port(host, port)}: Address already in use", stage=Stage.CONNECT)
        self._hosts.add(address[0])
        listener = MemoryListener(host, port, make_handler, frame_size_max, lambda: self._listeners.pop(address, None))
        self._listeners[address] = listener
        return listener

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, host: str, port: int) -> int:
        """Break every link to an address; bytes in flight are lost. Return the number of broken links."""
        doomed = [link for link in self._links if link.address == _address(host, port) and link.by == "client"]
        for link in doomed:
            for end in (link, link.other):
                end.lose(NetworkError(f"the connection to {end.peer} broke: Connection reset", stage=Stage.REQUEST))
        return len(doomed)

    def silence(self, host: str, port: int, silent: bool = True) -> None:
        """Make an address unreachable without an error: bytes and new connections wait until this is lifted."""
        address = _address(host, port)
        if silent:
            self._silent.setdefault(address, asyncio.Event())
        elif heard := self._silent.pop(address, None):
            heard.set()
            for link in list(self._links):
                link.deliver_soon()

    def half_open(self, host: str, port: int, by: str) -> int:
        """Drop from now on the bytes that one end of every link to an address sends, without an error. Return how many.

        Args:
            host: host of the address.
            port: port of the address.
            by: the end whose bytes are dropped: "client" or "server".
        """
        muted = [link for link in self._links if link.address == _address(host, port) and link.by == by]
        for link in muted:
            link.heard = False
        return len(muted)

    def slow(self, host: str, port: int, latency_ms: tuple[float, float] | None) -> None:
        """Set the latency of bytes to and from an address, in milliseconds; None ends it."""
        if latency_ms is None:
            self._slow.pop(_address(host, port), None)
        else:
            self._slow[_address(host, port)] = latency_ms

    def hide(self, host: str, hidden: bool = True) -> None:
        """Make a host's name unresolvable, until this is lifted."""
        name = _address(host, 0)[0]
        if hidden:
            self._nameless.add(name)
        else:
            self._nameless.discard(name)

    def repeat(
        self, host: str, port: int, after_s: tuple[float, float] | None, which: Callable[[bytes], bool] = bool
    ) -> None:
        """Deliver frames to an address once more, on a connection whose responses are ignored; None ends it.

        This simulates a client that closed a connection and retried on another one, while its first request arrives
        all the same, late.

        Args:
            host: host of the address.
            port: port of the address.
            after_s: minimum and maximum delay, in seconds.
            which: called with a frame without its size prefix; returns whether it is delivered again.
        """
        if after_s is None:
            self._repeated.pop(_address(host, port), None)
        else:
            self._repeated[_address(host, port)] = (which, after_s)

    # -- for links and assertions ----------------------------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on whose time the bytes travel."""
        return self._loop

    def digest(self) -> str:
        """Return a hash over the whole history: times, links, and every byte."""
        total = hashlib.sha256()
        for sent in self.history:
            total.update(f"{sent.at_s!r} {sent.link} {sent.by} {len(sent.data)}\n".encode())
            total.update(sent.data)
        return total.hexdigest()

    def latency_s(self, address: Address) -> float:
        """Return how long the next bytes to or from an address travel, in seconds."""
        return self._rng.uniform(*self._slow.get(address, self._latency_ms)) / 1000

    def cut_in_pieces(self, data: bytes) -> list[bytes]:
        """Return the bytes as they will arrive: sometimes in two pieces."""
        if len(data) < 2 or self._rng.random() >= _CUT_PROBABILITY:
            return [data]
        at = self._rng.randrange(1, len(data))
        return [data[:at], data[at:]]

    def repeat_later(self, address: Address, data: bytes) -> None:
        """Schedule another delivery of a client's frame, if `repeat` asks for it."""
        which, after_s = self._repeated.get(address, (None, (0.0, 0.0)))
        if which is not None and which(data[_SIZE_BYTES:]):
            self._loop.call_later(self._rng.uniform(*after_s), self._arrive_again, address, data)

    def _arrive_again(self, address: Address, data: bytes) -> None:
        listener = self._listeners.get(address)
        if listener is not None:
            self._join(listener, address, host_port(*address), _Nobody(), listener.frame_size_max).send_raw(data)

    def is_silent(self, address: Address) -> bool:
        """Return whether the address is unreachable now."""
        return address in self._silent

    def forget(self, link: MemoryLink) -> None:
        """Remove a link that has ended."""
        if link in self._links:
            self._links.remove(link)


@dataclass(frozen=True, slots=True)
class MemoryListener:
    """An address of a memory network that accepts connections."""

    host: str
    port: int
    make_handler: Callable[[], LinkHandler]
    frame_size_max: int
    on_close: Callable[[], object]

    async def close(self) -> None:
        """Accept no more. Links that stand are left alone."""
        self.on_close()


class MemoryLink:
    """One end of a connection in memory; see `net.Link`. `inbox` holds the bytes in flight to this end.

    Attributes:
        heard: whether the other end receives the bytes that this one sends.
    """

    other: MemoryLink
    peer_certificate: bytes | None = None

    def __init__(
        self,
        network: MemoryNetwork,
        number: int,
        by: str,
        handler: LinkHandler,
        names: tuple[str, str],
        frame_size_max: int,
        address: Address,
    ) -> None:
        self.number: int = number
        self.by: str = by
        self.handler: LinkHandler = handler
        self.address: Address = address
        self.local: str = names[0]
        self.peer: str = names[1]
        self.write_paused: bool = False
        self.heard = True
        self._put_bytes = 0
        self._network = network
        self._reader = FrameReader(frame_size_max)
        self._inbox: deque[tuple[float, bytes | None]] = deque()  # (arrival, bytes or the end)
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()  # (`_written_bytes` then, callback)
        self._written_bytes = 0
        self._reading = True
        self._closed = False

    def limit_frames(self, frame_size_max: int) -> None:
        """Accept frames of up to this size, beginning with the next one."""
        self._reader.limit = frame_size_max

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were sent here, but are still in this process."""
        return self.other.unread_bytes

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged; 0 where the operating system does not report it."""
        return 0

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left this process since the link was made; grows if the peer reads."""
        return self._put_bytes - self.other.unread_bytes

    def send(self, segments: Segments) -> None:
        """Send one frame; its 4-byte size is added here."""
        data = segments_size(segments).to_bytes(_SIZE_BYTES, "big") + b"".join(map(_bytes_of, segments))
        if self.by == "client" and not self._closed:
            self._network.repeat_later(self.address, data)
        self.send_raw(data)

    def when_sent(self, tell: Callable[[], None]) -> None:
        """See `Link.when_sent`; the operating system takes up to `SOCKET_BUFFER_BYTES` of unread bytes."""
        if not self._closed:
            self._marks.append((self._written_bytes, tell))
            self._tell_sent()

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, with nothing added: a part of a frame, or none at all. For fault tests."""
        if self._closed:
            return
        self._network.history.append(Sent(self._network.loop.time(), self.number, self.by, data))
        for piece in self._network.cut_in_pieces(data) if self.heard else ():
            self._put_bytes += len(piece)
            self.other.put(piece)
        self._written_bytes += len(data)
        self.report_writing()

    def close(self) -> None:
        """Send what is still unsent, then close. `link_lost(None)` follows."""
        if not self._closed:
            self._say_goodbye()
            self.lose(None)

    def abort(self) -> None:
        """Close at once and drop what is unsent. `link_lost(None)` follows."""
        self.close()

    def pause_reading(self) -> None:
        """Deliver no further frames; the peer is slowed down by TCP."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver frames again."""
        self._reading = True
        self.deliver_soon()

    @property
    def unread_bytes(self) -> int:
        """The number of bytes in flight to this end."""
        return sum(len(data) for _, data in self._inbox if data)

    # -- between the two ends --------------------------------------------------------------------------------------

    def put(self, data: bytes | None) -> None:
        """Send bytes, or the end, to this end; they never overtake each other."""
        if self._closed:
            return
        arrival = self._network.loop.time() + self._network.latency_s(self.address)
        if self._inbox:
            arrival = max(arrival, self._inbox[-1][0])
        self._inbox.append((arrival, data))
        self._network.loop.call_at(arrival, self._deliver, arrival)

    def deliver_soon(self) -> None:
        """Retry to deliver bytes that could not be delivered when they arrived."""
        self._network.loop.call_soon(self._deliver, self._network.loop.time())

    def lose(self, error: KafkaError | None) -> None:
        """End this end of the link; the loop then calls its handler."""
        if self._closed:
            return
        self._closed = True
        self._inbox.clear()
        self._marks.clear()
        self._network.forget(self)
        self._network.loop.call_soon(self.handler.link_lost, error)

    def report_writing(self) -> None:
        """Call the handler when the number of its bytes in flight passes the high or low mark."""
        paused = self.other.unread_bytes > (WRITE_LOW_BYTES if self.write_paused else WRITE_HIGH_BYTES)
        if paused is not self.write_paused and not self._closed:
            self.write_paused = paused
            self.handler.writing_paused(paused)
        if self._marks:
            self._tell_sent()

    def _tell_sent(self) -> None:
        while not self._closed and self._marks:
            behind = self._written_bytes - self._marks[0][0]
            if self.other.unread_bytes > behind + SOCKET_BUFFER_BYTES:
                return
            self._marks.popleft()[1]()

    def _deliver(self, until_s: float) -> None:
        # Not by the loop's time: it runs timers that are due within its clock's resolution, so up to that much early.
        while self._inbox and self._inbox[0][0] <= until_s and self._may_read():
            _, data = self._inbox.popleft()
            if data is None:
                self._lose_by_peer()
                return
            self._feed(data)
            self.other.report_writing()

    def _may_read(self) -> bool:
        return self._reading and not self._network.is_silent(self.address)

    def _feed(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                if self._closed:
                    return
                self.handler.frame_received(frame)
        except KafkaError as error:
            self._say_goodbye()
            self.lose(error)

    def _say_goodbye(self) -> None:
        if self.heard:
            self.other.put(None)

    def _lose_by_peer(self) -> None:
        if self._reader.is_between_frames:
            self.lose(None)
        else:
            text = f"{self.peer} closed the connection after {self._reader.progress}"
            self.lose(NetworkError(text, stage=Stage.REQUEST))


class _Nobody:
    """Replaces a client that is gone: it closes the connection after the first response."""

    def link_made(self, link: Link) -> None:
        self._link = link

    def frame_received(self, frame: memoryview) -> None:
        self._link.close()

    def writing_paused(self, paused: bool) -> None:
        pass

    def link_lost(self, error: KafkaError | None) -> None:
        pass


def _address(host: str, port: int) -> Address:
    return _ALIASES.get(host, host), port


def _bytes_of(segment: bytes | bytearray | memoryview | FileSlice) -> bytes | bytearray | memoryview:
    return os.pread(segment.fd, segment.size, segment.offset) if isinstance(segment, FileSlice) else segment
