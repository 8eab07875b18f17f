"""Tasks that copy shares of a flow between two Apache Kafka clusters: its transactions fence zombies, too.

Transactions of version 2 (KIP-890) change the producer epoch at each end of a transaction, so a task soon has a newer
epoch than the driver has given it. The rules are those of `tests/mirror/test_shared_flow.py`, with the same tests.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kafkaraw import Admin
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.admin.client import AsyncAdmin
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.mirror.flow import Flow
from kafkaraw.mirror.interfaces import CopiedBatch, Delivery, FlowSettings
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.test_mirror_copies import two_clusters
from tests.mirror import test_shared_flow as rules
from tests.mirror.two_clusters import COPY, TOPIC, PlanOfNames, TwoClusters

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
RUNS = itertools.count()


class ApacheCluster:
    """Clients of a cluster, as `VirtualCluster` has them."""

    runtime = None

    def __init__(self, servers: str) -> None:
        self.bootstrap = servers

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(bootstrap_servers=self.bootstrap)

    def producer(self, **settings: object) -> AsyncProducer:
        return AsyncProducer(bootstrap_servers=self.bootstrap, **settings)

    def consumer(self, **settings: object) -> AsyncConsumer:
        return AsyncConsumer(bootstrap_servers=self.bootstrap, **{"auto_offset_reset": "earliest", **settings})


class ApacheClusters(TwoClusters):
    """Two Apache Kafka clusters, and a flow with a name of its own, thus with its own ids and positions."""

    def __init__(self, source: ApacheKafka, target: ApacheKafka) -> None:
        self.source, self.target = ApacheCluster(source.bootstrap_servers), ApacheCluster(target.bootstrap_servers)
        self.plan = PlanOfNames(self, [TOPIC], {})
        self.copied: list[CopiedBatch] = []
        self._name = f"b{next(RUNS)}"

    def flow(self, delivery: Delivery = Delivery.EXACTLY_ONCE, **settings: object) -> Flow:
        connections = [{"bootstrap_servers": cluster.bootstrap} for cluster in (self.source, self.target)]
        chosen = FlowSettings(
            "a", self._name, *connections, delivery=delivery, **{"refresh_topics_interval_s": 30.0, **settings}
        )
        return Flow(chosen, self.plan, self.copied.extend)


@pytest.fixture(scope="module")
def apache_clusters() -> Iterator[tuple[ApacheKafka, ApacheKafka]]:
    with two_clusters() as clusters:
        yield clusters


async def delete_topics(clusters: TwoClusters) -> None:
    for cluster, topics in ((clusters.source, [TOPIC]), (clusters.target, [COPY, rules.CLAIM.topic])):
        async with cluster.admin() as admin:
            await admin.delete_topics(topics)


@pytest.mark.parametrize(
    "rule",
    [
        rules.test_one_process_and_tasks_continue_each_other_in_any_order_and_number,
        *(
            pytest.param(lambda later=later: rules.test_a_task_of_an_earlier_round_cannot_write(later), id=later)
            for later in ("the next round", "one process", "another driver")
        ),
        rules.test_a_task_that_writes_while_another_process_takes_over_is_fenced,
        rules.test_a_driver_that_was_fenced_starts_no_tasks_and_ends,
        rules.test_partitions_of_a_failed_task_continue_in_the_next_round,
    ],
)
def test_tasks_copy_exactly_once_on_apache_kafka(
    monkeypatch: pytest.MonkeyPatch, apache_clusters: tuple[ApacheKafka, ApacheKafka], rule: Callable[[], None]
) -> None:
    def between(test: Callable[[TwoClusters], Awaitable[None]], partitions: int = 2) -> None:
        async def life() -> None:
            clusters = ApacheClusters(*apache_clusters)
            # A consumer of a copy that does not exist yet would create it, with one partition.
            for cluster, topic in ((clusters.source, TOPIC), (clusters.target, COPY)):
                async with cluster.admin() as admin:
                    await admin.create_topics([NewTopic(topic, partitions)])
            try:
                await test(clusters)
            finally:
                await delete_topics(clusters)

        asyncio.run(life())

    monkeypatch.setattr(rules, "between_clusters", between)
    rule()


def test_one_process_continues_after_two_kills_of_a_driver_of_spark(
    apache_clusters: tuple[ApacheKafka, ApacheKafka], tmp_path: Path
) -> None:
    """A killed driver may leave open transactions of its tasks: the next owner aborts them."""
    pytest.importorskip("pyspark")
    from tests.spark.test_mirror import Clusters, end, mirror_file, running, start

    source, target = (each.bootstrap_servers for each in apache_clusters)
    with Admin(bootstrap_servers=source) as admin:
        admin.create_topics([NewTopic("orders", 3)])
    clusters = Clusters(source, target, mirror_file(tmp_path, source, target))
    folder = tmp_path / "run"
    on_spark = ("--master", "local[2]", "--round-seconds", "2")
    for step, options in enumerate((on_spark, on_spark, ())):
        process = start(clusters, folder, *options)
        code, number = 0, signal.SIGTERM if not options else signal.SIGKILL
        try:
            clusters.fill(range(3000 * step, 3000 * step + 3000))
            clusters.wait_until_equal(running(process, folder))
            if options:
                clusters.fill(range(10**6 + 3000 * step, 10**6 + 3000 * step + 3000))
        finally:
            code = end(process, number)
    assert code == 0, (folder / "mirror.log").read_text()[-4000:]
