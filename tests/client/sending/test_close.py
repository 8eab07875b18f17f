"""What `close` promises: every record that was taken is delivered or reported, whoever calls it, when and how often."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.sending.producer_core import ProducerCore
from kafkaraw.errors import ClosedError, DeliveryTimeoutError, KafkaError, UsageError
from kafkaraw.net.loop_thread import client_loop_thread
from tests.client.virtual_cluster import VirtualCluster, on_cluster


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("exit", 3, 1)])
        yield running


@pytest.fixture(autouse=True)
def no_faults(broker):
    yield
    broker.faults.clear()


def end_of(broker: EmbeddedBroker, topic: str) -> int:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        partition = TopicPartition(topic, 0)
        return consumer.end_offsets([partition])[partition]


def exits(_: object) -> None:
    sys.exit(3)


# ---- while another call closes


def test_a_second_close_waits_for_the_first_one():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        producer = cluster.producer()
        await (await producer.send("t", b"1"))
        held = cluster.node.faults.on("Produce").hold()
        ticket = await producer.send("t", b"2")
        first = asyncio.create_task(producer.close())
        await asyncio.sleep(0.1)
        second = asyncio.create_task(producer.close())
        with pytest.raises(DeliveryTimeoutError, match="1 record for t-0"):
            await producer.close(timeout=0.5)
        assert not second.done()
        held.release()
        await second
        assert ticket.done
        await first

    on_cluster(test)


def test_each_call_of_close_is_told_of_the_records_that_were_given_up():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        producer = cluster.producer()
        await (await producer.send("t", b"1"))
        cluster.node.faults.on("Produce", times=None).swallow()
        await producer.send("t", b"2")
        outcomes = await asyncio.gather(*(producer.close(timeout=1) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [DeliveryTimeoutError] * 3
        await producer.close()

    on_cluster(test)


def test_a_close_that_is_cancelled_leaves_its_report_and_nothing_else_to_the_next_one():
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        for turns in range(40):
            producer = cluster.producer()
            ticket = await producer.send("t", b"1")
            before = asyncio.all_tasks()
            close = asyncio.create_task(producer.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            close.cancel()
            await asyncio.gather(close, return_exceptions=True)
            try:
                await producer.close()
            except KafkaError:
                assert ticket.batch_promise.error is not None
            else:
                assert ticket.done
                assert ticket.exception() is None
            assert not asyncio.all_tasks() - before

    on_cluster(test)


# ---- refused, or never begun


def test_a_close_that_is_refused_in_a_callback_leaves_the_producer_open(broker):
    refusals: list[UsageError] = []
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:

        def close(_: object) -> None:
            try:
                producer.close()
            except UsageError as error:
                refusals.append(error)

        producer.send("refused", b"1").add_done_callback(close)
        producer.flush()
        producer.send("refused", b"2").result()
        assert len(refusals) == 1


AT_EXIT = """
import sys
import kafkaraw
producers = [kafkaraw.Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000) for _ in range(3)]
for producer in producers:
    first = producer.send(sys.argv[2], b"first")
    if sys.argv[3] == "close in a callback":
        first.add_done_callback(lambda _, producer=producer: producer.close())
        producer.flush()
        producer.send(sys.argv[2], b"second")
    else:
        producer.flush()
        producer.send(sys.argv[2], b"second").add_done_callback(lambda _: sys.exit(3))
"""


@pytest.mark.parametrize("how", ["close in a callback", "exit in a callback"])
def test_at_exit_every_producer_that_is_open_delivers(broker, how):
    topic = how.replace(" ", "-")
    command = [sys.executable, "-c", AT_EXIT, broker.bootstrap_servers, topic, how]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert end_of(broker, topic) == 6


def test_a_first_send_that_meets_close_leaves_nothing_behind(broker, monkeypatch):
    """The thread that closes sees that nothing has begun, and then the other thread begins."""
    producer = Producer(bootstrap_servers=broker.bootstrap_servers)
    sent: list[BaseException] = []

    def send() -> None:
        try:
            producer.send("t", b"v")
        except KafkaError as error:
            sent.append(error)

    real = ProducerCore.close_unused

    def close_unused(self: ProducerCore) -> None:
        thread = threading.Thread(target=send)
        thread.start()
        while not self.begun:
            pass
        real(self)
        self.begun_first = thread

    monkeypatch.setattr(ProducerCore, "close_unused", close_unused)
    producer.close()
    producer._core.begun_first.join(10)
    assert isinstance(sent[0], ClosedError)
    assert producer._core.is_closed


# ---- callbacks that end the process


def test_close_settles_every_ticket_when_a_callback_calls_sys_exit(broker):
    producer = Producer(bootstrap_servers=broker.bootstrap_servers)
    producer.partitions_for("exit")
    broker.faults.on("Produce", times=None).swallow()
    tickets = [producer.send("exit", b"v", partition=number) for number in range(3)]
    for ticket in tickets:
        ticket.batch_promise.add_callback(exits)
    with pytest.raises(DeliveryTimeoutError):
        producer.close(0.3)
    assert len({ticket.batch_promise for ticket in tickets}) == 3
    assert all(ticket.done for ticket in tickets)


@pytest.mark.parametrize("idempotent", [True, False])
def test_answers_that_come_in_one_read_behind_a_callback_that_calls_sys_exit_are_looked_at(broker, idempotent):
    topic = f"frames-{idempotent}"
    settings = {"request_timeout_ms": 5_000, "linger_ms": 0, "enable_idempotence": idempotent}
    with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"0").result()
        held = broker.faults.on("Produce").hold()
        tickets = []
        for value in (b"1", b"2"):
            tickets.append(producer.send(topic, value))
            while producer.metrics()["producer"]["requests_in_flight"] < len(tickets):
                pass
        tickets[0].add_done_callback(exits)
        stopped, goes_on = threading.Event(), threading.Event()
        client_loop_thread().call_soon(lambda: (stopped.set(), goes_on.wait(0.5)))  # both answers are there by then
        stopped.wait(10)
        held.release()
        assert tickets[1].result(3).offset == 2
    assert end_of(broker, topic) == 3


# ---- what a callback finds


def test_a_callback_finds_the_memory_of_its_batch_free(broker):
    settings = {"buffer_memory": 20_000, "max_request_size": 20_000, "batch_size": 30_000}
    taken = []
    with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        producer.partitions_for("memory")
        producer.send("memory", bytes(15_000))
        ticket = producer.send("memory", bytes(6_000))
        ticket.add_done_callback(lambda _: taken.append(producer.send_nowait("memory", b"y")))
        producer.flush()
    assert [ticket.exception() for ticket in taken] == [None]


def test_an_interceptor_is_closed_once():
    class Interceptor:
        closed = 0

        def on_send(self, record):
            return record

        def close(self):
            self.closed += 1

    interceptor = Interceptor()
    producer = Producer(bootstrap_servers="localhost:1", interceptors=[interceptor])
    producer.close()
    producer.close()
    assert interceptor.closed == 1
    gc.collect()


# ---- when the loop thread ends by a fault


LOOP_DIES = """
import os, sys, time
import kafkaraw
from kafkaraw.errors import ClosedError, DeliveryError
from kafkaraw.net.loop_thread import client_loop_thread

def raised_by(call, *arguments):
    try:
        return call(*arguments)
    except kafkaraw.KafkaError as error:
        return type(error).__name__

producer = kafkaraw.Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
producer.partitions_for("t")
ticket = producer.send("t", b"1")
selector = client_loop_thread()._running.descriptors()[0]
os.dup2(os.open(os.devnull, os.O_RDONLY), selector)  # its number stays taken: the old loop closes it once more
client_loop_thread().call_soon(lambda: None)
print(raised_by(ticket.result, 30), raised_by(producer.send, "t", b"2"))
if sys.argv[2] == "flush":
    print(raised_by(producer.flush), raised_by(producer.close), raised_by(producer.close))
else:
    print(raised_by(producer.close), raised_by(producer.close))
print(len(kafkaraw.Admin(bootstrap_servers=sys.argv[1]).list_topics()) > 0)
"""


@pytest.mark.parametrize("call", ["flush", "close"])
def test_when_the_loop_thread_ends_by_a_fault_every_record_has_an_outcome(broker, call):
    command = [sys.executable, "-c", LOOP_DIES, broker.bootstrap_servers, call]
    run = subprocess.run(command, check=True, capture_output=True, timeout=90, text=True)
    first, second, third = run.stdout.splitlines()
    assert first == "DeliveryError ClosedError"
    # the ticket was looked at: there is nothing left to report
    assert second == ("ClosedError None None" if call == "flush" else "None None")
    assert third == "True"
