"""Connections over time: how often they are tried, how long, and when they are let go."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref

import pytest

from kafkaraw.client.config import AdminConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.network.pool import ConnectionPool
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.errors import NetworkError
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of

NODE = BrokerNode(1, "broker1", 9092)


def pool_on(simulation: Simulation, **settings: object) -> ConnectionPool:
    given = {"bootstrap_servers": "broker1:9092"} | settings
    return ConnectionPool(parse(AdminConfig, given), runtime_of(simulation))


def test_a_broker_that_is_away_is_dialled_less_and_less_often() -> None:
    """KIP-144: reconnect.backoff.ms up to reconnect.backoff.max.ms."""

    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        pool = pool_on(simulation)
        away = BrokerNode(1, "broker1", 1)
        times = []
        while simulation.loop.time() < 10:
            with pytest.raises(NetworkError, match="refused"):
                await pool.get(away, "main", Deadline(60))
            times.append(simulation.loop.time())
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert 0.03 < pauses[0] < 0.07 < pauses[1] < 0.13 < pauses[2] < 0.25
        assert all(0.79 < pause < 1.01 for pause in pauses[5:])
        assert pool.metrics.as_dict()["1"]["connections_failed"] == len(times)
        assert pool.rests(away) and not pool.rests(NODE)
        await pool.close()

    run_virtual(main, 1)


def test_a_silent_broker_is_given_more_time_with_each_attempt() -> None:
    """KIP-601: socket.connection.setup.timeout.ms grows to its maximum, with jitter."""

    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        simulation.network.silence("broker1", 9092)
        pool = pool_on(simulation)
        taken = []
        for _ in range(4):
            began = simulation.loop.time()
            with pytest.raises(NetworkError, match="in time"):
                await pool.get(NODE, "main", Deadline(100))
            taken.append(simulation.loop.time() - began)
        assert 10 <= taken[0] < 10.1
        assert 15 < taken[1] < 25
        assert all(23 < seconds < 31 for seconds in taken[2:])
        await pool.close()

    run_virtual(main, 1)


def test_a_broker_that_hangs_up_is_not_dialled_in_a_busy_loop() -> None:
    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        pool = pool_on(simulation)
        attempts = 0
        while simulation.loop.time() < 1:
            await pool.get(NODE, "main", Deadline(10))
            attempts += 1
            simulation.network.cut("broker1", 9092)
            await asyncio.sleep(0)
        assert 15 < attempts <= 21
        await pool.close()

    run_virtual(main, 1)


def test_a_connection_that_nobody_uses_is_closed_and_opened_again_when_needed() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, 1).start()
        pool = pool_on(simulation, connections_max_idle_ms=60_000)
        connection = await pool.get(NODE, "main", Deadline(10))
        await asyncio.sleep(50)
        await connection.request(MetadataRequest(topics=[]), timeout=10)
        await asyncio.sleep(59)
        assert not connection.closed
        await asyncio.sleep(3)
        assert connection.closed
        again = await pool.get(NODE, "main", Deadline(10))
        await again.request(MetadataRequest(topics=[]), timeout=10)
        counted = pool.metrics.as_dict()["1"]
        assert (counted["connections_opened"], counted["connections_closed"]) == (2, 1)
        assert cluster.count()["ApiVersions"] == 2
        await pool.close()

    run_virtual(main, 1)


def test_a_connection_that_broke_is_let_go_long_before_it_would_be_idle() -> None:
    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        pool = pool_on(simulation, connections_max_idle_ms=86_400_000)
        broken = []
        for _ in range(5):
            broken.append(weakref.ref(await pool.get(NODE, "main", Deadline(10))))
            simulation.network.cut("broker1", 9092)
            await asyncio.sleep(5)
        await pool.get(NODE, "main", Deadline(10))
        gc.collect()
        assert [each() for each in broken] == [None] * 5
        await pool.close()

    run_virtual(main, 1)


def test_a_connection_on_which_an_answer_is_awaited_is_not_idle() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, 1).start()
        release = asyncio.Event()
        cluster.hold = lambda message: release if isinstance(message, MetadataRequest) else None
        pool = pool_on(simulation, connections_max_idle_ms=10_000, request_timeout_ms=100_000)
        connection = await pool.get(NODE, "main", Deadline(10))
        simulation.loop.call_later(40, release.set)
        await connection.request(MetadataRequest(topics=[]), timeout=100)
        assert simulation.loop.time() > 40 and not connection.closed
        await pool.close()

    run_virtual(main, 1)


@pytest.mark.parametrize("limit", [-1])
def test_idle_connections_stay_when_asked_for(limit: int) -> None:
    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        pool = pool_on(simulation, connections_max_idle_ms=limit)
        connection = await pool.get(NODE, "main", Deadline(10))
        await asyncio.sleep(10_000)
        assert not connection.closed
        await pool.close()

    run_virtual(main, 1)


def test_brokers_that_failed_are_asked_last() -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation, 3).start()
        config = parse(AdminConfig, {"bootstrap_servers": cluster.bootstrap_servers, "reconnect_backoff_ms": 1000})
        engine = Engine.on(config, runtime_of(simulation))
        await engine.start(10)
        simulation.network.cut("broker1", 9092)
        engine.cluster.add_brokers([BrokerNode(7, "broker1", 1)])
        with pytest.raises(NetworkError):
            await engine.request(7, MetadataRequest(topics=[]), timeout=10)
        assert engine._by_preference()[-1] == 7
        await engine.close()

    run_virtual(main, 1)


def test_bootstrap_servers_that_failed_are_left_alone_for_a_while() -> None:
    async def main(simulation: Simulation) -> None:
        await ScriptedCluster(simulation, 1).start()
        engine = Engine.on(parse(AdminConfig, {"bootstrap_servers": "broker1:1"}), runtime_of(simulation))
        attempts = 0
        while simulation.loop.time() < 10:
            with pytest.raises(NetworkError, match="refused"):
                await engine.start(30)
            attempts += 1
        assert 10 < attempts < 20
        await engine.close()

    run_virtual(main, 1)
