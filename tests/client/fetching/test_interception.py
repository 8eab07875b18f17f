"""Interceptors of consumers: they see what is given and what is stored, once, and can break nothing."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.config import ConsumerConfig, ProducerConfig, parse
from kafkaraw.client.consumer import AsyncConsumer, reading_of
from kafkaraw.client.fetching.awaiting import AwaitedBatch, NotDecodedError
from kafkaraw.client.fetching.interception import Interception
from kafkaraw.core.fetch.cursor import RecordCursor
from kafkaraw.errors import BrokerError, ConfigError, CorruptBatchError, DeserializationError
from kafkaraw.records import Batch, TopicPartition, encode_batch
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

PARTITION = TopicPartition("t", 0)


class Witness:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.seen: list[list[object]] = []
        self.stored: list[dict[TopicPartition, int]] = []
        self.closed = 0

    def on_consume(self, records):
        self.seen.append([record.value for record in records])

    def on_commit(self, offsets):
        self.stored.append({partition: at.offset for partition, at in offsets.items()})

    def close(self):
        self.closed += 1


class Doubling:
    """Changes records, and leaves the odd ones out."""

    def on_consume(self, records):
        return (record._replace(value=record.value * 2) for record in records if record.offset % 2 == 0)


class Failing:
    """Breaks wherever it can."""

    def on_consume(self, records):
        records.clear()
        raise ValueError("on_consume")

    def on_commit(self, offsets):
        offsets.clear()
        raise ValueError("on_commit")

    def close(self):
        raise ValueError("close")


def batch_of(interception: Interception, *values: bytes, start_offset: int = 0, **settings: object) -> Batch:
    data = memoryview(encode_batch([(0, None, value, None) for value in values]))
    return interception.batch("t", 0, data, start_offset=start_offset, **settings)


def values(batch: Batch) -> list[object]:
    return [record.value for record in batch]


def test_each_batch_is_seen_once_however_often_it_is_looked_at():
    witness = Witness()
    batch = batch_of(Interception([witness]), b"a", b"b", b"c")
    assert witness.seen == []
    assert values(batch) == values(batch) == batch.values() == [b"a", b"b", b"c"]
    assert values(batch.starting_at(1)) == [b"b", b"c"] and values(batch.first(2)) == [b"a", b"b"]
    assert witness.seen == [[b"a", b"b", b"c"]]


def test_parts_that_are_made_before_anybody_looked_are_seen_apart():
    witness = Witness()
    batch = batch_of(Interception([witness]), b"a", b"b", b"c", start_offset=1)
    head, rest = batch.first(1), batch.starting_at(2)
    assert (values(head), values(rest)) == ([b"b"], [b"c"])
    assert witness.seen == [[b"b"], [b"c"]]


def test_interceptors_change_and_leave_out_records_in_turn():
    witness = Witness()
    batch = batch_of(Interception([Doubling(), Doubling(), witness]), b"a", b"b", b"c")
    assert values(batch) == [b"aaaa", b"cccc"]
    assert witness.seen == [[b"aaaa", b"cccc"]]
    assert (batch.next_offset, batch.records_count) == (3, 3)


@pytest.mark.parametrize("given", [5, [5], "text"])
def test_an_interceptor_that_fails_or_gives_no_records_is_passed_over(given, caplog):
    class Wrong:
        def on_consume(self, records):
            return given

    witness = Witness()
    assert values(batch_of(Interception([Failing(), Wrong(), witness]), b"a")) == [b"a"]
    assert witness.seen == [[b"a"]]
    assert "Failing.on_consume failed" in caplog.text and f"returned {type(given).__name__} instead" in caplog.text


def test_records_before_a_damaged_one_are_given_and_seen():
    witness = Witness()

    def convert(record):
        if record.value == b"b":
            raise DeserializationError("no", topic="t", partition=0, offset=1)
        return record

    records = iter(batch_of(Interception([witness]), b"a", b"b", b"c", convert=convert))
    assert next(records).value == b"a"
    with pytest.raises(DeserializationError):
        next(records)
    broken = batch_of(Interception([]), b"b", convert=convert)
    raised = []
    for _ in range(3):
        with pytest.raises(DeserializationError) as caught:
            list(broken)
        raised.append(caught.value)
    assert len(set(map(id, raised))) == 3
    assert witness.seen == [[b"a"]]
    data = bytearray(encode_batch([(0, None, b"a", None)]))
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        list(Interception([witness]).batch("t", 0, memoryview(data), start_offset=0))


def wires(*contents: list[bytes], damaged: int) -> memoryview:
    """Wire batches, one of which is damaged."""
    data, offset = b"", 0
    for number, values in enumerate(contents):
        wire = bytearray(encode_batch([(0, None, value, None) for value in values]))
        wire[:8] = offset.to_bytes(8, "big")
        wire[-1] ^= number == damaged
        data, offset = data + wire, offset + len(values)
    return memoryview(data)


class DropsTheFirstTwo:
    def on_consume(self, records):
        return [record for record in records if record.offset >= 2]


@pytest.mark.parametrize(
    ("interceptors", "damaged", "given"),
    [
        ([], 1, ["a", "b", "error", "e"]),
        ([], 0, ["error", "c", "d", "e"]),
        ([Doubling()], 1, ["aa", "error", "ee"]),
        ([DropsTheFirstTwo()], 1, ["error", "e"]),
        ([DropsTheFirstTwo()], 2, ["c", "d", "error"]),
    ],
)
@pytest.mark.parametrize("is_awaited", [False, True])
def test_records_behind_a_damaged_wire_batch_are_given_and_seen_once(interceptors, damaged, given, is_awaited):
    witness = Witness()
    interception = Interception([witness, *interceptors])
    data = wires([b"a", b"b"], [b"c", b"d"], [b"e"], damaged=damaged)
    if is_awaited:
        batch: Batch = AwaitedBatch("t", 0, data, start_offset=0)
        assert isinstance(batch, AwaitedBatch)
        batch.conversion, batch.intercept = (lambda record: record), interception.consumed
    else:
        batch = interception.batch("t", 0, data, start_offset=0)
    cursor, found = RecordCursor(), []
    cursor.put([batch])
    for _ in range(10):
        try:
            found.extend(record.value.decode() for record in cursor.records())  # keeps what came before an error
        except NotDecodedError as error:
            asyncio.run(error.batch.decode())
        except CorruptBatchError:
            found.append("error")
    assert found == given
    intact = [b"a", b"b", b"c", b"d", b"e"]
    del intact[2 * damaged : 2 * damaged + 2]
    assert [value for seen in witness.seen for value in seen] == intact


def test_columns_are_not_intercepted():
    witness = Witness()
    table = batch_of(Interception([witness, Doubling()]), b"a", b"b").to_arrow(["value"])
    assert table.column("value").to_pylist() == [b"a", b"b"] and witness.seen == []


@pytest.mark.parametrize("way", ["iterate", "next", "batches", "poll"])
def test_every_way_of_reading_comes_by_the_interceptors_and_positions_count_what_they_left_out(way):
    async def test(cluster: VirtualCluster) -> None:
        witness = Witness()
        async with cluster.producer() as producer:
            for number in range(4):
                await producer.send("t", b"%d" % number)
        async with cluster.consumer(interceptors=[witness, Doubling()], group_id="g") as consumer:
            consumer.assign(await consumer.partitions_for("t"))
            found: list[bytes] = []
            if way == "iterate":
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 2:
                        break
            elif way == "next":
                found += [(await anext(aiter(consumer))).value, (await anext(aiter(consumer))).value]
            elif way == "batches":
                async for batch in consumer.batches():
                    found += batch.values()
                    break
            else:
                found += [r.value for batch in (await consumer.poll()).values() for r in batch]
            assert found == [b"00", b"22"]
            await consumer.poll(0)
            assert await consumer.position(PARTITION) == 4
        assert b"".join(map(b"".join, witness.seen)) == b"0123"
        assert witness.stored == [{PARTITION: 4}] and witness.closed == 1

    on_cluster(test)


def test_interceptors_hear_of_every_commit_that_succeeded_and_can_break_none(caplog):
    async def test(cluster: VirtualCluster) -> None:
        witness = Witness()
        await cluster.create("t")
        settings = {"interceptors": [Failing(), witness], "group_id": "g", "enable_auto_commit": False}
        async with cluster.consumer(**settings) as consumer:
            consumer.assign([PARTITION])
            await consumer.commit({PARTITION: 1})
            consumer.commit_nowait({PARTITION: 2})
            await consumer.commit({})
            with pytest.raises(BrokerError):
                await consumer.commit({TopicPartition("t", 9): 3}, timeout=1)
        assert witness.stored == [{PARTITION: 1}, {PARTITION: 2}] and witness.closed == 1

    on_cluster(test)
    assert "Failing.on_commit failed" in caplog.text and "Failing.close failed" in caplog.text


def test_settings_refuse_what_is_no_interceptor_of_the_client():
    with pytest.raises(ConfigError, match=r"neither on_consume\(\) nor on_commit\(\)"):
        parse(ConsumerConfig, {"bootstrap_servers": BOOTSTRAP, "interceptors": [object()]})
    with pytest.raises(ConfigError, match=r"neither on_send\(\) nor on_acknowledgement\(\)"):
        parse(ProducerConfig, {"bootstrap_servers": BOOTSTRAP, "interceptors": [Witness()]})


def test_a_consumer_without_interceptors_has_no_such_path():
    assert reading_of(AsyncConsumer(bootstrap_servers=BOOTSTRAP)).interception is None
