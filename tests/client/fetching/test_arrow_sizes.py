"""`poll_arrow` gives about 16 MiB of decompressed records at a time, and the next call goes on behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, AsyncConsumer, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import ARROW_DATA_BYTES

pytest.importorskip("pyarrow")

BATCH_BYTES = 4 << 20
BATCHES = 12
P0, P1 = TopicPartition("zeros", 0), TopicPartition("zeros", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        servers = embedded.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("zeros", 2)])
        settings = {"compression_type": "zstd", "max_request_size": 2 * BATCH_BYTES, "linger_ms": 0}
        with Producer(bootstrap_servers=servers, **settings) as producer:
            for number in range(2 * BATCHES):
                producer.send("zeros", bytes(BATCH_BYTES - 100), partition=number % 2).result(30)
        yield embedded


def settings(broker: EmbeddedBroker) -> dict[str, str]:
    return {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}


def test_poll_arrow_gives_a_bounded_size_and_goes_on_behind_it(broker) -> None:
    offsets: dict[int, list[int]] = {0: [], 1: []}
    with Consumer(**settings(broker)) as consumer:
        consumer.assign([P0, P1])
        while sum(map(len, offsets.values())) < 2 * BATCHES:
            columns = consumer.poll_arrow(timeout=10)
            assert 0 < columns.nbytes <= ARROW_DATA_BYTES + BATCH_BYTES
            for partition, offset in zip(
                *(columns.column(name).to_pylist() for name in ("partition", "offset")), strict=True
            ):
                offsets[partition].append(offset)
            for tp in (P0, P1):
                assert consumer.position(tp) == len(offsets[tp.partition])
    assert list(offsets.values()) == [list(range(BATCHES))] * 2


def test_what_poll_arrow_left_is_given_by_the_other_ways_of_reading(broker) -> None:
    with Consumer(**settings(broker)) as consumer:
        consumer.assign([P0])
        given = consumer.poll_arrow(max_records=BATCHES - 2, timeout=10).num_rows
        assert given == ARROW_DATA_BYTES // BATCH_BYTES + 1
        assert next(consumer).offset == given
        assert next(iter(consumer.poll(10).values())).start_offset == given + 1


def test_the_asyncio_consumer_does_the_same(broker) -> None:
    async def read() -> list[int]:
        offsets: list[int] = []
        async with AsyncConsumer(**settings(broker)) as consumer:
            consumer.assign([P0])
            while len(offsets) < BATCHES:
                columns = await consumer.poll_arrow(timeout=10)
                assert columns.nbytes <= ARROW_DATA_BYTES + BATCH_BYTES
                offsets += columns.column("offset").to_pylist()
        return offsets

    assert asyncio.run(read()) == list(range(BATCHES))
