"""Clients that are closed in the middle of trouble, and given little time for it.

A consumer commits as it closes, and leaves its group; a producer waits for what it has sent. All of that must fit into
the timeout of `close`: the process that closes it is about to be stopped, and is killed when it takes longer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaError
from kafkaraw.records import TopicPartition
from tests.simulation.clients import LANDING_S
from tests.simulation.climate import PARTITIONS, TOPIC
from tests.simulation.leash import Leash
from tests.simulation.world import World

CLIENTS = 4
"""Of each kind, one after the other."""
CLOSE_S = (0.0, 0.1, 0.5, 2.0)
"""What closing is given."""
OUT_OF_TOUCH = 0.5
"""How likely a consumer reaches no broker any more when it is closed."""


async def make_topic(world: World) -> None:
    """Make the topic, before anything goes wrong."""
    async with world.admin("founder") as admin:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS)], timeout=20)


async def consume(world: World, name: str, *, subscribes: bool) -> None:
    """Consumers that commit automatically, with partitions assigned by hand or by the group, one after the other."""
    rng = world.rng(name)
    for number in range(CLIENTS):
        leash = Leash(world.simulation.network)
        consumer = world.consumer(
            f"{name}-{number}",
            runtime=world.runtime(f"{name}-{number}", leash),
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
        if rng.random() < OUT_OF_TOUCH:
            leash.cut()
            world.covered["out of touch"] += 1
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
    """Producers whose records are not all acknowledged when they are closed, one after the other."""
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
    await asyncio.sleep(LANDING_S)  # a request that was on its way when its producer closed may still arrive
