"""`kafkaraw mirror translate`, `failover` and `reverse`, and a copy that was deleted and created again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkaraw import TopicPartition
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import UsageError
from kafkaraw.mirror import translation
from kafkaraw.mirror.checkpoints import Checkpoint
from kafkaraw.mirror.clients import FlowClients, newest
from kafkaraw.mirror.interfaces import FlowSettings
from kafkaraw.mirror.offset_service import OffsetService
from kafkaraw.mirror.reversal import starts_behind_copies
from kafkaraw.mirror.settings import read_mirror_settings
from kafkaraw.mirror.translation import GroupTranslator, How
from tests.mirror.test_offset_service import COPY, ORDERS, Clusters, on_clusters

CHECKPOINTS = "east.checkpoints.internal"
OFTEN = (
    "emit.checkpoints.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n"
    "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n"
)
OTHER_RECORDS = 40
"""More than the copy had: the end of the new copy does not show that it is another one."""


async def create_copy_again(clusters: Clusters) -> None:
    """Delete the copy, and create a topic of its name with other records."""
    async with clusters.west.admin() as admin:
        await admin.delete_topics([COPY.topic])
        await admin.create_topics([NewTopic(COPY.topic, 1)])
    async with clusters.west.producer() as producer:
        for _ in range(OTHER_RECORDS):
            await producer.send(COPY.topic, b"another one", partition=0)


async def mirror_some(clusters: Clusters) -> None:
    """Copy ten records, each in a transaction of its own, and have a checkpoint of a group."""
    await clusters.commit(clusters.east, {ORDERS: 7})
    async with clusters.mirroring() as run:
        for number in range(10):
            await clusters.fill(1)
            await clusters.copied(run, number + 1)
        await clusters.until(lambda: has_checkpoint(clusters, 7))


async def has_checkpoint(clusters: Clusters, offset: int) -> bool:
    return any(each.upstream_offset == offset for each in await checkpoints(clusters))


async def checkpoints(clusters: Clusters) -> list[Checkpoint]:
    records = newest(await clusters.clients.records(CHECKPOINTS, of_source=False))
    return [Checkpoint.of_record(key, value) for key, value in records.items()]


async def plan_of(clusters: Clusters) -> list[tuple[int | None, How]]:
    plan = await GroupTranslator(clusters.settings.flows[0], clusters.clients).plan(["billing"])
    return [(each.translated, each.how) for each in plan.offsets]


def test_no_offset_is_translated_for_a_copy_that_was_created_again_and_is_longer(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await mirror_some(clusters)
        assert await clusters.clients.records("mm2-offset-syncs.west.internal", of_source=True)
        assert await plan_of(clusters) == [(14, How.EXACT)]
        await create_copy_again(clusters)
        assert await plan_of(clusters) == [(None, How.UNKNOWN)]
        await clusters.commit(clusters.west, {TopicPartition(COPY.topic, 0): 3})
        back = GroupTranslator(clusters.settings.flows[0], clusters.clients, back=True)
        assert [each.translated for each in (await back.plan(["billing"])).offsets] == [None]

    on_clusters(test, tmp_path, OFTEN)


def test_no_checkpoint_of_an_earlier_copy_is_used_when_the_source_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(clusters: Clusters) -> None:
        await mirror_some(clusters)
        silence_source(clusters, monkeypatch)
        assert await plan_of(clusters) == [(14, How.CHECKPOINT)]
        await create_copy_again(clusters)
        assert await plan_of(clusters) == [(None, How.UNKNOWN)]

    on_clusters(test, tmp_path, OFTEN)


def test_a_checkpoint_of_an_earlier_copy_is_translated_with_the_mapping_of_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(clusters: Clusters) -> None:
        await mirror_some(clusters)
        before = await checkpoints(clusters)
        async with clusters.west.admin() as admin:
            await admin.delete_topics([COPY.topic])

        async def no_checkpoint(*_: object) -> None: ...

        monkeypatch.setattr(OffsetService, "_checkpoint", no_checkpoint)
        async with clusters.mirroring() as run:  # copies all records in one transaction
            await clusters.fill(1)
            await clusters.copied(run, 11)
        assert await checkpoints(clusters) == before == [Checkpoint("billing", COPY, 7, 14)]
        silence_source(clusters, monkeypatch)
        assert await plan_of(clusters) == [(7, How.CHECKPOINT)]

    on_clusters(test, tmp_path, OFTEN)


def silence_source(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the source not answer the clients of commands."""
    monkeypatch.setattr(translation, "ANSWER_S", 1.0)
    settings = clusters.settings.flows[0].copy
    nowhere = {**settings.source, "bootstrap_servers": "127.0.0.1:1"}
    silent = FlowSettings("east", "west", nowhere, dict(settings.target))
    clusters.clients = FlowClients(silent, source_runtime=clusters.east.runtime, target_runtime=clusters.west.runtime)


def test_checkpoints_and_group_offsets_are_those_of_the_present_copy_if_they_are_lower(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await mirror_some(clusters)
        assert await checkpoints(clusters) == [Checkpoint("billing", COPY, 7, 14)]
        async with clusters.west.admin() as admin:
            await admin.delete_topics([COPY.topic])
        async with clusters.mirroring() as run:
            await clusters.fill(1)
            await clusters.copied(run, 11)
            await clusters.until(lambda: equals(lambda: checkpoints(clusters), [Checkpoint("billing", COPY, 7, 7)]))
            await clusters.until(lambda: equals(lambda: clusters.committed(clusters.west), {COPY: 7}))
        assert await plan_of(clusters) == [(7, How.EXACT)]

    on_clusters(test, tmp_path, OFTEN)


async def equals(ask: Callable[[], Awaitable[object]], expected: object) -> bool:
    return await ask() == expected


def test_a_mapping_that_a_killed_mirror_has_not_written_for_the_present_copy_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(clusters: Clusters) -> None:
        await mirror_some(clusters)
        async with clusters.west.admin() as admin:
            await admin.delete_topics([COPY.topic])

        async def nothing(*_: object) -> None: ...

        with monkeypatch.context() as patches:
            for name in ("_write", "_checkpoint", "_commit"):
                patches.setattr(OffsetService, name, nothing)
            async with clusters.mirroring() as run:  # copies all anew; its mapping is lost
                await clusters.copied(run, 10)
        assert await plan_of(clusters) == [(None, How.UNKNOWN)]
        async with clusters.mirroring() as run:
            await asyncio.sleep(10)  # of virtual time: ten intervals
            assert await clusters.committed(clusters.west) == {}
            await clusters.fill(1)
            await clusters.copied(run, 11)
            await clusters.until(lambda: equals(lambda: clusters.committed(clusters.west), {COPY: 7}))
        assert await plan_of(clusters) == [(7, How.EXACT)]

    on_clusters(test, tmp_path, OFTEN)


def test_no_flow_back_begins_behind_what_was_copied_to_an_earlier_topic(tmp_path: Path) -> None:
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"

    async def test(clusters: Clusters) -> None:
        await clusters.fill(10)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 10)
        path = tmp_path / "back.properties"
        path.write_text(
            f"clusters = east, west\neast.bootstrap.servers = {clusters.east.bootstrap}\n"
            f"west.bootstrap.servers = {clusters.west.bootstrap}\nwest->east.enabled = true\n{policy}"
        )
        flow = read_mirror_settings(path).flows[0]
        clients = FlowClients(flow.copy, source_runtime=clusters.west.runtime, target_runtime=clusters.east.runtime)
        starts = await starts_behind_copies(flow, clients)
        assert [(each.source, each.offset) for each in starts] == [(ORDERS, 10)]
        async with clusters.west.admin() as admin:
            await admin.delete_topics([ORDERS.topic])
            await admin.create_topics([NewTopic(ORDERS.topic, 1)])
        with pytest.raises(UsageError, match=r"topic 'orders' of west was deleted and created again.*exclude it"):
            await starts_behind_copies(flow, clients)

    on_clusters(test, tmp_path, policy)
