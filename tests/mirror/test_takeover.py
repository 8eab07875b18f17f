"""A flow that begins after another one was killed: it reads positions that are final, whatever was left behind."""

from __future__ import annotations

import asyncio
import random

import pytest

from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.interfaces import Delivery, FlowSettings
from kafkaraw.testing.memory_network import Sent
from tests.mirror.two_clusters import FIRST_COPY, TwoClusters, between_clusters, contents
from tests.rotation import rotating
from tests.simulation.world import ClientNetwork

GROUP = "kafkaraw-mirror.a->b"
FRAMES = 140
"""Frames that a flow and its clusters exchange until it has committed its first records."""


async def leave_pending_offset(clusters: TwoClusters, producer_id: int, epoch: int, offset: int) -> None:
    """Let an offset arrive behind the end of its transaction: no coordinator of transactions will end it."""
    arrived: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    coordinator = clusters.target.node.state.groups.coordinator(GROUP)
    offsets = [(FIRST_COPY, CommittedOffset(offset, -1, ""))]
    coordinator.commit_in_transaction(CommitIdentity(GROUP), (producer_id, epoch), offsets, arrived.set_result)
    assert await arrived == 0


async def is_unstable(clusters: TwoClusters) -> bool:
    async with clusters.target.consumer(group_id=GROUP, enable_auto_commit=False) as consumer:
        try:
            await consumer.committed([FIRST_COPY], timeout=1)
        except KafkaTimeoutError as error:
            assert "UNSTABLE_OFFSET_COMMIT" in str(error)
            return True
    return False


def test_flow_ends_what_is_open_of_its_producer_and_continues_at_its_position() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 50)
        await clusters.copy(50)
        async with clusters.target.admin() as admin:
            producer = (await admin.describe_transactions([f"{GROUP}-0"]))[f"{GROUP}-0"]
            assert producer.state.startswith("Complete")
        await leave_pending_offset(clusters, producer.producer_id, producer.producer_epoch, 7)
        assert await is_unstable(clusters)
        await clusters.fill(50, 50)
        await clusters.copy(100)
        assert not await is_unstable(clusters)
        source, copy = [
            await clusters.all_records(cluster, topic)
            for cluster, topic in ((clusters.source, "orders"), (clusters.target, "a.orders"))
        ]
        assert contents(copy) == contents(source)

    between_clusters(test)


def test_flow_waits_for_an_open_transaction_of_another_producer_and_names_it() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 50)
        await clusters.copy(50)
        async with clusters.target.producer(transactional_id="another") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({FIRST_COPY: 3}, GROUP)
            with pytest.raises(KafkaTimeoutError, match=r"another producer .* find-hanging"):
                await clusters.flow().run()
            await producer.abort_transaction()
        await clusters.fill(50, 50)
        await clusters.copy(100)

    between_clusters(test)


@pytest.mark.parametrize("frame", rotating(range(1, FRAMES + 1), 3))
@pytest.mark.parametrize("delivery", Delivery)
def test_flow_begins_wherever_the_one_before_was_killed(frame: int, delivery: Delivery) -> None:
    """Killed at any frame of its first session, also between the first write and the commits around it."""

    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 60, batch_size=300)
        await run_and_kill(clusters, delivery, frame)
        await clusters.copy(60, delivery)
        source, copy = [
            contents(await clusters.all_records(cluster, topic))
            for cluster, topic in ((clusters.source, "orders"), (clusters.target, "a.orders"))
        ]
        if delivery is Delivery.AT_LEAST_ONCE:
            copy = {partition: list(dict.fromkeys(records)) for partition, records in copy.items()}
        assert copy == source

    between_clusters(test, frame)


async def run_and_kill(clusters: TwoClusters, delivery: Delivery, frame: int) -> None:
    """Run a flow until the clusters and it have sent so many frames; then nothing that it does has an effect."""
    network = ClientNetwork(clusters.target.network)
    runtimes = [Runtime(network, clusters.target.simulation.clock, random.Random(frame + side)) for side in (0, 1)]
    servers = [{"bootstrap_servers": cluster.bootstrap} for cluster in (clusters.source, clusters.target)]
    settings = FlowSettings("a", "b", *servers, delivery=delivery, commit_interval_s=0.02, in_flight_max_bytes=500)
    flow = Flow(settings, clusters.plan, source_runtime=runtimes[0], target_runtime=runtimes[1])
    history = clusters.target.network.history = CountedHistory(clusters.target.network.history, frame)
    task = asyncio.create_task(flow.run())
    await history.is_full.wait()
    network.kill()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class CountedHistory(list[Sent]):
    """The history of a network, which tells when it has so many more frames."""

    def __init__(self, before: list[Sent], frames: int) -> None:
        super().__init__(before)
        self.is_full = asyncio.Event()
        self._last = len(before) + frames

    def append(self, sent: Sent) -> None:
        super().append(sent)
        if len(self) == self._last:
            self.is_full.set()
