"""Writes frames that come in segments to one asyncio transport, in order.

Small neighbours are joined, large memoryviews are written as they are, file slices go by sendfile. Where the transport
has nothing left to send, a large frame goes to the socket at once, past the transport: asyncio would make a system call
for each piece in memory, each of which gives up the GIL, and a task for each file. What the socket does not take then
goes by `loop.sendfile`; while a file is under way later segments queue up behind it. Decides nothing about frames;
knows no sizes but bytes. Start at `SegmentWriter.write`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from kafkaraw.net.link import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, Segments
from kafkaraw.protocol import FileSlice

if TYPE_CHECKING:
    from kafkaraw.net.shared_files import SharedFile

JOIN_BELOW_BYTES = 16 * 1024
"""Segments shorter than this are copied into one write with their neighbours; a copy is cheaper than a system call."""
PIECES_AT_ONCE_MAX = 1024
"""How many pieces one system call takes (IOV_MAX of Linux and macOS)."""
_CORK = getattr(socket, "TCP_CORK", None)
READ_CHUNK_BYTES = 256 * 1024
"""How much of a file is read at once where sendfile cannot be used (TLS)."""
_TCP_INFO = getattr(socket, "TCP_INFO", None)
_ACKNOWLEDGED = struct.Struct("=Q")
_ACKNOWLEDGED_AT = 120  # tcpi_bytes_acked of Linux's struct tcp_info (since 4.1)
_TCP_INFO_BYTES = _ACKNOWLEDGED_AT + _ACKNOWLEDGED.size
SENDFILE_CHUNK_BYTES = 1 << 22
"""How much of a file one `loop.sendfile` sends; `sent_bytes` grows when all of it has left.

With 1 MiB, answers with parts of 4 MiB cost a tenth more CPU.
"""
READ_AHEAD_MAX_BYTES = 1 << 20
"""How much of a frame's short file slices is read at once; further ones are sent like long ones."""


class _FilePart:
    """A file slice with a reference to its file, so that the file's owner may close or delete it at any time."""

    __slots__ = ("file", "offset", "size")

    def __init__(self, part: FileSlice, file: SharedFile) -> None:
        self.file: SharedFile | None = file
        self.offset = part.offset
        self.size = part.size


_Data: TypeAlias = bytes | bytearray | memoryview
_Piece: TypeAlias = _Data | _FilePart


def _read_whole(part: FileSlice) -> bytes:
    """Read a short slice."""
    data = os.pread(part.fd, part.size, part.offset)
    if len(data) < part.size:
        raise _ended_early(part.size - len(data))
    return data


def _ended_early(missing: int) -> OSError:
    return OSError(f"a file that is being sent ended {missing} bytes early")


def _join_neighbours(segments: Segments) -> Iterator[_Data | FileSlice]:
    """Yield what to write, in order: joined small segments, large ones as they are, large files."""
    small: list[_Data] = []
    small_bytes = read_bytes = 0
    for segment in segments:
        if isinstance(segment, FileSlice):
            size = segment.size
            whole = size >= JOIN_BELOW_BYTES or read_bytes + size > READ_AHEAD_MAX_BYTES
            read_bytes += 0 if whole else size
        else:
            size = len(segment)
            whole = size >= JOIN_BELOW_BYTES
        if not whole:
            small.append(_read_whole(segment) if isinstance(segment, FileSlice) else segment)
            small_bytes += size
            if small_bytes < JOIN_BELOW_BYTES:
                continue
        if small:
            yield b"".join(small)
            small.clear()
            small_bytes = 0
        if whole:
            yield segment
    if small:
        yield b"".join(small)


def _join_small(segments: Segments) -> bytes:
    """Join a whole short frame at once: nearly every request, and most answers."""
    return b"".join([_read_whole(it) if isinstance(it, FileSlice) else it for it in segments])


def _has_sendfile(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop can send files; uvloop's cannot."""
    return type(loop).sendfile is not asyncio.AbstractEventLoop.sendfile


def _descriptor_of(transport: asyncio.Transport) -> int | None:
    """Return the socket's descriptor where bytes may be written past the transport: not under TLS."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None or not hasattr(os, "writev"):
        return None
    descriptor: int = sock.fileno()
    return descriptor


class SegmentWriter:
    """The writing half of a link.

    Args:
        loop: the loop of the transport.
        transport: where to write.
        on_paused: called when `paused` changes.
        on_failed: called once when a file cannot be sent completely; the frame is incomplete, so the link must end.
        on_file_sent: called after each file, because `loop.sendfile` switches reading off and on again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        *,
        on_paused: Callable[[bool], None],
        on_failed: Callable[[OSError], None],
        on_file_sent: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._on_paused = on_paused
        self._on_failed = on_failed
        self._on_file_sent = on_file_sent
        self._queue: deque[_Piece] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._pump: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._transport_paused = False
        self._closing = False
        self._holding = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._descriptor = _descriptor_of(transport)
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()  # (`_written_bytes` then, the callback)
        self._watching = False
        self.paused: bool = False
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)

    def write(self, segments: Segments, size: int) -> None:
        """Write the segments of one frame, size prefix included, after everything written before.

        Args:
            segments: the frame.
            size: its bytes.
        """
        if self._closing:
            return
        self._written_bytes += size
        try:
            if size >= JOIN_BELOW_BYTES:
                self._flush_held()
                self._write_large(segments, size)
                return
            self._held.append(_join_small(segments))
            self._held_bytes += size
            if not self._holding or self._held_bytes >= JOIN_BELOW_BYTES:
                self._flush_held()
        except OSError as error:
            self._fail(error)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not taken yet. Part of what TLS has encrypted does not count."""
        return self._transport.get_write_buffer_size() + self._queued_bytes + self._held_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes that the system has taken since the beginning."""
        return self._written_bytes - self.unsent_bytes

    @property
    def acknowledged_bytes(self) -> int:
        """Bytes that the peer's system has acknowledged; 0 where the operating system does not report it."""
        sock = self._transport.get_extra_info("socket")
        if sock is None or _TCP_INFO is None or not sys.platform.startswith("linux"):
            return 0
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _TCP_INFO_BYTES)
        except OSError:  # no TCP socket, or it is gone
            return 0
        acknowledged: int = _ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_AT)[0] if len(info) == _TCP_INFO_BYTES else 0
        return acknowledged

    def when_sent(self, tell: Callable[[], None]) -> None:
        """Call `callback` when the operating system has taken all that was sent before."""
        self._marks.append((self._written_bytes, tell))
        self._tell_sent()

    def _tell_sent(self) -> None:
        """Call the callbacks whose bytes have left, and request a call when those of the next one have."""
        if self._closing or self._transport.is_closing():  # what a closing transport drops has not been sent
            return
        while self._marks and self._marks[0][0] + self.unsent_bytes <= self._written_bytes:
            self._marks.popleft()[1]()
        if self._marks:
            behind = self._written_bytes - self._marks[0][0]
            self._watching = True
            self._transport.set_write_buffer_limits(high=behind, low=behind)
        elif self._watching:
            self._watching = False
            self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)

    def hold(self) -> None:
        """Keep short frames back, so that those up to `let_go` leave with one system call, and wake the peer once."""
        self._holding = True

    def let_go(self) -> None:
        """Write what was kept back."""
        self._holding = False
        self._flush_held()
        if self._marks:
            self._tell_sent()

    def _flush_held(self) -> None:
        if not self._held:
            return
        held = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        if not self._closing:
            self._put(held)

    def _put(self, piece: _Data) -> None:
        if self._pump is None:
            self._transport.write(piece)
        else:
            self._enqueue(piece)

    def _write_large(self, segments: Segments, size: int) -> None:
        pieces: Iterable[_Data | FileSlice]
        if not self._may_write_at_once():
            pieces = _join_neighbours(segments)
        elif FileSlice in map(type, segments):
            pieces = self._send_at_once(list(_join_neighbours(segments)))
        else:
            pieces = self._write_at_once(segments, size)
        files: dict[int, SharedFile] = {}
        for piece in pieces:
            if isinstance(piece, FileSlice):
                file = files.get(piece.fd)
                if file is None:
                    from kafkaraw.net.shared_files import SharedFile  # clients send no files

                    file = files[piece.fd] = SharedFile.of(piece.fd)
                self._enqueue(_FilePart(piece, file))
            else:
                self._put(piece)

    def _may_write_at_once(self) -> bool:
        """Whether a frame may go to the socket past the transport: nothing is before it."""
        return (
            self._descriptor is not None
            and self._pump is None
            and not self._transport.get_write_buffer_size()
            and not self._transport.is_closing()
        )

    def _send_at_once(self, pieces: list[_Data | FileSlice]) -> list[_Data | FileSlice]:
        """Give a frame with files to the socket, as far as it takes it now; returns what it did not take."""
        self._cork(1)
        try:
            for index, piece in enumerate(pieces):
                rest = self._send_piece(piece)
                if rest is not None:
                    return [rest, *pieces[index + 1 :]]
        finally:
            self._cork(0)
        return []

    def _send_piece(self, piece: _Data | FileSlice) -> _Data | FileSlice | None:
        assert self._descriptor is not None
        try:
            if not isinstance(piece, FileSlice):
                sent = os.write(self._descriptor, piece)
                return None if sent == len(piece) else memoryview(piece)[sent:]
            sent = os.sendfile(self._descriptor, piece.fd, piece.offset, piece.size)
        except OSError:  # it is full, or broken: the transport will see the same, and knows what to do
            return piece
        if not sent:
            raise _ended_early(piece.size)
        return None if sent == piece.size else FileSlice(piece.fd, piece.offset + sent, piece.size - sent)

    def _cork(self, value: int) -> None:
        """Have the socket send what precedes a file together with it, or no longer."""
        if _CORK is not None:
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, _CORK, value)

    def _write_at_once(self, segments: Segments, size: int) -> Iterable[_Data | FileSlice]:
        """Give a frame in memory to the socket in one system call; returns what it did not take."""
        assert self._descriptor is not None
        try:
            sent = os.writev(self._descriptor, segments[:PIECES_AT_ONCE_MAX])  # type: ignore[arg-type]  # there is no file slice in it
        except OSError:  # it is full, or broken: the transport will see the same, and knows what to do
            return _join_neighbours(segments)
        if sent == size:
            return ()
        views = [memoryview(segment).cast("B") for segment in segments]  # type: ignore[arg-type]
        index = 0
        while sent and sent >= len(views[index]):
            sent -= len(views[index])
            index += 1
        return _join_neighbours([views[index][sent:], *views[index + 1 :]])

    def close(self) -> None:
        """Close the transport after it has taken all earlier writes."""
        self._flush_held()
        self._closing = True
        if self._pump is None:
            self._transport.close()

    def abort(self) -> None:
        """Drop everything and close the transport at once."""
        self._closing = True
        self._drop_queue()
        if self._pump is None:
            self._transport.abort()
        else:
            # The pump may wait inside loop.sendfile with the socket registered: it must leave before the socket goes.
            self._pump.cancel()

    def transport_paused(self, paused: bool) -> None:
        """Take over asyncio's pause_writing and resume_writing."""
        self._transport_paused = paused
        if not paused and self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._report()
        if not paused and self._marks:
            self._tell_sent()

    def transport_lost(self) -> None:
        """Stop for good: the transport is gone."""
        self._closing = True
        self._drop_queue()
        if self._pump is not None:
            self._pump.cancel()

    def _enqueue(self, piece: _Piece) -> None:
        self._queue.append(piece)
        self._queued_bytes += piece.size if isinstance(piece, _FilePart) else len(piece)
        if self._pump is None:
            self._start_pump()
        self._report()

    def _start_pump(self) -> None:
        self._pump = self._loop.create_task(self._run_pump(), name="kafkaraw-file-sender")
        self._pump.add_done_callback(self._pump_ended)

    async def _run_pump(self) -> None:
        """Send the queue; after that `write` goes directly to the transport again."""
        while self._queue:
            piece = self._queue.popleft()
            if isinstance(piece, _FilePart):
                try:
                    await self._send_file(piece)
                finally:
                    piece.file = None  # not when the last traceback that leads here is gone
                self._on_file_sent()
            else:
                self._transport.write(piece)
                self._queued_bytes -= len(piece)
            await self._wait_writable()
            self._report()
            if self._marks:
                self._tell_sent()

    def _pump_ended(self, pump: asyncio.Task[None]) -> None:
        # A callback, not the end of the coroutine: a task that is cancelled before its first step never runs.
        self._pump = None
        if pump.cancelled():
            self._transport.abort()
        elif (error := pump.exception()) is not None:
            self._fail(error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}"))
        elif self._queue:
            self._start_pump()
        elif self._closing:
            self._transport.close()

    async def _send_file(self, part: _FilePart) -> None:
        if self._transport.get_extra_info("sslcontext") is not None or not _has_sendfile(self._loop):
            await self._copy_file(part)
            return
        at, end = part.offset, part.offset + part.size
        while at < end:
            await self._wait_drained()
            if self._transport.is_closing():
                raise ConnectionError("the connection closed while a file was being sent")
            size = min(SENDFILE_CHUNK_BYTES, end - at)
            # Typed for files that can be read; what `sendfile` asks for is `fileno`.
            file = cast("IO[bytes]", part.file)
            sent = await self._loop.sendfile(self._transport, file, at, size, fallback=False)
            at += sent
            self._queued_bytes -= sent
            if sent < size:
                raise _ended_early(end - at)

    async def _copy_file(self, part: _FilePart) -> None:
        """Send a file by reading and writing it: the way under TLS, which must see the bytes, and on uvloop."""
        assert part.file is not None
        at, end = part.offset, part.offset + part.size
        while at < end:
            data = os.pread(part.file.fileno(), min(READ_CHUNK_BYTES, end - at), at)
            if not data:
                raise _ended_early(end - at)
            self._transport.write(data)
            at += len(data)
            self._queued_bytes -= len(data)
            await self._wait_writable()

    async def _wait_writable(self) -> None:
        while self._transport_paused:
            self._writable = self._loop.create_future()
            await self._writable

    async def _wait_drained(self) -> None:
        """Wait until the transport's own buffer is empty.

        `loop.sendfile` would wait for that too, but being cancelled there leaves asyncio's transport in a state in
        which its `connection_lost` raises InvalidStateError.
        """
        if self._transport.get_write_buffer_size() == 0:
            return
        self._transport.set_write_buffer_limits(high=0, low=0)
        try:
            await self._wait_writable()
        finally:
            self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)

    def _report(self) -> None:
        limit = WRITE_LOW_BYTES if self.paused else WRITE_HIGH_BYTES
        paused = self._transport_paused or self._queued_bytes > limit
        if paused is not self.paused:
            self.paused = paused
            self._on_paused(paused)

    def _fail(self, error: OSError) -> None:
        if not self._closing:
            self._on_failed(error)
        self.abort()

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0
