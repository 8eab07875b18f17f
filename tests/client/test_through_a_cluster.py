"""Our client on several nodes, on virtual time: whatever befalls them, records arrive once and in order."""

from __future__ import annotations

import asyncio
import random

import pytest

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

PARTITION = TopicPartition("t", 0)
RECORDS = 150


class Life:
    """A producer that sends, a consumer that reads along, and nodes that come and go."""

    def __init__(self, nodes: VirtualNodes, seed: int) -> None:
        self.nodes = nodes
        self.rng = random.Random(f"life {seed}")
        self.values = [b"%d" % number for number in range(RECORDS)]
        self.offsets: list[int] = []
        self.read: list[bytes | None] = []

    def runtime(self, name: str) -> Runtime:
        return Runtime(self.nodes.simulation.network, self.nodes.simulation.clock, random.Random(name))

    async def run(self) -> None:
        sending = asyncio.ensure_future(self.send())
        reading = asyncio.ensure_future(self.read_along())
        while not sending.done():
            await self.happen()
            await asyncio.sleep(self.rng.uniform(0.05, 1.5))
        await sending
        await self.heal()
        await reading
        assert self.offsets == list(range(RECORDS))
        assert self.read == self.values
        assert self.nodes.values(0) == self.values

    async def send(self) -> None:
        servers = self.nodes.cluster.bootstrap_servers
        async with AsyncProducer(
            bootstrap_servers=servers, runtime=self.runtime("producer"), linger_ms=1, delivery_timeout_ms=600_000
        ) as producer:
            tickets = []
            for value in self.values:
                tickets.append(await producer.send("t", value, partition=0))
                await asyncio.sleep(self.rng.choice((0, 0, 0.01, 0.3)))
            for ticket in tickets:
                self.offsets.append((await ticket).offset)

    async def read_along(self) -> None:
        servers = self.nodes.cluster.bootstrap_servers
        async with AsyncConsumer(
            bootstrap_servers=servers, runtime=self.runtime("consumer"), auto_offset_reset="none"
        ) as consumer:
            consumer.assign([PARTITION])
            consumer.seek(PARTITION, 0)
            while len(self.read) < RECORDS:
                for batch in (await consumer.poll(5)).values():
                    self.read += [record.value for record in batch]

    async def happen(self) -> None:
        cluster = self.nodes.cluster
        down = [node for node in cluster.node_ids if node not in cluster.nodes]
        if down:
            await cluster.start_node(down[0])
        elif (what := self.rng.choice(("kill", "stop", "move", "move"))) == "move":
            try:
                cluster.move_leader("t", 0, self.rng.randint(0, 2))
            except UsageError:
                return  # it is not in sync yet
        else:
            await getattr(cluster, f"{what}_node")(self.rng.randint(0, 2))

    async def heal(self) -> None:
        for node in self.nodes.cluster.node_ids:
            if node not in self.nodes.cluster.nodes:
                await self.nodes.cluster.start_node(node)
        await self.nodes.cluster.wait_until_in_sync(60)


@pytest.mark.parametrize("seed", range(6))
def test_acknowledged_once_in_order_and_read_so(seed: int):
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(min_insync_replicas="2")
        await Life(nodes, seed).run()

    on_nodes(life, seed=seed)
