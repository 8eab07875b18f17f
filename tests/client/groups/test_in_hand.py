"""Who closes a consumer while another task or thread is busy with a record leaves that record to the next member."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from kafkaraw import Admin, AsyncConsumer, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from tests.client.groups.test_group import TOPIC
from tests.client.virtual_cluster import VirtualCluster, on_cluster

COUNT = 10
AT = 7
"""The record at which somebody is busy."""
PARTITION = TopicPartition(TOPIC, 0)


async def record_by_record(consumer: AsyncConsumer) -> AsyncIterator[int]:
    async for record in consumer:
        yield record.offset


async def batch_by_batch(consumer: AsyncConsumer) -> AsyncIterator[int]:
    async for batch in consumer.batches():
        for record in batch:
            yield record.offset


async def poll_by_poll(consumer: AsyncConsumer) -> AsyncIterator[int]:
    while True:
        for batch in (await consumer.poll(60, max_records=3)).values():
            for record in batch:
                yield record.offset


WAYS = {record_by_record: AT, batch_by_batch: 0, poll_by_poll: AT // 3 * 3}
"""Ways of reading; and where the next member begins: at the record, or at those that came with it."""
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
Test = Callable[[AsyncConsumer], Coroutine[object, object, None]]


def committed_after(test: Test) -> int:
    """Where the next member begins after this."""

    async def life(cluster: VirtualCluster) -> int:
        await cluster.create(TOPIC)
        async with cluster.producer() as producer:
            for _ in range(COUNT):
                await producer.send(TOPIC, b"v")
        consumer = cluster.consumer(group_id="g")
        consumer.subscribe([TOPIC])
        await test(consumer)
        async with cluster.consumer(group_id="g") as other:
            at = (await other.committed([PARTITION]))[PARTITION]
            return 0 if at is None else at.offset

    return on_cluster(life, group_initial_rebalance_delay_ms=0)


@each_way
@pytest.mark.parametrize("end", [AsyncConsumer.close, AsyncConsumer.unsubscribe], ids=lambda end: end.__name__)
def test_close_does_not_commit_batch_of_another_busy_task(end: Callable, way: Callable) -> None:
    async def test(consumer: AsyncConsumer) -> None:
        is_busy = asyncio.Event()

        async def read() -> None:
            async for offset in way(consumer):
                if offset == AT:
                    is_busy.set()
                    await asyncio.sleep(60)

        reading = asyncio.create_task(read())
        await is_busy.wait()
        await end(consumer)
        reading.cancel()
        await asyncio.wait([reading])
        await consumer.close()

    assert committed_after(test) == WAYS[way]


@each_way
def test_close_does_not_commit_batch_of_failed_task(way: Callable, caplog: pytest.LogCaptureFixture) -> None:
    async def test(consumer: AsyncConsumer) -> None:
        async def read() -> None:
            async for offset in way(consumer):
                if offset == AT:
                    raise ValueError("no such flight")

        reading = asyncio.create_task(read())
        await asyncio.wait([reading])
        await consumer.close()

    assert committed_after(test) == WAYS[way]
    assert "its last batch is not committed: ValueError('no such flight')" in caplog.text


@each_way
def test_async_with_does_not_commit_batch_of_failed_block(way: Callable) -> None:
    async def test(consumer: AsyncConsumer) -> None:
        with pytest.raises(ValueError, match="no such flight"):
            async with consumer:
                async for offset in way(consumer):
                    if offset == AT:
                        raise ValueError("no such flight")

    assert committed_after(test) == WAYS[way]


@each_way
def test_close_commits_batch_of_task_that_closes(way: Callable) -> None:
    async def test(consumer: AsyncConsumer) -> None:
        async with consumer:
            async for offset in way(consumer):
                if offset == AT:
                    break

    assert (
        committed_after(test) == {record_by_record: AT + 1, batch_by_batch: COUNT, poll_by_poll: AT // 3 * 3 + 3}[way]
    )


@each_way
def test_close_commits_batch_of_task_that_polls_again(way: Callable) -> None:
    async def test(consumer: AsyncConsumer) -> None:
        async def read() -> None:
            async for _ in way(consumer):
                pass

        reading = asyncio.create_task(read())
        await asyncio.sleep(5)
        await consumer.close()
        await asyncio.wait([reading])

    assert committed_after(test) == COUNT


def test_close_commits_batch_of_task_that_has_returned() -> None:
    async def test(consumer: AsyncConsumer) -> None:
        async def read() -> None:
            async for record in consumer:
                if record.offset == AT:
                    return

        await asyncio.create_task(read())
        await consumer.close()

    assert committed_after(test) == AT + 1


def test_close_commits_batches_of_tasks_made_for_one_call() -> None:
    async def test(consumer: AsyncConsumer) -> None:
        for _ in range(AT):
            await asyncio.ensure_future(anext(consumer))
        await consumer.close()

    assert committed_after(test) == AT


@pytest.mark.parametrize("waits", [False, True], ids=["busy", "done"])
def test_close_in_thread_while_another_thread_is_busy(waits: bool) -> None:
    is_there, may_go_on = threading.Event(), threading.Event()

    def read(consumer: Consumer) -> None:
        for record in consumer:
            if record.offset == AT:
                is_there.set()
                may_go_on.wait(30)

    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(COUNT):
                producer.send(TOPIC, b"v")
        settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
        consumer = Consumer(**settings)
        consumer.subscribe([TOPIC])
        reader = threading.Thread(target=read, args=[consumer])
        reader.start()
        assert is_there.wait(30)
        if waits:
            may_go_on.set()
            until(lambda: consumer.position(PARTITION) == COUNT and consumer._reading.is_waiting)
        consumer.close()
        may_go_on.set()
        reader.join(30)
        with Consumer(**settings) as other:
            at = other.committed([PARTITION])[PARTITION]
    assert at is not None
    assert at.offset == (COUNT if waits else AT)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.001)
