"""A client connection and a stub broker with latency, broken connections and lost bytes: invariants for every seed."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError, KafkaTimeoutError, NetworkError
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.stub_broker import FRAME_SIZE_MAX, StubBroker
from tests.examples import examples

HOST, PORT = "127.0.0.1", 9092


async def scenario(simulation: Simulation) -> tuple[str, list[str]]:
    """Run 20 seconds with faults; every request must end, with its own response."""
    rng, network = simulation.rng, simulation.network
    await network.listen(HOST, PORT, StubBroker, frame_size_max=FRAME_SIZE_MAX)
    log: list[str] = []

    async def inject_faults() -> None:
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
                log.append(f"{simulation.loop.time():.6f} {name} {_outline(error)}")
                if connection is not None:
                    connection.abort()

    faults = asyncio.ensure_future(inject_faults())
    await asyncio.gather(use("a"), use("b"), use("c"))
    faults.cancel()
    return network.digest(), log


def _outline(error: KafkaError) -> str:
    return type(error).__name__ + " " + str(getattr(error, "stage", ""))


@pytest.mark.parametrize("seed", range(examples(8)))
def test_every_request_ends_and_the_same_seed_produces_the_same_bytes(seed: int) -> None:
    digest, log = run_virtual(scenario, seed)
    assert log
    assert run_virtual(scenario, seed) == (digest, log)


def test_another_seed_produces_other_bytes() -> None:
    assert len({run_virtual(scenario, seed)[0] for seed in range(3)}) == 3
