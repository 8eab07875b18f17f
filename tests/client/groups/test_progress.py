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
from kafkaraw.core.fetch.subscription_state import SubscriptionState
from kafkaraw.errors import ClosedError, CommitFailedError
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
    reading = SimpleNamespace(interception=None, subscriptions=SubscriptionState(lambda: None))
    me = GroupMetadata("g", 7, "me")
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
        progress.async_commits.run_callbacks()
        assert coordinator.stored == [(OTHER, 3), (MINE, 9)]
        assert ended[0] is None
        assert isinstance(ended[1], CommitFailedError)
        assert "t-0" in str(ended[1])

    run_virtual(test, 1)


def test_a_commit_that_waits_fails_when_its_partition_is_given_up() -> None:
    async def test(_: Simulation) -> None:
        progress = progress_with(Coordinator())
        progress.forget([MINE])
        waiting = asyncio.ensure_future(progress.commit({MINE: at(5)}, Deadline(30)))
        await asyncio.sleep(0.5)
        progress.forget([])
        with pytest.raises(CommitFailedError):
            await waiting

    run_virtual(test, 1)


def test_while_a_commit_is_under_way_all_that_nobody_waits_for_become_one() -> None:
    async def test(_: Simulation) -> None:
        coordinator, told = Coordinator(), []
        progress = progress_with(coordinator)
        progress.forget([MINE, OTHER])
        progress.commit_nowait({MINE: at(0)}, None, Deadline(30))
        await asyncio.sleep(0.5)
        for offset in range(1, 1_000):
            one = {MINE: at(offset), OTHER: at(2 * offset)} if offset < 500 else {MINE: at(offset)}
            progress.commit_nowait(one, lambda offsets, error: told.append((offsets[MINE].offset, error)), Deadline(30))
        assert len(progress.async_commits.tasks) == 2
        await progress.commits_end()
        progress.async_commits.run_callbacks()
        assert coordinator.stored == [(MINE, 0), (OTHER, 998), (MINE, 999)]
        assert told == [(offset, None) for offset in range(1, 1_000)], "each hears, in turn"

    run_virtual(test, 1)


def test_they_keep_their_places_between_commits_that_are_waited_for() -> None:
    async def test(_: Simulation) -> None:
        coordinator = Coordinator()
        progress = progress_with(coordinator)
        progress.commit_nowait({MINE: at(1)}, None, Deadline(30))
        await asyncio.sleep(0.5)
        progress.commit_nowait({MINE: at(2)}, None, Deadline(30))
        waited_for = asyncio.ensure_future(progress.commit({MINE: at(3)}, Deadline(30)))
        await asyncio.sleep(0.1)
        progress.commit_nowait({MINE: at(4)}, None, Deadline(30))
        progress.commit_nowait({MINE: at(5)}, None, Deadline(30))
        await waited_for
        await progress.commits_end()
        assert coordinator.stored == [(MINE, 1), (MINE, 2), (MINE, 3), (MINE, 5)]

    run_virtual(test, 1)


def test_of_merged_commits_only_those_of_revoked_partitions_fail() -> None:
    async def test(_: Simulation) -> None:
        coordinator, told = Coordinator(), {}
        progress = progress_with(coordinator)
        progress.forget([MINE, OTHER])
        progress.commit_nowait({MINE: at(1)}, None, Deadline(30))
        await asyncio.sleep(0.5)
        progress.commit_nowait({MINE: at(2), OTHER: at(2)}, lambda _, error: told.update(both=error), Deadline(30))
        progress.commit_nowait({OTHER: at(3)}, lambda _, error: told.update(other=error), Deadline(30))
        progress.commit_nowait({MINE: at(3)}, lambda _, error: told.update(mine=error), Deadline(30))
        progress.forget([MINE])
        await progress.commits_end()
        progress.async_commits.run_callbacks()
        assert coordinator.stored == [(MINE, 1), (MINE, 3)]
        assert "not all positions were committed for group 'g': t-1 was revoked before that" in str(told["both"])
        assert "nothing was committed for group 'g': t-1 was revoked before that" in str(told["other"])
        assert told["mine"] is None

    run_virtual(test, 1)


def test_one_that_waits_has_the_time_of_the_last_that_went_into_it() -> None:
    async def test(_: Simulation) -> None:
        coordinator = Coordinator()
        progress = progress_with(coordinator)
        progress.commit_nowait({MINE: at(1)}, None, Deadline(30))
        await asyncio.sleep(0.5)
        progress.commit_nowait({MINE: at(2)}, None, Deadline(0.25))
        progress.commit_nowait({MINE: at(3)}, None, Deadline(30))
        await progress.commits_end()
        assert coordinator.stored == [(MINE, 1), (MINE, 3)]

    run_virtual(test, 1)


def test_close_reports_commits_that_came_too_late() -> None:
    async def test(_: Simulation) -> None:
        coordinator, told = Coordinator(), []
        progress = progress_with(coordinator)

        def hear(offsets: Mapping, error: object) -> None:
            told.append((offsets[MINE].offset, type(error)))
            raise ValueError(offsets[MINE].offset)

        progress.commit_nowait({MINE: at(1)}, hear, Deadline(30))
        await asyncio.sleep(0.5)
        progress.commit_nowait({MINE: at(2)}, hear, Deadline(30))
        await progress.close(Deadline(0.75))
        assert repr(progress.async_commits.run_all_callbacks()) == "ValueError(1)"
        assert coordinator.stored == [(MINE, 1)]
        assert told == [(1, type(None)), (2, ClosedError)]

    run_virtual(test, 1)


def test_a_commit_that_never_began_is_reported_too() -> None:
    async def test(_: Simulation) -> None:
        told: list[object] = []
        progress = progress_with(Coordinator())
        progress.commit_nowait({MINE: at(1)}, lambda _, error: told.append(error), Deadline(30))
        await progress.close(Deadline(0))
        progress.async_commits.run_callbacks()
        assert "closed before these offsets were committed" in str(told[0])

    run_virtual(test, 1)
