"""A commit that cannot be sent before its member is fenced and another one takes over.

The member calls commit after it was disconnected from all brokers. Its session expires, the other member reads to the
end and commits. Then the first member connects again and rejoins: its commit must not be sent in the new generation,
where it would set the committed offset back. With random events only one run in ten has such a commit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.group_history import GroupHistory, ObservedOffsets
from tests.simulation.clients import settle
from tests.simulation.environment import TOPIC
from tests.simulation.world import ClientNetwork, World

GROUP = "overtaken"
PARTITION = TopicPartition(TOPIC, 0)
COUNT = 40
SESSION_MS = 1_500
COMMIT_MS = 20_000
"""The timeout of the commit: much more than the session timeout, so that it is pending when its member rejoins."""
CALL_S = 20.0
REJOINED_S = 10.0
"""The time within which the first member has rejoined, and its commit has ended."""


async def run_delayed_commit(world: World) -> GroupHistory:
    """Run the scenario.

    Returns:
        The committed offsets of the group before and after the first member's commit.
    """
    rng, group = world.rng("overtaken"), GroupHistory()
    await _fill(world)
    is_classic = rng.random() < 0.5
    network = ClientNetwork(world.simulation.network)
    first = _member(world, "first", network, is_classic=is_classic)
    await _read(world, first, rng.randrange(1, COUNT))
    network.disconnect()
    first.commit_nowait()
    polls = asyncio.create_task(_keep_polling(world, first), name="first polls")
    second = _member(world, "second", ClientNetwork(world.simulation.network), is_classic=is_classic)
    await _read(world, second, COUNT)
    await world.call("second: commit", second.commit(timeout=CALL_S), CALL_S)
    await _observe_offsets(world, group)
    network.reconnect()
    await asyncio.sleep(REJOINED_S)
    await _observe_offsets(world, group)
    world.over = True
    await polls
    for consumer in (first, second):
        with suppress(KafkaError):
            await world.close("a member", consumer.close(CALL_S), CALL_S)
    return group


async def _fill(world: World) -> None:
    async with world.admin("founder") as admin:
        await admin.create_topics([NewTopic(TOPIC, 1)], timeout=CALL_S)
    producer = world.producer("feeder", delivery_timeout_ms=30_000, buffer_memory=1_000_000)
    tickets: list[tuple[bytes, Ticket]] = []
    for number in range(COUNT):
        value = b"%d" % number
        world.history.sent["feeder"].append(value)
        tickets.append((value, await producer.send(TOPIC, value, partition=0)))
    await settle(world, "feeder", producer, tickets)


def _member(world: World, name: str, network: ClientNetwork, *, is_classic: bool) -> AsyncConsumer:
    classic = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 6}
    consumer = world.consumer(
        name,
        runtime=world.runtime(name, network),
        group_id=GROUP,
        enable_auto_commit=False,
        default_api_timeout_ms=COMMIT_MS,
        max_poll_records=1,
        **(classic if is_classic else {"group_protocol": "consumer"}),
    )
    consumer.subscribe([TOPIC])
    return consumer


async def _read(world: World, consumer: AsyncConsumer, count: int) -> None:
    while count > 0:
        with suppress(KafkaError):
            polled = await world.call("poll", consumer.poll(0.1), 0.1)
            count -= sum(1 for batch in polled.values() for _ in batch)


async def _keep_polling(world: World, consumer: AsyncConsumer) -> None:
    while not world.over:
        with suppress(KafkaError):  # the failure of the commit is reported here
            await world.call("poll", consumer.poll(0.1), 0.1)
        await asyncio.sleep(0.01)


async def _observe_offsets(world: World, group: GroupHistory) -> None:
    asked_s = world.now_s
    async with world.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as consumer:
        found = await world.call("committed", consumer.committed([PARTITION], CALL_S), CALL_S)
    at = found[PARTITION]
    group.observed_offsets.append(ObservedOffsets(asked_s, world.now_s, {PARTITION: -1 if at is None else at.offset}))
