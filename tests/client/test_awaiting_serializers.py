"""Serializers and deserializers that return awaitables: asyncio clients wait for them, blocking ones refuse them."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.blocking.consumer import Consumer
from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.errors import (
    ConfigError,
    DeserializationError,
    KafkaTimeoutError,
    SerializationError,
    StaleMetadataError,
    UsageError,
)
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster


class Gated:
    """A serializer that waits for a gate when a value is not known, as for a schema that has to be fetched."""

    waits_by = "await"

    def __init__(self) -> None:
        self.gates: dict[object, asyncio.Future[bytes]] = {}

    def hold(self, value: object) -> asyncio.Future[bytes]:
        self.gates[value] = asyncio.get_running_loop().create_future()
        return self.gates[value]

    def __call__(self, value, context):
        gate = self.gates.get(value)
        return str(value).encode() if gate is None else self.later(gate)

    async def later(self, gate):
        return await gate


class Blocking:
    waits_by = "block"

    def __call__(self, value):
        return b""


async def coroutine_function(value):
    await asyncio.sleep(0.01)
    return str(value).encode()


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_key_without_serializer_may_be_a_bytearray_and_one_of_another_type_is_refused():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(value_serializer=coroutine_function) as producer:
            await producer.send("t", 1, bytearray(b"key"))
            with pytest.raises(UsageError, match="key is bytes or None, not str"):
                await producer.send("t", 1, "key")
        assert [record.key for record in await cluster.read("t", 1)] == [b"key"]

    on_cluster(test)


def test_a_coroutine_function_serializes_keys_and_values():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(key_serializer=coroutine_function, value_serializer=coroutine_function) as producer:
            for number in range(3):
                await producer.send("t", number, number)
            await producer.send("t", None, "gone")
        records = await cluster.read("t", 4)
        assert [(r.key, r.value) for r in records] == [(b"0", b"0"), (b"1", b"1"), (b"2", b"2"), (b"gone", None)]

    on_cluster(test)


def test_records_that_are_known_wait_behind_one_that_is_not():
    async def test(cluster: VirtualCluster) -> None:
        serializer = Gated()
        async with cluster.producer(value_serializer=serializer) as producer:
            await producer.partitions_for("t")
            await producer.partitions_for("other")
            first, second = serializer.hold(1), serializer.hold(2)
            sends = [asyncio.create_task(producer.send("t", number, partition=0)) for number in range(1, 6)]
            await asyncio.sleep(0.05)
            await producer.send("other", 9)  # another topic does not wait
            second.set_result(b"2")
            await asyncio.sleep(0.05)
            assert not any(send.done() for send in sends)
            with pytest.raises(StaleMetadataError, match="would overtake it"):
                producer.send_nowait("t", 7)
            first.set_result(b"1")
            for send in sends:
                await send
            producer.send_nowait("t", 6, partition=0)
        assert [r.value for r in await cluster.read("t", 6)] == [b"1", b"2", b"3", b"4", b"5", b"6"]

    on_cluster(test)


def test_records_keep_their_order_while_the_topic_is_not_known_either():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(value_serializer=coroutine_function) as producer:
            await asyncio.gather(*[producer.send("t", number, partition=0) for number in range(9)])
        assert [r.value for r in await cluster.read("t", 9)] == [b"%d" % number for number in range(9)]

    on_cluster(test)


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_record_that_is_given_up_keeps_the_order_of_the_others(end):
    async def test(cluster: VirtualCluster) -> None:
        serializer = Gated()
        async with cluster.producer(value_serializer=serializer) as producer:
            await producer.partitions_for("t")
            first, second = serializer.hold(1), serializer.hold(2)
            sends = [asyncio.create_task(producer.send("t", number, partition=0)) for number in range(1, 5)]
            await asyncio.sleep(0.01)
            if end == "cancelled":
                sends[1].cancel()
            else:
                second.set_exception(ValueError("no"))
            await asyncio.sleep(0.01)
            assert not sends[2].done()  # the first one still comes before it
            first.set_result(b"1")
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert isinstance(outcomes[1], asyncio.CancelledError if end == "cancelled" else SerializationError)
        assert [r.value for r in await cluster.read("t", 3)] == [b"1", b"3", b"4"]

    on_cluster(test)


def test_a_serializer_that_never_ends_fails_after_max_block_ms():
    async def test(cluster: VirtualCluster) -> None:
        serializer = Gated()
        async with cluster.producer(value_serializer=serializer, max_block_ms=1000) as producer:
            serializer.hold(1)
            with pytest.raises(KafkaTimeoutError, match="max_block_ms=1000; the record was not sent"):
                await producer.send("t", 1)
            await producer.send("t", 2)
        assert [r.value for r in await cluster.read("t", 1)] == [b"2"]

    on_cluster(test)


def test_send_nowait_cannot_wait_for_a_serializer():
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(value_serializer=coroutine_function) as producer:
            await producer.partitions_for("t")
            with pytest.raises(SerializationError, match=r"only `await AsyncProducer.send\(...\)` waits for it"):
                producer.send_nowait("t", 1)

    on_cluster(test)


def test_an_error_of_a_server_is_not_an_error_of_the_record():
    async def test(cluster: VirtualCluster) -> None:
        async def unreachable(value):
            raise StaleMetadataError("the registry cannot be reached")

        async with cluster.producer(value_serializer=unreachable) as producer:
            with pytest.raises(StaleMetadataError):
                await producer.send("t", 1)
        async with cluster.producer() as producer:
            await producer.send("t", b"1")
        async with cluster.consumer(value_deserializer=unreachable) as consumer:
            consumer.assign([("t", 0)])
            for _ in range(2):
                with pytest.raises(StaleMetadataError):
                    await anext(consumer)
            with pytest.raises(StaleMetadataError):
                await consumer.poll()
            assert consumer.next_offsets()[("t", 0)].offset == 0

    on_cluster(test)


@pytest.mark.parametrize("make", [Producer, Consumer])
def test_blocking_clients_refuse_what_returns_awaitables(make):
    name = "value_serializer" if make is Producer else "value_deserializer"
    for given in (coroutine_function, Gated()):
        with pytest.raises(
            ConfigError, match=f"{name}: .* may return an awaitable, which {make.__name__} cannot wait for"
        ):
            make(bootstrap_servers=BOOTSTRAP, **{name: given})


@pytest.mark.parametrize("make", [AsyncProducer, AsyncConsumer])
def test_asyncio_clients_refuse_what_blocks_the_loop(make):
    name = "value_serializer" if make is AsyncProducer else "value_deserializer"
    with pytest.raises(ConfigError, match=f"would stop the event loop of {make.__name__}; make it with AsyncRegistry"):
        make(bootstrap_servers=BOOTSTRAP, **{name: Blocking()})


# -- reading


class Reader:
    """A deserializer whose answers are awaited the first time that a value is seen."""

    waits_by = "await"

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.calls = 0
        self.gate: asyncio.Event | None = None

    def __call__(self, data, context):
        self.calls += 1
        if data == b"bad":
            raise ValueError("no")
        return int(data) if data in self.known else self.later(data)

    async def later(self, data):
        await asyncio.sleep(0.01)
        if self.gate is not None:
            await self.gate.wait()
        if data == b"late bad":
            raise ValueError("no")
        self.known.add(data)
        return int(data)


async def filled(cluster: VirtualCluster, *values: bytes) -> None:
    async with cluster.producer() as producer:
        for value in values:
            await producer.send("t", value, partition=0)


READS = {
    "iteration": lambda consumer, count: take_iterating(consumer, count),
    "poll": lambda consumer, count: take_polling(consumer, count, None),
    "poll of two": lambda consumer, count: take_polling(consumer, count, 2),
    "batches": lambda consumer, count: take_batches(consumer, count),
}


async def take_iterating(consumer, count):
    return [(await anext(consumer)).value for _ in range(count)]


async def take_polling(consumer, count, most):
    found = []
    while len(found) < count:
        for batch in (await consumer.poll(max_records=most)).values():
            found += batch.values()
    return found


async def take_batches(consumer, count):
    found = []
    async for batch in consumer.batches():
        found += [record.value for record in batch]
        if len(found) >= count:
            return found
    return found


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("deserializer", [Reader, lambda: number_of])
def test_every_way_of_reading_waits_for_deserializers(way, deserializer):
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster, *[b"%d" % (number % 4) for number in range(10)])
        async with cluster.consumer(value_deserializer=deserializer()) as consumer:
            consumer.assign([("t", 0)])
            assert await READS[way](consumer, 10) == [number % 4 for number in range(10)]

    on_cluster(test)


async def number_of(data):
    await asyncio.sleep(0)
    return int(data)


def test_each_record_is_deserialized_once_per_batch():
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster, *[b"%d" % number for number in range(50)])
        reader = Reader()
        async with cluster.consumer(value_deserializer=reader) as consumer:
            consumer.assign([("t", 0)])
            assert await take_iterating(consumer, 50) == list(range(50))
            assert reader.calls == 50

    on_cluster(test)


@pytest.mark.parametrize("way", ["iteration", "poll"])
def test_a_cancelled_read_loses_no_record(way):
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster, b"1", b"2", b"3")
        reader = Reader()
        async with cluster.consumer(value_deserializer=reader) as consumer:
            consumer.assign([("t", 0)])
            reader.gate = asyncio.Event()
            read = asyncio.create_task(READS[way](consumer, 3))
            await until(lambda: reader.calls > 0)
            await asyncio.sleep(0.1)
            read.cancel()
            await asyncio.gather(read, return_exceptions=True)
            reader.gate.set()
            assert await READS[way](consumer, 3) == [1, 2, 3]

    on_cluster(test)


@pytest.mark.parametrize("bad", [b"bad", b"late bad"])
def test_a_record_that_cannot_be_read_fails_behind_those_before_it(bad):
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster, b"1", b"2", bad, b"4")
        reader = Reader()
        async with cluster.consumer(value_deserializer=reader) as consumer:
            consumer.assign([("t", 0)])
            assert await take_iterating(consumer, 2) == [1, 2]
            for _ in range(2):
                with pytest.raises(DeserializationError) as raised:
                    await anext(consumer)
                assert raised.value.offset == 2
            consumer.seek(("t", 0), 3)
            assert await take_iterating(consumer, 1) == [4]
            consumer.seek(("t", 0), 0)
            (batch,) = (await consumer.poll()).values()
            found = []
            with pytest.raises(DeserializationError):
                found.extend(record.value for record in batch)
            assert found == [1, 2]

    on_cluster(test)


def test_interceptors_see_awaited_records():
    class Doubling:
        def on_consume(self, records):
            return [record._replace(value=record.value * 2) for record in records]

    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster, b"1", b"2")
        async with cluster.consumer(value_deserializer=Reader(), interceptors=Doubling()) as consumer:
            consumer.assign([("t", 0)])
            assert await take_iterating(consumer, 2) == [2, 4]

    on_cluster(test)
