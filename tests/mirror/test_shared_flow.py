"""Several processes copy shares of a flow: each record once, whatever changes between rounds; zombies are fenced."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import random
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from kafkaraw.client.admin import NewPartitions, NewTopic
from kafkaraw.client.admin.configs import ConfigResource
from kafkaraw.errors import KafkaError
from kafkaraw.mirror.interfaces import CopiedBatch, CopiedTopic, Delivery
from kafkaraw.mirror.positions import FlowTakenOverError
from kafkaraw.mirror.shared_flow import SharedFlow
from kafkaraw.mirror.shares import Share, ShareProblem, ShareReport, copy_share, merged, topics_of_shares
from kafkaraw.records import TopicPartition
from tests.mirror.two_clusters import COPY, FIRST, FIRST_COPY, TOPIC, TwoClusters, between_clusters, contents

CLAIM = TopicPartition("claims", 0)


class TasksHere:
    """Runs tasks in this process; shares and reports are pickled as on their way to an executor and back.

    Attributes:
        started: the shares of all rounds.
        on_round: called with the shares of a round before they run.
    """

    def __init__(self, clusters: TwoClusters, count: int) -> None:
        self.count = count
        self.started: list[Share] = []
        self.on_round: Callable[[Sequence[Share]], None] = lambda _: None
        self._clusters = clusters

    def tasks_count(self) -> int:
        return self.count

    async def run(self, shares: Sequence[Share]) -> Sequence[ShareReport]:
        self.started += shares
        self.on_round(shares)
        return await asyncio.gather(*map(self.copy, shares))

    async def copy(self, share: Share) -> ShareReport:
        runtimes = {"source_runtime": self._clusters.source.runtime, "target_runtime": self._clusters.target.runtime}
        report = await copy_share(pickle.loads(pickle.dumps(share)), "executor here", **runtimes)
        return pickle.loads(pickle.dumps(report))


def shared_flow(clusters: TwoClusters, runner: TasksHere, **settings: object) -> SharedFlow:
    one = clusters.flow(claim=CLAIM, **settings)
    return SharedFlow(
        one.settings,
        clusters.plan,
        clusters.copied.extend,
        runner,
        round_s=2.0,
        source_runtime=clusters.source.runtime,
        target_runtime=clusters.target.runtime,
    )


@contextlib.asynccontextmanager
async def sharing(clusters: TwoClusters, count: int, **settings: object) -> AsyncIterator[TasksHere]:
    """Run tasks while the block runs; then let them finish their round."""
    runner = TasksHere(clusters, count)
    flow = shared_flow(clusters, runner, **settings)
    task = asyncio.create_task(flow.run(), name="driver")
    try:
        yield runner
    finally:
        flow.stop()
        async with asyncio.timeout(300):
            await task


async def create_claims(clusters: TwoClusters) -> None:
    async with clusters.target.admin() as admin:
        await admin.create_topics([NewTopic(CLAIM.topic, 1)])


async def assert_copied(clusters: TwoClusters) -> None:
    """The copy has each record of the source once, in order, and the reports have each offset once."""
    source = contents(await clusters.all_records(clusters.source, TOPIC))
    assert contents(await clusters.all_records(clusters.target, COPY)) == source
    settled: dict[TopicPartition, int] = {}
    for batch in clusters.copied:
        assert batch.source_offsets.start == settled.get(batch.source, 0)
        settled[batch.source] = batch.source_offsets.stop
    assert sum(batch.records_count for batch in clusters.copied) == sum(map(len, source.values()))


def test_one_process_and_tasks_continue_each_other_in_any_order_and_number() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        written = 0
        for count in (2, 0, 5, 1, 0, 3):
            await clusters.fill(written, 30)
            written += 30
            if count:
                async with sharing(clusters, count) as runner:
                    await clusters.copied_records(written)
                assert {share.settings.worker for share in runner.started} == set(range(1, min(count, 4) + 1))
            else:
                await clusters.copy(written, claim=CLAIM)
        await assert_copied(clusters)

    between_clusters(test, partitions=4)


def test_a_round_finds_new_partitions() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        async with sharing(clusters, 2, refresh_topics_interval_s=1.0) as runner:
            await clusters.fill(0, 10)
            await clusters.copied_records(10)
            async with clusters.source.admin() as admin:
                await admin.create_partitions({TOPIC: NewPartitions(4)})
            await clusters.fill(10, 10, partition=3)
            await clusters.until(lambda: any(3 in (share.topics[0].partitions or ()) for share in runner.started))
            await clusters.copied_records(20)
        await assert_copied(clusters)

    between_clusters(test)


@pytest.mark.parametrize("later", ["the next round", "one process", "another driver"])
def test_a_task_of_an_earlier_round_cannot_write(later: str) -> None:
    """It is delayed before it writes: nothing of it is in the copy, neither records nor positions."""

    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        await clusters.fill(0, 20)
        async with sharing(clusters, 2) as runner:
            await clusters.copied_records(20)
        zombies = runner.started[-2:]
        await clusters.fill(20, 20)
        if later == "one process":
            await clusters.copy(40, claim=CLAIM)
        else:
            async with sharing(clusters, 1 if later == "another driver" else 2):
                await clusters.copied_records(40)
        await clusters.fill(40, 20)
        for zombie in zombies:
            problem = (await runner.copy(zombie)).problem
            assert problem is not None
            assert "a newer producer with the same id took over" in problem.text
            assert f"copying: task {zombie.settings.worker} (orders-{zombie.settings.worker - 1})" in problem.text
            assert "on executor here" in problem.text
        async with sharing(clusters, 2):
            await clusters.copied_records(60)
        await assert_copied(clusters)

    between_clusters(test)


def test_a_task_that_writes_while_another_process_takes_over_is_fenced() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        async with sharing(clusters, 2) as runner:
            await clusters.until(lambda: bool(runner.started))
        late = asyncio.create_task(runner.copy(pickle.loads(pickle.dumps(runner.started[-1]))))
        for first in range(0, 200, 20):
            await clusters.fill(first, 20)
            if first == 100:
                one = clusters.flow(claim=CLAIM)
                running = asyncio.create_task(one.run())
        await clusters.copied_records(200)
        report = await late
        clusters.copied.extend(report.copied)
        one.stop()
        await running
        source = contents(await clusters.all_records(clusters.source, TOPIC))
        assert contents(await clusters.all_records(clusters.target, COPY)) == source

    between_clusters(test)


def test_a_driver_that_was_fenced_starts_no_tasks_and_ends() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        runner = TasksHere(clusters, 2)
        flow = shared_flow(clusters, runner)
        driver = asyncio.create_task(flow.run())
        await clusters.fill(0, 10)
        await clusters.copied_records(10)
        async with sharing(clusters, 3):
            for first in range(10, 60, 10):
                await clusters.fill(first, 10)
                await clusters.copied_records(first + 10)
            with pytest.raises(FlowTakenOverError, match="another process copies this flow"):
                await asyncio.wait_for(driver, 30)
        await clusters.fill(60, 10)
        async with sharing(clusters, 1):
            await clusters.copied_records(70)
        source = contents(await clusters.all_records(clusters.source, TOPIC))
        assert contents(await clusters.all_records(clusters.target, COPY)) == source

    between_clusters(test)


def test_partitions_of_a_failed_task_continue_in_the_next_round() -> None:
    """Its report is lost after it has committed, as with an executor that is killed."""

    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)

        class LosesReports(TasksHere):
            lost = 0

            async def run(self, shares: Sequence[Share]) -> Sequence[ShareReport]:
                reports = list(await super().run(shares))
                if self.lost < 2:
                    self.lost += 1
                    reports[0] = ShareReport(
                        problem=ShareProblem("the executor is lost", is_lasting=False, passes=True)
                    )
                return reports

        runner = LosesReports(clusters, 2)
        flow = shared_flow(clusters, runner)
        driver = asyncio.create_task(flow.run())
        await clusters.fill(0, 40)
        await clusters.copied_records(40)
        await clusters.until(lambda: flow.rounds_count >= 2)
        await clusters.fill(40, 40)
        await clusters.copied_records(80)
        flow.stop()
        await driver
        source = contents(await clusters.all_records(clusters.source, TOPIC))
        assert contents(await clusters.all_records(clusters.target, COPY)) == source

    between_clusters(test)


def test_a_refused_partition_is_left_out_and_the_others_continue() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        async with sharing(clusters, 1, refresh_topics_interval_s=1.0) as runner:
            await clusters.fill(0, 10)
            await clusters.until(lambda: bool(runner.started))
            await clusters.copied_records(10)
            async with clusters.source.producer() as producer:
                await producer.send(TOPIC, random.Random(1).randbytes(1000), partition=0)
            await clusters.until(lambda: any(share.part.refusals for share in runner.started))
            await clusters.fill(10, 10, partition=1)
            await clusters.copied_records(20)
            [refusal] = runner.started[-1].part.refusals
            assert (refusal.source, refusal.kind) == (FIRST, "MESSAGE_TOO_LARGE")
            assert "task 1 (orders-0, orders-1) on executor here" in refusal.text
            async with clusters.target.admin() as admin:
                await admin.alter_configs({ConfigResource.topic(COPY): {"max.message.bytes": "9000"}})
            clusters.plan.configs = {"max.message.bytes": "9000"}
            await clusters.copied_records(21)
        source = contents(await clusters.all_records(clusters.source, TOPIC))
        assert contents(await clusters.all_records(clusters.target, COPY)) == source

    between_clusters(test, target_config={"max.message.bytes": "300"})


def test_a_failure_that_does_not_pass_ends_the_driver_and_names_the_task() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        await clusters.fill(0, 10)
        async with sharing(clusters, 2):
            await clusters.copied_records(10)
        await clusters.fill(10, 10)
        async with clusters.source.admin() as admin:
            await admin.delete_records({FIRST: 8})
        with pytest.raises(
            KafkaError, match=r"copying: task 1 \(orders-0\) on executor here: orders-0: the source has"
        ):
            async with sharing(clusters, 2):
                await asyncio.sleep(10)

    between_clusters(test)


def test_at_least_once_tasks_write_records_without_transactions_and_are_fenced_by_another_driver() -> None:
    async def test(clusters: TwoClusters) -> None:
        await create_claims(clusters)
        await clusters.fill(0, 20)
        runner = TasksHere(clusters, 2)
        flow = shared_flow(clusters, runner, delivery=Delivery.AT_LEAST_ONCE)
        driver = asyncio.create_task(flow.run())
        await clusters.copied_records(20)
        copies = await clusters.batches(clusters.target, COPY)
        assert not any(header.is_transactional for batch in copies for header, _ in batch.wires)
        async with sharing(clusters, 2, delivery=Delivery.AT_LEAST_ONCE):
            with pytest.raises(FlowTakenOverError):
                await asyncio.wait_for(driver, 30)

    between_clusters(test)


# -- values


def test_partitions_are_divided_evenly() -> None:
    topics = [CopiedTopic("a", "x.a", {}), CopiedTopic("b", "x.b", {})]
    partitions = {name: [TopicPartition(name, number) for number in range(3)] for name in "ab"}
    shares = topics_of_shares(topics, partitions, 4)
    found = [[(topic.source, sorted(topic.partitions or ())) for topic in share] for share in shares]
    assert found == [[("a", [0]), ("b", [1])], [("a", [1]), ("b", [2])], [("a", [2])], [("b", [0])]]
    assert len(topics_of_shares(topics, partitions, 100)) == 6
    assert topics_of_shares(topics, {}, 4) == []


def test_batches_that_continue_each_other_are_reported_as_one() -> None:
    def batch(source: range, target: int) -> CopiedBatch:
        return CopiedBatch(FIRST, FIRST_COPY, source, (source,), target)

    other = CopiedBatch(TopicPartition(TOPIC, 1), TopicPartition(COPY, 1), range(5), (range(5),), 0)
    after_marker = CopiedBatch(FIRST, FIRST_COPY, range(20, 31), (range(21, 31),), 20)
    settled = CopiedBatch(FIRST, FIRST_COPY, range(31, 32), (), 30)
    found = merged(
        [batch(range(10), 0), other, batch(range(10, 20), 10), after_marker, settled, batch(range(32, 40), 31)]
    )
    joined = CopiedBatch(FIRST, FIRST_COPY, range(31), (range(20), range(21, 31)), 0)
    assert found == [joined, other, settled, batch(range(32, 40), 31)]
