from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.errors import KafkaError, NetworkError, ProtocolError, Stage
from kafkaraw.net import Link
from kafkaraw.protocol import FileSlice
from kafkaraw.testing.memory_network import MemoryNetwork
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.net.handlers import Answerers, Recorder, pattern

LIMIT = 1 << 26


class Pair:
    """A connection in memory."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network

    async def __aenter__(self) -> Pair:
        self.answerers = answerers = Answerers()
        self.listener = await self.network.listen("127.0.0.1", 9092, answerers, frame_size_max=LIMIT)
        self.client = Recorder()
        self.link = await self.network.dial("localhost", 9092, self.client, timeout=10, frame_size_max=LIMIT)
        self.server = await answerers.next()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.listener.close()


def simulate(play: Callable[[Pair], Awaitable[None]], seed: int = 1) -> MemoryNetwork:
    async def main(simulation: Simulation) -> MemoryNetwork:
        async with Pair(simulation.network) as pair:
            await play(pair)
        return simulation.network

    return run_virtual(main, seed)


async def chatter(pair: Pair) -> None:
    """Both ends talk at once, and rest now and then."""

    async def talk(link: Link, name: bytes) -> None:
        for turn in range(50):
            link.send([name, bytes([turn]) * turn])
            if turn % 7 == 0:
                await asyncio.sleep(0.003)

    await asyncio.gather(talk(pair.link, b"client"), talk(pair.server.link, b"server"))
    for turn in range(50):
        assert await pair.server.frame() == b"client" + bytes([turn]) * turn
        assert await pair.client.frame() == b"server" + bytes([turn]) * turn


@pytest.mark.parametrize("seed", range(20))
def test_frames_keep_their_order_and_stay_whole(seed: int) -> None:
    assert len(simulate(chatter, seed).history) == 100


def test_timers_that_fire_early_still_deliver() -> None:
    """A loop runs what is due within its clock's resolution together with what is due now."""

    async def play(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        pair.link.send([b"early"])
        for timer in list(loop._scheduled):  # type: ignore[attr-defined]
            loop.call_at(timer.when() - loop._clock_resolution / 2, str)  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        assert pair.server.frames.get_nowait() == b"early"

    simulate(play)


def test_the_same_seed_gives_the_same_bytes_at_the_same_times() -> None:
    assert simulate(chatter, 7).digest() == simulate(chatter, 7).digest()
    assert simulate(chatter, 7).history == simulate(chatter, 7).history


def test_another_seed_gives_another_history() -> None:
    assert simulate(chatter, 7).digest() != simulate(chatter, 8).digest()


def test_bytes_take_time() -> None:
    async def play(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        pair.link.send([b"x"])
        await pair.server.frame()
        assert 0.00005 <= loop.time() - started <= 0.004

    simulate(play)


def test_file_slices_are_read() -> None:
    async def play(pair: Pair) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(b"0123456789")
            file.flush()
            pair.link.send([b"<", FileSlice(file.fileno(), 2, 5), b">"])
        assert await pair.server.frame() == b"<23456>"

    simulate(play)


def test_unknown_hosts_and_closed_ports_fail_at_their_stages() -> None:
    async def main(simulation: Simulation) -> list[Stage]:
        stages: list[Stage] = []
        async with Pair(simulation.network):
            for host, port in (("nowhere", 9092), ("127.0.0.1", 9999)):
                with pytest.raises(NetworkError, match=f"{host}:{port}") as caught:
                    await simulation.network.dial(host, port, Recorder(), timeout=1, frame_size_max=LIMIT)
                stages.append(caught.value.stage)
            with pytest.raises(NetworkError, match="in use"):
                await simulation.network.listen("127.0.0.1", 9092, Recorder, frame_size_max=LIMIT)
            free = await simulation.network.listen("127.0.0.1", 0, Recorder, frame_size_max=LIMIT)
            assert free.port > 0
        return stages

    assert run_virtual(main, 1) == [Stage.RESOLVE, Stage.CONNECT]


def test_closing_delivers_bytes_in_flight_and_notifies_both_ends() -> None:
    async def play(pair: Pair) -> None:
        pair.link.send([b"last words"])
        pair.link.close()
        pair.link.send([b"too late"])
        assert await pair.client.loss() is None
        assert await pair.server.frame() == b"last words"
        assert await pair.server.loss() is None

    simulate(play)


def test_a_cut_breaks_both_ends_and_loses_bytes_in_flight() -> None:
    async def play(pair: Pair) -> None:
        pair.link.send([b"lost"])
        assert pair.network.cut("127.0.0.1", 9092) == 1
        for end in (pair.client, pair.server):
            assert isinstance(await end.loss(), NetworkError)
        assert pair.server.frames.empty()
        assert pair.network.cut("127.0.0.1", 9092) == 0

    simulate(play)


def test_silence_delays_bytes_and_dialling_until_reset() -> None:
    async def play(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        pair.network.silence("127.0.0.1", 9092)
        pair.link.send([b"patience"])
        with pytest.raises(NetworkError, match="no answer in time") as caught:
            await pair.network.dial("127.0.0.1", 9092, Recorder(), timeout=30, frame_size_max=LIMIT)
        assert caught.value.stage is Stage.CONNECT
        assert loop.time() >= 30
        assert pair.server.frames.empty()
        pair.network.silence("127.0.0.1", 9092, False)
        assert await pair.server.frame() == b"patience"

    simulate(play)


def test_a_reader_that_pauses_slows_the_writer_down() -> None:
    async def play(pair: Pair) -> None:
        pair.server.link.pause_reading()
        for _ in range(4):
            pair.link.send([pattern(400_000)])
        await asyncio.sleep(1)
        assert pair.link.write_paused
        assert pair.server.frames.empty()
        pair.server.link.resume_reading()
        for _ in range(4):
            assert await pair.server.frame() == pattern(400_000)
        assert pair.client.pauses == [True, False]

    simulate(play)


def test_a_frame_above_the_limit_ends_the_link() -> None:
    async def main(simulation: Simulation) -> KafkaError | None:
        answerers = Answerers()
        await simulation.network.listen("127.0.0.1", 9092, answerers, frame_size_max=10)
        link = await simulation.network.dial("127.0.0.1", 9092, Recorder(), timeout=1, frame_size_max=10)
        link.send([b"eleven bytes"])
        return await (await answerers.next()).loss()

    error = run_virtual(main, 1)
    assert isinstance(error, ProtocolError)
    assert "the limit is 10" in str(error)


@pytest.mark.parametrize("by", ["client", "server"])
def test_a_half_open_link_loses_the_bytes_of_one_end_silently(by: str) -> None:
    async def play(pair: Pair) -> None:
        assert pair.network.half_open("127.0.0.1", 9092, by) == 1
        mute, other = (pair.link, pair.server) if by == "client" else (pair.server.link, pair.client)
        mute.send([b"into nothing"])
        mute.close()
        await asyncio.sleep(60)
        assert other.frames.empty()
        assert not other.lost.done()

    simulate(play)


def test_a_slow_address_is_slow_until_reset() -> None:
    async def play(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        pair.network.slow("127.0.0.1", 9092, (500, 500))
        pair.link.send([b"late"])
        await pair.server.frame()
        assert 0.5 <= loop.time() < 0.51
        pair.network.slow("127.0.0.1", 9092, None)
        pair.link.send([b"soon"])
        await pair.server.frame()
        assert loop.time() < 0.52

    simulate(play)


def test_a_repeated_request_arrives_on_a_second_connection_without_a_reader() -> None:
    async def play(pair: Pair) -> None:
        loop = asyncio.get_running_loop()
        pair.network.repeat("127.0.0.1", 9092, (3, 3), lambda frame: frame != b"once")
        pair.link.send([b"once"])
        pair.link.send([b"twice"])
        assert [await pair.server.frame(), await pair.server.frame()] == [b"once", b"twice"]
        again = await pair.answerers.next()
        assert await again.frame() == b"twice"
        assert loop.time() >= 3
        again.link.send([b"who is there?"])
        assert await again.loss() is None
        assert pair.client.frames.empty()
        pair.network.repeat("127.0.0.1", 9092, None)
        pair.link.send([b"only once"])
        assert await pair.server.frame() == b"only once"

    simulate(play)


def test_nothing_is_repeated_to_a_closed_listener() -> None:
    async def play(pair: Pair) -> None:
        pair.network.repeat("127.0.0.1", 9092, (1, 1))
        pair.link.send([b"hello"])
        assert await pair.server.frame() == b"hello"
        await pair.listener.close()
        await asyncio.sleep(5)
        assert pair.answerers.accepted.empty()

    simulate(play)


def test_a_hidden_name_cannot_be_resolved_until_it_is_shown_again() -> None:
    async def play(pair: Pair) -> None:
        pair.network.hide("127.0.0.1")
        with pytest.raises(NetworkError) as caught:
            await pair.network.dial("127.0.0.1", 9092, Recorder(), timeout=1, frame_size_max=LIMIT)
        assert caught.value.stage is Stage.RESOLVE
        pair.network.hide("127.0.0.1", False)
        await pair.network.dial("127.0.0.1", 9092, Recorder(), timeout=1, frame_size_max=LIMIT)

    simulate(play)
