"""A commit that cannot be sent before the group has moved on: its member is fenced, and another one takes over.

The member asks for the commit after it has lost touch with all brokers. Its session ends, the other member reads to the
end and commits. Then the first member is in touch again and rejoins: its commit must not be sent under the new
generation, where it would set the position back. Lives with random events hold such a commit too seldom: one in ten.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kafkaraw.client.admin import NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaError
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.group_history import GroupHistory, Sighting
from tests.simulation.clients import settle
from tests.simulation.climate import TOPIC
from tests.simulation.leash import Leash
from tests.simulation.world import World

GROUP = "overtaken"
PARTITION = TopicPartition(TOPIC, 0)
COUNT = 40
SESSION_MS = 1_500
COMMIT_MS = 20_000
"""What the commit is given: much more than a session, so that it still waits when its member rejoins."""
CALL_S = 20.0
REJOINED_S = 10.0
"""Within which the first member has rejoined, and its commit has ended."""


async def overtaken(world: World) -> GroupHistory:
    """Let it happen once.

    Returns:
        The positions of the group before and after the first member's commit.
    """
    rng, group = world.rng("overtaken"), GroupHistory()
    await _fill(world)
    is_classic = rng.random() < 0.5
    leash = Leash(world.simulation.network)
    first = _member(world, "first", leash, is_classic=is_classic)
    await _read(world, first, rng.randrange(1, COUNT))
    leash.cut()
    first.commit_nowait()
    polls = asyncio.create_task(_keep_polling(world, first), name="first polls")
    second = _member(world, "second", Leash(world.simulation.network), is_classic=is_classic)
    await _read(world, second, COUNT)
    await world.call("second: commit", second.commit(timeout=CALL_S), CALL_S)
    await _look(world, group)
    leash.mend()
    await asyncio.sleep(REJOINED_S)
    await _look(world, group)
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


def _member(world: World, name: str, leash: Leash, *, is_classic: bool) -> AsyncConsumer:
    classic = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 6}
    consumer = world.consumer(
        name,
        runtime=world.runtime(name, leash),
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
        with suppress(KafkaError):  # the commit that failed is told here
            await world.call("poll", consumer.poll(0.1), 0.1)
        await asyncio.sleep(0.01)


async def _look(world: World, group: GroupHistory) -> None:
    asked_s = world.now_s
    async with world.consumer("onlooker", group_id=GROUP, enable_auto_commit=False) as consumer:
        found = await world.call("committed", consumer.committed([PARTITION], CALL_S), CALL_S)
    at = found[PARTITION]
    group.sightings.append(Sighting(asked_s, world.now_s, {PARTITION: -1 if at is None else at.offset}))
