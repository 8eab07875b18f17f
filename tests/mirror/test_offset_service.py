"""The offset service beside a flow: what it writes, keeps over restarts, fills, and commits for groups."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from kafkaraw import TopicPartition
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import AuthorizationError, UsageError
from kafkaraw.mirror.checkpoints import Checkpoint, Heartbeat
from kafkaraw.mirror.clients import FlowClients, newest
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.mapping import Run, Translation
from kafkaraw.mirror.offset_service import OffsetService, load_mappings
from kafkaraw.mirror.offset_syncs import OffsetSync
from kafkaraw.mirror.running import MirrorRun
from kafkaraw.mirror.settings import MirrorSettings, read_mirror_settings
from kafkaraw.mirror.translation import GroupTranslator, How
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import FEW_PARTITIONS
from tests.client.virtual_cluster import PORT, VirtualCluster

ORDERS = TopicPartition("orders", 0)
COPY = TopicPartition("east.orders", 0)
MAPPING = "mm2-offset-mapping.east.internal"


class Clusters:
    """Two clusters on virtual time, and a mirror between them."""

    def __init__(self, simulation: Simulation, path: Path, more: str, target_properties: Mapping[str, str]) -> None:
        self.east = VirtualCluster(simulation, {**FEW_PARTITIONS})
        self.west = VirtualCluster(simulation, {**FEW_PARTITIONS, **target_properties}, port=PORT + 1)
        path.write_text(
            f"clusters = east, west\neast.bootstrap.servers = {self.east.bootstrap}\n"
            f"west.bootstrap.servers = {self.west.bootstrap}\neast->west.enabled = true\n"
            f"emit.heartbeats.interval.seconds = 60\n{more}"
        )
        self.settings: MirrorSettings = read_mirror_settings(path)
        self.clients = FlowClients(
            self.settings.flows[0].copy, source_runtime=self.east.runtime, target_runtime=self.west.runtime
        )

    async def fill(self, count: int, **settings: object) -> None:
        async with self.east.producer(**settings) as producer:
            for number in range(count):
                await producer.send("orders", b"%d" % number, partition=0)

    async def commit(self, cluster: VirtualCluster, offsets: dict[TopicPartition, int], group: str = "billing") -> None:
        async with cluster.admin() as admin:
            await admin.alter_group_offsets(group, offsets)

    async def committed(self, cluster: VirtualCluster, group: str = "billing") -> dict[TopicPartition, int]:
        async with cluster.admin() as admin:
            return {of: at.offset for of, at in (await admin.list_group_offsets([group]))[group].items()}

    @contextlib.asynccontextmanager
    async def mirroring(self) -> AsyncIterator[MirrorRun]:
        flow = self.settings.flows[0]
        run = MirrorRun(
            flow, self.settings.topology, source_runtime=self.east.runtime, target_runtime=self.west.runtime
        )
        task = asyncio.create_task(run.run())
        try:
            yield run
        finally:
            run.stop()
            await task

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 300) -> None:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.1)

    async def copied(self, run: MirrorRun, end: int) -> None:
        async def is_copied() -> bool:
            mapping = run.offsets.mappings.get(ORDERS)
            return mapping is not None and mapping.source_end == end

        await self.until(is_copied)


def on_clusters(
    test: Callable[[Clusters], Awaitable[None]],
    path: Path,
    more: str = "",
    *,
    target_properties: Mapping[str, str] | None = None,
) -> None:
    async def life(simulation: Simulation) -> None:
        clusters = Clusters(simulation, path / "mirror.properties", more, target_properties or {})
        await clusters.east.node.start()
        await clusters.west.node.start()
        try:
            await clusters.east.create("orders")
            await test(clusters)
        finally:
            await clusters.east.end()
            await clusters.west.end()

    run_virtual(life, 1)


def test_a_mapping_is_written_and_continued_after_a_restart(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
        await clusters.fill(5)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 15)
            expected = run.offsets.mappings[ORDERS].runs()
        assert expected == [Run(0, 0, 10), Run(10, 11, 5)]
        found = await load_mappings(clusters.clients, MAPPING)
        assert found[ORDERS].runs() == expected

    on_clusters(test, tmp_path)


def test_records_of_mirrormaker_are_written(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        await clusters.commit(clusters.east, {ORDERS: 4})

        async def checkpoints() -> bool:
            return bool(await clusters.clients.records("east.checkpoints.internal", of_source=False))

        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
            await clusters.until(checkpoints)
        records = await clusters.clients.records("east.checkpoints.internal", of_source=False)
        assert [Checkpoint.of_record(key, value) for key, value in records] == [Checkpoint("billing", COPY, 4, 4)]
        syncs = newest(await clusters.clients.records("mm2-offset-syncs.west.internal", of_source=True))
        assert OffsetSync(ORDERS, 9, 9) in [OffsetSync.of_record(key, value) for key, value in syncs.items()]
        for of_source, names in ((True, ("west", "east")), (False, ("east", "west"))):
            beats = newest(await clusters.clients.records("heartbeats", of_source=of_source))
            (beat,) = [Heartbeat.of_record(key, value) for key, value in beats.items()]
            assert (beat.source_alias, beat.target_alias) == names

    on_clusters(test, tmp_path, "emit.checkpoints.interval.seconds = 1\n")


def test_group_offsets_follow_without_being_ahead_of_the_copy_or_moving_back(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        await clusters.commit(clusters.east, {ORDERS: 4})
        async with clusters.mirroring() as run:

            async def is_at(offset: int) -> bool:
                return (await clusters.committed(clusters.west)).get(COPY) == offset

            await clusters.copied(run, 10)
            await clusters.until(lambda: is_at(4))
            await clusters.commit(clusters.east, {ORDERS: 8})
            await clusters.until(lambda: is_at(8))
            await clusters.commit(clusters.east, {ORDERS: 2})
            await asyncio.sleep(5)
            assert await is_at(8)
            await clusters.commit(clusters.east, {ORDERS: 1000})
            await clusters.until(lambda: is_at(10))
            await asyncio.sleep(5)
            assert await is_at(10)

    on_clusters(test, tmp_path, "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 2\n")


def test_offsets_of_an_earlier_copy_are_not_used_for_a_copy_that_was_created_again(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        flow = clusters.settings.flows[0]
        async with clusters.mirroring() as run:
            for number in range(10):  # each is a transaction of the copy, with a marker
                await clusters.fill(1)
                await clusters.copied(run, number + 1)
        await clusters.commit(clusters.east, {ORDERS: 10})
        async with clusters.west.admin() as admin:
            await admin.delete_topics([COPY.topic])
            await admin.create_topics([NewTopic(COPY.topic, 1)])
        plan = await GroupTranslator(flow, clusters.clients).plan(["billing"])
        assert [(each.translated, each.how) for each in plan.offsets] == [(None, How.UNKNOWN)]
        async with clusters.mirroring() as run:
            await clusters.until(lambda: is_committed(clusters))
            ends = await ends_of_copy(clusters)
            assert (await clusters.committed(clusters.west))[COPY] <= ends

    async def is_committed(clusters: Clusters) -> bool:
        return COPY in await clusters.committed(clusters.west)

    async def ends_of_copy(clusters: Clusters) -> int:
        async with clusters.west.consumer() as consumer:
            return (await consumer.end_offsets([COPY]))[COPY]

    on_clusters(test, tmp_path, "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")


def test_no_offset_is_translated_for_a_copy_that_was_created_again_before_the_flow_notices_it(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
            async with clusters.west.admin() as admin:
                await admin.delete_topics([COPY.topic])
                await admin.create_topics([NewTopic(COPY.topic, 1)])
            checkpoints = len(await clusters.clients.records("east.checkpoints.internal", of_source=False))
            await clusters.commit(clusters.east, {ORDERS: 10})
            await asyncio.sleep(10)  # of virtual time: ten intervals
            assert await clusters.committed(clusters.west) == {}
            assert len(await clusters.clients.records("east.checkpoints.internal", of_source=False)) == checkpoints
            await clusters.fill(5)  # now the flow notices it, and copies all records again
            await clusters.copied(run, 15)
            await clusters.until(lambda: is_committed(clusters))
        async with clusters.west.consumer(isolation_level="read_committed") as consumer:
            consumer.assign([COPY])
            consumer.seek(COPY, (await clusters.committed(clusters.west))[COPY])
            assert [record.value for record in (await consumer.poll(5))[COPY]] == [
                b"%d" % number for number in range(5)
            ]

    async def is_committed(clusters: Clusters) -> bool:
        return COPY in await clusters.committed(clusters.west)

    more = "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n"
    on_clusters(test, tmp_path, more + "emit.checkpoints.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n")


def test_offsets_of_a_group_with_members_in_the_target_are_not_changed(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        await clusters.commit(clusters.east, {ORDERS: 4})
        await clusters.west.create("own")
        async with clusters.west.consumer(group_id="billing", enable_auto_commit=False) as consumer:
            consumer.subscribe(["own"])
            await consumer.poll(1)
            async with clusters.mirroring() as run:
                await clusters.copied(run, 10)
                await asyncio.sleep(5)
                assert await clusters.committed(clusters.west) == {}

    on_clusters(test, tmp_path, "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 2\n")


def test_a_gap_that_a_crash_has_left_is_mended_from_both_topics(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(4)
        await clusters.fill(3, transactional_id=None)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 7)
        await clusters.fill(3)
        flow = clusters.settings.flows[0]
        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
        service = OffsetService(flow, clusters.clients, now_ms=lambda: 0)
        service.on_copied([CopiedBatch(ORDERS, COPY, range(4), (range(4),), 0)])
        service.on_copied([CopiedBatch(ORDERS, COPY, range(9, 10), (range(9, 10),), 10)])
        mapping = service.mappings[ORDERS]
        assert mapping.translate(8) == Translation(4, is_exact=False)
        translator = GroupTranslator(flow, clusters.clients)
        for offset, expected in ((4, 4), (7, 8), (8, 9), (9, 10)):
            found = await translator._read(mapping, ORDERS, COPY, offset, back=False)
            assert found is None if offset == 9 else found == Translation(expected, is_exact=True)
        await service._fill_gaps()
        assert mapping.runs() == [Run(0, 0, 7), Run(7, 8, 3)]
        assert mapping.translate(8) == Translation(9, is_exact=True)

    on_clusters(test, tmp_path)


def test_a_source_that_may_only_be_read_is_an_error_that_says_which_properties_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: object, topics: list[str], __: object) -> None:
        if "heartbeats" in topics:
            raise AuthorizationError("not authorized", code=29, name="TOPIC_AUTHORIZATION_FAILED", retriable=False)

    async def test(clusters: Clusters) -> None:
        monkeypatch.setattr("kafkaraw.mirror.offset_service.create_compacted", refuse)
        with pytest.raises(
            UsageError, match=r"not authorized; or let the mirror only read the source: emit\.heartbeats"
        ):
            async with clusters.mirroring():
                await asyncio.sleep(5)

    on_clusters(test, tmp_path)


def test_a_duty_that_fails_is_done_again_and_the_copy_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        await clusters.commit(clusters.east, {ORDERS: 4})
        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
            async with clusters.west.admin() as admin:
                await admin.delete_topics(["east.checkpoints.internal"])
            await clusters.commit(clusters.east, {ORDERS: 5})
            await asyncio.sleep(5)
            await clusters.fill(1)
            await clusters.copied(run, 11)

    on_clusters(test, tmp_path, "emit.checkpoints.interval.seconds = 1\n")
