"""Waiting for promises on a thread that may block; what tickets say is in `test_producer.py` and `test_blocking.py`."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.sending.arrow_rows import ArrowTicket
from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.errors import DeliveryTimeoutError, KafkaTimeoutError
from kafkaraw.records import BatchPromise, SentPart, Ticket
from kafkaraw.records._fallback.ticket import Ticket as PlainTicket
from tests.client.virtual_cluster import VirtualCluster, on_cluster
from tests.interrupting import interrupted_elsewhere


def promises(count: int) -> tuple[PromiseWaiter, list[BatchPromise]]:
    waiter = PromiseWaiter()
    return waiter, [BatchPromise("t", partition, waiter) for partition in range(count)]


def test_ctrl_c_ends_the_wait_for_a_record() -> None:
    waiter, (promise,) = promises(1)
    with interrupted_elsewhere():
        waiter.wait(promise, None)
    promise.resolve(0)  # whoever has stopped waiting is no obstacle


def test_ctrl_c_ends_the_wait_for_many_rows() -> None:
    waiter, several = promises(3)
    with interrupted_elsewhere():
        waiter.wait_all(several, 600)
    for promise in several:
        promise.resolve(0)


def test_a_wait_that_times_out_or_is_interrupted_leaves_no_callback_behind() -> None:
    waiter, several = promises(3)
    rows = ArrowTicket(waiter)
    rows.add([SentPart(promise, 0, 1, row) for row, promise in enumerate(several)], 0)
    tickets = [ticket(several[0], 0, 0) for ticket in (Ticket, PlainTicket)]
    for _ in range(5):
        for ticket in (*tickets, rows):
            with pytest.raises(KafkaTimeoutError):
                ticket.result(0.001)
    with interrupted_elsewhere():
        waiter.wait(several[0], None)
    with interrupted_elsewhere():
        waiter.wait_all(several, None)
    assert [promise.has_callbacks for promise in several] == [False] * 3


def test_a_wait_in_a_coroutine_that_is_cancelled_leaves_no_callback_behind() -> None:
    async def main() -> None:
        waiter, (promise,) = promises(1)
        rows = ArrowTicket(waiter)
        rows.add([SentPart(promise, 0, 1, 0)], 0)
        for ticket in (Ticket(promise, 0, 0), PlainTicket(promise, 0, 0), rows):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ticket, 0.001)
        await asyncio.sleep(0)
        assert not promise.has_callbacks

    asyncio.run(main())


def test_a_flush_that_times_out_or_is_cancelled_leaves_no_callback_behind() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(request_timeout_ms=100_000) as producer:
            await (await producer.send("t", b"first"))
            cluster.silence()
            ticket = await producer.send("t", b"v")
            for _ in range(5):
                with pytest.raises(DeliveryTimeoutError):
                    await producer.flush(0.1)
                flush = asyncio.create_task(producer.flush())
                await asyncio.sleep(0.1)
                flush.cancel()
                await asyncio.gather(flush, return_exceptions=True)
            assert not ticket.batch_promise.has_callbacks
            cluster.silence(False)
            await producer.flush()
            assert ticket.done

    on_cluster(test)


def test_a_callback_that_is_taken_back_while_callbacks_are_called_is_called_once_or_never() -> None:
    _, (promise,) = promises(1)
    called: list[int] = []

    def second(_: BatchPromise) -> None:
        called.append(2)

    def first(_: BatchPromise) -> None:
        called.append(1)
        promise.remove_callback(second)
        promise.remove_callback(first)

    for callback in (first, second):
        promise.add_callback(callback)
    promise.resolve(0)
    assert called == [1]
