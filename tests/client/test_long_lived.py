"""Clients that live long hold no more than at first, however often they connect, ask for leaders, or share out anew."""

from __future__ import annotations

import asyncio
import gc
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest

from tests.client.groups.test_group import PARTITIONS, PROTOCOLS, TOPIC, member, settle
from tests.client.virtual_cluster import VirtualCluster, on_cluster

ROUNDS = 100
WORLD = ("kafkaraw.testing", "kafkaraw.broker", "tests")
"""Modules of what clients can reach and do not own: the simulated network, and brokers."""
LEFT_OUT = (type, ModuleType, FunctionType, BuiltinFunctionType)


def held_by(*clients: object) -> int:
    """How many objects can be reached from clients, without what belongs to the world around them."""
    gc.collect()
    seen: dict[int, object] = {}
    found = list(clients)
    while found:
        each = found.pop()
        if id(each) in seen or isinstance(each, LEFT_OUT) or type(each).__module__.startswith(WORLD):
            continue
        if isinstance(each, dict) and "__builtins__" in each:  # a module's names
            continue
        seen[id(each)] = each
        found += gc.get_referents(each)
    return len(seen)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_long_lived_clients_hold_does_not_grow(protocol: str) -> None:
    """In each round connections break, metadata gets old, and another member comes and goes."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        settings = {"metadata_max_age_ms": 5_000}
        async with (
            cluster.producer(linger_ms=0, **settings) as producer,
            member(cluster, protocol, **settings) as consumer,
        ):

            async def live_through() -> None:
                async with member(cluster, protocol) as other:
                    await settle(consumer, other)
                await settle(consumer)
                cluster.cut()
                await asyncio.sleep(6)
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, b"value", partition=partition)
                while await consumer.poll(1):
                    pass
                await consumer.commit()
                cluster.network.history.clear()

            await settle(consumer)
            held = []
            for _ in range(ROUNDS):
                await live_through()
                held.append(held_by(producer, consumer))
            # Some more or less is under way each time. One object a round may be another number, no longer a small one.
            quarter = ROUNDS // 4
            assert min(held[-quarter:]) <= max(held[:quarter]) + ROUNDS, held

    on_cluster(test, group_initial_rebalance_delay_ms=0)
