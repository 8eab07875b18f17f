from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator

import pytest

from kafkaraw.errors import NetworkError
from kafkaraw.net import AsyncioNetwork
from kafkaraw.net.shared_files import SharedFile
from kafkaraw.net.writer import JOIN_BELOW_BYTES, READ_AHEAD_MAX_BYTES, SegmentWriter, _join_neighbours
from kafkaraw.protocol import FileSlice, segments_size
from tests.net.handlers import LIMIT, Answerers, Pair, Recorder, pattern

CONTENT = pattern(3_000_000)


@pytest.fixture
def fd() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(CONTENT)
        file.flush()
        yield file.fileno()


class FakeTransport:
    """Remembers what is written; has a socket when it is given one, and `unsent` bytes before it."""

    def __init__(self, sock: socket.socket | None = None, *, unsent: int = 0, tls: object = None) -> None:
        self.written: list[object] = []
        self.unsent = unsent
        self._extra = {"socket": sock, "sslcontext": tls}

    def get_extra_info(self, name: str) -> object:
        return self._extra[name]

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        self.written.append(data)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.limits = (high, low)


@contextlib.contextmanager
def writer_on(transport: FakeTransport) -> Iterator[SegmentWriter]:
    loop = asyncio.new_event_loop()
    yield SegmentWriter(
        loop,
        transport,  # type: ignore[arg-type]
        on_paused=print,
        on_failed=print,
        on_file_sent=lambda: None,
    )
    loop.close()


def written(*segments: object, transport: FakeTransport | None = None) -> list[object]:
    transport = transport or FakeTransport()
    with writer_on(transport) as writer:
        writer.write(segments, segments_size(segments))  # type: ignore[arg-type]
    return transport.written


def test_short_frames_that_are_held_leave_with_one_write() -> None:
    transport = FakeTransport()
    with writer_on(transport) as writer:
        writer.hold()
        writer.write([b"one"], 3)
        writer.write([b"t", memoryview(b"wo")], 3)
        assert transport.written == []
        writer.let_go()
        writer.write([b"three"], 5)
    assert transport.written == [b"onetwo", b"three"]


def test_what_is_held_is_not_overtaken_and_has_a_bound() -> None:
    transport, large = FakeTransport(), pattern(JOIN_BELOW_BYTES)
    with writer_on(transport) as writer:
        writer.hold()
        writer.write([b"one"], 3)
        writer.write([large], len(large))
        writer.write([large[:-1]], len(large) - 1)
        writer.write([b"two"], 3)
        assert transport.written == [b"one", large, large[:-1] + b"two"]
        writer.let_go()
    assert len(transport.written) == 3


def test_a_short_file_slice_that_is_held_may_be_closed(fd: int) -> None:
    transport, own = FakeTransport(), os.dup(fd)
    with writer_on(transport) as writer:
        writer.hold()
        writer.write([FileSlice(own, 100, 50)], 50)
        os.close(own)
        writer.let_go()
    assert transport.written == [CONTENT[100:150]]


def test_small_neighbours_are_joined() -> None:
    assert written(b"\0\0\0\7", b"head", memoryview(b"er"), b"!") == [b"\0\0\0\7header!"]


def test_a_large_segment_is_not_copied() -> None:
    large = memoryview(pattern(JOIN_BELOW_BYTES))
    pieces = written(b"size", b"header", large, b"tail", b"!")
    assert pieces == [b"sizeheader", large, b"tail!"]
    assert pieces[1] is large


def test_joining_does_not_copy_without_bound() -> None:
    segments = [pattern(10_000, salt) for salt in range(20)]
    pieces = written(*segments)
    assert b"".join(pieces) == b"".join(segments)  # type: ignore[arg-type]
    assert max(map(len, pieces)) < 2 * JOIN_BELOW_BYTES  # type: ignore[arg-type]


def test_a_short_file_slice_is_read_and_joined(fd: int) -> None:
    assert written(b"size", FileSlice(fd, 100, 50), b"tail") == [b"size" + CONTENT[100:150] + b"tail"]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


def test_a_large_frame_goes_to_the_socket_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    large = pattern(JOIN_BELOW_BYTES)
    assert written(b"size", b"header", memoryview(large), b"tail", transport=FakeTransport(ours)) == []
    assert theirs.recv(100_000) == b"sizeheader" + large + b"tail"


def test_a_file_goes_to_the_socket_at_once(ends: tuple[socket.socket, socket.socket], fd: int) -> None:
    ours, theirs = ends
    transport = FakeTransport(ours)
    assert written(b"size", FileSlice(fd, 1000, 50_000), b"then", FileSlice(fd, 0, 60_000), transport=transport) == []
    expected = b"size" + CONTENT[1000:51_000] + b"then" + CONTENT[:60_000]
    assert theirs.recv(len(expected), socket.MSG_WAITALL) == expected


def test_what_the_socket_does_not_take_is_left_to_the_transport(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.setblocking(False)
    frame = [pattern(300_000, salt) for salt in range(20)]
    rest = b"".join(written(*frame, transport=FakeTransport(ours)))  # type: ignore[arg-type]
    arrived = bytearray()
    with contextlib.suppress(BlockingIOError):
        while data := theirs.recv(1_000_000):
            arrived += data
    assert 0 < len(arrived) < 6_000_000
    assert arrived + rest == b"".join(frame)


def test_a_socket_that_is_full_or_broken_is_left_to_the_transport(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    large = pattern(JOIN_BELOW_BYTES)
    assert written(b"size", large, transport=FakeTransport(ours)) == [b"size", large]


@pytest.mark.parametrize("how", [{"unsent": 1}, {"tls": object()}])
def test_nothing_overtakes_what_the_transport_has_to_send(
    ends: tuple[socket.socket, socket.socket], how: dict[str, object]
) -> None:
    ours, theirs = ends
    large = pattern(JOIN_BELOW_BYTES)
    assert written(b"size", large, transport=FakeTransport(ours, **how)) == [b"size", large]  # type: ignore[arg-type]
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)


def test_more_pieces_than_one_system_call_takes_are_all_written(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    large = memoryview(pattern(JOIN_BELOW_BYTES))
    pieces = [large] * 1030
    rest = written(*pieces, transport=FakeTransport(ours))
    assert rest[-6:] == pieces[-6:]
    assert theirs.recv(JOIN_BELOW_BYTES, socket.MSG_WAITALL) == large


def test_files_and_bytes_arrive_in_the_order_of_sending(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.link.send(
                [b"head", FileSlice(fd, 1, 2_000_000), b"middle", FileSlice(fd, 7, 500_000), pattern(70_000)]
            )
            pair.link.send([b"a frame behind the files"])
            pair.link.send([FileSlice(fd, 0, 20_000)])
            expected = b"head" + CONTENT[1:2_000_001] + b"middle" + CONTENT[7:500_007] + pattern(70_000)
            assert await pair.server.frame() == expected
            assert await pair.server.frame() == b"a frame behind the files"
            assert await pair.server.frame() == CONTENT[:20_000]
            pair.link.send([b"and the direct way again"])
            assert await pair.server.frame() == b"and the direct way again"

    asyncio.run(main())


def test_both_directions_flow_while_files_are_sent(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            for turn in range(20):
                pair.server.link.send([FileSlice(fd, turn, 300_000)])
                pair.link.send([pattern(300_000, turn)])
            for turn in range(20):
                assert await pair.client.frame() == CONTENT[turn : turn + 300_000]
                assert await pair.server.frame() == pattern(300_000, turn)

    asyncio.run(main())


def test_the_descriptor_may_be_closed_after_send(network: AsyncioNetwork) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            with tempfile.TemporaryFile() as file:
                file.write(CONTENT)
                file.flush()
                pair.link.send([FileSlice(file.fileno(), 0, len(CONTENT))])
            assert await pair.server.frame() == CONTENT

    asyncio.run(main())


def test_closing_waits_for_the_files(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.link.send([FileSlice(fd, 0, len(CONTENT))])
            pair.link.close()
            assert await pair.server.frame() == CONTENT
            assert await pair.server.loss() is None
            assert await pair.client.loss() is None

    asyncio.run(main())


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_file_that_is_too_short_tears_the_link(network: AsyncioNetwork, fd: int, size: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.link.send([b"head", FileSlice(fd, len(CONTENT) - 50, size)])
            error = await pair.client.loss()
            assert isinstance(error, NetworkError)
            assert f"ended {size - 50} bytes early" in str(error)
            await pair.server.loss()

    asyncio.run(main())


def test_files_that_the_peer_does_not_read_pause_the_writer(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            for _ in range(20):
                pair.link.send([FileSlice(fd, 0, 1_000_000)])
            assert pair.link.write_paused
            pair.server.link.resume_reading()
            for _ in range(20):
                assert await pair.server.frame() == CONTENT[:1_000_000]
            while pair.link.write_paused:
                pair.client.pause_changed.clear()
                await asyncio.wait_for(pair.client.pause_changed.wait(), 10)

    asyncio.run(main())


def test_bytes_that_leave_are_seen_while_a_long_file_is_sent(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            for _ in range(20):
                pair.link.send([FileSlice(fd, 0, len(CONTENT))])
            total = 20 * (4 + len(CONTENT))
            await asyncio.sleep(0.05)
            stuck = pair.link.sent_bytes
            assert 0 < stuck < total
            assert pair.link.unsent_bytes == total - stuck
            await asyncio.sleep(0.05)
            assert pair.link.sent_bytes == stuck
            pair.server.link.resume_reading()
            for _ in range(20):
                assert await pair.server.frame() == CONTENT
            assert pair.link.sent_bytes > stuck
            while pair.link.unsent_bytes:
                await asyncio.sleep(0.001)
            assert pair.link.sent_bytes == total

    asyncio.run(main())


@pytest.mark.parametrize("shared", [True, False])
def test_slices_of_one_file_have_one_descriptor(network: AsyncioNetwork, fd: int, shared: bool) -> None:
    async def main() -> None:
        owned = SharedFile.share(os.dup(fd)) if shared else None
        number = fd if owned is None else owned.fileno()
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            before = descriptors_of(fd)
            pair.link.send([FileSlice(number, 0, len(CONTENT))] * 300)
            del owned
            assert descriptors_of(fd) == before + (not shared)
            pair.server.link.resume_reading()
            pair.link.abort()
            await pair.client.loss()
        assert descriptors_of(fd) == before - shared

    if os.path.isdir("/proc/self/fd"):
        asyncio.run(main())
    else:
        pytest.skip("needs /proc")


def test_a_shared_file_is_sent_to_its_end_after_its_owner_has_closed_it(network: AsyncioNetwork, fd: int) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            owned = SharedFile.share(os.dup(fd))
            number = owned.fileno()
            for _ in range(5):
                pair.link.send([FileSlice(number, 0, len(CONTENT))])
            del owned
            for _ in range(5):
                assert await pair.server.frame() == CONTENT
            await asyncio.sleep(0.01)
            with pytest.raises(OSError):
                os.fstat(number)

    asyncio.run(main())


def test_not_all_short_slices_of_a_frame_are_read_at_once(fd: int) -> None:
    slices = [FileSlice(fd, 0, 10_000)] * 1000
    pieces = list(_join_neighbours(slices))
    in_memory = sum(len(piece) for piece in pieces if not isinstance(piece, FileSlice))
    assert 0 < in_memory <= READ_AHEAD_MAX_BYTES
    assert in_memory + segments_size([piece for piece in pieces if isinstance(piece, FileSlice)]) == 10_000_000


def test_aborting_in_the_middle_of_a_file_is_clean(network: AsyncioNetwork, fd: int) -> None:
    """Nothing is reported to asyncio's exception handler, no descriptor and no reader is left behind."""

    async def main() -> None:
        trouble: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context))
        for wait in range(5):
            async with Pair(network) as pair:
                pair.server.link.pause_reading()
                for _ in range(8):
                    pair.link.send([b"head", FileSlice(fd, 0, len(CONTENT))])
                for _ in range(wait):
                    await asyncio.sleep(0.001)
                pair.link.abort()
                assert await pair.client.loss() is None
        assert not trouble

    asyncio.run(main())


def test_a_peer_that_goes_away_in_the_middle_of_a_file_is_reported(fd: int) -> None:
    async def main() -> None:
        trouble: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: trouble.append(context))
        answerers = Answerers()
        listener = await AsyncioNetwork().listen("127.0.0.1", 0, answerers, frame_size_max=LIMIT)
        peer = socket.create_connection(("127.0.0.1", listener.port))
        server: Recorder = await answerers.next()
        for _ in range(20):
            server.link.send([FileSlice(fd, 0, len(CONTENT))])
        await asyncio.sleep(0.01)
        peer.close()  # with unread bytes: a reset
        error = await server.loss()
        assert isinstance(error, NetworkError)
        await listener.close()
        assert not trouble

    asyncio.run(main())


def descriptors_of(file: int) -> int:
    """How many descriptors of this process are of the same file; other threads open and close others."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found += os.path.samestat(os.fstat(int(name)), os.fstat(file))
    return found


def test_no_descriptor_is_left_open(fd: int) -> None:
    async def main() -> None:
        before = descriptors_of(fd)
        async with Pair(AsyncioNetwork()) as pair:
            pair.server.link.pause_reading()
            for _ in range(20):
                pair.link.send([FileSlice(fd, 0, len(CONTENT))])
            pair.link.abort()
            await pair.client.loss()
        assert descriptors_of(fd) == before

    if os.path.isdir("/proc/self/fd"):
        asyncio.run(main())
    else:
        pytest.skip("needs /proc")


# ---- when the operating system has taken the bytes


def test_when_sent_is_called_immediately_if_the_socket_takes_all_bytes(network: AsyncioNetwork) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            told: list[int] = []
            for number in range(3):
                pair.link.send([b"frame"])
                pair.link.when_sent(lambda number=number: told.append(number))
                assert told == list(range(number + 1))

    asyncio.run(main())


def test_when_sent_is_called_for_each_frame_that_the_peer_reads(network: AsyncioNetwork, tls_network: object) -> None:
    count = 30

    async def main() -> None:
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            told: list[int] = []
            unsent: list[int] = []
            all_told = asyncio.Event()

            def tell(number: int) -> None:
                told.append(number)
                if number == count - 1:
                    all_told.set()

            for number in range(count):
                pair.link.send([pattern(1 << 20)])
                pair.link.when_sent(lambda number=number: tell(number))
            await asyncio.sleep(0.05)
            taken = len(told)
            assert taken < count - 1
            pair.server.link.resume_reading()
            for _ in range(count // 2):
                await pair.server.frame()
                unsent.append(count - len(told))
            if network is not tls_network:
                assert len(set(unsent)) > 2  # not all at once
            await asyncio.wait_for(all_told.wait(), 10)
            assert told == list(range(count))
            for _ in range(count - count // 2):
                await pair.server.frame()
            assert not pair.link.write_paused

    asyncio.run(main())


def test_when_sent_is_not_called_for_a_dropped_frame(network: AsyncioNetwork) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            told: list[int] = []
            for _ in range(30):
                pair.link.send([pattern(1 << 20)])
            pair.link.when_sent(lambda: told.append(1))
            pair.link.abort()
            pair.link.send([b"after the end"])
            pair.link.when_sent(lambda: told.append(2))
            await pair.client.loss()
            assert told == []

    asyncio.run(main())


def test_when_sent_waits_for_short_frames_that_are_kept_back() -> None:
    transport = FakeTransport()
    with writer_on(transport) as writer:
        told: list[int] = []
        writer.hold()
        writer.write([b"short"], 5)
        writer.when_sent(lambda: told.append(1))
        assert told == []
        writer.let_go()
        assert told == [1]
        assert transport.written == [b"short"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a peer has acknowledged")
def test_acknowledged_bytes_grow_while_one_part_of_a_file_is_sent(fd: int) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client = Recorder()
            link = await AsyncioNetwork().dial(
                "127.0.0.1", listening.getsockname()[1], client, timeout=10, frame_size_max=LIMIT
            )
            reading, _ = listening.accept()
            with reading:
                for _ in range(10):  # more than the buffers of both ends take
                    link.send([FileSlice(fd, 0, len(CONTENT))])
                await asyncio.sleep(0.05)
                seen = set()
                while link.unsent_bytes:
                    assert reading.recv(1 << 16)
                    seen.add((link.sent_bytes, link.acknowledged_bytes))
                    await asyncio.sleep(0)
                    if len(seen) > 20:
                        break
                assert len({sent for sent, _ in seen}) < 4, "most of what was read is of one part"
                assert len({acknowledged for _, acknowledged in seen}) > 5
            link.abort()
            await client.loss()

    asyncio.run(main())
