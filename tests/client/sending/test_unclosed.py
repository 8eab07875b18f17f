"""Producers that nobody closes: what they took is delivered, or the log says how many records are lost."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.testing.discard import discard, discard_blocking

P0 = TopicPartition("t", 0)
COUNT = 500


@pytest.fixture
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1)])
        yield broker.bootstrap_servers


def end_offset(servers: str) -> int:
    with Consumer(bootstrap_servers=servers) as consumer:
        return consumer.end_offsets([P0])[P0]


def run(code: str, servers: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always", "-c", code, servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


FORGOTTEN = f"""
import sys
from kafkaraw import Producer
def main():
    producer = Producer(bootstrap_servers=sys.argv[1])
    for number in range({COUNT}):
        producer.send("t", b"%d" % number)
main()
"""


def test_records_of_a_producer_that_is_garbage_collected_are_delivered_with_a_warning(servers: str) -> None:
    done = run(FORGOTTEN, servers)
    assert end_offset(servers) == COUNT, done.stderr
    assert "Producer was not closed" in done.stderr
    assert done.returncode == 0


def test_records_that_cannot_be_delivered_are_counted_in_the_log(servers: str) -> None:
    code = FORGOTTEN.replace('b"%d" % number', "bytes(2_000_000)").replace(str(COUNT), "3")
    code = code.replace("Producer(", "Producer(max_request_size=4_000_000, ")
    done = run(code, servers)
    assert end_offset(servers) == 0
    assert "without close()" in done.stderr and "3 records" in done.stderr, done.stderr


def send_in_worker(servers: str) -> None:
    kept.append(Producer(bootstrap_servers=servers))
    for number in range(COUNT):
        kept[-1].send("t", b"%d" % number)


def send_with_inherited(_: str) -> None:
    for number in range(COUNT):
        kept[0].send("t", b"%d" % number)


def send_and_forget(servers: str) -> None:
    producer = Producer(bootstrap_servers=servers)
    for number in range(COUNT):
        producer.send("t", b"%d" % number)


kept: list[Producer] = []


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", [send_in_worker, send_with_inherited, send_and_forget])
def test_a_forked_worker_delivers_before_it_ends(work, servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"before the fork").result(10)
        kept[:] = [producer]
        worker = multiprocessing.get_context("fork").Process(target=work, args=(servers,))
        worker.start()
        worker.join(60)
        kept.clear()
    assert worker.exitcode == 0
    assert end_offset(servers) == 1 + COUNT


def test_an_asyncio_producer_that_is_garbage_collected_delivers_while_its_loop_runs(servers: str) -> None:
    async def send() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=500)
        for number in range(COUNT):
            await producer.send("t", b"%d" % number)

    async def main() -> None:
        with pytest.warns(ResourceWarning, match="not closed"):
            await send()
            gc.collect()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert end_offset(servers) == COUNT


def test_a_producer_without_unsent_records_is_closed_with_a_warning_and_nothing_else(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    producers = [Producer(bootstrap_servers=servers)]
    producers[0].send("t", b"v").result(10)
    core = producers[0]._core
    with pytest.warns(ResourceWarning, match="^Producer was not closed"):
        producers.clear()
    deadline = time.monotonic() + 10
    while not core.is_closed and time.monotonic() < deadline:
        time.sleep(0.005)
    assert core.is_closed
    assert not caplog.records


def test_a_producer_that_was_never_used_needs_no_close() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        producers = [Producer(bootstrap_servers="a:1"), AsyncProducer(bootstrap_servers="a:1")]
        producers.clear()
        gc.collect()


def said_of_producers(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about producers; clients of other tests in this process may log that their broker is gone."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("kafkaraw.client.sending")]


def test_a_discarded_producer_delivers_nothing_and_says_nothing(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    producers = [Producer(bootstrap_servers=servers, linger_ms=60_000)]
    producers[0].partitions_for("t")
    ticket = producers[0].send("t", b"v")
    discard_blocking(producers[0])
    producers.clear()
    gc.collect()
    assert not ticket.done
    assert not said_of_producers(caplog)

    async def main() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=60_000)
        await producer.send("t", b"v")
        await discard(producer)

    asyncio.run(main())
    gc.collect()
    assert end_offset(servers) == 0
    assert not said_of_producers(caplog)


def test_an_open_transaction_of_a_forgotten_producer_is_aborted(servers: str) -> None:
    producers = [Producer(bootstrap_servers=servers, transactional_id="forgotten")]
    producers[0].init_transactions()
    producers[0].begin_transaction()
    producers[0].send("t", b"v").result(10)
    with pytest.warns(ResourceWarning, match="not closed"):
        producers.clear()
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        deadline = time.monotonic() + 10
        while consumer.end_offsets([P0])[P0] < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert consumer.end_offsets([P0])[P0] == 2, "the record, and the marker of the abort"
        consumer.assign([P0])
        consumer.seek_to_beginning()
        assert consumer.poll(0.1) == {}


LOCAL_IN_LOOP = f"""
import asyncio, sys
from kafkaraw import AsyncProducer
async def main():
    producer = AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=5_000)
    for number in range({COUNT}):
        await producer.send("t", b"%d" % number)
asyncio.run(main())
"""
OWN_LOOP = LOCAL_IN_LOOP.replace(
    "asyncio.run(main())",
    """
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
""",
)


@pytest.mark.parametrize("code", [LOCAL_IN_LOOP, OWN_LOOP], ids=["asyncio.run", "own loop"])
def test_the_log_says_what_is_lost_when_a_loop_ends_right_after_its_producer(servers: str, code: str) -> None:
    done = run(code, servers)
    lost = COUNT - end_offset(servers)
    assert lost
    assert f"{lost} records are lost: " in done.stderr, done.stderr
    assert done.stderr.count("are lost") == 1
    assert "AsyncProducer was not closed" in done.stderr


ENDED_LOOP = f"""
import asyncio, sys
from kafkaraw import AsyncProducer
async def main():
    global producer
    producer = AsyncProducer(bootstrap_servers=sys.argv[1], linger_ms=5_000)
    for number in range({COUNT}):
        await producer.send("t", b"%d" % number)
asyncio.run(main())
"""


def test_the_log_says_how_many_records_are_lost_with_an_event_loop_that_has_ended(servers: str) -> None:
    done = run(ENDED_LOOP, servers)
    assert f"event loop ends: {COUNT - end_offset(servers)} records are lost: " in done.stderr, done.stderr
    assert done.stderr.count("lost") == 1
    assert "destroyed" not in done.stderr
    assert "Producer was not closed" in done.stderr
