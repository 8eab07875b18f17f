"""Commits of one consumer, in the order in which they were asked for, and no later than it has their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from kafkaraw.client.committed import GroupMetadata, OffsetAndMetadata
from kafkaraw.client.config import ConsumerConfig, parse
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.groups.commits import Identity
from kafkaraw.client.groups.progress import Progress
from kafkaraw.client.metrics.group_metrics import GroupMetrics
from kafkaraw.errors import CommitFailed
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual

MINE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """Takes the place of `Commits`: takes its time, and asks who commits when it is ready, as that does."""

    def __init__(self) -> None:
        self.stored: list[tuple[TopicPartition, int]] = []

    async def commit(self, offsets: Mapping, identity: Identity, deadline: Deadline, *_: object) -> None:
        await asyncio.sleep(1)
        identity()
        self.stored += [(partition, at.offset) for partition, at in offsets.items()]


async def settled(deadline: Deadline) -> None:
    pass


def progress_with(coordinator: Coordinator) -> Progress:
    config = parse(ConsumerConfig, {"bootstrap_servers": "b:9092", "group_id": "g"})
    reading, me = SimpleNamespace(interception=None), GroupMetadata("g", 7, "me")
    return Progress(config, coordinator, reading, lambda: me, lambda *_: None, settled, GroupMetrics())  # type: ignore[arg-type]


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def test_what_was_to_be_stored_before_a_partition_was_given_up_is_not_stored_when_it_comes_back() -> None:
    async def test(_: Simulation) -> None:
        coordinator = Coordinator()
        progress = progress_with(coordinator)
        progress.forget([MINE, OTHER])
        ended: list[object] = []
        progress.commit_nowait({OTHER: at(3)}, lambda _, error: ended.append(error), Deadline(30))
        progress.commit_nowait({MINE: at(5)}, lambda _, error: ended.append(error), Deadline(30))
        progress.forget([OTHER])
        progress.forget([MINE, OTHER])  # meanwhile somebody else has read on, and committed
        await progress.commit({MINE: at(9)}, Deadline(30))
        for done, offsets, error in progress.take_ended():
            done(offsets, error)
        assert coordinator.stored == [(OTHER, 3), (MINE, 9)]
        assert ended[0] is None
        assert isinstance(ended[1], CommitFailed)
        assert "t-0" in str(ended[1])

    run_virtual(test, 1)


def test_a_commit_that_waits_fails_when_its_partition_is_given_up() -> None:
    async def test(_: Simulation) -> None:
        progress = progress_with(Coordinator())
        progress.forget([MINE])
        waiting = asyncio.ensure_future(progress.commit({MINE: at(5)}, Deadline(30)))
        await asyncio.sleep(0.5)
        progress.forget([])
        with pytest.raises(CommitFailed):
            await waiting

    run_virtual(test, 1)
