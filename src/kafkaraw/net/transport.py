"""A link over an asyncio transport: plain TCP or TLS.

`StreamLink` is both asyncio's protocol (called by the loop) and our `Link` (called by client or broker). Reading is
`protocol.FrameReader`, writing is `net.writer`; this module joins them, and decides how a link ends. It must not
look into frames. Start at `StreamLink.buffer_updated` and `connection_lost`.

`LowWater` reduces the number of wakeups of the loop. A sender on the same machine or a fast network delivers bytes in
pieces of 64 KB and less, and waking the loop for each costs more than receiving it. While much of a frame is missing,
the kernel is asked to wait for a larger piece (SO_RCVLOWAT, see Linux's socket(7) and tcp_set_rcvlowat), never for more
than the frame still has. The end of a connection always wakes the loop. Only for plain TCP on Linux, where the kernel
makes the socket's buffer large enough. Not for TLS, which keeps bytes that the kernel has delivered already.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import weakref
from collections.abc import Callable
from typing import Final, Protocol, cast

from kafkaraw.errors import ClosedError, InternalError, KafkaError, NetworkError, Stage
from kafkaraw.net.link import LinkHandler, Segments
from kafkaraw.net.os_errors import connection_broken, host_port
from kafkaraw.net.process_hooks import release_in_child
from kafkaraw.net.writer import SegmentWriter
from kafkaraw.protocol import FrameReader, segments_size

PIECE_BYTES: Final = 2 << 20
"""The largest mark. A receiver that waits for 1 MB takes a third less CPU than one that takes what comes. With
2 MB, reading from Apache Kafka takes a fifth less again."""
WORTH_BYTES: Final = 1 << 16
"""When less is missing, no mark is set: it would cost more than it saves."""
_AT_ONCE: Final = 1


class _Socket(Protocol):
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


class LowWater:
    """The mark of one socket.

    Args:
        sock: a plain TCP socket; None for anything else, which has no mark.
    """

    def __init__(self, sock: _Socket | None) -> None:
        self._socket = sock if sys.platform == "linux" else None
        self._mark = _AT_ONCE

    def wait_for(self, missing: int) -> None:
        """Wake the loop for the next piece of a frame.

        Args:
            missing: how many bytes of the frame are still to come; 0 between frames.
        """
        mark = _AT_ONCE
        if missing >= WORTH_BYTES or (missing and self._mark != _AT_ONCE):
            mark = min(missing, PIECE_BYTES)
        if mark == self._mark or self._socket is None:
            return
        self._mark = mark
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
        except OSError:  # not known here, or the socket is gone: then the mark does not matter
            self._socket = None


class StreamLink(asyncio.BufferedProtocol):
    """One connection; see `net.link.Link` for what its methods promise.

    Args:
        loop: the event loop of the link.
        handler: called with frames and events.
        frame_size_max: larger frames end the link, in bytes.
        peer: "host:port" as the user knows it; empty for an accepted connection, which takes the socket's.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, handler: LinkHandler, *, frame_size_max: int, peer: str = ""
    ) -> None:
        self.loop = loop
        self.peer: str = peer
        self.local: str = ""
        self._handler = handler
        self._reader = FrameReader(frame_size_max)
        self._low_water = LowWater(None)
        self._transport: asyncio.Transport | None = None
        self._writer: SegmentWriter | None = None
        self._reading = True
        self._closed_here = False
        self._error: KafkaError | None = None

    # -- Link: called by client or broker --------------------------------------------------------------------------

    @property
    def peer_certificate(self) -> bytes | None:
        """The other end's certificate in DER, which TLS has checked; None when it showed none."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        certificate: bytes | None = None if tls is None else tls.getpeercert(binary_form=True)
        return certificate

    @property
    def write_paused(self) -> bool:
        """Whether so much is unsent that the sender should wait for `LinkHandler.writing_paused(False)`."""
        return self._writer is not None and self._writer.paused

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were sent here, but are still in this process."""
        return 0 if self._writer is None else self._writer.unsent_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left this process since the link was made; grows if the peer reads."""
        return 0 if self._writer is None else self._writer.sent_bytes

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged; 0 where the operating system does not report it."""
        return 0 if self._writer is None else self._writer.acknowledged_bytes

    def send(self, segments: Segments) -> None:
        """Send one frame; its 4-byte size is added here."""
        if self._writer is not None:
            size = segments_size(segments)
            self._writer.write([size.to_bytes(4, "big"), *segments], size + 4)

    def when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the operating system has taken all that was sent before."""
        if self._writer is not None:
            self._writer.when_sent(callback)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, with nothing added: a part of a frame, or none at all. For fault tests."""
        if self._writer is not None:
            self._writer.write((data,), len(data))

    def close(self) -> None:
        """Send what is still unsent, then close. `link_lost(None)` follows."""
        self._closed_here = True
        if self._writer is not None:
            self._writer.close()

    def abort(self, error: KafkaError | None = None) -> None:
        """See `Link.abort`; an error is passed to the handler's `link_lost`."""
        self._closed_here = True
        self._error = self._error or error
        if self._writer is not None:
            self._writer.abort()

    def limit_frames(self, frame_size_max: int) -> None:
        """Accept frames of up to this size, beginning with the next one."""
        self._reader.limit = frame_size_max

    def pause_reading(self) -> None:
        """Deliver no further frames; the peer is slowed down by TCP."""
        self._reading = False
        self._apply_reading()

    def resume_reading(self) -> None:
        """Deliver frames again."""
        self._reading = True
        self.loop.call_soon(self._go_on_reading)

    # -- BufferedProtocol: called by asyncio -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the transport, and call the handler's `link_made`.

        The loop decides the class of the transport: those of uvloop are not asyncio's classes.
        """
        try:
            self._begin(cast("asyncio.Transport", transport))
        except Exception as error:  # noqa: BLE001 - asyncio would only log it, and `dial` would wait for its timeout
            self._error = self._error or _internal(error, self.peer)
            cast("asyncio.Transport", transport).abort()

    def _begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.peer = self.peer or _address_of(transport, "peername")
        self.local = _address_of(transport, "sockname")
        if transport.get_extra_info("sslcontext") is None:
            self._low_water = LowWater(transport.get_extra_info("socket"))
        self._writer = SegmentWriter(
            self.loop,
            transport,
            on_paused=self._handler.writing_paused,
            on_failed=self._write_failed,
            on_file_sent=self._apply_reading,
        )
        _live_links.add(self)
        release_in_child(self)
        self._handler.link_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go.

        It must be a memoryview: asyncio's TLS fills slices of what it gets, and a slice of a bytearray is a copy, so
        the data would be lost silently (cpython issue 156275).
        """
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come; hand over the frames that are whole."""
        self._reader.buffer_updated(nbytes)
        self._deliver()
        self._low_water.wait_for(self._reader.missing)

    def eof_received(self) -> None:
        """Let asyncio close: Kafka has no half-open connections."""

    def pause_writing(self) -> None:
        """Pass asyncio's back-pressure on."""
        if self._writer is not None:
            self._writer.transport_paused(True)

    def resume_writing(self) -> None:
        """Pass asyncio's back-pressure on."""
        if self._writer is not None:
            self._writer.transport_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Call the handler's `link_lost` with the cause."""
        _live_links.discard(self)
        if self._writer is not None:
            self._writer.transport_lost()
            self._writer = None
        self._transport = None
        self._handler.link_lost(self._reason(exc))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _reason(self, exc: Exception | None) -> KafkaError | None:
        if self._error is not None:
            return self._error
        if self._closed_here:
            return None
        if exc is not None and not isinstance(exc, OSError):
            return _internal(exc, self.peer)  # raised by a callback of this class, and not by the network
        if exc is not None:
            error = connection_broken(exc, self.peer)
            error.__cause__ = exc
            return error
        if not self._reader.is_between_frames:
            return NetworkError(f"{self.peer} closed the connection after {self._reader.progress}", stage=Stage.REQUEST)
        return None

    def _deliver(self) -> None:
        """Hand frames over until one of them has the link closed or paused; short answers to them leave together."""
        writer = self._writer
        if writer is not None:
            writer.hold()
        try:
            while self._reading and not self._closed_here and self._error is None:
                frame = self._reader.next_frame()
                if frame is None:
                    return
                self._handler.frame_received(frame)
        except KafkaError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - asyncio would pass it on as the connection's end
            self._fail(_internal(error, self.peer))
        except BaseException:  # Ctrl-C: what else was read is not forgotten
            self.loop.call_soon(self._deliver)
            raise
        finally:
            if writer is not None:
                writer.let_go()

    def _go_on_reading(self) -> None:
        # What was read before the pause comes first; only then may there be more.
        self._deliver()
        self._apply_reading()

    def _fail(self, error: KafkaError) -> None:
        self._error = self._error or error
        if self._writer is not None:
            self._writer.abort()

    def _write_failed(self, error: OSError) -> None:
        self._error = self._error or connection_broken(error, self.peer)

    def _apply_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def descriptors(self) -> list[int]:
        """Return the socket's descriptor, for `net.process_hooks`."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return [] if sock is None else [sock.fileno()]


def _internal(error: Exception, peer: str) -> InternalError:
    found = InternalError(f"a fault in kafkaraw itself ended the connection to {peer}: {error!r}; please report it")
    found.__cause__ = error
    return found


def _address_of(transport: asyncio.BaseTransport, name: str) -> str:
    address = transport.get_extra_info(name)
    if isinstance(address, tuple) and len(address) >= 2:
        return host_port(str(address[0]), int(address[1]))
    return str(address or "unknown")


_live_links: weakref.WeakSet[StreamLink] = weakref.WeakSet()


def abort_links_of(loop: asyncio.AbstractEventLoop) -> None:
    """Abort every link of a loop that is about to close; the handlers' `link_lost` gets that as the cause."""
    for link in list(_live_links):
        if link.loop is loop:
            link.abort(ClosedError(f"the loop of the connection to {link.peer} ends"))
