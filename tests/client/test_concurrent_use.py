"""A consumer is for one thread, or for one reading task, at a time; `wakeup` is for all others."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

from kafkaraw import AsyncConsumer, Consumer, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import ConcurrentUseError, KafkaError, UsageError, WakeupError

P0 = TopicPartition("t", 0)
COUNT = 2_000
_numbers = count()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=2_000) as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number, partition=0)
            producer.send("empty", None, partition=0)
        yield broker.bootstrap_servers


@pytest.fixture
def consumer(servers: str) -> Iterator[Consumer]:
    with Consumer(
        bootstrap_servers=servers,
        group_id=f"group-{next(_numbers)}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as opened:
        opened.assign([P0])
        yield opened


READING: dict[str, Callable[[Consumer], object]] = {
    "iteration": lambda consumer: next(iter(consumer)),
    "next": next,
    "batches": lambda consumer: next(consumer.batches()),
    "poll": lambda consumer: consumer.poll(0.1),
    "poll_arrow": lambda consumer: consumer.poll_arrow(timeout=0.1),
}
CHANGING: dict[str, Callable[[Consumer], object]] = {
    "assign": lambda consumer: consumer.assign([P0]),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "seek": lambda consumer: consumer.seek(P0, 5),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning([P0]),
    "seek_to_end": lambda consumer: consumer.seek_to_end([P0]),
    "pause": lambda consumer: consumer.pause([P0]),
    "resume": lambda consumer: consumer.resume([P0]),
    "commit": lambda consumer: consumer.commit({P0: 5}),
    "commit_nowait": lambda consumer: consumer.commit_nowait({P0: 5}),
}
ASKING: list[Callable[[Consumer], object]] = [
    lambda consumer: consumer.metrics(),
    lambda consumer: consumer.assignment(),
    lambda consumer: consumer.position(P0),
    lambda consumer: consumer.committed([P0]),
    lambda consumer: consumer.end_offsets([P0]),
    lambda consumer: consumer.lag(P0),
]


def in_thread(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1, "second") as pool:
        return pool.submit(call).result(20)


@pytest.mark.parametrize("name", [*READING, *CHANGING])
def test_a_call_of_a_second_thread_is_refused_during_a_loop(consumer: Consumer, name: str) -> None:
    call = {**READING, **CHANGING}[name]
    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if len(offsets) == 3:
            began = time.monotonic()
            with pytest.raises(ConcurrentUseError, match=rf"^{name} on thread 'second_0' .*'MainThread'.*loop.*Queue"):
                in_thread(lambda: call(consumer))
            assert time.monotonic() - began < 2
        if len(offsets) == 5:
            break
    assert offsets == [0, 1, 2, 3, 4]
    assert consumer.position(P0) == 5
    in_thread(lambda: call(consumer))  # the loop is left


@pytest.mark.parametrize("name", [*READING, *CHANGING])
def test_a_call_of_a_second_thread_is_refused_during_a_call(consumer: Consumer, name: str) -> None:
    call = {**READING, **CHANGING}[name]
    consumer.seek_to_end([P0])
    with ThreadPoolExecutor(1, "first") as pool:
        waiting = pool.submit(lambda: consumer.poll(20))
        while not consumer._reading.is_waiting:
            time.sleep(0.001)
        with pytest.raises(ConcurrentUseError, match=rf"^{name} on thread 'MainThread' .*'first_0' .* in a call"):
            call(consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            waiting.result(20)


@pytest.mark.parametrize("number", range(len(ASKING)))
def test_calls_that_only_ask_are_for_any_thread(consumer: Consumer, number: int) -> None:
    for _ in consumer:
        in_thread(lambda: ASKING[number](consumer))
        break


def test_threads_may_take_turns(consumer: Consumer) -> None:
    """As `run_in_executor` does: each call on another thread."""
    offsets = []
    for _ in range(10):
        offsets += [in_thread(lambda: next(consumer).offset)]
        offsets += in_thread(lambda: [r.offset for batch in consumer.poll(5, 3).values() for r in batch])  # type: ignore[operator]
    assert offsets == list(range(40))


def test_threads_may_take_turns_with_one_iterator(consumer: Consumer) -> None:
    records = iter(consumer)
    assert [in_thread(lambda: next(records).offset) for _ in range(600)] == list(range(600))
    assert records is not None
    assert consumer.position(P0) == 600


def test_a_loop_whose_thread_has_ended_binds_no_client(consumer: Consumer) -> None:
    left = iter(consumer)
    in_thread(lambda: next(left))
    assert next(consumer).offset == 1
    assert left is not None


def test_loops_of_one_thread_may_be_nested(consumer: Consumer) -> None:
    offsets = []
    for outer in consumer:
        offsets.append(outer.offset)
        for inner in consumer:
            offsets.append(inner.offset)
            break
        with pytest.raises(ConcurrentUseError):
            in_thread(lambda: consumer.poll(0.1))
        if len(offsets) >= 1_000:
            break
    assert offsets == list(range(1_000))
    in_thread(lambda: consumer.poll(0.1))


def test_threads_that_read_at_once_lose_nothing(servers: str) -> None:
    """Each is refused or given records; what they were given is all that lies before the position, once."""
    given: list[int] = []
    refused = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_bytes=5_000) as consumer:
        consumer.assign([P0])

        def read(number: int) -> None:
            while len(given) < COUNT:
                try:
                    if number % 2:
                        for record in consumer:
                            given.append(record.offset)
                            if record.offset % 97 == 0 or len(given) >= COUNT:
                                break
                    else:
                        given.append(next(consumer).offset)
                except ConcurrentUseError as error:
                    refused.append(error)
                except WakeupError:
                    return

        threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while len(given) < COUNT and time.monotonic() < deadline:
            time.sleep(0.01)
        while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
            consumer.wakeup()
            time.sleep(0.01)
        for thread in threads:
            thread.join(10)
    assert sorted(given) == list(range(COUNT))
    assert refused


# ---- wakeup


def test_wakeup_ends_the_call_that_waits(consumer: Consumer) -> None:
    consumer.seek_to_end([P0])
    threading.Timer(0.05, consumer.wakeup).start()
    began = time.monotonic()
    with pytest.raises(WakeupError, match="wakeup"):
        consumer.poll(20)
    assert time.monotonic() - began < 10
    assert consumer.poll(0) == {}, "one wakeup ends one call"


@pytest.mark.parametrize("name", [*READING, "commit"])
def test_wakeup_before_a_call_ends_the_next_one_and_loses_nothing(consumer: Consumer, name: str) -> None:
    assert [next(consumer).offset for _ in range(5)] == list(range(5))  # there are more in hand
    consumer.wakeup()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        {**READING, **CHANGING}[name](consumer)
    assert consumer.position(P0) == 5
    assert next(consumer).offset == 5


def test_wakeup_ends_a_loop_though_records_are_in_hand(consumer: Consumer) -> None:
    offsets = []
    with pytest.raises(WakeupError):
        for record in consumer:
            offsets.append(record.offset)
            if record.offset == 10:
                in_thread(consumer.wakeup)
    assert offsets == list(range(11))
    assert [next(consumer).offset for _ in range(5)] == list(range(11, 16))


def test_wakeup_from_a_signal_handler(consumer: Consumer) -> None:
    """At random moments of a loop: whatever it interrupts, each record is given once."""
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
    offsets: list[int] = []
    woken = 0
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
    try:
        while len(offsets) < COUNT:
            try:
                for record in consumer:
                    offsets.append(record.offset)
                    if len(offsets) == COUNT:
                        break
            except WakeupError:
                woken += 1
                if woken > 20:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert offsets == list(range(COUNT))
    assert woken


def test_wakeup_of_a_consumer_that_is_closed_or_was_never_used(servers: str) -> None:
    consumer = Consumer(bootstrap_servers=servers)
    consumer.wakeup()
    consumer.assign([P0])
    with pytest.raises(WakeupError):
        consumer.poll(1)
    consumer.close()
    consumer.wakeup()


def test_wakeup_while_a_member_joins_its_group(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, group_id="joins", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        for _ in range(5):
            consumer.wakeup()
            with pytest.raises(WakeupError):
                next(consumer)
        assert next(consumer).offset == 0


# ---- tasks


async def opened(servers: str, **settings: object) -> AsyncConsumer:
    consumer = AsyncConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", **settings)
    consumer.assign([P0])
    return consumer


def test_a_second_task_that_reads_is_refused(servers: str) -> None:
    async def main() -> None:
        async with await opened(servers) as consumer:
            consumer.seek_to_end()
            waiting = asyncio.create_task(consumer.poll(20), name="first")
            await asyncio.sleep(0)
            for name, read in {
                "poll": consumer.poll(1),
                "poll_arrow": consumer.poll_arrow(timeout=1),
                "iteration": anext(consumer),
                "batches": anext(consumer.batches()),
            }.items():
                with pytest.raises(ConcurrentUseError, match=f"^{name} in task 'main': task 'first' waits.*Queue"):
                    await read
            assert await consumer.position(P0) == COUNT  # all the rest is for any task
            consumer.seek(P0, 7)
            (batch,) = (await waiting).values()
            assert next(iter(batch)).offset == 7

    async def named() -> None:
        await asyncio.create_task(main(), name="main")

    asyncio.run(named())


def test_a_task_may_read_after_one_that_was_cancelled(servers: str) -> None:
    async def main() -> None:
        async with await opened(servers) as consumer:
            consumer.seek_to_end()
            waiting = asyncio.create_task(consumer.poll(20))
            await asyncio.sleep(0.01)
            waiting.cancel()
            assert await consumer.poll(0.01) == {}
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


def test_wakeup_ends_a_task_that_waits_and_nothing_is_lost(servers: str) -> None:
    async def main() -> None:
        async with await opened(servers, fetch_max_bytes=5_000) as consumer:
            offsets: list[int] = []
            woken = 0
            while len(offsets) < COUNT:
                asyncio.get_running_loop().call_later(0.0005, consumer.wakeup)
                try:
                    async for record in consumer:
                        offsets.append(record.offset)
                        if len(offsets) == COUNT:
                            break
                        await asyncio.sleep(0)
                except WakeupError:
                    woken += 1
            assert offsets == list(range(COUNT))
            assert woken
            await asyncio.sleep(0.001)

    asyncio.run(main())


def test_wakeup_does_not_hide_a_cancellation(servers: str) -> None:
    async def main() -> None:
        async with await opened(servers) as consumer:
            consumer.seek_to_end()
            waiting = asyncio.create_task(consumer.poll(20))
            await asyncio.sleep(0.01)
            consumer.wakeup()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with suppress(WakeupError):
                await consumer.poll(0)

    asyncio.run(main())


def test_the_errors_are_what_callers_expect() -> None:
    assert issubclass(ConcurrentUseError, UsageError)
    assert issubclass(WakeupError, KafkaError)
