"""A worker with a broker on virtual time: one rule of the service in each test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from kafkaraw.client.committed import GroupMetadata
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    HandlerError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import OffsetCommitRequest
from kafkaraw.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkaraw.records import Record, TopicPartition
from kafkaraw.worker import ProducerRecord, Retries, Worker
from kafkaraw.worker.schedule import CommitPlan, Schedule
from kafkaraw.worker.sending import TransactionalSender
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

QUICK = {"group_initial_rebalance_delay_ms": 0, "auto_create_topics_enable": False}


def a_worker(cluster: VirtualCluster, **settings: object) -> Worker:
    given = {"commit_interval_ms": 100, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **settings}
    return Worker(bootstrap_servers=BOOTSTRAP, group_id="billing", runtime=cluster.runtime, **given)


async def send(cluster: VirtualCluster, *values: bytes, topic: str = "orders", key: bytes | None = None) -> None:
    async with cluster.producer() as producer:
        for value in values:
            await (await producer.send(topic, value, key))


@asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(worker.serve())
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait([task])
        task.exception()


async def until(is_true: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(0.01)


async def committed(cluster: VirtualCluster, partition: int = 0, topic: str = "orders") -> int | None:
    async with cluster.consumer(group_id="billing") as consumer:
        tp = TopicPartition(topic, partition)
        at = (await consumer.committed([tp]))[tp]
        return None if at is None else at.offset


def test_records_are_handled_results_sent_and_offsets_committed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "invoices"):
            await cluster.create(topic)
        await send(cluster, b'{"n": 1}', b'{"n": 2}', key=b"ada")
        worker = a_worker(cluster)

        @worker.handle("orders", value_deserializer=json.loads)
        async def bill(record: Record) -> ProducerRecord:
            return ProducerRecord("invoices", b"%d" % (record.value["n"] * 10), key=record.key)

        async with serving(worker):
            invoices = await cluster.read("invoices", 2)
        assert [(each.key, each.value) for each in invoices] == [(b"ada", b"10"), (b"ada", b"20")]
        assert await committed(cluster) == 2

    on_cluster(test, **QUICK)


@pytest.mark.parametrize("transactional_id", [None, "billing-1"])
def test_commits_carry_the_leader_epoch_of_the_record_before_the_offset(transactional_id: str | None) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1")
        worker, gate, seen = a_worker(cluster, transactional_id=transactional_id), asyncio.Event(), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 1:
                await gate.wait()

        async with serving(worker):
            await until(lambda: len(seen) == 2)
            await until(lambda: worker.metrics()["commits"] > 0)
            gate.set()
        kind = OffsetCommitRequest if transactional_id is None else TxnOffsetCommitRequest
        sent = [part for request in cluster.requests() if isinstance(request, kind) for part in parts_of(request)]
        assert [(part.committed_offset, part.committed_leader_epoch) for part in sent] == [(1, 0), (2, 0)]

    on_cluster(test, **QUICK)


def test_a_stop_before_the_worker_has_begun_is_kept() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker, seen = a_worker(cluster), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            seen.append(record.value)

        serving = asyncio.create_task(worker.serve())
        worker.stop()
        async with asyncio.timeout(60):
            await serving
            assert seen == []
            again = asyncio.create_task(worker.serve())
            await until(lambda: seen == [b"0"])
            worker.stop()
            await again

    on_cluster(test, **QUICK)


def parts_of(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> list:
    return [part for topic in request.topics for part in topic.partitions]


def test_handlers_of_different_keys_run_at_the_same_time_up_to_the_concurrency() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        async with cluster.producer() as producer:
            for number in range(12):
                await producer.send("orders", b"%d" % number, b"key-%d" % (number % 6))
        worker, running, most, ended = a_worker(cluster, concurrency=4), set(), 0, []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            nonlocal most
            assert record.key not in running, "two records of a key at a time"
            running.add(record.key)
            most = max(most, len(running))
            await asyncio.sleep(1 + record.offset % 3)
            running.discard(record.key)
            ended.append((record.key, record.offset))

        async with serving(worker):
            await until(lambda: len(ended) == 12)
        assert most == 4
        assert all(
            [offset for key, offset in ended if key == each] == sorted(offset for key, offset in ended if key == each)
            for each in {key for key, _ in ended}
        )
        assert await committed(cluster) == 12

    on_cluster(test, **QUICK)


def test_a_handler_may_take_longer_than_max_poll_interval_ms_and_stays_a_member() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"1")
        worker, calls = a_worker(cluster, max_poll_interval_ms=3_000, session_timeout_ms=6_000), []

        @worker.handle("orders")
        async def slow(record: Record) -> None:
            calls.append(record.offset)
            await asyncio.sleep(20)

        async with serving(worker):
            await until(lambda: bool(calls))
            await asyncio.sleep(21)
        assert calls == [0]
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


def test_a_partition_with_too_many_unfinished_records_is_paused_and_resumed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, *(b"%d" % number for number in range(60)))
        worker = a_worker(cluster, queued_records_max=10, max_poll_records=5, concurrency=1, ordering="partition")
        gate, seen, most = asyncio.Event(), [], 0

        @worker.handle("orders")
        async def work(record: Record) -> None:
            nonlocal most
            await gate.wait()
            seen.append(record.offset)
            most = max(most, worker.metrics()["queued"])

        async with serving(worker):
            await asyncio.sleep(3)
            status = worker.metrics()
            assert (status["paused"], status["queued"], status["running"]) == (1, 9, 1)
            gate.set()
            await until(lambda: len(seen) == 60)
        assert seen == list(range(60))
        assert most <= 15

    on_cluster(test, **QUICK)


def test_retries_in_place_keep_the_order_of_the_key_and_wait_longer_each_time() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1", key=b"ada")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders", retries=Retries(attempts=4, backoff_ms=1_000, backoff_max_ms=10_000))
        async def work(record: Record) -> None:
            calls.append((record.offset, cluster.now))
            if record.offset == 0 and len(calls) < 4:
                raise ConnectionError

        async with serving(worker):
            await until(lambda: len(calls) == 5)
            await asyncio.sleep(1)
        assert [offset for offset, _ in calls] == [0, 0, 0, 0, 1]
        waits = [later - at for (_, at), (_, later) in pairwise(calls[:4])]
        assert waits == [pytest.approx(nominal, rel=0.25) for nominal in (1, 2, 4)]
        assert await committed(cluster) == 2

    on_cluster(test, **QUICK)


def test_a_record_in_the_retry_topic_is_overtaken_and_called_again_at_its_time() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "orders.retry", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"0", b"1", key=b"ada")
        worker, calls = a_worker(cluster), []
        retries = Retries(attempts=2, backoff_ms=5_000, topic="orders.retry")

        @worker.handle("orders", retries=retries, dead_letter_topic="orders.dead")
        async def work(record: Record) -> None:
            calls.append((record.topic, record.offset, record.value, record.headers, cluster.now))
            if record.offset == 0:
                raise ConnectionError("down")

        async with serving(worker):
            await until(lambda: len(calls) == 3)
            [letter] = await cluster.read("orders.dead", 1)
            await asyncio.sleep(1)
        assert [call[:4] for call in calls] == [
            ("orders", 0, b"0", []),
            ("orders", 1, b"1", []),
            ("orders", 0, b"0", []),
        ]
        assert 4 <= calls[2][4] - calls[0][4] <= 6.2
        assert (letter.key, letter.value) == (b"ada", b"0")
        headers = dict(letter.headers)
        assert headers["kafkaraw.error"] == b"ConnectionError: down"
        assert headers["kafkaraw.attempts"] == b"2"
        assert (headers["kafkaraw.topic"], headers["kafkaraw.offset"]) == (b"orders", b"0")
        assert (await committed(cluster), await committed(cluster, topic="orders.retry")) == (2, 1)

    on_cluster(test, **QUICK)


def test_a_poison_record_becomes_a_dead_letter_without_a_call() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"no JSON", b"1")
        worker, seen = a_worker(cluster), []

        @worker.handle("orders", value_deserializer=json.loads, dead_letter_topic="orders.dead")
        async def work(record: Record) -> None:
            seen.append(record.value)

        async with serving(worker):
            [letter] = await cluster.read("orders.dead", 1)
            await until(lambda: seen == [1])
        assert letter.value == b"no JSON"
        assert dict(letter.headers)["kafkaraw.reason"] == b"decode"
        assert await committed(cluster) == 2

    on_cluster(test, **QUICK)


def test_without_a_dead_letter_topic_the_worker_stops_and_does_not_commit_the_record() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1", b"2")
        worker = a_worker(cluster)

        @worker.handle("orders", retries=Retries(attempts=1))
        async def work(record: Record) -> None:
            if record.value == b"1":
                raise ValueError("never")

        with pytest.raises(HandlerError, match="orders-0 at offset 1 cannot be handled by handler 'work'") as raised:
            await worker.serve()
        assert (raised.value.offset, type(raised.value.__cause__)) == (1, ValueError)
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


@pytest.mark.parametrize(
    ("dead_letter_topic", "retry_topic", "named"),
    [
        ("orders.dead", None, "dead_letter_topic='orders.dead'"),
        (None, "orders.retry", r"Retries\(topic='orders.retry'\)"),
    ],
)
def test_a_topic_to_write_to_that_does_not_exist_is_reported_at_the_start(
    dead_letter_topic: str | None, retry_topic: str | None, named: str
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        worker = a_worker(cluster)
        worker.handle("orders", dead_letter_topic=dead_letter_topic, retries=Retries(topic=retry_topic))(print)
        with pytest.raises(ConfigError, match=f"{named}: the topic does not exist"):
            await worker.serve()

    on_cluster(test, **QUICK)


def test_a_result_that_is_too_large_or_no_record_becomes_a_dead_letter() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"large", b"text", b"tuple")
        worker = a_worker(cluster, max_request_size=10_000)

        @worker.handle("orders", dead_letter_topic="orders.dead")
        async def work(record: Record) -> object:
            return {
                b"large": ProducerRecord("invoices", b"x" * 20_000),
                b"text": "invoices",
                b"tuple": [("invoices", b"1")],
            }[record.value]

        async with serving(worker):
            letters = await cluster.read("orders.dead", 3)
        assert {dict(each.headers)["kafkaraw.reason"] for each in letters} == {b"result"}
        assert await committed(cluster) == 3

    on_cluster(test, **(QUICK | {"auto_create_topics_enable": True}))


def test_an_async_generator_yields_its_results_and_one_that_is_only_returned_makes_a_dead_letter() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "payments", "invoices", "dead"):
            await cluster.create(topic)
        await send(cluster, b"0")
        await send(cluster, b"1", topic="payments")
        worker = a_worker(cluster)

        @worker.handle("orders")
        async def items(record: Record) -> AsyncIterator[ProducerRecord]:
            for number in range(3):
                yield ProducerRecord("invoices", b"%d" % number)

        @worker.handle("payments", dead_letter_topic="dead")
        async def returned(record: Record) -> object:
            return items(record)

        async with serving(worker):
            assert [each.value for each in await cluster.read("invoices", 3)] == [b"0", b"1", b"2"]
            [letter] = await cluster.read("dead", 1)
        assert b"'async_generator'; write `async def` with `yield`" in dict(letter.headers)["kafkaraw.error"]

    on_cluster(test, **QUICK)


def test_a_worker_whose_polls_do_not_return_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        worker = a_worker(cluster)
        worker.handle("orders")(print)
        async with serving(worker):
            await asyncio.sleep(0)
            assert worker.metrics()["problems"] == ["no broker has answered yet"]
            await until(lambda: worker.metrics()["healthy"])
            running, gate = worker._running, asyncio.Event()
            assert running is not None

            poll = running.service.consumer.poll

            async def late(*arguments: object) -> object:
                await gate.wait()
                return await poll(*arguments)

            monkeypatch.setattr(running.service.consumer, "poll", late)
            await asyncio.sleep(62)
            [problem] = worker.metrics()["problems"]
            assert problem.startswith("the last poll ended 6"), problem
            gate.set()
            await until(lambda: worker.metrics()["healthy"], 1)

    on_cluster(test, **QUICK)


def test_a_worker_that_drains_because_of_an_error_is_not_healthy() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1")
        worker, other_began = a_worker(cluster), asyncio.Event()

        @worker.handle("orders", retries=Retries(attempts=1))
        async def work(record: Record) -> None:
            if record.offset == 0:
                await other_began.wait()
                raise ValueError("no")
            other_began.set()
            await asyncio.sleep(5)

        async with serving(worker):
            await asyncio.sleep(0)
            await until(lambda: worker.metrics()["stopping"])
            [problem] = worker.metrics()["problems"]
            assert problem.startswith("the worker stops: HandlerError"), problem

    on_cluster(test, **QUICK)


def test_a_second_cancellation_closes_both_clients_before_it_is_raised() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker, began = a_worker(cluster), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            began.append(record.offset)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(0.5)
                raise

        task = asyncio.create_task(worker.serve())
        await until(lambda: bool(began))
        assert worker._running is not None
        service = worker._running.service
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for client in (service.consumer.poll, service.producer.flush):
            with pytest.raises(ClosedError):
                await client()

    on_cluster(test, **QUICK)


def test_an_aborted_transaction_does_not_stop_the_worker() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "invoices"):
            await cluster.create(topic)
        await send(cluster, b"0")
        cluster.node.faults.on(api="TxnOffsetCommit", times=1).answer(ErrorCode.ILLEGAL_GENERATION)
        worker = a_worker(cluster, transactional_id="billing-1", linger_ms=50)

        @worker.handle("orders")
        async def work(record: Record) -> ProducerRecord:
            return ProducerRecord("invoices", record.value)

        async with serving(worker) as task:
            await asyncio.sleep(0)
            await until(lambda: worker.metrics()["commits"] > 0)
            assert not task.done()
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


def test_a_dead_letter_that_the_broker_refuses_stops_the_worker() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await cluster.create("orders.dead", max_message_bytes="200")
        await send(cluster, b"x" * 500)
        worker = a_worker(cluster)

        @worker.handle("orders", dead_letter_topic="orders.dead", retries=Retries(attempts=1))
        async def work(record: Record) -> None:
            raise ValueError

        with pytest.raises(HandlerError) as raised:
            await worker.serve()
        assert isinstance(raised.value.__cause__, BrokerError)
        assert raised.value.__cause__.code == ErrorCode.MESSAGE_TOO_LARGE
        assert await committed(cluster) == 0

    on_cluster(test, **QUICK)


def test_nothing_is_committed_before_a_dead_letter_is_acknowledged() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"0")
        worker = a_worker(cluster, delivery_timeout_ms=2_000, request_timeout_ms=500)
        failed = asyncio.Event()

        @worker.handle("orders", dead_letter_topic="orders.dead", retries=Retries(attempts=1))
        async def work(record: Record) -> None:
            cluster.node.faults.on(api="Produce", times=None).close()
            failed.set()
            raise ValueError

        async with serving(worker):
            await failed.wait()
            await asyncio.sleep(10)
            assert await committed(cluster) == 0
            assert "results, copies or dead letters are not acknowledged" in worker.metrics()["problems"]
            cluster.node.faults.clear()
            await cluster.read("orders.dead", 1)
            await asyncio.sleep(1)
            assert worker.metrics()["healthy"]
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


def test_an_async_handler_that_exceeds_its_timeout_is_cancelled_and_called_again() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker, calls = a_worker(cluster), []

        @worker.handle("orders", timeout_ms=1_000, retries=Retries(backoff_ms=0))
        async def work(record: Record) -> None:
            calls.append(cluster.now)
            if len(calls) == 1:
                await asyncio.sleep(60)

        async with serving(worker):
            await until(lambda: len(calls) == 2)
            await asyncio.sleep(0.5)
        assert calls[1] - calls[0] == pytest.approx(1, abs=0.01)
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


@pytest.mark.parametrize("error", [TimeoutError("the handler's own"), asyncio.CancelledError()])
def test_a_timeout_or_cancellation_that_the_handler_raises_is_a_failure_of_the_handler(error: BaseException) -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"0")
        worker = a_worker(cluster)

        @worker.handle("orders", timeout_ms=1_000, dead_letter_topic="orders.dead", retries=Retries(attempts=1))
        async def work(record: Record) -> None:
            raise error

        async with serving(worker):
            [letter] = await cluster.read("orders.dead", 1)
        assert dict(letter.headers)["kafkaraw.reason"] == b"handler"

    on_cluster(test, **QUICK)


def test_a_handler_that_raises_system_exit_stops_the_worker_without_a_commit() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker = a_worker(cluster)

        @worker.handle("orders")
        async def work(record: Record) -> None:
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            await worker.serve()
        assert await committed(cluster) == 0

    on_cluster(test, **QUICK)


def test_stop_lets_records_in_work_finish_and_starts_no_others() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1", key=b"ada")
        worker, events = a_worker(cluster), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            events.append(f"began {record.offset}")
            await asyncio.sleep(10)
            events.append(f"ended {record.offset}")

        async with serving(worker) as task:
            await until(lambda: bool(events))
            worker.stop()
            await task
        assert events == ["began 0", "ended 0"]
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


def test_a_handler_that_exceeds_the_drain_timeout_is_cancelled_and_its_record_not_committed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker, events = a_worker(cluster, drain_timeout_ms=2_000), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            events.append("began")
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                events.append("cancelled")
                raise

        async with serving(worker) as task:
            await until(lambda: bool(events))
            began_s = cluster.now
            worker.stop()
            await task
            assert cluster.now - began_s < 4
        assert events == ["began", "cancelled"]
        assert await committed(cluster) == 0

    on_cluster(test, **QUICK)


def test_a_cancelled_serve_commits_what_is_done_and_leaves_the_group() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0", b"1", key=b"ada")
        worker, began = a_worker(cluster, commit_interval_ms=60_000), []

        @worker.handle("orders")
        async def work(record: Record) -> None:
            began.append(record.offset)
            await asyncio.sleep(100 * record.offset)

        task = asyncio.create_task(worker.serve())
        await until(lambda: began == [0, 1])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)


def test_a_revoked_partition_is_committed_after_its_records_have_finished() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders", partitions=2)
        async with cluster.producer() as producer:
            for partition in (0, 1):
                await producer.send("orders", b"%d" % partition, partition=partition)
        handled: list[tuple[str, int]] = []

        def service(name: str) -> Worker:
            worker = a_worker(cluster, commit_interval_ms=60_000)

            @worker.handle("orders")
            async def work(record: Record) -> None:
                handled.append((name, record.partition))
                await asyncio.sleep(8)

            return worker

        async with serving(service("first")):
            await until(lambda: len(handled) == 2)
            async with serving(service("second")):
                await asyncio.sleep(20)
                assert {await committed(cluster, 0), await committed(cluster, 1)} == {1}
        assert sorted(handled) == [("first", 0), ("first", 1)]

    on_cluster(test, **QUICK)


def test_results_of_a_lost_partition_are_neither_sent_nor_committed() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "invoices"):
            await cluster.create(topic)
        await send(cluster, b"0")
        worker, events = a_worker(cluster, session_timeout_ms=6_000, heartbeat_interval_ms=500), []

        @worker.handle("orders")
        async def work(record: Record) -> ProducerRecord:
            events.append("began")
            try:
                await asyncio.sleep(20 if len(events) == 1 else 0)
            except asyncio.CancelledError:
                events.append("cancelled")
                raise
            return ProducerRecord("invoices", b"%d" % len(events))

        async with serving(worker):
            await until(lambda: bool(events))
            cluster.silence()
            await asyncio.sleep(8)
            cluster.silence(False)
            invoices = await cluster.read("invoices", 1)
        assert events == ["began", "cancelled", "began"]
        assert [each.value for each in invoices] == [b"3"]
        assert await committed(cluster) == 1

    on_cluster(test, group_min_session_timeout_ms=1_000, **QUICK)


def test_results_and_offsets_are_committed_in_one_transaction_in_the_order_of_offsets() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "invoices"):
            await cluster.create(topic)
        await send(cluster, b"0", b"1", b"2")
        worker = a_worker(cluster, transactional_id="billing-1")

        @worker.handle("orders")
        async def work(record: Record) -> list[ProducerRecord]:
            await asyncio.sleep(2 - record.offset)
            return [ProducerRecord("invoices", record.value), ProducerRecord("invoices", record.value + b"'")]

        async with serving(worker), cluster.consumer(isolation_level="read_committed") as consumer:
            consumer.assign([TopicPartition("invoices", 0)])
            values: list[bytes | None] = []
            while len(values) < 6:
                values += [each.value for batch in (await consumer.poll(1)).values() for each in batch]
        assert values == [b"0", b"0'", b"1", b"1'", b"2", b"2'"]
        assert await committed(cluster) == 3
        assert not [each for each in cluster.requests() if isinstance(each, OffsetCommitRequest)]

    on_cluster(test, **QUICK)


def test_a_transaction_that_fails_is_begun_again_with_growing_waits_and_at_once_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await cluster.create("invoices")
        cluster.node.faults.on("Produce", topic="invoices", times=None).answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        impatient = {"request_timeout_ms": 200, "delivery_timeout_ms": 500, "fetch_max_wait_ms": 5_000}
        worker = a_worker(cluster, transactional_id="billing-1", **impatient)

        @worker.handle("orders")
        async def work(record: Record) -> ProducerRecord:
            return ProducerRecord("invoices", record.value)

        waits: list[float] = []
        commit, ended_s = TransactionalSender.commit, cluster.now

        async def noted(sender: TransactionalSender, plan: CommitPlan, member: GroupMetadata) -> None:
            nonlocal ended_s
            waits.append(cluster.now - ended_s)
            try:
                await commit(sender, plan, member)
            finally:
                ended_s = cluster.now

        monkeypatch.setattr(TransactionalSender, "commit", noted)
        async with serving(worker):
            await send(cluster, b"0")
            await asyncio.sleep(60)
            while_it_fails = waits[1:]
            assert all(0.75 < wait / 0.2 / 2**number < 1.25 for number, wait in enumerate(while_it_fails[:5]))
            assert all(7.9 < wait < 10.1 for wait in while_it_fails[7:]) and 8 < len(while_it_fails) < 12
            cluster.node.faults.clear()
            await asyncio.sleep(12)
            assert worker.metrics()["commits"] == 1
            await send(cluster, b"1")
            await until(lambda: worker.metrics()["commits"] == 2, 1)  # the next one waits for the interval only

    on_cluster(test, **QUICK)


def test_a_result_that_a_transaction_cannot_send_becomes_a_dead_letter_in_the_next_one() -> None:
    async def test(cluster: VirtualCluster) -> None:
        for topic in ("orders", "invoices", "orders.dead"):
            await cluster.create(topic)
        await send(cluster, b"0", b"1")
        worker = a_worker(cluster, transactional_id="billing-1", max_request_size=10_000)

        @worker.handle("orders", dead_letter_topic="orders.dead")
        async def work(record: Record) -> ProducerRecord:
            return ProducerRecord("invoices", b"x" * 20_000 if record.value == b"0" else record.value)

        async with serving(worker):
            [letter] = await cluster.read("orders.dead", 1)
            await until(lambda: worker.metrics()["commits"] > 0)
        assert dict(letter.headers)["kafkaraw.reason"] == b"result"
        assert await committed(cluster) == 2

    on_cluster(test, **QUICK)


def test_a_worker_without_handlers_or_that_runs_already_is_refused() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        worker = a_worker(cluster)
        with pytest.raises(UsageError, match="no handler"):
            await worker.serve()
        with pytest.raises(UsageError, match="does not run"):
            worker.metrics()
        worker.handle("orders")(print)
        with pytest.raises(ConfigError, match="'orders' has a handler already: 'print'"):
            worker.handle("orders")(repr)
        with pytest.raises(ConfigError, match="another handler has the name 'print'"):
            worker.handle("more orders")(print)
        with pytest.raises(ConfigError, match="is the topic that is handled"):
            worker.handle("payments", dead_letter_topic="payments")(repr)
        async with serving(worker):
            await asyncio.sleep(0.1)
            with pytest.raises(UsageError, match="runs already"):
                await worker.serve()
            with pytest.raises(UsageError, match="add handlers before"):
                worker.handle("payments")(repr)

    on_cluster(test, **QUICK)


def test_a_worker_whose_commits_fail_unexpectedly_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("orders")
        await send(cluster, b"0")
        worker = a_worker(cluster)

        @worker.handle("orders")
        async def work(record: Record) -> None:
            pass

        plan, failures = Schedule.commit_plan, [RuntimeError("no plan")]

        def damaged(schedule: Schedule, *wanted: Callable[[TopicPartition], bool]) -> CommitPlan:
            if failures:
                raise failures.pop()
            return plan(schedule, *wanted)

        monkeypatch.setattr(Schedule, "commit_plan", damaged)
        with pytest.raises(RuntimeError, match="no plan"):
            await worker.serve()
        assert await committed(cluster) == 1

    on_cluster(test, **QUICK)
