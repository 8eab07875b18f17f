"""When a flow commits: soon at the end of the source, after the interval under load, later while it catches up."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from kafkaraw.mirror.commit_schedule import CATCH_UP_INTERVALS, COMMIT_PAUSE_S, CommitSchedule
from kafkaraw.mirror.copy_session import CopySession
from kafkaraw.mirror.copying import ExactlyOnce
from kafkaraw.records import Batch, TopicPartition
from tests.mirror.two_clusters import TwoClusters, between_clusters


async def schedule_of(interval_s: float) -> CommitSchedule:
    return CommitSchedule(interval_s)


@pytest.mark.parametrize(
    ("age_s", "is_idle", "after_s"),
    [
        (0.0, False, 0.5),
        (0.7, False, 0.7),
        (3600.0, False, 0.5 * CATCH_UP_INTERVALS),
        (3600.0, True, COMMIT_PAUSE_S),
    ],
)
def test_transaction_is_open_for_the_interval_or_longer_if_its_records_are_older(
    age_s: float, is_idle: bool, after_s: float
) -> None:
    schedule = asyncio.run(schedule_of(0.5))
    schedule.sent(-1.0)
    schedule.committed(0.0, everything=False)
    schedule.sent(0.0)
    assert not schedule.is_due(after_s - 0.01, is_idle=is_idle, age_s=age_s)
    assert schedule.is_due(after_s, is_idle=is_idle, age_s=age_s)
    schedule.committed(after_s, everything=False)
    assert not schedule.is_due(100.0, is_idle=True, age_s=age_s)


def test_first_transaction_of_a_session_is_short_so_that_readers_soon_see_records() -> None:
    schedule = asyncio.run(schedule_of(0.5))
    assert not schedule.is_due(0.0, is_idle=False, age_s=3600.0), "nothing was sent"
    schedule.committed(0.0, everything=True)  # of positions, before the first record
    schedule.sent(1.0)
    assert schedule.is_due(1.0, is_idle=False, age_s=3600.0)


def test_source_that_is_slow_is_not_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit costs the time until everything is acknowledged: none is made because a response takes 10 ms."""
    commits: list[float] = []
    commit, read, calls = ExactlyOnce.commit, CopySession._read, itertools.count()

    async def slow(self: CopySession) -> dict[TopicPartition, Batch]:
        if next(calls) % 2:
            await asyncio.sleep(2 * COMMIT_PAUSE_S)
            return {}
        return await read(self)

    async def counted(self: ExactlyOnce, *arguments: object) -> None:
        commits.append(asyncio.get_running_loop().time())
        await commit(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ExactlyOnce, "commit", counted)
    monkeypatch.setattr(CopySession, "_read", slow)

    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 2_000, partition=0, batch_size=2_000, linger_ms=5)
        async with clusters.mirroring(consumer={"fetch_max_bytes": 3_000, "max_partition_fetch_bytes": 3_000}):
            await clusters.copied_records(2_000)

    between_clusters(test)
    assert 2 <= len(commits) <= 4, "of the positions at the start, and of the transaction"
