from __future__ import annotations

import asyncio
import os
from typing import ClassVar

import pytest

from kafkaraw.errors import NetworkError, ProtocolError, Stage
from kafkaraw.net import AsyncioNetwork
from kafkaraw.net.transport import StreamLink
from tests.net.handlers import LIMIT, Answerers, Pair, Recorder, pattern


async def raw_to_link(data: bytes, *, pieces: int | None = None) -> Recorder:
    """Send raw bytes to a listening link, in pieces of that size, then close."""
    answerers = Answerers()
    listener = await AsyncioNetwork().listen("127.0.0.1", 0, answerers, frame_size_max=LIMIT)
    _reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    recorder = await answerers.next()
    for at in range(0, len(data), pieces or len(data) or 1):
        writer.write(data[at : at + (pieces or len(data))])
        await writer.drain()
        await asyncio.sleep(0)
    writer.write_eof()
    await recorder.loss()
    writer.close()
    await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])
    await listener.close()
    return recorder


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def test_frames_of_every_size_arrive_as_they_were_sent(network: AsyncioNetwork) -> None:
    sizes = [0, 1, 3, 4, 5, 1000, 16_383, 16_384, 65_537, 1 << 20, 3_000_001]

    async def main() -> None:
        async with Pair(network) as pair:
            for salt, size in enumerate(sizes):
                pair.link.send([pattern(size, salt)])
            for salt, size in enumerate(sizes):
                assert await pair.server.frame() == pattern(size, salt)

    asyncio.run(main())


def test_tls_fills_the_whole_frame(tls_network: AsyncioNetwork) -> None:
    """Regression for cpython issue 156275: into a bytearray, asyncio's TLS delivers zeros after the first record."""

    async def main() -> None:
        async with Pair(tls_network) as pair:
            for size in (40_000, 997) * 50:  # frames of several TLS records, and several frames in one
                pair.link.send([pattern(size)])
            for size in (40_000, 997) * 50:
                assert await pair.server.frame() == pattern(size)

    asyncio.run(main())


def test_the_buffer_for_asyncio_is_a_memoryview() -> None:
    async def main() -> None:
        link = StreamLink(asyncio.get_running_loop(), Recorder(), frame_size_max=100)
        assert isinstance(link.get_buffer(-1), memoryview)
        link.get_buffer(-1)[:4] = (10).to_bytes(4, "big")
        link.buffer_updated(4)
        assert isinstance(link.get_buffer(-1), memoryview)

    asyncio.run(main())


def test_a_frame_arrives_whole_however_it_is_cut() -> None:
    async def main() -> None:
        for pieces in (1, 2, 3, 7):
            recorder = await raw_to_link(framed(b"one", b"", b"three"), pieces=pieces)
            assert [await recorder.frame() for _ in range(3)] == [b"one", b"", b"three"]
            assert await recorder.loss() is None

    asyncio.run(main())


def test_a_stream_that_ends_inside_a_frame_is_an_error_at_any_byte() -> None:
    async def main() -> None:
        whole = framed(b"0123456789")
        for cut in range(1, len(whole)):
            error = await (await raw_to_link(whole[:cut])).loss()
            assert isinstance(error, NetworkError)
            assert "closed the connection after" in str(error)

    asyncio.run(main())


def test_each_frame_has_a_buffer_of_its_own() -> None:
    async def main() -> None:
        async with Pair(AsyncioNetwork()) as pair:
            pair.link.send([b"first"])
            pair.link.send([b"other"])
            first, other = await pair.server.frames.get(), await pair.server.frames.get()
            assert first.obj is not other.obj
            assert (bytes(first), bytes(other)) == (b"first", b"other")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "meaning"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"\xff\xff\xff\xff", "negative"),
        (b"\x7f\x00\x00\x00", "limit"),
    ],
)
def test_a_stranger_is_recognised_and_cut_off(data: bytes, meaning: str) -> None:
    async def main() -> None:
        error = await (await raw_to_link(data)).loss()
        assert isinstance(error, ProtocolError)
        assert meaning in str(error)

    asyncio.run(main())


def test_an_error_that_the_handler_raises_ends_the_link() -> None:
    class Picky(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            raise ProtocolError("not like this")

    async def main() -> None:
        made: list[Picky] = []

        def make() -> Picky:
            made.append(Picky())
            return made[-1]

        network = AsyncioNetwork()
        listener = await network.listen("127.0.0.1", 0, make, frame_size_max=LIMIT)
        client = Recorder()
        link = await network.dial("127.0.0.1", listener.port, client, timeout=10, frame_size_max=LIMIT)
        link.send([b"hello"])
        await client.loss()
        assert "not like this" in str(await made[0].loss())
        await listener.close()

    asyncio.run(main())


def test_closing_sends_what_was_sent_before(network: AsyncioNetwork) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.link.send([pattern(5_000_000)])
            pair.link.close()
            assert await pair.server.frame() == pattern(5_000_000)
            assert await pair.server.loss() is None
            assert await pair.client.loss() is None
            pair.link.send([b"too late"])  # dropped silently: link_lost has told

    asyncio.run(main())


def test_a_peer_that_resets_is_named() -> None:
    async def main() -> None:
        answerers = Answerers()
        listener = await AsyncioNetwork().listen("127.0.0.1", 0, answerers, frame_size_max=LIMIT)
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        recorder = await answerers.next()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(6, 1, 1)  # no delay
        sock.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER 0: close with a reset
        writer.transport.abort()
        error = await recorder.loss()
        assert isinstance(error, NetworkError)
        assert error.stage is Stage.REQUEST
        assert recorder.link.peer in str(error)
        await listener.close()

    asyncio.run(main())


def test_reading_pauses_and_resumes(network: AsyncioNetwork) -> None:
    async def main() -> None:
        async with Pair(network) as pair:
            pair.server.link.pause_reading()
            sent = 0
            while not pair.link.write_paused:  # the pause reaches the sender: nothing is buffered without bound
                pair.link.send([pattern(1 << 20)])
                sent += 1
                await asyncio.sleep(0)
            delivered = pair.server.frames.qsize()
            assert delivered < sent
            pair.server.link.resume_reading()
            for _ in range(sent):
                assert len(await pair.server.frame()) == 1 << 20
            while pair.link.write_paused:
                pair.client.pause_changed.clear()
                await asyncio.wait_for(pair.client.pause_changed.wait(), 10)
            pauses = pair.client.pauses
            assert pauses == [True, False] * (len(pauses) // 2)

    asyncio.run(main())


def test_a_pause_holds_for_frames_that_had_been_read_already() -> None:
    """Short frames are read several at once; a handler that pauses at the first gets the others when it goes on."""

    class Pausing(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            super().frame_received(frame)
            self.link.pause_reading()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handler = Pausing()
        link = StreamLink(loop, handler, frame_size_max=100)
        handler.link = link
        data = framed(b"one", b"two", b"three")
        link.get_buffer(-1)[: len(data)] = data
        link.buffer_updated(len(data))
        assert handler.frames.qsize() == 1
        for expected in (b"one", b"two", b"three"):
            assert await handler.frame() == expected
            assert handler.frames.empty()
            link.resume_reading()

    asyncio.run(main())


def test_answers_to_frames_that_came_together_leave_together() -> None:
    class Answering(Recorder):
        def frame_received(self, frame: memoryview) -> None:
            assert self.link is not None
            self.link.send([bytes(frame).upper()])

    class Transport(asyncio.Transport):
        written: ClassVar[list[object]] = []

        def get_extra_info(self, name: str, default: object = None) -> object:
            return default

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

        def write(self, data: object) -> None:
            self.written.append(data)

    async def main() -> None:
        transport = Transport()
        link = StreamLink(asyncio.get_running_loop(), Answering(), frame_size_max=100)
        link.connection_made(transport)
        for together in (framed(b"one", b"two", b"three"), framed(b"four")):
            link.get_buffer(-1)[: len(together)] = together
            link.buffer_updated(len(together))
        assert transport.written == [framed(b"ONE", b"TWO", b"THREE"), framed(b"FOUR")]
        link.connection_lost(None)

    asyncio.run(main())


def test_both_ends_know_each_others_address() -> None:
    async def main() -> None:
        async with Pair(AsyncioNetwork()) as pair:
            assert pair.link.peer == pair.server.link.local == f"127.0.0.1:{pair.listener.port}"
            assert pair.link.local == pair.server.link.peer

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_does_not_hold_the_parents_connections() -> None:
    async def main() -> None:
        async with Pair(AsyncioNetwork()) as pair:
            go_on, signal = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(signal)
                os.read(go_on, 1)  # lives on until the parent is done
                os._exit(0)
            try:
                pair.link.send([b"from the parent"])
                assert await pair.server.frame() == b"from the parent"
                pair.link.close()
                assert await pair.server.loss() is None  # would never come if the child held the socket
            finally:
                os.close(signal)
                os.close(go_on)
                os.waitpid(child, 0)

    asyncio.run(main())
