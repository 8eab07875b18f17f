"""What `flush` and `close` report: a call that returns without an error has told of every record that it waited for.

The producer writes its state before it notifies waiters, so the order of waking, callbacks and threads makes no
difference.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.sending.waiting import REMEMBERED_MAX, PromiseWaiter, UnreportedFailures
from kafkaraw.core.producer.events import Unacknowledged
from kafkaraw.errors import BrokerError, DeliveryError, DeliveryTimeoutError, KafkaError, TransactionAbortableError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchPromise
from tests.client.virtual_cluster import VirtualCluster, on_cluster
from tests.interrupting import interrupted_elsewhere

REFUSED = b"x" * 400


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("small", 1, 1, configs={"max.message.bytes": "300"}), NewTopic("t", 2, 1)])
        yield running


@pytest.fixture
def producer(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as opened:
        opened.partitions_for("small")
        yield opened


# ---- on threads


def test_a_blocking_flush_raises_when_the_last_batch_under_way_fails(producer):
    for _ in range(50):
        producer.send("small", REFUSED)
        with pytest.raises(DeliveryError, match="1 record for small-0"):
            producer.flush()
        producer.flush()


def test_a_blocking_flush_raises_when_the_delivery_timeout_of_the_last_batch_passes(broker):
    settings = {"delivery_timeout_ms": 300, "request_timeout_ms": 250, "linger_ms": 0}
    with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        producer.send("t", b"v").result()
        held = broker.faults.on("Produce").hold()
        producer.send("t", b"v", partition=0)
        with pytest.raises(DeliveryTimeoutError):
            producer.flush()
        held.release()


def test_each_thread_in_flush_is_told_of_the_batch_that_all_of_them_wait_for(broker, producer):
    held = broker.faults.on("Produce").hold()
    producer.send("small", REFUSED)
    outcomes: list[str] = []

    def flush() -> None:
        try:
            producer.flush()
        except DeliveryError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=flush) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(producer._core.sender.flushes.calls) < len(threads):
        time.sleep(0.001)
    held.release()
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == len(threads)
    assert all("1 record for small-0" in outcome for outcome in outcomes)
    producer.flush()


def test_an_interrupted_flush_leaves_the_failure_to_the_next_one(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"first").result()
        held = broker.faults.on("Produce").hold()
        ticket = producer.send("small", REFUSED)
        with interrupted_elsewhere():
            producer.flush()
        held.release()
        ticket.batch_promise.waiter.wait(ticket.batch_promise, 10)
        with pytest.raises(DeliveryError):
            producer.flush()
        producer.flush()


# ---- what the sender knows already


def send_five(broker, producer):
    """Five records of one batch, which the broker refuses."""
    broker.faults.on("Produce").answer(ErrorCode.INVALID_TIMESTAMP)
    return [producer.send("t", b"%d" % number, partition=0) for number in range(5)]


def test_a_callback_of_one_record_does_not_hide_the_failure_of_the_others(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=1_000) as producer:
        producer.partitions_for("t")
        for look_at in (1, 4):
            heard = []
            tickets = send_five(broker, producer)
            for ticket in tickets[:look_at]:
                ticket.add_done_callback(heard.append)
            with pytest.raises(DeliveryError, match="5 records for t-0"):
                producer.flush()
            assert heard == tickets[:look_at]


def raise_outcome(ticket, look):
    if look == "result":
        ticket.result()
    raise ticket.exception()


@pytest.mark.parametrize("look", ["callback", "exception", "result"])
def test_a_batch_all_of_whose_records_were_looked_at_is_not_reported_again(broker, look):
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=100) as producer:
        producer.partitions_for("t")
        tickets = send_five(broker, producer)
        for ticket in tickets:
            if look == "callback":
                ticket.add_done_callback(lambda _: None)
            else:
                ticket.batch_promise.waiter.wait(ticket.batch_promise, 10)
                with pytest.raises(BrokerError):
                    raise ticket.exception() if look == "exception" else ticket.result()
        producer.flush()


# ---- callbacks that end the process, and log handlers that fail


def test_sys_exit_in_the_callback_of_a_refused_record_does_not_hide_the_failure(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        ticket = producer.send("small", REFUSED)
        ticket.batch_promise.add_callback(lambda _: sys.exit(3))
        with pytest.raises(DeliveryError):
            producer.flush()


def test_sys_exit_in_the_callback_of_a_refused_record_does_not_let_its_transaction_commit(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"good")
        producer.send("small", REFUSED).add_done_callback(lambda _: sys.exit(3))
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
        producer.abort_transaction()


class _Failing(logging.Handler):
    """Fails for the messages of some loggers."""

    def __init__(self, *names: str) -> None:
        super().__init__(logging.INFO)
        self.names = names

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(self.names):
            raise ValueError("a handler's bug")


@pytest.mark.parametrize("loggers", [("kafkaraw.core.producer",), ("kafkaraw.core.producer", "kafkaraw.client")])
def test_a_producer_that_breaks_reports_every_record(broker, loggers):
    log, handler = logging.getLogger("kafkaraw"), _Failing(*loggers)
    before = log.level
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=500) as producer:
        producer.partitions_for("small")
        tickets = [producer.send("small", bytes(200)) for _ in range(3)]  # too large together: the batch is split
        tickets[0].batch_promise.add_callback(lambda _: sys.exit(3))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            with pytest.raises(DeliveryError, match="3 records for small-0"):
                producer.flush(5)
        finally:
            log.removeHandler(handler)
            log.setLevel(before)
        assert all(ticket.done for ticket in tickets)
        with pytest.raises(KafkaError, match="the producer stopped working"):
            producer.send("small", b"v")


# ---- on virtual time


def test_a_flush_that_is_cancelled_at_any_turn_of_the_loop_leaves_the_failure_to_the_next_one():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("small", max_message_bytes="300")
        for turns in range(60):
            async with cluster.producer() as producer:
                await producer.partitions_for("small")
                await producer.send("small", REFUSED)
                flush = asyncio.create_task(producer.flush())
                for _ in range(turns):
                    await asyncio.sleep(0.0001)
                flush.cancel()
                (first,) = await asyncio.gather(flush, return_exceptions=True)
                if not isinstance(first, DeliveryError):
                    assert isinstance(first, asyncio.CancelledError)
                    with pytest.raises(DeliveryError):
                        await producer.flush()

    on_cluster(test)


def test_a_flush_leaves_failures_of_later_records_to_the_flush_that_waits_for_them():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await cluster.create("small", max_message_bytes="300")
        async with cluster.producer(request_timeout_ms=1_000) as producer:
            await (await producer.send("t", b"1"))
            cluster.silence()
            await producer.send("t", b"2")
            first = asyncio.create_task(producer.flush())
            await asyncio.sleep(0.1)
            await producer.partitions_for("t")
            cluster.silence(False)
            await producer.send("small", REFUSED)
            second = asyncio.create_task(producer.flush())
            assert (await asyncio.gather(first, return_exceptions=True))[0] is None
            with pytest.raises(DeliveryError):
                await second

    on_cluster(test)


def test_close_reports_what_no_flush_has_reported():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("small", max_message_bytes="300")
        producer = cluster.producer()
        ticket = await producer.send("small", REFUSED)
        await asyncio.sleep(1)
        assert ticket.done
        with pytest.raises(DeliveryError):
            await producer.close()

    on_cluster(test)


def test_a_flush_without_a_wait_leaves_no_future_pending_in_the_traceback_of_its_error():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("small", max_message_bytes="300")
        async with cluster.producer() as producer:
            await producer.send("small", REFUSED)
            await asyncio.sleep(1)
            loop = cluster.simulation.loop
            before = loop.left_over()
            with pytest.raises(DeliveryError) as raised:
                await producer.flush()
            assert loop.left_over() == before
            assert raised.tb is not None

    on_cluster(test)


def test_very_many_unreported_failures_are_bounded():
    waiter, failures = PromiseWaiter(), UnreportedFailures()
    for number in range(5 * REMEMBERED_MAX):
        failures.add(BatchPromise("t", number, waiter), Unacknowledged("t", number, 1, 0, 0, maybe_written=False))
    kept = [promise.partition for promise in failures.now()]
    assert REMEMBERED_MAX <= len(kept) <= 2 * REMEMBERED_MAX
    assert kept[-1] == 5 * REMEMBERED_MAX - 1
