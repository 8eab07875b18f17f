"""Positions that the target has deleted are found again from the offset mapping and the records of both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.mirror.mapping import Mark
from kafkaraw.mirror.positions import PositionMissingError
from kafkaraw.mirror.recovery import end_of_copy
from tests.mirror.test_offset_service import MAPPING, ORDERS, Clusters, on_clusters

GROUP = "kafkaraw-mirror.east->west"


@pytest.mark.parametrize("mapping_is_behind", [False, True])
def test_a_mirror_whose_positions_have_expired_continues_without_loss_or_repetition(
    tmp_path: Path, mapping_is_behind: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(30)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 30)
        before = await clusters.clients.records(MAPPING, of_source=False)
        await clusters.fill(20)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 50)
        if mapping_is_behind:  # as after a kill: the last records were copied, and the mapping was not written
            async with clusters.west.producer() as producer:
                for key, value in before:
                    await producer.send(MAPPING, value, key, partition=0)
        async with clusters.west.admin() as admin:
            await admin.delete_groups([GROUP])
        await clusters.fill(10)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 60)
        values = [record.value for record in await clusters.west.read("east.orders", 60)]
        assert values == [b"%d" % number for count in (30, 20, 10) for number in range(count)]

    on_clusters(test, tmp_path)
    assert "orders-0 has expired" in caplog.text
    assert "up to offset 49" in caplog.text


def test_nothing_is_restored_if_the_source_has_other_records(tmp_path: Path) -> None:
    async def test(clusters: Clusters) -> None:
        await clusters.fill(30)
        async with clusters.mirroring() as run:
            await clusters.copied(run, 30)
        async with clusters.east.admin() as admin:
            await admin.delete_topics([ORDERS.topic])
        await clusters.east.create(ORDERS.topic)
        await clusters.fill(40)
        async with clusters.west.admin() as admin:
            await admin.delete_groups([GROUP])
        with pytest.raises(PositionMissingError):
            async with clusters.mirroring() as run:
                await clusters.copied(run, 60)

    on_clusters(test, tmp_path)


def test_the_copy_must_be_the_beginning_of_what_the_source_has() -> None:
    source = [Mark(offset, letter) for offset, letter in ((7, "a"), (8, "b"), (11, "c"))]
    assert end_of_copy(source, [Mark(3, "a"), Mark(5, "b")]) == 9
    assert end_of_copy(source, [Mark(3, "a"), Mark(5, "x")]) is None
    assert end_of_copy(source, []) is None
    assert end_of_copy(source[:1], [Mark(3, "a"), Mark(5, "b")]) is None
