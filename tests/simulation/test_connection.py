"""A client connection and a stub broker under latency, cuts and silence: what must hold for every seed."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.stub_broker import FRAME_SIZE_MAX, StubBroker

HOST, PORT = "127.0.0.1", 9092


async def life(simulation: Simulation) -> tuple[str, list[str]]:
    """Twenty seconds with faults; every request must end, and no answer may go to another request."""
    rng, network = simulation.rng, simulation.network
    await network.listen(HOST, PORT, StubBroker, frame_size_max=FRAME_SIZE_MAX)
    story: list[str] = []

    async def trouble() -> None:
        while True:
            await asyncio.sleep(rng.uniform(0.5, 4))
            if rng.random() < 0.5:
                network.cut(HOST, PORT)
            else:
                network.silence(HOST, PORT)
                await asyncio.sleep(rng.uniform(0.1, 3))
                network.silence(HOST, PORT, False)

    async def use(name: str) -> None:
        while simulation.loop.time() < 20:
            connection: Connection | None = None
            try:
                connection = await Connection.open(network, HOST, PORT, client_id=name, connect_timeout=1)
                for number in range(1, 1000):
                    answer = await connection.request(MetadataRequest(topics=[]), timeout=rng.uniform(0.5, 2))
                    assert isinstance(answer, MetadataResponse)
                    assert answer.controller_id == number
                    await asyncio.sleep(rng.uniform(0, 0.05))
                await connection.close()
            except (NetworkError, KafkaTimeoutError) as error:
                story.append(f"{simulation.loop.time():.6f} {name} {_outline(error)}")
                if connection is not None:
                    connection.abort()

    troubles = asyncio.ensure_future(trouble())
    await asyncio.gather(use("a"), use("b"), use("c"))
    troubles.cancel()
    return network.digest(), story


def _outline(error: KafkaError) -> str:
    return type(error).__name__ + " " + str(getattr(error, "stage", ""))


@pytest.mark.parametrize("seed", range(8))
def test_every_request_ends_and_the_same_seed_is_the_same_story(seed: int) -> None:
    digest, story = run_virtual(life, seed)
    assert story
    assert run_virtual(life, seed) == (digest, story)


def test_seeds_differ() -> None:
    assert len({run_virtual(life, seed)[0] for seed in range(3)}) == 3
