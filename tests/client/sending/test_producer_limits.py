"""The settings that bound a producer in time and memory, each by the rule that it stands for, on virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest

from kafkaraw import Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import (
    BufferFullError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicError,
)
from kafkaraw.records import TopicPartition
from tests.client.virtual_cluster import VirtualCluster, on_cluster


async def warm(producer) -> None:
    """Have everything known that is asked for once: the topic, the producer id, the connection."""
    await (await producer.send("t", b"first"))


# ---- max_block_ms


def test_max_block_ms_bounds_the_wait_for_metadata_if_no_broker_responds():
    async def test(cluster: VirtualCluster) -> float:
        producer = cluster.producer(max_block_ms=700, request_timeout_ms=200)
        cluster.silence()
        began = cluster.now
        with pytest.raises(KafkaError):
            await producer.send("t", b"v")
        waited = cluster.now - began
        await producer.close(0)
        return waited

    assert 0.69 < on_cluster(test) < 0.75


def test_max_block_ms_zero_waits_for_nothing():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(max_block_ms=0, buffer_memory=300) as producer:
            began = cluster.now
            with pytest.raises(KafkaError):
                await producer.send("t", b"v")
            assert cluster.now - began < 0.01

    on_cluster(test)


# ---- linger_ms and batch_size


def test_linger_is_a_deadline_and_never_a_rate_limit():
    """A partition that fills fifty batches within one linger_ms has all of them written within it."""

    async def test(cluster: VirtualCluster) -> float:
        async with cluster.producer(linger_ms=10_000, batch_size=200, request_timeout_ms=5000) as producer:
            await producer.partitions_for("t")
            began = cluster.now
            tickets = [await producer.send("t", bytes(150)) for _ in range(50)]
            await asyncio.gather(*tickets[:-1])
            return cluster.now - began

    assert on_cluster(test) < 1


def test_a_record_larger_than_batch_size_gets_a_batch_of_its_own():
    async def test(cluster: VirtualCluster) -> list[int]:
        async with cluster.producer(batch_size=300, linger_ms=20) as producer:
            for size in (10, 10, 5000, 10):
                await producer.send("t", bytes(size))
        return [header.records_count for header in cluster.batch_headers()]

    assert on_cluster(test) == [2, 1, 1]


def test_no_batch_is_larger_than_batch_size():
    async def test(cluster: VirtualCluster) -> list[int]:
        async with cluster.producer(batch_size=1000, linger_ms=20) as producer:
            for _ in range(200):
                await producer.send("t", bytes(97))
        return [header.size for header in cluster.batch_headers()]

    sizes = on_cluster(test)
    assert max(sizes) <= 1000 and min(sizes[:-1]) > 800


def test_requests_hold_batches_up_to_max_request_size():
    async def test(cluster: VirtualCluster) -> list[int]:
        await cluster.create("t", 8)
        async with cluster.producer(max_request_size=1000, linger_ms=20) as producer:
            for partition in range(8):
                await producer.send("t", bytes(230), partition=partition)
        return [sum(len(t.partition_data) for t in request.topic_data) for _, request in cluster.produce_requests()]

    assert on_cluster(test) == [3, 3, 2]


# ---- request_timeout_ms, retries, delivery_timeout_ms


def test_a_request_without_an_answer_is_sent_again_after_request_timeout_ms():
    async def test(cluster: VirtualCluster) -> list[float]:
        async with cluster.producer(request_timeout_ms=800, retry_backoff_ms=100, linger_ms=0) as producer:
            await warm(producer)
            cluster.silence()
            began = cluster.now
            ticket = await producer.send("t", b"v")
            await asyncio.sleep(0.85)
            cluster.silence(False)
            assert (await ticket).offset == 1
            return [round(at_s - began, 2) for at_s, _ in cluster.produce_requests()[1:]]

    first, second, *more = on_cluster(test)
    assert first < 0.01 and 0.8 < second < 1.0 and not more


def test_without_retries_the_first_failure_counts():
    async def test(cluster: VirtualCluster) -> int:
        settings = {"retries": 0, "enable_idempotence": False, "request_timeout_ms": 500}
        async with cluster.producer(**settings) as producer:
            await warm(producer)
            cluster.silence()
            ticket = await producer.send("t", b"v")
            with pytest.raises(KafkaError, match="did not answer"):
                await ticket
            cluster.silence(False)
            return len(cluster.produce_requests())

    assert on_cluster(test) == 2


def test_delivery_timeout_ms_counts_from_send_across_retries():
    async def test(cluster: VirtualCluster) -> list[float]:
        settings = {"delivery_timeout_ms": 3000, "request_timeout_ms": 500, "linger_ms": 200}
        producer = cluster.producer(**settings)
        await warm(producer)
        await cluster.kill()
        waited = []
        for _ in range(3):
            began = cluster.now
            ticket = await producer.send("t", b"v")
            with pytest.raises(DeliveryTimeoutError, match="delivery_timeout_ms=3000"):
                await ticket
            waited.append(cluster.now - began)
        await producer.close(0)
        return waited

    assert all(2.99 <= seconds < 3.21 for seconds in on_cluster(test))


def test_an_expired_batch_in_flight_loses_and_repeats_nothing_that_follows():
    """Its numbers may be a gap: what follows is written once, in order, under whatever epoch it takes."""

    async def test(cluster: VirtualCluster) -> list[bytes | None]:
        settings = {"delivery_timeout_ms": 1000, "request_timeout_ms": 900, "linger_ms": 0}
        async with cluster.producer(**settings) as producer:
            await warm(producer)
            cluster.silence()
            lost = await producer.send("t", b"lost")
            await asyncio.sleep(1.1)
            cluster.cut()
            cluster.silence(False)
            with pytest.raises(DeliveryTimeoutError, match="possibly written"):
                await lost
            tickets = [await producer.send("t", b"%d" % number) for number in range(20)]
            offsets = [(await ticket).offset for ticket in tickets]
        values = [record.value for record in await cluster.read("t", max(offsets) + 1)]
        assert [values[offset] for offset in offsets] == [b"%d" % number for number in range(20)]
        return [value for value in values if value != b"lost"]

    assert on_cluster(test) == [b"first", *(b"%d" % number for number in range(20))]


# ---- buffer_memory


def test_memory_stays_bounded_with_a_dead_broker_and_a_caller_that_never_stops():
    memory, record = 20_000, 500

    async def test(cluster: VirtualCluster) -> tuple[int, int, int]:
        settings = {"buffer_memory": memory, "batch_size": 2000, "max_block_ms": 50, "delivery_timeout_ms": 2000}
        async with cluster.producer() as patient:
            await warm(patient)  # the topic is created behind the first answer, which takes longer than 50 ms to retry
        producer = cluster.producer(**settings, request_timeout_ms=500)
        await warm(producer)
        await cluster.kill()
        most = refused = taken = 0
        while cluster.now < 30:
            try:
                await producer.send("t", bytes(record))
                taken += 1
            except KafkaTimeoutError:
                refused += 1
            most = max(most, producer._core.accumulator.open_batches.used_bytes)
        with pytest.raises(DeliveryError):
            await producer.close(0)
        return most, refused, taken

    most, refused, taken = on_cluster(test)
    assert memory - 2000 < most < memory + record + 100, "one record may go over it"
    assert refused > 100 and taken > 5 * memory // record, "expired records make room for new ones"


def test_with_acks_0_a_record_takes_memory_until_its_bytes_have_left():
    """On a real socket, with a broker that stops reading; it takes what fits the operating system's buffers."""
    buffer_memory, value = 4 << 20, bytes(10_000)
    with EmbeddedBroker() as broker:
        producer = Producer(
            bootstrap_servers=broker.bootstrap_servers, acks=0, buffer_memory=buffer_memory, max_block_ms=300
        )
        producer.send("t", b"first").result()
        held = broker.faults.on("Produce").hold()
        count = 1
        with pytest.raises(KafkaTimeoutError, match="stayed full for max_block_ms=300"):
            while count * len(value) < 100 << 20:
                producer.send("t", value, partition=0)
                count += 1
        assert producer._core.accumulator.open_batches.used_bytes >= buffer_memory
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", value, partition=0)
        held.release()
        producer.close()
        assert producer._core.accumulator.open_batches.used_bytes == 0
        with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            partition = TopicPartition("t", 0)
            while consumer.end_offsets([partition])[partition] < count:
                time.sleep(0.01)


def test_with_acks_0_a_connection_that_stops_reading_is_closed_and_records_are_retried():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(acks=0, request_timeout_ms=2000, batch_size=100_000) as producer:
            await warm(producer)
            cluster.silence()
            tickets = [await producer.send("t", b"%d" % number + bytes(90_000)) for number in range(10)]
            await asyncio.sleep(1)
            assert 0 < sum(ticket.done for ticket in tickets) < 10
            assert producer._core.accumulator.open_batches.used_bytes > 0
            await asyncio.sleep(2)
            cluster.silence(False)
            await asyncio.gather(*tickets)
            assert producer._core.accumulator.open_batches.used_bytes == 0
        missing = {b"%d" % number for number in range(10)}
        async with cluster.consumer() as consumer:
            consumer.assign(await consumer.partitions_for("t"))
            while missing:  # records that are sent again after a lost connection may be there twice
                batches = await consumer.poll(10)
                assert batches, f"{missing} are lost"
                missing -= {record.value.rstrip(b"\0") for batch in batches.values() for record in batch}

    on_cluster(test)


def test_send_nowait_never_waits_for_buffer_memory():
    async def test(cluster: VirtualCluster) -> None:
        producer = cluster.producer(buffer_memory=1000, batch_size=200)
        await warm(producer)
        await cluster.kill()
        began = cluster.now
        with pytest.raises(BufferFullError, match="buffer_memory=1000"):
            for _ in range(100):
                producer.send_nowait("t", bytes(100))
        assert cluster.now == began
        with pytest.raises(DeliveryError):
            await producer.close(0)

    on_cluster(test)


# ---- flush and close, as Java's


def test_flush_does_not_wait_for_linger_nor_for_what_is_sent_after_it():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(linger_ms=60_000, request_timeout_ms=5000) as producer:
            before = await producer.send("t", b"before")
            flushing = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            after = await producer.send("t", b"after")
            await flushing
            assert before.done and not after.done and cluster.now < 5

    on_cluster(test)


def test_flush_without_records_returns_at_once():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            began = cluster.now
            await producer.flush()
            assert cluster.now == began

    on_cluster(test)


def test_close_with_timeout_zero_fails_every_ticket_at_once():
    async def test(cluster: VirtualCluster) -> None:
        producer = cluster.producer(linger_ms=60_000, request_timeout_ms=5000)
        await producer.partitions_for("t")
        tickets = [await producer.send("t", b"v") for _ in range(5)]
        cluster.silence()
        began = cluster.now
        with pytest.raises(DeliveryTimeoutError, match="5 records for t-0"):
            await producer.close(0)
        assert cluster.now - began < 1.5
        assert all(isinstance(ticket.exception(), DeliveryTimeoutError) for ticket in tickets)

    on_cluster(test)


def test_closing_delivers_what_lingers():
    async def test(cluster: VirtualCluster) -> int:
        producer = cluster.producer(linger_ms=60_000, request_timeout_ms=5000)
        ticket = await producer.send("t", b"v")
        began = cluster.now
        await producer.close()
        assert cluster.now - began < 1
        return (await ticket).offset

    assert on_cluster(test) == 0


def test_closing_without_a_time_waits_no_longer_than_delivery_timeout_ms():
    async def test(cluster: VirtualCluster) -> float:
        producer = cluster.producer(delivery_timeout_ms=2500, request_timeout_ms=500)
        await warm(producer)
        await cluster.kill()
        await producer.send("t", b"v")
        began = cluster.now
        with pytest.raises(DeliveryTimeoutError, match="delivery_timeout_ms=2500"):
            await producer.close()
        return cluster.now - began

    assert 2.4 < on_cluster(test) < 4


def test_an_unknown_topic_costs_no_more_than_one_look():
    async def test(cluster: VirtualCluster) -> float:
        async with cluster.producer(max_block_ms=60_000) as producer:
            began = cluster.now
            with pytest.raises(UnknownTopicError, match="does not exist"):
                await producer.send("nowhere", b"v")
            return cluster.now - began

    assert on_cluster(test, auto_create_topics_enable=False) < 5
