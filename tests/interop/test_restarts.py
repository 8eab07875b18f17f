"""Brokers that are restarted while somebody writes: what was acknowledged or committed is there, once and in order.

Our producer writes to Apache Kafka, and confluent-kafka and Java's console consumer read; confluent-kafka and
kafka-python write to our broker, and our consumer reads. A short run with one `kill -9` is part of every test run.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
import pytest

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import RetriableError, TransactionAbortableError
from tests.interop.apache_kafka import SOON_BACK, ApacheKafka, free_ports, why_missing
from tests.interop.java_tools import run_tool

PARTITIONS = 3
PATIENCE_S = 90.0
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

Written = dict[int, list[bytes]]
"""By partition, what must be read there, in this order."""


class Restarting(Protocol):
    """A broker that keeps its address and its data."""

    @property
    def bootstrap_servers(self) -> str: ...

    def restart(self, *, kill: bool) -> None: ...


class OurBroker:
    """Our broker in a process of its own, with data on disk."""

    def __init__(self, data_dir: Path) -> None:
        (port,) = free_ports(1)
        self._broker = EmbeddedBroker(port, data_dir, process=True)
        self._broker.start()
        self.bootstrap_servers = self._broker.bootstrap_servers

    def restart(self, *, kill: bool) -> None:
        (self._broker.kill if kill else self._broker.stop)()
        self._broker.start()

    def close(self) -> None:
        self._broker.stop()


@pytest.fixture(params=[2, 0], ids=["epochs bumped", "first generation"])
def apache(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """Apache Kafka of either generation of transactions, for one test alone."""
    missing = why_missing()
    if missing is not None:
        pytest.skip(missing)
    with ApacheKafka(properties=SOON_BACK, features={"transaction.version": request.param}) as kafka:
        yield kafka


@pytest.fixture
def our_broker(tmp_path: Path) -> Iterator[OurBroker]:
    broker = OurBroker(tmp_path)
    yield broker
    broker.close()


def new_topic(bootstrap_servers: str) -> str:
    name = f"restarts-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS)])
    return name


# -- writers: each writes until it is told to stop, and says what must be read


def write_records(bootstrap_servers: str, topic: str, over: threading.Event) -> Written:
    """Our idempotent producer, with many batches in flight."""
    written: Written = defaultdict(list)
    settings = {"compression_type": "lz4", "batch_size": 2_000, "retry_backoff_ms": 20}
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=1, **settings) as producer:
        tickets = []
        for number in itertools.count():
            value = b"record-%06d" % number
            tickets.append(producer.send(topic, value, partition=number % PARTITIONS))
            written[number % PARTITIONS].append(value)
            if number % 20 == 0 and over.wait(0.01):
                break
        producer.flush(PATIENCE_S)
        assert all(ticket.exception() is None for ticket in tickets)
    return written


def make_transactions(bootstrap_servers: str, topic: str, over: threading.Event) -> Written:
    """Our transactional producer; every fourth transaction is aborted."""
    settings = {"transactional_id": f"id-{topic}", "linger_ms": 1, "retry_backoff_ms": 20}
    with Producer(bootstrap_servers=bootstrap_servers, **settings) as producer:
        until_known("init_transactions", lambda: producer.init_transactions(5))

        def one(number: int, values: Sequence[tuple[int, bytes]]) -> bool:
            until_known("begin_transaction", producer.begin_transaction)
            for partition, value in values:
                producer.send(topic, value, partition=partition)
            try:
                if number % 4 != 3:
                    until_known("commit_transaction", lambda: producer.commit_transaction(5))
                    return True
            except TransactionAbortableError:
                pass
            until_known("abort_transaction", lambda: producer.abort_transaction(5))
            return False

        return transactions(one, over)


def until_known(name: str, call: Callable[[], object]) -> None:
    """Ask again as long as nobody knows the outcome."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
            return
        except RetriableError as error:
            assert time.monotonic() < give_up, f"{name} has not ended in {PATIENCE_S} s: {error}"


def transactions(one: Callable[[int, Sequence[tuple[int, bytes]]], bool], over: threading.Event) -> Written:
    """One transaction after the other; those for which `one` says that they were committed must be read."""
    written: Written = defaultdict(list)
    for number in itertools.count():
        values = [(index % PARTITIONS, b"transaction-%05d-%02d" % (number, index)) for index in range(12)]
        if one(number, values):
            for partition, value in values:
                written[partition].append(value)
        if over.wait(0.005):
            return written
    raise AssertionError("unreachable")


def confluent_transactions(bootstrap_servers: str, topic: str, over: threading.Event) -> Written:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": f"id-{topic}", "linger.ms": 1}
    )
    producer.init_transactions(30)

    def known(call: Callable[[float], object]) -> bool:
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            try:
                call(5)
                return True
            except confluent_kafka.KafkaException as error:
                if error.args[0].txn_requires_abort():
                    return False
                assert error.args[0].retriable(), error
        raise AssertionError(f"{call.__name__} has not ended in {PATIENCE_S} s")

    def one(number: int, values: Sequence[tuple[int, bytes]]) -> bool:
        producer.begin_transaction()
        for partition, value in values:
            producer.produce(topic, value, partition=partition)
        if number % 4 != 3 and known(producer.commit_transaction):
            return True
        assert known(producer.abort_transaction)
        return False

    return transactions(one, over)


def kafka_python_transactions(bootstrap_servers: str, topic: str, over: threading.Event) -> Written:
    """kafka-python, in a process of its own: it leaves sockets open that it could not connect."""
    command = [sys.executable, "-m", "tests.interop.kafka_python_service", bootstrap_servers, topic]
    with tempfile.TemporaryFile("w+") as told:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, stderr=subprocess.DEVNULL) as service:
            over.wait()
            service.communicate(timeout=PATIENCE_S)
        assert service.returncode == 0
        told.seek(0)
        lines = told.read().splitlines()
    written: Written = defaultdict(list)
    for line in lines:
        partition, value = line.split()
        written[int(partition)].append(value.encode())
    return written


# -- readers of committed records: each partition from its beginning


def read_by_confluent(bootstrap_servers: str, topic: str) -> Written:
    settings: dict[str, Any] = {"group.id": "nobody", "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: Written = defaultdict(list)
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"no end of {topic}"
        if message.error():
            ends += 1
        else:
            found[message.partition()].append(message.value())
    consumer.close()
    return found


def read_by_java(bootstrap_servers: str, topic: str) -> Written:
    found: Written = {}
    for partition in range(PARTITIONS):
        where = ("--topic", topic, "--partition", str(partition), "--offset", "earliest")
        how = ("--isolation-level", "read_committed", "--timeout-ms", "4000")
        told = run_tool(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap_servers, *where, *how)
        found[partition] = [line.encode() for line in told.splitlines() if line.startswith(("record", "transaction"))]
    return found


def read_by_us(bootstrap_servers: str, topic: str) -> Written:
    found: Written = defaultdict(list)
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=bootstrap_servers, **settings) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for each, batch in consumer.poll(0.5).items():
                found[each.partition] += [record.value or b"" for record in batch]
    return found


# -- the tests


def write_through(
    broker: Restarting,
    topic: str,
    restarts: Sequence[str],
    *writers: Callable[[str, str, threading.Event], Written],
    up_s: float = 0.5,
) -> Written:
    """Have all write while the broker is restarted, after `up_s` each; what must be read, of all of them."""
    over = threading.Event()
    with ThreadPoolExecutor(len(writers)) as pool:
        try:
            writing = [pool.submit(write, broker.bootstrap_servers, topic, over) for write in writers]
            for how in restarts:
                time.sleep(up_s)  # for others to be at work: this is about what they do meanwhile
                broker.restart(kill=how == "kill")
            time.sleep(up_s)
        finally:
            over.set()
        everything: Written = defaultdict(list)
        for written in [future.result(2 * PATIENCE_S) for future in writing]:
            for partition, values in written.items():
                everything[partition] += values
    return everything


def check(found: Written, written: Written) -> None:
    """Writers do not wait for each other, so each one's order is compared by itself."""
    for partition in range(PARTITIONS):
        for kind in (b"record", b"transaction"):
            ours = [value for value in found[partition] if value.startswith(kind)]
            assert ours == [value for value in written[partition] if value.startswith(kind)], f"in {partition}"


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_what_we_write_while_apache_kafka_is_killed_is_there_once_and_in_order(apache: ApacheKafka) -> None:
    topic = new_topic(apache.bootstrap_servers)
    written = write_through(apache, topic, ["kill"], write_records, make_transactions)
    assert all(len(written[partition]) > 20 for partition in range(PARTITIONS))
    check(read_by_confluent(apache.bootstrap_servers, topic), written)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_what_we_write_while_apache_kafka_is_restarted_again_and_again(apache: ApacheKafka) -> None:
    topic = new_topic(apache.bootstrap_servers)
    # Up for longer than a client waits before it connects again, or luck would decide who gets anything through.
    written = write_through(apache, topic, ["stop", "kill"] * 5, write_records, make_transactions, up_s=3.0)
    check(read_by_confluent(apache.bootstrap_servers, topic), written)
    check(read_by_java(apache.bootstrap_servers, topic), written)
    check(read_by_us(apache.bootstrap_servers, topic), written)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "restarts", [["kill", "stop"], pytest.param(["stop", "kill"] * 10, marks=pytest.mark.soak)], ids=["two", "twenty"]
)
@pytest.mark.parametrize(
    "write",
    [confluent_transactions, pytest.param(kafka_python_transactions, marks=pytest.mark.soak)],
    ids=["confluent", "kafka-python"],
)
def test_what_others_commit_while_our_broker_is_restarted_is_there_once_and_in_order(
    our_broker: OurBroker, write: Callable[[str, str, threading.Event], Written], restarts: list[str]
) -> None:
    topic = new_topic(our_broker.bootstrap_servers)
    written = write_through(our_broker, topic, restarts, write)
    assert all(written[partition] for partition in range(PARTITIONS))
    check(read_by_us(our_broker.bootstrap_servers, topic), written)
