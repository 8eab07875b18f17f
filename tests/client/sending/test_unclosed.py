"""Producers that nobody closes: what they took is delivered, or the log says how many records are lost."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker

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
    assert "ResourceWarning: a producer was not closed" in done.stderr
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


kept: list[Producer] = []


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("work", [send_in_worker, send_with_inherited])
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
    assert f"{COUNT - end_offset(servers)} records that send() took are lost" in done.stderr, done.stderr
    assert "ResourceWarning: a producer was not closed" in done.stderr
