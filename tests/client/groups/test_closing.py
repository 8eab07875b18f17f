"""A consumer is closed while callbacks run elsewhere: none outlives it, and what they commit is stored."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import FrameType

import pytest

import kafkaraw
from kafkaraw import Admin, AsyncConsumer, Consumer, NewTopic, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.bridge import Bridge
from kafkaraw.client.groups.listeners import CallUser
from kafkaraw.errors import ClosedError, UsageError
from tests.client.groups.test_group import PARTITIONS, PROTOCOLS, TOPIC, both_protocols, fill, settle
from tests.client.virtual_cluster import VirtualCluster, on_cluster

Callback = Callable[[list[TopicPartition]], Awaitable[None] | None]
SOURCES = Path(kafkaraw.__file__).parent
SLOW_S = 5.0
BOTH = list(PROTOCOLS)


class Fixture:
    """A member whose reading task is in `on_revoked`, because another one has come; `close` is somebody else's."""

    def __init__(self, cluster: VirtualCluster, protocol: str, **settings: object) -> None:
        self.cluster = cluster
        self.consumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol], **settings)
        self.other = cluster.consumer(group_id="g", **PROTOCOLS[protocol])
        self.told: list[str] = []
        self.is_cancelled = asyncio.Event()
        self.reading: asyncio.Task[None] | None = None

    async def begin(self, on_revoked: Callback) -> None:
        await self.cluster.create(TOPIC, PARTITIONS)
        self.consumer.subscribe([TOPIC], on_revoked=on_revoked)
        await settle(self.consumer)
        self.reading = asyncio.create_task(self._read())
        self.other.subscribe([TOPIC])
        joining = asyncio.create_task(self.other.poll(60))
        await self.is_cancelled.wait()
        joining.cancel()
        await asyncio.wait([joining])

    async def _read(self) -> None:
        while True:
            await self.consumer.poll(60)

    async def end(self) -> None:
        assert self.reading is not None
        with pytest.raises(ClosedError):
            await self.reading
        await self.consumer.close()
        await self.other.close()


def on_fixture(test: Callable[[Fixture], Awaitable[None]], protocol: str, **settings: object) -> None:
    async def life(cluster: VirtualCluster) -> None:
        await test(Fixture(cluster, protocol, **settings))

    on_cluster(life, group_initial_rebalance_delay_ms=0)


@both_protocols
@pytest.mark.parametrize("waits", [True, False], ids=["commit", "commit_nowait"])
def test_close_waits_for_listener_callback_and_its_commit(protocol: str, waits: bool) -> None:
    async def test(its: Fixture) -> None:
        async def revoked(partitions: list[TopicPartition]) -> None:
            its.told.append(f"revoked {len(partitions)}")
            its.is_cancelled.set()
            await asyncio.sleep(SLOW_S)
            if waits:
                await its.consumer.commit(dict.fromkeys(partitions, 7))
            else:
                its.consumer.commit_nowait(dict.fromkeys(partitions, 7))
            its.told.append("end")

        await its.begin(revoked)
        began_s = its.cluster.now
        await its.consumer.close()
        its.told.append("closed")
        assert its.cluster.now - began_s >= SLOW_S
        told = list(its.told)
        assert told[-1] == "closed"
        assert set(told[1:-1:2]) == {"end"}, "each ends before anything else happens"
        stored = await its.other.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        await its.end()
        assert all(at is not None and at.offset == 7 for at in stored.values()), stored
        assert its.told == told

    on_fixture(test, protocol)


@both_protocols
def test_close_does_not_exceed_its_timeout(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(its: Fixture) -> None:
        async def revoked(_: list[TopicPartition]) -> None:
            if not its.is_cancelled.is_set():
                its.is_cancelled.set()
                await asyncio.sleep(100)

        await its.begin(revoked)
        began_s = its.cluster.now
        await its.consumer.close(2)
        assert its.cluster.now - began_s < 3
        assert its.consumer.assignment() == []
        await its.end()

    on_fixture(test, protocol)
    assert "a callback of a rebalance has not ended after 2 s" in caplog.text


@both_protocols
def test_error_of_listener_is_raised_once(protocol: str) -> None:
    async def test(its: Fixture) -> None:
        async def revoked(_: list[TopicPartition]) -> None:
            if not its.is_cancelled.is_set():
                its.is_cancelled.set()
                await asyncio.sleep(SLOW_S)
                raise RuntimeError("disk full")

        await its.begin(revoked)
        assert its.reading is not None
        outcomes = await asyncio.gather(its.consumer.close(), its.reading, return_exceptions=True)
        await its.other.close()
        assert [str(outcome) for outcome in outcomes if not isinstance(outcome, ClosedError | None)] == ["disk full"]

    on_fixture(test, protocol)


@both_protocols
@pytest.mark.parametrize("in_task", [False, True], ids=["itself", "in a task of its own"])
def test_listener_callback_may_close_without_waiting_for_itself(protocol: str, in_task: bool) -> None:
    async def test(its: Fixture) -> None:
        async def revoked(_: list[TopicPartition]) -> None:
            its.is_cancelled.set()
            began_s = its.cluster.now
            await (asyncio.create_task(its.consumer.close()) if in_task else its.consumer.close())
            assert its.cluster.now - began_s < 1
            its.told.append("closed")

        await its.begin(revoked)
        await its.end()
        assert its.told.count("closed") >= 1

    on_fixture(test, protocol)


@both_protocols
def test_listener_callback_may_close_while_another_task_closes(protocol: str) -> None:
    async def test(its: Fixture) -> None:
        async def revoked(partitions: list[TopicPartition]) -> None:
            its.is_cancelled.set()
            await asyncio.sleep(1)
            await its.consumer.close()
            await its.consumer.commit(dict.fromkeys(partitions, 3))
            its.told.append("committed")

        await its.begin(revoked)
        began_s = its.cluster.now
        await its.consumer.close()
        assert its.cluster.now - began_s < 5
        assert "committed" in its.told
        await its.end()

    on_fixture(test, protocol)


@both_protocols
def test_last_listener_callback_may_close_again(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol])
        consumer.subscribe([TOPIC], on_revoked=lambda _: consumer.close())
        await settle(consumer)
        began_s = cluster.now
        await consumer.close()
        assert cluster.now - began_s < 1

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_second_close_waits_for_first(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer, told = cluster.consumer(group_id="g", **PROTOCOLS[protocol]), []

        async def revoked(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(SLOW_S)
            await consumer.commit(dict.fromkeys(partitions, 7))
            told.append("revoked")

        async def close() -> None:
            await consumer.close()
            told.append("closed")

        consumer.subscribe([TOPIC], on_revoked=revoked)
        await settle(consumer)
        await asyncio.gather(close(), close(), close())
        assert told == ["revoked", "closed", "closed", "closed"]

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_second_close_with_shorter_timeout_completes_first(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol], enable_auto_commit=True)
        consumer.subscribe([TOPIC])
        await settle(consumer)
        await fill(cluster, 8)
        while not await consumer.poll(1):
            pass
        cluster.silence()
        began_s = cluster.now
        patient = asyncio.create_task(consumer.close(20))
        await asyncio.sleep(1)
        await consumer.close(1)
        assert cluster.now - began_s < 4
        await patient
        assert cluster.now - began_s < 4

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_listener_callback_in_unsubscribe_cannot_poll(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)

        async def revoked(_: list[TopicPartition]) -> None:
            await consumer.poll(60)

        async with cluster.consumer(group_id="g", **PROTOCOLS[protocol]) as consumer:
            consumer.subscribe([TOPIC], on_revoked=revoked)
            await settle(consumer)
            with pytest.raises(UsageError, match="a callback of a rebalance cannot read"):
                await consumer.unsubscribe()

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_commit_nowait_in_listener_ends_before_rejoin(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        problems: list[object] = []
        first: AsyncConsumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol])
        second = cluster.consumer(group_id="g", **PROTOCOLS[protocol])

        def revoked(partitions: list[TopicPartition]) -> None:
            first.commit_nowait(dict.fromkeys(partitions, 7), lambda _, problem: problems.append(problem))

        first.subscribe([TOPIC], on_revoked=revoked)
        second.subscribe([TOPIC])
        await fill(cluster, 10 * PARTITIONS)
        async with first, second:
            await settle(first)
            await settle(first, second)
            assert problems == [None]
            stored = await second.committed(second.assignment())
            assert all(at is not None and at.offset == 7 for at in stored.values()), stored

    on_cluster(test, group_initial_rebalance_delay_ms=0)


# ---- the blocking face: real sockets and threads


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        yield running


def blocking(broker: EmbeddedBroker, group: str) -> Consumer:
    return Consumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest")


def test_close_in_thread_waits_for_listener_of_polling_thread(broker: EmbeddedBroker) -> None:
    consumer, told, begun, may_end = blocking(broker, "threads"), [], threading.Event(), threading.Event()

    def assigned(partitions: list[TopicPartition]) -> None:
        begun.set()
        assert may_end.wait(30)
        consumer.commit(dict.fromkeys(partitions, 3))
        told.append("assigned")

    def close() -> None:
        consumer.close()
        told.append("closed")

    def read() -> None:
        with pytest.raises(ClosedError), consumer:
            consumer.poll(30)

    consumer.subscribe([TOPIC], on_assigned=assigned)
    reader, closer = threading.Thread(target=read), threading.Thread(target=close)
    reader.start()
    assert begun.wait(30)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    may_end.set()
    for thread in (reader, closer):
        thread.join(30)
    assert told == ["assigned", "closed"]
    with blocking(broker, "threads") as after:
        found = after.committed([TopicPartition(TOPIC, 0)])
    assert found[TopicPartition(TOPIC, 0)].offset == 3


def test_blocking_listener_callback_may_close(broker: EmbeddedBroker) -> None:
    consumer, told = blocking(broker, "itself"), []

    def assigned(_: list[TopicPartition]) -> None:
        consumer.close()
        told.append("closed")

    consumer.subscribe([TOPIC], on_assigned=assigned)
    with pytest.raises(ClosedError):
        consumer.poll(30)
    assert told == ["closed"]


def test_listener_callbacks_in_close_do_not_extend_its_timeout() -> None:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
        consumer, told = blocking(broker, "late"), []
        consumer.subscribe([TOPIC], on_revoked=told.append)
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.commit_nowait(dict.fromkeys(consumer.assignment(), 1))
        for api in ("OffsetCommit", "LeaveGroup"):
            broker.faults.on(api, times=None).swallow()
        consumer.commit_nowait(dict.fromkeys(consumer.assignment(), 2))
        began = time.monotonic()
        consumer.close(1.0)
        assert time.monotonic() - began < 1.9
        assert len(told) == 1


def test_listener_callback_interrupted_by_ctrl_c_is_called_by_next_close(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    run = Bridge.run

    def interrupted(bridge: Bridge, work: Coroutine[object, None, object]) -> object:
        try:
            return run(bridge, work)
        except CallUser:
            monkeypatch.undo()
            raise KeyboardInterrupt from None

    with blocking(broker, "kept") as consumer:
        consumer.subscribe(
            [TOPIC], on_assigned=lambda _: told.append("assigned"), on_revoked=lambda _: told.append("revoked")
        )
        monkeypatch.setattr(Bridge, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30)
        assert told == []
        consumer.poll(0.1)
        assert told == ["assigned"]
    assert told == ["assigned", "revoked"]


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
def test_ctrl_c_ends_listener_callback_before_close(broker: EmbeddedBroker, is_async: bool) -> None:
    told: list[str] = []

    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def function(_: list[TopicPartition]) -> None:
        try:
            interrupt()
            threading.Event().wait(30)
        finally:
            told.append("interrupted")

    async def coroutine(_: list[TopicPartition]) -> None:
        try:
            interrupt()
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)  # as to put something away
            told.append("interrupted")

    def revoked(_: list[TopicPartition]) -> None:
        told.append("revoked")

    with pytest.raises(KeyboardInterrupt), blocking(broker, f"interrupted {is_async}") as consumer:
        consumer.subscribe([TOPIC], on_assigned=coroutine if is_async else function, on_revoked=revoked)
        consumer.poll(30)
    told.append("closed")
    assert told == ["interrupted", "revoked", "closed"]


def test_second_ctrl_c_after_listener_callback_leaves_no_waiter(
    broker: EmbeddedBroker,
) -> None:
    """A profiler raises where Python would run a signal handler: when a function is entered, or a call returns."""
    for number in range(1, 100):
        left = number

        def interrupt_again(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            if event in ("call", "c_return") and SOURCES in Path(frame.f_code.co_filename).parents:
                left -= 1
                if left == 0:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        def assigned(_: list[TopicPartition], interrupt_again: Callable[..., None] = interrupt_again) -> None:
            sys.setprofile(interrupt_again)
            raise KeyboardInterrupt

        consumer = blocking(broker, f"twice {number}")
        consumer.subscribe([TOPIC], on_assigned=assigned)
        try:
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(30)
        finally:
            sys.setprofile(None)
        began = time.monotonic()
        consumer.close(20)
        assert time.monotonic() - began < 15, f"close() waited for a callback that was interrupted at {number}"
        if left > 0:
            assert number > 5, "nothing was interrupted"
            return
    raise AssertionError("there is no end to it")
