"""Clients that are closed with a short timeout while faults are injected.

A consumer commits and leaves its group as it closes; a producer waits for its records. All of that must fit into the
timeout of `close`: a process that is about to be stopped is killed if it takes longer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaError
from kafkaraw.records import TopicPartition
from tests.simulation.clients import SETTLE_S
from tests.simulation.environment import PARTITIONS, TOPIC
from tests.simulation.world import ClientNetwork, World

CLIENTS = 4
"""Clients of each kind, one after the other."""
CLOSE_S = (0.0, 0.1, 0.5, 2.0)
"""The timeouts of `close`."""
DISCONNECTED = 0.5
"""The probability that a consumer is disconnected from all brokers when it is closed."""


async def create_topic(world: World) -> None:
    """Create the topic, before the first fault."""
    async with world.admin("founder") as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS)], timeout=20)


async def consume(world: World, name: str, *, subscribes: bool) -> None:
    """Run consumers that commit automatically, with assigned partitions or in a group, one after the other."""
    rng = world.rng(name)
    for number in range(CLIENTS):
        network = ClientNetwork(world.simulation.network)
        consumer = world.consumer(
            f"{name}-{number}",
            runtime=world.runtime(f"{name}-{number}", network),
            group_id=name,
            enable_auto_commit=True,
            auto_commit_interval_ms=rng.choice([100, 60_000]),
            session_timeout_ms=3_000,
            heartbeat_interval_ms=500,
            fetch_max_wait_ms=100,
        )
        if subscribes:
            consumer.subscribe([TOPIC])
        else:
            consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
        await _read(world, consumer, rng.uniform(0, 1.5))
        if rng.random() < DISCONNECTED:
            network.disconnect()
            world.covered["disconnected"] += 1
        timeout = rng.choice(CLOSE_S)
        with suppress(KafkaError):
            await world.close(f"{name}-{number}", consumer.close(timeout), timeout)
        world.covered[f"{name} closed"] += 1


async def _read(world: World, consumer: AsyncConsumer, seconds: float) -> None:
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        with suppress(KafkaError):
            if await world.call("poll", consumer.poll(0.1), 0.1):
                world.covered["records to commit"] += 1
        await asyncio.sleep(0.01)


async def produce(world: World, name: str) -> None:
    """Run producers that are closed before all records are acknowledged, one after the other."""
    rng = world.rng(name)
    for number in range(CLIENTS):
        producer = world.producer(f"{name}-{number}", max_block_ms=200)
        world.history.weak.add(f"{name}-{number}")
        for _ in range(rng.randrange(1, 40)):
            with suppress(KafkaError):
                await producer.send(TOPIC, b"%d" % rng.randrange(1 << 62), partition=rng.randrange(PARTITIONS))
            await asyncio.sleep(rng.uniform(0, 0.02))
        timeout = rng.choice(CLOSE_S)
        with suppress(KafkaError):
            await world.close(f"{name}-{number}", producer.close(timeout), timeout)
        world.covered[f"{name} closed"] += 1
    await asyncio.sleep(SETTLE_S)  # a request in flight when its producer closed may still arrive
