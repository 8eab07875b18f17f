"""Two calls wait for the same thing and the first is cancelled, at each of its turns of the loop: the second goes on.

One case for each kind of waiter in the clients: the buffer memory, metadata, starting, connecting, the outcome of a
batch, flush, requests, commits in their order, tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from kafkaraw.client.consumer import engine_of
from kafkaraw.client.credentials.source import CachedTokens, Token
from kafkaraw.client.sending.accumulator import BufferPool
from kafkaraw.errors import DeliveryTimeoutError
from kafkaraw.records import Ticket, TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.virtual_cluster import VirtualCluster, on_cluster

TURNS = 40
LONGEST_S = 2.0
"""A turn that was lost costs at least `max_block_ms` or a request's timeout, which are longer."""

Call = Callable[[], Awaitable[object]]


async def cancel_first(first: Call, second: Call, turns: int, after: Ticket | None = None) -> None:
    """Make both calls, cancel the first after so many turns of the loop; the second must return in time.

    Args:
        first: is cancelled.
        second: is not.
        turns: the loop's turns.
        after: they count from the outcome of this record on; None counts from the calls on.
    """
    loop = asyncio.get_running_loop()
    calls = [asyncio.ensure_future(call()) for call in (first, second)]

    def count_down(left: int) -> None:
        if left:
            loop.call_soon(count_down, left - 1)
        else:
            calls[0].cancel()

    if after is None:
        loop.call_soon(count_down, turns)
    else:
        after.add_done_callback(lambda _: loop.call_soon(count_down, turns))
    began = loop.time()
    await calls[1]
    assert loop.time() - began < LONGEST_S, f"cancelled after {turns} turns"
    await asyncio.gather(calls[0], return_exceptions=True)


async def send_to_unknown_topic(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer() as producer:
        await cancel_first(lambda: producer.send(f"t{turns}", b"1"), lambda: producer.send(f"t{turns}", b"2"), turns)


async def send_into_full_memory(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer(buffer_memory=500, batch_size=1000, linger_ms=0, max_block_ms=5000) as producer:
        await (await producer.send("t", b"first"))
        large = await producer.send("t", bytes(400))
        await producer.send("t", bytes(100))  # in the same batch: nothing else is acknowledged later
        await cancel_first(lambda: producer.send("t", b"1"), lambda: producer.send("t", b"2"), turns, after=large)
        await producer.flush()
        await producer.send("t", bytes(400))  # nobody is left in the queue


async def await_ticket(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer() as producer:
        ticket = await producer.send("t", b"v")

        async def outcome() -> object:
            return await ticket

        await cancel_first(outcome, outcome, turns)
        assert not ticket.batch_promise.has_callbacks


async def flush(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer(linger_ms=10_000) as producer:
        tickets = [await producer.send("t", b"v") for _ in range(3)]
        await cancel_first(producer.flush, producer.flush, turns)
        assert all(ticket.done for ticket in tickets)


async def close(cluster: VirtualCluster, turns: int) -> None:
    producer = cluster.producer(linger_ms=10_000)
    ticket = await producer.send("t", b"v")
    other = cluster.producer()
    await cancel_first(producer.close, lambda: other.partitions_for("t"), turns)
    with suppress(DeliveryTimeoutError):  # what the call that was cancelled has given up
        await producer.close()
    assert ticket.done
    await other.close()


async def start(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.admin() as admin:
        await cancel_first(admin.describe_cluster, admin.describe_cluster, turns)


async def refresh_metadata(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer() as producer:
        await producer.partitions_for("t")
        await cancel_first(
            lambda: producer.partitions_for(f"t{turns}"), lambda: producer.partitions_for(f"t{turns}"), turns
        )


async def connect(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.admin() as admin:
        await admin.describe_cluster()
        cluster.cut()
        await cancel_first(admin.list_topics, admin.list_topics, turns)


async def commit(cluster: VirtualCluster, turns: int) -> None:
    partition = TopicPartition("t", 0)
    async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([partition])
        await cancel_first(lambda: consumer.commit({partition: 1}), lambda: consumer.commit({partition: 2}), turns)
        assert (await consumer.committed([partition]))[partition].offset == 2


async def position(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer() as producer, cluster.consumer(auto_offset_reset="earliest") as consumer:
        await (await producer.send("t", b"v"))
        consumer.assign([TopicPartition("t", 0)])
        await cancel_first(
            lambda: consumer.position(TopicPartition("t", 0)), lambda: consumer.position(TopicPartition("t", 0)), turns
        )


async def poll_and_position(cluster: VirtualCluster, turns: int) -> None:
    async with cluster.producer() as producer, cluster.consumer(auto_offset_reset="earliest") as consumer:
        await (await producer.send("t", b"v"))
        consumer.assign([TopicPartition("t", 0)])
        await cancel_first(lambda: consumer.poll(0.1), lambda: consumer.position(TopicPartition("t", 0)), turns)
        assert (await consumer.poll(1)).keys() == {TopicPartition("t", 0)}


CASES = [
    send_to_unknown_topic,
    send_into_full_memory,
    await_ticket,
    flush,
    close,
    start,
    refresh_metadata,
    connect,
    commit,
    position,
    poll_and_position,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_call_that_is_cancelled_holds_up_no_other(case: Callable[[VirtualCluster, int], Awaitable[None]]) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        for turns in range(TURNS):
            await case(cluster, turns)

    on_cluster(test, auto_create_topics_enable=True)


def test_a_call_that_is_cancelled_while_it_fetches_a_token_lets_the_next_one_fetch_it() -> None:
    class Source:
        async def token(self, timeout: float) -> Token:
            await asyncio.sleep(0.5)
            return Token("value", None)

    async def main(simulation: Simulation) -> None:
        for turns in range(10):
            tokens = CachedTokens(Source(), simulation.clock)
            await cancel_first(lambda: tokens.token(9), lambda: tokens.token(9), turns)  # noqa: B023 - called here

    run_virtual(main, 1)


class Full:
    """As much of open batches as a pool asks."""

    used_bytes = 1 << 30


def test_a_sender_of_rows_that_is_cancelled_while_it_lets_the_network_catch_up_holds_up_no_other() -> None:
    async def main(_: Simulation) -> None:
        for turns in range(10):
            pool = BufferPool(Full(), 1 << 30)  # type: ignore[arg-type]
            await cancel_first(pool.drain, pool.drain, turns)

    run_virtual(main, 1)


def test_client_whose_close_is_cancelled_leaves_no_connection_open() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        loop = asyncio.get_running_loop()
        for turns in range(TURNS):
            consumer = cluster.consumer()
            consumer.assign([TopicPartition("t", 0)])
            await consumer.poll(0.01)
            pool = engine_of(consumer)._pool
            connections = [connection for _, connection in pool._open.values()]
            refresh = asyncio.ensure_future(consumer.list_topics())
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(consumer.close())

            def count_down(left: int, closing: asyncio.Future[None] = closing) -> None:
                if left:
                    loop.call_soon(count_down, left - 1)
                else:
                    closing.cancel()

            if turns:
                loop.call_soon(count_down, turns - 1)
            await asyncio.gather(closing, refresh, return_exceptions=True)
            assert connections, "nothing was open: nothing was tested"
            assert all(connection.closed for connection in connections), turns
            assert pool._idle._timer is None, turns

    on_cluster(test)
