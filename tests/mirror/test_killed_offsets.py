"""A mirror that is killed at random times: no offset is translated to another record, or ahead of one."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from pathlib import Path

import pytest

from kafkaraw import TopicPartition
from kafkaraw.mirror.offset_service import OffsetService, load_mappings
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.records import Record
from tests.client.virtual_cluster import VirtualCluster
from tests.mirror.test_offset_service import COPY, MAPPING, ORDERS, Clusters, on_clusters
from tests.rotation import rotating

KILLS = 4


async def fill(clusters: Clusters, rng: random.Random, first: int) -> int:
    """Write transactions, some of them aborted, and records without one; return the next number."""
    number = first
    async with clusters.east.producer(transactional_id="filler") as producer:
        await producer.init_transactions()
        for _ in range(rng.randrange(1, 6)):
            await producer.begin_transaction()
            for _ in range(rng.randrange(1, 30)):
                await producer.send("orders", b"%d" % number, partition=0)
                number += 1
            await producer.flush()
            await (producer.abort_transaction if rng.random() < 0.3 else producer.commit_transaction)()
    return number


async def run_and_kill(clusters: Clusters, rng: random.Random) -> None:
    """Run the mirror for a random time, and end it without a word: what it has in memory is lost."""
    flow = clusters.settings.flows[0]
    run = MirrorRun(
        flow, clusters.settings.topology, source_runtime=clusters.east.runtime, target_runtime=clusters.west.runtime
    )
    task = asyncio.create_task(run.run())
    await asyncio.sleep(rng.random() * 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def records(cluster: VirtualCluster, of: TopicPartition) -> list[Record]:
    found: list[Record] = []
    async with cluster.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([of])
        end = (await consumer.end_offsets([of]))[of]
        while await consumer.position(of) < end:
            found += [record for batch in (await consumer.poll(1)).values() for record in batch]
    return found


@pytest.mark.parametrize("seed", rotating(range(24), 2))
def test_offsets_are_translated_to_the_same_record_however_often_the_mirror_is_killed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    finish = OffsetService._finish

    async def nothing(*_: object) -> None: ...

    async def test(clusters: Clusters) -> None:
        number = 0
        monkeypatch.setattr(OffsetService, "_finish", nothing)
        for _ in range(KILLS):
            number = await fill(clusters, rng, number)
            await run_and_kill(clusters, rng)
        monkeypatch.setattr(OffsetService, "_finish", finish)
        number = await fill(clusters, rng, number)
        async with clusters.east.consumer(isolation_level="read_committed") as consumer:
            end = (await consumer.end_offsets([ORDERS]))[ORDERS]
        async with clusters.mirroring() as run:
            await clusters.copied(run, end)
            await asyncio.sleep(3)
        ours, theirs = await records(clusters.east, ORDERS), await records(clusters.west, COPY)
        assert [record.value for record in ours] == [record.value for record in theirs]
        mapping = (await load_mappings(clusters.clients, MAPPING))[ORDERS]
        sources, targets = [record.offset for record in ours], [record.offset for record in theirs]
        for offset in range(end + 1):
            found = mapping.translate(offset)
            assert found is not None
            expected, place = bisect_left(sources, offset), bisect_left(targets, found.offset)
            assert place == expected if found.is_exact else place <= expected, (offset, found)
            assert found.is_exact, (offset, found, mapping.runs())
        for offset in range(targets[-1] + 2):
            back = mapping.translate_back(offset)
            assert back is not None
            assert bisect_left(sources, back.offset) == bisect_left(targets, offset), (offset, back)

    on_clusters(test, tmp_path)
