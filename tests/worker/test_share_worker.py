"""A worker in a share group with a broker on virtual time: one rule of the service in each test."""

from __future__ import annotations

import asyncio
import json
import logging
from itertools import pairwise

import pytest

from kafkaraw import ConfigResource, ConfigResourceType, ShareRecord
from kafkaraw.errors import ConfigError, HandlerError
from kafkaraw.worker import ProducerRecord, Retries, Worker
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster
from tests.worker.test_worker import send, serving, until

QUICK = {
    "group_share_min_heartbeat_interval_ms": 100,
    "group_share_heartbeat_interval_ms": 200,
    "auto_create_topics_enable": False,
}
GROUP = "billing"


def a_worker(cluster: VirtualCluster, **settings: object) -> Worker:
    given = {"bootstrap_servers": BOOTSTRAP, "group_id": GROUP, "group_type": "share", **settings}
    return Worker(runtime=cluster.runtime, **given)


async def prepare(cluster: VirtualCluster, *topics: str, **configs: str) -> None:
    for topic in topics:
        await cluster.create(topic)
    group = ConfigResource(ConfigResourceType.GROUP, GROUP)
    given = {"share.auto.offset.reset": "earliest"}
    given |= {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
    async with cluster.admin() as admin:
        await admin.alter_configs({group: given})


async def lag(cluster: VirtualCluster) -> int | None:
    async with cluster.admin() as admin:
        (info,) = (await admin.list_share_group_offsets([GROUP]))[GROUP].values()
        return info.lag


def test_processed_records_are_accepted_when_their_results_are_acknowledged() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "invoices")
        await send(cluster, b'{"n": 1}', b'{"n": 2}')
        worker = a_worker(cluster)

        @worker.handle("orders", value_deserializer=json.loads)
        async def bill(record: ShareRecord) -> ProducerRecord:
            assert record.delivery_count == 1
            return ProducerRecord("invoices", b"%d" % (record.value["n"] * 10))

        async with serving(worker):
            invoices = await cluster.read("invoices", 2)
            await until(lambda: worker.metrics()["commits"] == 2)
        assert sorted(each.value for each in invoices) == [b"10", b"20"]
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_failed_record_is_released_after_the_wait_and_the_delivery_count_is_the_attempt() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "orders.dead")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders", retries=Retries(attempts=3, backoff_ms=4_000), dead_letter_topic="orders.dead")
        async def work(record: ShareRecord) -> None:
            calls.append((record.delivery_count, cluster.now))
            raise ConnectionError("down")

        async with serving(worker):
            await until(lambda: len(calls) == 3)
            (letter,) = await cluster.read("orders.dead", 1)
            await until(lambda: worker.metrics()["locked"] == 0)
            status = worker.metrics()
        assert [count for count, _ in calls] == [1, 2, 3]
        waits = [later - at for (_, at), (_, later) in pairwise(calls)]
        assert waits == [pytest.approx(nominal, rel=0.35) for nominal in (4, 8)]
        assert dict(letter.headers)["kafkaraw.attempts"] == b"3"
        assert status["handlers"]["work"]["reactions"] == {"release": 2, "dead letter": 1}
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_slow_handler_keeps_its_record_because_the_lock_is_renewed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", record_lock_duration_ms="15000")
        await send(cluster, b"0")
        worker, other, calls = a_worker(cluster), a_worker(cluster), []

        async def slow(record: ShareRecord) -> None:
            calls.append(record.delivery_count)
            await asyncio.sleep(20)

        for each in (worker, other):
            each.handle("orders")(slow)
        async with serving(worker), serving(other):
            await until(lambda: bool(calls))
            running = worker if worker.metrics()["running"] else other
            await until(lambda: running.metrics()["commits"] == 1, 25)
            assert running.metrics()["renewals"] >= 2
        assert calls == [1]
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_lock_that_cannot_be_renewed_is_announced_and_the_call_under_way_gets_the_next_lock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", record_lock_duration_ms="15000", renew_acknowledge_enable="false")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders")
        async def slow(record: ShareRecord) -> None:
            calls.append(record.delivery_count)
            await asyncio.sleep(20)

        async with serving(worker):
            await until(lambda: bool(calls))
            await asyncio.sleep(13)
            assert "cannot be renewed" in caplog.text
            await until(lambda: worker.metrics()["commits"] == 1)
            await asyncio.sleep(1)
        assert calls == [1]
        assert await lag(cluster) == 0

    with caplog.at_level(logging.WARNING, "kafkaraw.worker"):
        on_cluster(test, **QUICK)


def test_workers_share_a_partition_and_no_record_waits_behind_a_slow_one() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders")
        await send(cluster, *(b"%d" % number for number in range(40)))
        workers, running, most, done = [a_worker(cluster, concurrency=4) for _ in range(2)], 0, 0, []

        async def work(record: ShareRecord) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(8 if record.offset % 20 == 0 else 0.1)
            running -= 1
            done.append(record.offset)

        for worker in workers:
            worker.handle("orders")(work)
        async with serving(workers[0]), serving(workers[1]):
            await until(lambda: len(done) == 38, 7)
            assert {0, 20}.isdisjoint(done)
            await until(lambda: len(done) == 40, 10)
        assert 4 < most <= 8
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_no_more_records_are_locked_than_handlers_are_free() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders")
        await send(cluster, *(b"%d" % number for number in range(30)))
        worker, gate, begun = a_worker(cluster, concurrency=3), asyncio.Event(), 0

        @worker.handle("orders")
        async def work(record: ShareRecord) -> None:
            nonlocal begun
            begun += 1
            await gate.wait()

        async with serving(worker):
            await until(lambda: begun == 3)
            await asyncio.sleep(5)
            assert (worker.metrics()["locked"], worker.metrics()["queued"]) == (3, 0)
            gate.set()
            await until(lambda: worker.metrics()["commits"] == 30)

    on_cluster(test, **QUICK)


def test_a_stopped_worker_releases_what_is_unfinished_for_other_workers() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders")
        await send(cluster, b"slow", b"fails")
        worker, other = a_worker(cluster, drain_timeout_ms=1_000), a_worker(cluster)
        begun: list[tuple[bytes | None, int]] = []
        done: list[tuple[bytes | None, int]] = []

        @worker.handle("orders", retries=Retries(backoff_ms=60_000))
        async def hangs(record: ShareRecord) -> None:
            begun.append((record.value, record.delivery_count))
            if record.value == b"fails":
                raise ConnectionError
            await asyncio.sleep(3_600)

        @other.handle("orders")
        async def works(record: ShareRecord) -> None:
            done.append((record.value, record.delivery_count))

        async with serving(worker) as task:
            await until(lambda: len(begun) == 2)
            at_s = cluster.now
            worker.stop()
            await task
            assert cluster.now - at_s < 3
        async with serving(other):
            await until(lambda: len(done) == 2, 5)
        assert sorted(done) == [(b"fails", 2), (b"slow", 2)]
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_the_last_delivery_is_left_for_the_dead_letter() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "orders.dead", delivery_count_limit="3")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders", retries=Retries(attempts=None, backoff_ms=0), dead_letter_topic="orders.dead")
        async def work(record: ShareRecord) -> None:
            calls.append(record.delivery_count)
            raise ConnectionError("down")

        async with serving(worker):
            (letter,) = await cluster.read("orders.dead", 1)
        assert calls == [1, 2]
        assert dict(letter.headers)["kafkaraw.reason"] == b"handler"
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_record_that_arrives_for_the_last_time_becomes_a_dead_letter_without_a_call() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "orders.dead", delivery_count_limit="2")
        await send(cluster, b"0")
        calls = []

        async def hangs(record: ShareRecord) -> None:
            calls.append(record.delivery_count)
            await asyncio.sleep(3_600)

        for is_last in (False, True):
            worker = a_worker(cluster, drain_timeout_ms=0)
            worker.handle("orders", dead_letter_topic="orders.dead")(hangs)
            async with serving(worker):
                await until(lambda: calls == [1])
                if is_last:
                    (letter,) = await cluster.read("orders.dead", 1)
        assert calls == [1]
        assert dict(letter.headers)["kafkaraw.reason"] == b"deliveries"
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_record_that_no_worker_can_handle_stops_the_worker_and_is_released() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders")
        await send(cluster, b"poison")
        worker = a_worker(cluster)

        @worker.handle("orders", value_deserializer=json.loads)
        async def work(record: ShareRecord) -> None: ...

        with pytest.raises(HandlerError, match="cannot be decoded"):
            await worker.serve()
        assert await lag(cluster) == 1

    on_cluster(test, **QUICK)


def test_records_of_a_session_that_has_ended_are_dropped_and_handled_again() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "invoices")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders")
        async def work(record: ShareRecord) -> ProducerRecord:
            calls.append(record.delivery_count)
            await asyncio.sleep(5)
            return ProducerRecord("invoices", b"%d" % record.delivery_count)

        async with serving(worker):
            await until(lambda: bool(calls))
            cluster.cut()
            invoices = await cluster.read("invoices", 1)
            await until(lambda: worker.metrics()["commits"] == 1)
            assert worker.metrics()["handlers"]["work"]["dropped"] == 1
        assert calls == [1, 2]
        assert [each.value for each in invoices] == [b"2"]
        assert await lag(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_retry_topic_is_read_by_the_same_share_group_at_the_time_of_the_next_call() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await prepare(cluster, "orders", "orders.retry", "orders.dead", record_lock_duration_ms="15000")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []
        retries = Retries(attempts=2, backoff_ms=20_000, topic="orders.retry")

        @worker.handle("orders", retries=retries, dead_letter_topic="orders.dead")
        async def work(record: ShareRecord) -> None:
            calls.append((record.topic, record.offset, cluster.now))
            raise ConnectionError("down")

        async with serving(worker):
            await until(lambda: len(calls) == 2, 60)
            (letter,) = await cluster.read("orders.dead", 1)
        assert [call[:2] for call in calls] == [("orders", 0), ("orders", 0)]
        assert calls[1][2] - calls[0][2] == pytest.approx(20, rel=0.25)
        assert dict(letter.headers)["kafkaraw.attempts"] == b"2"

    on_cluster(test, **QUICK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ordering": "key"}, "does not keep the order"),
        ({"transactional_id": "t"}, "cannot be part of a transaction"),
        ({"auto_offset_reset": "earliest"}, "share.auto.offset.reset"),
        ({"commit_interval_ms": 5}, "with the next request"),
        ({"max_poll_records": 5}, "handlers are free"),
        ({"group_id": None}, "share the records"),
    ],
)
def test_settings_that_a_share_group_does_not_have_are_refused(settings: dict, message: str) -> None:
    given = {"bootstrap_servers": BOOTSTRAP, "group_id": GROUP, "group_type": "share", **settings}
    with pytest.raises(ConfigError, match=message):
        Worker(**given)
