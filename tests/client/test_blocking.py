"""The blocking faces against an embedded broker, with real sockets and threads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import (
    BrokerError,
    BufferFullError,
    ClosedError,
    ConcurrentUseError,
    DeliveryTimeoutError,
    KafkaTimeoutError,
    NetworkError,
    StaleMetadataError,
    UsageError,
)
from kafkaraw.net import client_loop_thread
from kafkaraw.records import TopicPartition

_numbers = count()


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(properties={"auto.create.topics.enable": True}) as running:
        yield running


@pytest.fixture
def admin(broker):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def topic(admin):
    name = f"topic-{next(_numbers)}"
    admin.create_topics([NewTopic(name, 2)])
    return name


@pytest.fixture
def producer(broker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def consumer(broker):
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as opened:
        yield opened


def read(consumer, topic, number):
    """The values of a topic's first records."""
    consumer.assign(consumer.partitions_for(topic))
    values = []
    for record in consumer:
        values.append(record.value)
        if len(values) == number:
            return values
    raise AssertionError(f"only {len(values)} records")


# ---- producer


def test_what_is_sent_is_read(producer, consumer, topic):
    tickets = [producer.send(topic, b"%d" % number, partition=0) for number in range(1000)]
    assert [ticket.result(10).offset for ticket in tickets] == list(range(1000))
    assert read(consumer, topic, 1000) == [b"%d" % number for number in range(1000)]


def test_many_threads_may_send_at_once(broker, consumer, topic):
    with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=500, buffer_memory=3000) as producer:

        def send(thread):
            for number in range(300):
                producer.send(topic, b"%d-%d" % (thread, number), partition=0)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(send, range(8)))
    values = read(consumer, topic, 2400)
    for thread in range(8):
        mine = [value for value in values if value.startswith(b"%d-" % thread)]
        assert mine == [b"%d-%d" % (thread, number) for number in range(300)]


def test_many_threads_may_use_one_admin(broker):
    names = [f"threads-{number}" for number in range(20)]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin, ThreadPoolExecutor(10) as pool:
        assert list(pool.map(lambda name: list(admin.create_topics([name])), names)) == [[name] for name in names]
        listed = list(pool.map(lambda _: {topic.name for topic in admin.list_topics()}, names))
        assert all(set(names) <= found for found in listed)


def test_a_consumer_polled_by_many_threads_gives_each_record_to_one(broker, producer, topic):
    """Calls that overlap are refused; the records that the others return are all there are, once."""
    for number in range(100):
        producer.send(topic, b"%d" % number)
    producer.flush(20)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))

        def read() -> None:
            deadline = time.monotonic() + 30
            while len(values) < 100 and time.monotonic() < deadline:
                with suppress(ConcurrentUseError):
                    values.extend(record.value for batch in consumer.poll(0.2, 5).values() for record in batch)

        values: list[bytes | None] = []
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(values, key=int) == [b"%d" % number for number in range(100)]


def test_threads_are_crossed_per_batch_and_not_per_record(broker, topic, monkeypatch):
    loop = client_loop_thread().loop
    crossings = []
    call_soon_threadsafe = loop.call_soon_threadsafe
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000, request_timeout_ms=999) as producer:
        producer.partitions_for(topic)

        def count_crossings(*arguments, **keywords):
            crossings.append(threading.current_thread())
            return call_soon_threadsafe(*arguments, **keywords)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count_crossings)
        for _ in range(1000):
            producer.send(topic, bytes(10), partition=0)
        monkeypatch.undo()
    assert len(crossings) == 1, "the batch was opened once"


def test_send_blocks_on_buffer_memory_instead_of_failing(broker, consumer, topic):
    with Producer(bootstrap_servers=broker.bootstrap_servers, buffer_memory=500, batch_size=200) as producer:
        for number in range(200):
            producer.send(topic, b"%d" % number * 10, partition=0)
    assert len(read(consumer, topic, 200)) == 200


def test_send_nowait_fails_instead_of_blocking(broker, topic):
    settings = {"buffer_memory": 500, "batch_size": 10_000, "linger_ms": 1000}
    with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
        with pytest.raises(StaleMetadataError):
            producer.send_nowait(topic, b"v")
        assert producer.partitions_for(topic) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        producer.send_nowait(topic, bytes(400), partition=0)
        producer.send_nowait(topic, bytes(400), partition=0)
        with pytest.raises(BufferFullError, match="buffer_memory=500"):
            for _ in range(100):
                producer.send_nowait(topic, bytes(400), partition=0)


def test_sys_exit_in_a_callback_ends_neither_the_clients_nor_what_they_were_doing(broker, topic, caplog):
    """On the clients' own thread it cannot end the process."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=10_000) as producer:
        partitions = producer.partitions_for(topic)
        tickets = [producer.send(topic, b"v", partition=each.partition) for each in partitions * 2]
        for ticket in tickets:
            ticket.add_done_callback(lambda _: sys.exit(3))
        producer.flush()  # in one request
        assert [ticket.result(10).offset for ticket in tickets] == [0, 0, 1, 1]
        again = producer.send(topic, b"v", partition=0)
        producer.flush()
        assert again.result(10).offset == 2
    assert caplog.text.count("SystemExit(3) was raised on the thread 'kafkaraw-client'") == 1


def test_waiting_inside_a_callback_is_refused(broker, topic):
    heard = []
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000) as producer:

        def wait(ticket):
            try:
                producer.flush(5)
            except UsageError as error:
                heard.append(error)

        producer.send(topic, b"v").add_done_callback(wait)  # well before the record leaves
        producer.flush()
    assert len(heard) == 1


def test_a_closed_producer_refuses(producer, topic):
    producer.send(topic, b"v")
    producer.close()
    producer.close()
    for call in (lambda: producer.send(topic, b"v"), producer.flush, lambda: producer.partitions_for(topic)):
        with pytest.raises(ClosedError):
            call()


def test_a_producer_that_was_never_used_closes_without_a_broker():
    producer = Producer(bootstrap_servers="127.0.0.1:1")
    producer.close()
    with pytest.raises(ClosedError):
        producer.send("t", b"v")


def test_a_broker_killed_in_mid_produce_leaves_an_account_of_what_is_missing():
    with EmbeddedBroker(process=True) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)
        assert producer.send("t", b"first").result(10).offset == 0
        os.kill(broker.process_id, signal.SIGKILL)
        tickets = [producer.send("t", b"%d" % number) for number in range(100)]
        with pytest.raises(KafkaTimeoutError, match="no acknowledgement for t-0 within"):
            tickets[-1].result(0.2)
        with pytest.raises(DeliveryTimeoutError, match=r"100 records for t-0 \(numbers 1 to 100 sent there"):
            producer.flush(0.5)
        with pytest.raises(DeliveryTimeoutError) as error:
            producer.close(0.5)
    (entry,) = error.value.unacknowledged
    assert (entry.records_count, entry.first_index, entry.last_index) == (100, 1, 100)
    for ticket in tickets:
        with pytest.raises(DeliveryTimeoutError, match="closed before a broker acknowledged"):
            ticket.result(0)


def test_nobody_at_the_port_is_an_error_at_once():
    with Producer(bootstrap_servers="127.0.0.1:1") as producer, pytest.raises(NetworkError, match=r"127\.0\.0\.1:1\b"):
        producer.send("t", b"v")


# ---- consumer


def test_iterating_can_be_left_and_gone_on_with_at_any_record(producer, consumer, topic):
    for number in range(50):
        producer.send(topic, b"%d" % number, partition=1)
    producer.flush()
    partition = TopicPartition(topic, 1)
    consumer.assign([partition])
    for record in consumer:
        if record.value == b"9":
            break
    assert consumer.position(partition) == 10
    assert next(consumer).value == b"10"
    rest = consumer.poll(5)[partition]
    assert next(iter(rest)).value == b"11"
    consumer.seek(partition, 3)
    assert next(consumer).offset == 3


def test_batches_end_when_nothing_comes_for_a_while(producer, consumer, topic):
    for number in range(10):
        producer.send(topic, b"v", partition=number % 2)
    producer.flush()
    consumer.assign(consumer.partitions_for(topic))
    count = 0
    for batch in consumer.batches(timeout=60):
        count += len(batch.values())
        if count == 10:
            break
    assert list(consumer.batches(timeout=0.1)) == []


def test_records_come_as_arrow_columns(producer, consumer, topic):
    producer.send(topic, b"v", b"k", partition=0).result(10)
    consumer.assign([TopicPartition(topic, 0)])
    table = consumer.poll_arrow(timeout=10, columns=["key", "value"])
    assert table.to_pylist() == [{"key": b"k", "value": b"v"}]


def test_offsets_and_positions(producer, consumer, topic):
    for timestamp_ms in (1000, 2000, 3000):
        producer.send(topic, b"v", partition=0, timestamp_ms=timestamp_ms)
    producer.flush()
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    assert consumer.offsets_for_times({partition: 1500})[partition].offset == 1
    consumer.assign([partition])
    assert consumer.assignment() == [partition]
    consumer.seek_to_end()
    assert consumer.position(partition) == 3
    consumer.seek_to_beginning([partition])
    assert consumer.position(partition) == 0


def test_subscribing_without_a_group_says_what_is_missing(consumer):
    with pytest.raises(UsageError, match="set group_id"):
        consumer.subscribe(["t"])


def test_a_consumer_that_is_closed_by_another_thread_stops_iterating(broker, topic):
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers)
    consumer.assign(consumer.partitions_for(topic))
    closer = threading.Timer(0.2, consumer.close)
    closer.start()
    assert list(consumer) == []
    closer.join()
    with pytest.raises(ClosedError):
        consumer.poll(0)


# ---- admin


def test_topics_are_managed(admin):
    name = f"topic-{next(_numbers)}"
    assert admin.create_topics([NewTopic(name, 3)])[name].partitions == 3
    assert name in {listing.name for listing in admin.list_topics()}
    assert len(admin.describe_topics([name])[name].partitions) == 3
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([name])
    admin.delete_topics([name])
    assert name not in {listing.name for listing in admin.list_topics()}
