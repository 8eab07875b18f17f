"""Draw `top-topics.svg`, `top-groups.svg` and `top-brokers.svg`: what `kafkaraw top` shows of a cluster.

python docs/pictures/top.py

Three nodes of the embedded broker, producers and consumers run on simulated time, so that the same pictures come out
of each run. One node is stopped before the last picture.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kafkaraw.broker.cluster import Cluster, Surroundings
from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.cli.top_screen import Screen, Shown
from kafkaraw.cli.top_terminal import STYLES
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.monitoring import ClusterStatus, Monitor
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual

HERE = Path(__file__).parent
WIDTH, HEIGHT = 108, 20
HOST, PORT = "10.0.0.1", 9092
TOPICS = {"clicks": (6, 900, 120), "orders": (6, 140, 640), "payments": (3, 60, 410), "sessions": (3, 25, 220)}
"""Partitions, records per second, and bytes of a record."""
AT_ONCE = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
SECONDS = 60
TURN_S = 0.5


class World:
    """A cluster on simulated time, and clients of it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._clients = 0
        rng = random.Random(1)
        around = Surroundings(
            network=simulation.network,
            storage_of=lambda node_id: MemoryStorage(),
            facts=MemoryStorage(),
            clock=simulation.clock,
            rng=rng,
            replication_delay_s=lambda: rng.uniform(0.001, 0.01),
        )
        self.cluster = Cluster(range(1, 4), self._config, around)

    def _config(self, node_id: int) -> BrokerConfig:
        address = f"PLAINTEXT://{HOST}:{PORT + node_id}"
        rack = {"broker.rack": f"rack-{node_id}"}
        return BrokerConfig.parse({"node.id": node_id, "listeners": address, **rack, **AT_ONCE})

    @property
    def settings(self) -> dict[str, object]:
        """Settings of the next client."""
        self._clients += 1
        runtime = Runtime(self.simulation.network, self.simulation.clock, random.Random(self._clients))
        return {"bootstrap_servers": self.cluster.bootstrap_servers, "runtime": runtime}

    async def produce(self) -> None:
        """Send to all topics at their rates, for ever."""
        async with AsyncProducer(**self.settings, linger_ms=5) as producer:
            number = 0
            while True:
                for name, (partitions, rate, size) in TOPICS.items():
                    for _ in range(round(rate * TURN_S)):
                        number += 1
                        await producer.send(name, b"x" * size, partition=number % partitions)
                await asyncio.sleep(TURN_S)

    async def consume(self, group: str, topic: str, rate: float, **settings: object) -> None:
        """Read a topic in a group without an end, at most `rate` records per second."""
        given = {"auto_offset_reset": "earliest", "max_poll_records": max(1, round(rate * TURN_S)), **settings}
        async with AsyncConsumer(**self.settings, group_id=group, **given) as consumer:
            consumer.subscribe([topic])
            while True:
                await consumer.poll(TURN_S)
                if consumer.assignment():
                    await consumer.commit()
                await asyncio.sleep(TURN_S)

    async def share(self, group: str, topic: str) -> None:
        """Read a topic in a share group, for ever."""
        async with AsyncShareConsumer(**self.settings, group_id=group, client_id="mailer") as consumer:
            consumer.subscribe([topic])
            while True:
                await consumer.poll(TURN_S)
                await asyncio.sleep(TURN_S)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[AsyncAdmin]:
    """The cluster with its topics and clients."""
    async with world.cluster, AsyncExitStack() as stack, AsyncAdmin(**world.settings) as admin:
        await admin.create_topics([NewTopic(name, partitions, 3) for name, (partitions, _, _) in TOPICS.items()])
        await admin.alter_group_offsets("search-index", {TopicPartition("orders", at): 0 for at in range(6)})
        works = [
            world.produce(),
            world.consume("billing", "orders", 400, client_id="billing-1"),
            world.consume("billing", "orders", 400, client_id="billing-2"),
            world.consume("dashboards", "clicks", 2000, client_id="dashboards", group_protocol="consumer"),
            world.consume("audit", "payments", 20, client_id="audit"),
            world.share("mailer", "sessions"),
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        stack.push_async_callback(_cancel, tasks)
        await asyncio.sleep(SECONDS)
        yield admin


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def picture(screen: Screen, status: ClusterStatus, height: int = HEIGHT) -> str:
    """The screen as a terminal shows it."""
    moment = datetime.fromtimestamp(status.snapshot.at_ms / 1000, UTC)
    shown = Shown(status, servers=f"{HOST}:{PORT + 1}", clock=f"{moment:%H:%M:%S}")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in screen.lines(shown, WIDTH, height):
        console.print(Text.assemble(*((words, STYLES.get(style, "")) for words, style in line)), no_wrap=True)
    return console.export_svg(title="kafkaraw top", unique_id=f"top-{screen.place.view.name}")


def draw() -> dict[str, str]:
    """The pictures by the names of their files."""

    async def life(simulation: Simulation) -> dict[str, str]:
        world, found = World(simulation), dict[str, str]()
        async with running(world) as admin:
            monitor = Monitor(admin, clock=simulation.clock)
            for _ in range(10):
                status = await monitor.refresh()
                await asyncio.sleep(2)
            for view, keys in (("topics", ("t", "down")), ("groups", ("g",))):
                screen = Screen()
                for key in keys:
                    screen.press(key)
                    screen.lines(Shown(status), WIDTH, HEIGHT)
                found[f"top-{view}.svg"] = picture(screen, status, 14)
            await world.cluster.stop_node(3)
            for _ in range(3):
                await asyncio.sleep(2)
                status = await monitor.refresh()
            screen = Screen()
            screen.press("b")
            found["top-brokers.svg"] = picture(screen, status, 12)
        return found

    return run_virtual(life, 1)


if __name__ == "__main__":
    for name, text in draw().items():
        (HERE / name).write_text(text)
