"""One tapped connection: the client's side, the broker's side, and what passes between them.

Theory of operation. Bytes are written to the other side in the call that read them, before anything is noted. If the
other side does not take them all, the rest waits in the transport, and this side is not read until it has left: so a
slow peer slows the other one down, as without a tap. A client that ends its direction only still gets its answers
(`Passage.half_closed`); brokers have no half-open connections: the end of theirs is the end of the connection. An
answer that has addresses is held until it can be rewritten (`addresses`). Then the frames go to the `Conversation`, and
exchanges that have ended to the tap's observers, which run later. What observers cost, or an exchange that cannot be
decoded, never keeps bytes back.

Start at `Passage`; `End` is one socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from kafkaraw.errors import KafkaError
from kafkaraw.inspect.exchanges import (
    Bytes,
    Connection,
    Conversation,
    Exchange,
    ExchangeKind,
    Frame,
)
from kafkaraw.inspect.tap.addresses import (
    HELD_TAIL_BYTES,
    Addresses,
    Treatment,
    ends_without_addresses,
    has_unknown_addresses,
    treatment_of,
)
from kafkaraw.inspect.tap.outline import outline_for
from kafkaraw.inspect.tap.stream import ENTRANCE_BYTES, Plan, Stream
from kafkaraw.net.os_errors import reason_of
from kafkaraw.net.transport import LowWater
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.frames import SIZE_PREFIX

if TYPE_CHECKING:
    from kafkaraw.inspect.tap.injection import Injection
    from kafkaraw.inspect.tap.ports import Gate
    from kafkaraw.inspect.tap.proxy import Tap

UNSENT_BYTES_MAX: Final = 1 << 18
"""Unsent bytes of a connection above which the tap pauses reading their sender; with many connections, one piece."""
KEPT_WHOLE_BYTES: Final = 1 << 16
"""Frames up to this size are kept whole until they are noted; of a larger one with records, an outline."""
KEPT_PASSING_BYTES: Final = 4 << 20
"""So much is kept of a frame without outline, as it passes."""
KEPT_HELD_BYTES: Final = 64 << 20
"""A frame above this size that would have to be held, or saved, is passed on as it is."""
COPIED_BYTES_MAX: Final = 1 << 11
"""Frames up to this size are copied out of the shared buffer; what is kept of a larger one is decided by the tap."""
CORRELATION_ID: Final = slice(0, 4)
_REWRITTEN: Final = "addresses are those of the brokers; the client was sent those of the tap"
_HIDDEN: Final = "addresses of new leaders are hidden from the client, which asks for Metadata instead"


class End(asyncio.BufferedProtocol):
    """One of the two sockets.

    Args:
        passage: the connection.
        name: "client" or "broker".
    """

    def __init__(self, passage: Passage, name: str) -> None:
        self.name = name
        self.stream: Stream
        self.transport: asyncio.Transport | None = None
        self._passage = passage
        self._descriptor: int | None = None
        self._low_water = LowWater(None)
        self._on_unsent: Callable[[bool], None] = lambda _: None
        self._waits_for: set[str] = set()
        self.has_ended: bool = False
        """Whether the peer has said all that it will: it is not read any more."""

    def feeds(self, stream: Stream, on_unsent: Callable[[bool], None]) -> None:
        """Set where the bytes of this side go, and what is told when writes of this side wait, or no longer do."""
        self.stream, self._on_unsent = stream, on_unsent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the transport; the passage decides when it is read."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=min(UNSENT_BYTES_MAX, self.stream.piece_bytes))
        if transport.get_extra_info("sslcontext") is None:
            sock = transport.get_extra_info("socket")
            self._low_water = LowWater(sock)
            self._descriptor = sock.fileno() if type(self.transport).__module__.startswith("asyncio.") else None
        self._passage.end_made(self)

    def address(self, name: str) -> tuple[str, int]:
        """Return "sockname" or "peername" of the socket; an empty host if it is closed."""
        found = None if self.transport is None else self.transport.get_extra_info(name)
        return (str(found[0]), int(found[1])) if found else ("", 0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self.stream.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Pass bytes on."""
        self.stream.received(nbytes, time.time())
        self._low_water.wait_for(min(self.stream.missing, self.stream.piece_bytes))

    def write(self, data: Bytes) -> None:
        """Send bytes; what the socket does not take is copied, as the buffer behind `data` is used again."""
        transport = self.transport
        if transport is None or transport.is_closing() or not len(data):
            return
        if self._descriptor is not None and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._descriptor, data)
            except OSError:  # it is full, or broken: the transport will see the same, and knows what to do
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        transport.write(bytes(data))

    def read(self, wanted: bool, waits_for: str = "the other side") -> None:
        """Begin or cease to read this side, which is read as long as it waits for nothing."""
        (self._waits_for.discard if wanted else self._waits_for.add)(waits_for)
        if self.transport is not None and not self.transport.is_closing() and not self.has_ended:
            if self._waits_for:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._on_unsent(True)

    def resume_writing(self) -> None:
        """The socket takes bytes again."""
        self._on_unsent(False)

    def eof_received(self) -> bool:
        """Return whether this side stays open for what the other one still sends; else asyncio closes it."""
        self.has_ended = self._passage.half_closed(self)
        return self.has_ended

    @property
    def can_finish(self) -> bool:
        """Whether the end of one direction can be sent: not under TLS."""
        return self.transport is not None and not self.transport.is_closing() and self.transport.can_write_eof()

    def finish(self) -> None:
        """End the direction to this peer after what is unsent; the other direction stays open."""
        if self.transport is not None:
            with contextlib.suppress(OSError):  # it is broken, which `connection_lost` reports
                self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other side, too."""
        self.transport, self._descriptor = None, None
        self._passage.end_lost(self, exc)

    def close(self) -> None:
        """Close after what is unsent has left."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()


class Passage:
    """A client's connection, and the one to the broker that belongs to it.

    Args:
        tap: is told what happens.
        gate: the port that the client has connected to.

    Attributes:
        client, broker: the two sides.
        connection: names of both; set by `begin`.
        conversation: matches requests and answers.
        is_raw: whether another protocol is passed on unread.
    """

    def __init__(self, tap: Tap, gate: Gate) -> None:
        self.client: End = End(self, "client")
        self.broker: End = End(self, "broker")
        self.gate: Gate = gate
        self.connection: Connection = Connection(0, "", "")
        self.conversation: Conversation = Conversation(self.connection)
        self.is_raw: bool = False
        self._tap = tap
        self._addresses = Addresses(lambda node: tap.advertised(node, self.local_host))
        self._injection: Injection | None = None
        self._why_ended = ""
        self._is_over = False
        buffers = tap.buffers
        self.client.feeds(Stream(_FromClient(self), buffers), lambda is_unsent: self.broker.read(not is_unsent))
        self.broker.feeds(Stream(_FromBroker(self), buffers), lambda is_unsent: self.client.read(not is_unsent))

    @property
    def local_host(self) -> str:
        """The address at which the client has reached the tap; empty if it has gone."""
        return self.client.address("sockname")[0]

    # -- the two ends ----------------------------------------------------------------------------------------------

    def end_made(self, end: End) -> None:
        """The client's side waits until the broker's stands."""
        if end is self.client:
            end.read(False)
            self._tap.accepted(self)
        elif self._is_over:  # the client has gone meanwhile
            end.abort()

    def begin(self, connection: Connection) -> None:
        """The broker's side stands: pass bytes on."""
        self.connection = connection
        self.conversation = Conversation(connection, self._tap.topic_names)
        self.client.read(True)

    def refuse(self, reason: str) -> None:
        """There is no broker's side: close the client's."""
        self._why_ended = reason
        self.client.close()

    def end(self, reason: str) -> None:
        """End both sides after what is unsent."""
        self._why_ended = self._why_ended or reason
        self.client.close()
        self.broker.close()

    def half_closed(self, end: End) -> bool:
        """Note that a side has sent its last byte; return whether it stays open for the other direction.

        A client may end its side and read on; the tap ends the broker's side then, too. With faults, or with TLS on
        either side, the whole connection ends.
        """
        self._why_ended = self._why_ended or f"the {end.name} closed the connection"
        can_finish = self.client.can_finish and self.broker.can_finish
        if end is self.broker or not can_finish or self.injection is not None:
            return False
        self._write_leftover(end, self.broker)
        self.broker.finish()
        return True

    def end_lost(self, end: End, error: Exception | None) -> None:
        """Let the other side send what it has, and close it."""
        other = self.broker if end is self.client else self.client
        if not self._why_ended:
            broke = f": {reason_of(error)}" if error is not None else ""
            self._why_ended = f"the {end.name} closed the connection{broke}"
        self._write_leftover(end, other)
        other.close()
        if not self._is_over and self.client.transport is None and self.broker.transport is None:
            self._is_over = True
            if self._injection is not None:
                self._injection.end()
            for exchange in self.conversation.end(self._why_ended):
                self.report(exchange)
            self._tap.closed(self)

    def _write_leftover(self, end: End, other: End) -> None:
        leftover = end.stream.take_leftover()
        if leftover:
            other.write(leftover)

    def abort(self) -> None:
        """End both sides at once."""
        self._why_ended = self._why_ended or "the tap was stopped"
        self.client.abort()
        self.broker.abort()

    def become_raw(self, reason: str, end: str) -> None:
        """Pass everything on unread: this is another protocol."""
        if not self.is_raw:
            self.is_raw = True
            self._tap.note(
                f"connection {self.connection.number} of {self.connection.client}: {reason}; passed on unread "
                f"(seen from the {end})"
            )
            self.client.stream.become_raw()
            self.broker.stream.become_raw()

    def report(self, exchange: Exchange) -> None:
        """Tell the tap of an exchange that has ended."""
        self._tap.ended(exchange)

    def exchange_of(self, frame: Frame) -> Exchange:
        """Begin an exchange with a request, and tell the tap of it."""
        exchange = self.conversation.request(frame)
        self._tap.asked(exchange)
        return exchange

    @property
    def copied_bytes_max(self) -> int:
        """Up to which size a short frame is copied out of the shared buffer at once."""
        return ENTRANCE_BYTES if self._tap.is_saving else COPIED_BYTES_MAX

    # -- requests --------------------------------------------------------------------------------------------------

    def asked(self, frame: Frame) -> None:
        """Note a request that was passed on."""
        exchange = self.exchange_of(frame)
        if not exchange.is_answered:
            self.report(exchange)
        dropped = self.conversation.drop_oldest("too many later requests have no answer, either", self._tap.pending_max)
        if dropped is not None:
            self.report(dropped)

    @property
    def injection(self) -> Injection | None:
        """What makes faults happen on this connection, if any are set now."""
        if self._injection is None:
            faults = self._tap.faults_if_set
            if faults is None:
                return None
            from kafkaraw.inspect.tap.injection import Injection  # only with faults: it imports parts of the broker

            self._injection = Injection(faults, self._tap.topic_names, self)
        return self._injection if self._injection.is_set else None

    # -- answers ---------------------------------------------------------------------------------------------------

    def treatment(self, correlation_id: memoryview, before: int = 0) -> tuple[Treatment, Exchange | None]:
        """Return how an answer is passed on, by its first bytes, and the exchange that it belongs to.

        Args:
            correlation_id: its first bytes.
            before: how many answers before it are not noted yet.
        """
        pending = self.conversation.pending
        if len(pending) <= before or pending[before].kind is not ExchangeKind.REQUEST:
            return Treatment.PASS, None
        number = int.from_bytes(correlation_id, signed=True)
        for exchange in pending:  # nearly always the first
            if exchange.correlation_id == number:
                return treatment_of(exchange.api_key, exchange.version), exchange
        return Treatment.PASS, None

    def rewritten(self, data: memoryview, exchange: Exchange) -> bytes | None:
        """Return a whole answer with the tap's addresses; None if it is passed on as it is."""
        try:
            if self.injection is not None:  # a fault may change what was decoded
                return self._addresses.rewrite(data, exchange.api_key, exchange.version)
            return self._addresses.rewrite(data, exchange.api_key, exchange.version, exchange.take_response_body)
        except KafkaError as error:
            self._note_unread_addresses(exchange, error)
            return None

    def passing_plan(
        self, size: int, api_key: int, version: int, *, is_request: bool, is_expected: bool, hold_bytes: int = 0
    ) -> Plan:
        """Return what becomes of a long frame that is passed on as it comes, except its end."""
        kept_bytes = self._tap.kept_whole_bytes
        if size <= max(KEPT_WHOLE_BYTES, kept_bytes):
            return Plan(size, hold_bytes, is_expected)
        outline = outline_for(api_key, version, is_request=is_request)
        if outline is None:
            return Plan(max(KEPT_PASSING_BYTES, kept_bytes), hold_bytes, is_expected)
        return Plan(min(kept_bytes, self._tap.kept_record_bytes), hold_bytes, is_expected, outline)

    def end_of(self, frame: Frame, held: memoryview) -> Bytes:
        """Return the end of an answer that was held back, with the tap's addresses if it has any."""
        _, exchange = self.treatment(memoryview(frame.data)[CORRELATION_ID])
        if exchange is None or ends_without_addresses(held, exchange.api_key):
            return held
        try:
            if frame.outline is None and frame.is_cut:
                raise KafkaError("too little of it is kept to know whether there are any")
            found = self._addresses.rewrite_end(frame.outline or frame.data, exchange.api_key, exchange.version)
            if found is not None and len(found.data) > len(held):
                raise KafkaError(f"they take {len(found.data)} bytes")
        except KafkaError as error:
            self._note_unread_addresses(exchange, error)
            return held
        if found is None:
            return held
        frame.note = _HIDDEN if found.is_hidden else _REWRITTEN
        return b"".join((held[: len(held) - len(found.data)], found.data))

    def _note_unread_addresses(self, exchange: Exchange, error: KafkaError) -> None:
        self._tap.note(
            f"connection {self.connection.number}: the addresses in {exchange.name} of {self.connection.broker} "
            f"cannot be rewritten: {error}; passed on as it is, so clients may go past the tap"
        )

    def answered(self, frame: Frame) -> None:
        """Note an answer that was passed on."""
        for exchange in self.conversation.response(frame):
            if has_unknown_addresses(exchange.api_key, exchange.version):
                self._tap.note(
                    f"{exchange.name} is not known here: addresses in its answers are passed on as they are, so "
                    "clients may go past the tap"
                )
            self.report(exchange)


class _FromClient:
    """Passes requests on."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def plan(self, beginning: memoryview, size: int, before: int) -> Plan:
        passage = self._passage
        api_key, version = int.from_bytes(beginning[:2], signed=True), int.from_bytes(beginning[2:4], signed=True)
        api = API_BY_KEY.get(api_key)
        is_expected = api is not None and api.versions.includes(version)
        if passage.injection is not None and size <= KEPT_HELD_BYTES:
            return Plan(size, size, is_expected)
        return passage.passing_plan(size, api_key, version, is_request=True, is_expected=is_expected)

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        passage = self._passage
        injection = passage.injection
        if injection is None:
            passage.broker.write(data)
            for frame in _frames(data, sizes, at_s, passage.copied_bytes_max):
                passage.asked(frame)
            return
        for frame in _frames(data, sizes, at_s, len(data)):
            injection.request(frame)
        self.passing(data[_end_of(sizes) :])

    def passing(self, data: memoryview) -> None:
        self._passage.broker.write(data)

    def long_frame(self, frame: Frame, held: memoryview) -> None:
        passage = self._passage
        if len(held) and passage.injection is not None:
            frame.data = bytes(frame.data)  # it outlives the buffer
            passage.injection.request(frame)
            return
        if len(held):
            passage.broker.write(SIZE_PREFIX.pack(frame.size_bytes) + bytes(held))
        passage.asked(frame)

    def stranger(self, reason: str) -> None:
        self._passage.become_raw(reason, "client")


class _FromBroker:
    """Passes answers on, those with addresses rewritten."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def plan(self, beginning: memoryview, size: int, before: int) -> Plan:
        passage = self._passage
        treatment, exchange = passage.treatment(beginning[CORRELATION_ID], before)
        is_expected = exchange is not None
        is_held = treatment is Treatment.HOLD or passage.injection is not None
        if is_held and size <= KEPT_HELD_BYTES:
            return Plan(size, size, is_expected)
        hold_bytes = HELD_TAIL_BYTES if treatment is Treatment.HOLD_TAIL else 0
        api_key, version = (-1, -1) if exchange is None else (exchange.api_key, exchange.version)
        return passage.passing_plan(
            size, api_key, version, is_request=False, is_expected=is_expected, hold_bytes=hold_bytes
        )

    def short_frames(self, data: memoryview, sizes: list[int], at_s: float) -> None:
        passage = self._passage
        is_injected = passage.injection is not None
        frames = _frames(data, sizes, at_s, len(data) if is_injected else passage.copied_bytes_max)
        if is_injected:
            for frame in frames:
                self._deliver(frame)
            self.passing(data[_end_of(sizes) :])
            return
        start = at = 0
        for frame in frames:
            end = at + SIZE_PREFIX.size + frame.size_bytes
            changed = self._changed(frame)
            if changed is not None:
                passage.client.write(b"".join((data[start:at], SIZE_PREFIX.pack(len(changed)), changed)))
                start = end
            at = end
        if len(data) > start:
            passage.client.write(data[start:])
        for frame in frames:
            passage.answered(frame)

    def passing(self, data: memoryview) -> None:
        self._passage.client.write(data)

    def long_frame(self, frame: Frame, held: memoryview) -> None:
        passage = self._passage
        if len(held) == frame.size_bytes:
            self._deliver(frame)
            return
        if len(held):
            passage.client.write(passage.end_of(frame, held))
        passage.answered(frame)

    def stranger(self, reason: str) -> None:
        self._passage.become_raw(reason, "broker")

    def _changed(self, frame: Frame) -> bytes | None:
        """Return an answer with other addresses; None if it has none."""
        data = memoryview(frame.data)
        treatment, exchange = self._passage.treatment(data[CORRELATION_ID])
        if exchange is None or treatment is Treatment.PASS:
            return None
        changed = self._passage.rewritten(data, exchange)
        if changed is not None:
            frame.note = _REWRITTEN
        return changed

    def _deliver(self, frame: Frame) -> None:
        """Send a whole answer to the client, or leave it to a fault."""
        passage = self._passage
        changed = self._changed(frame)
        data = frame.data if changed is None else changed
        injection = passage.injection
        if injection is not None and injection.response(frame, data):
            return
        passage.client.write(SIZE_PREFIX.pack(len(data)) + bytes(data))
        passage.answered(frame)


def _end_of(sizes: list[int]) -> int:
    return sum(sizes) + SIZE_PREFIX.size * len(sizes)


def _frames(data: memoryview, sizes: list[int], at_s: float, copied_bytes_max: int) -> list[Frame]:
    """Return whole frames; larger ones are views, of which the tap keeps something before the buffer is reused."""
    frames, at = [], SIZE_PREFIX.size
    for size in sizes:
        frame = data[at : at + size]
        frames.append(Frame(frame if size > copied_bytes_max else bytes(frame), size, at_s, at_s))
        at += size + SIZE_PREFIX.size
    return frames
