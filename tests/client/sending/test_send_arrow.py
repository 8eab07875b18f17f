"""Tables are sent: what may stand in their columns, where rows go, and what happens when they cannot."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw import Admin, ArrowTicket, Consumer, NewTopic, Producer, SentRows, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.sending.accumulator import BACKPRESSURE_BYTES
from kafkaraw.client.sending.arrow_rows import rows_of
from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    KafkaTimeoutError,
    RecordTooLargeError,
    TransactionAbortableError,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.protocol.error_codes import ErrorCode, error_for
from kafkaraw.records import BatchPromise, SentPart, partition_for_key
from tests.client.virtual_cluster import on_cluster
from tests.examples import examples

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def sent(data, topic="t", *, partitions=3, count=None, producer=None):
    """What is in the topic after the data was sent."""

    async def test(cluster):
        await cluster.create("t", partitions)
        async with cluster.producer(**(producer or {})) as sender:
            await sender.send_arrow(topic, data)
        return await cluster.read("t", len(data) if count is None else count)

    return on_cluster(test)


def in_order(records):
    return sorted(records, key=lambda record: (record.partition, record.offset))


# ---- columns


def test_everything_about_a_row_arrives():
    headers = [[("source", b"JFK"), ("source", None)], [], None]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([b"a", None, b""]),
            "value": pa.array([b"1", None, b""]),
            "timestamp": pa.array([1000, None, 3000], pa.timestamp("ms", "UTC")),
            "partition": pa.array([2, 2, 2], pa.int32()),
            "headers": pa.array([r and [{"key": k, "value": v} for k, v in r] for r in headers], kind),
        }
    )
    first, second, third = sent(table)
    assert (first.key, first.value, first.timestamp_ms, first.headers) == (b"a", b"1", 1000, headers[0])
    assert (second.key, second.value, second.headers) == (None, None, [])
    assert second.timestamp_ms > 1_000_000_000_000, "null is now"
    assert (third.key, third.value, third.timestamp_ms, third.headers) == (b"", b"", 3000, [])
    assert {record.partition for record in (first, second, third)} == {2}


class Spy:
    def __init__(self):
        self.seen = []

    def on_send(self, record):
        self.seen.append(record)
        return record

    def on_acknowledgement(self, metadata, error):
        self.seen.append(metadata)


def test_rows_pass_serializers_and_interceptors_by():
    spy = Spy()
    settings = {"interceptors": [spy], "value_serializer": lambda value: value.upper(), "key_serializer": str.encode}
    (record,) = sent(pa.table({"key": [b"k"], "value": [b"as it is"]}), producer=settings)
    assert (record.key, record.value) == (b"k", b"as it is")
    assert spy.seen == []


PLAIN = ["a", None, "", "long " * 20, "a"]
BYTES_TYPES = {
    "binary": pa.binary(),
    "string": pa.string(),
    "large_binary": pa.large_binary(),
    "large_string": pa.large_string(),
    "binary_view": pa.binary_view(),
    "string_view": pa.string_view(),
    "dictionary of string": pa.dictionary(pa.int8(), pa.string()),
    "dictionary of binary": pa.dictionary(pa.int64(), pa.binary()),
    "dictionary of large string": pa.dictionary(pa.int16(), pa.large_string()),
}


@pytest.mark.parametrize("column", ["key", "value"])
@pytest.mark.parametrize("kind", BYTES_TYPES)
def test_text_and_bytes_of_every_layout_arrive(kind, column):
    plain = pa.array(PLAIN, pa.string())
    wanted = BYTES_TYPES[kind]
    if pa.types.is_dictionary(wanted):
        array = plain.cast(wanted.value_type).dictionary_encode().cast(wanted)
    else:
        array = plain.cast(wanted)
    records = sent(pa.table({column: array, "partition": [0] * len(PLAIN)}))
    assert [getattr(record, column) for record in records] == [row and row.encode() for row in PLAIN[:2]] + [
        b"",
        *(row.encode() for row in PLAIN[3:]),
    ]


def test_fixed_sizes_runs_and_columns_of_nulls_arrive():
    fixed = pa.array([b"abc", None, b"xyz"], pa.binary(3))
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["run", None]))
    columns = {"value": fixed, "key": runs, "headers": pa.nulls(3), "partition": pa.array([1, 1, 1], pa.uint8())}
    records = sent(pa.table(columns))
    assert [(record.value, record.key) for record in records] == [(b"abc", b"run"), (None, b"run"), (b"xyz", None)]
    assert len(sent(pa.table({"value": pa.nulls(4)}))) == 4
    assert len(sent(pa.table({"value": pa.nulls(2), "key": pa.array(["a", "b"])}))) == 2


@pytest.mark.parametrize(
    ("array", "first_ms"),
    [
        (pa.array([7], pa.timestamp("s")), 7000),
        (pa.array([7_999_999], pa.timestamp("us", "Europe/Zurich")), 7999),
        (pa.array([7_999_999_999], pa.timestamp("ns")), 7999),
        (pa.array([7000], pa.int64()), 7000),
        (pa.array([7000], pa.uint16()), 7000),
        (pa.array([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)]), 1_767_225_600_000),
    ],
)
def test_times_of_every_unit_become_milliseconds(array, first_ms):
    (record,) = sent(pa.table({"value": [b"v"], "timestamp": array}))
    assert record.timestamp_ms == first_ms


HEADERS = [[("a", b"1"), ("b", None)], None, [], [("a", b"")]]


def header_array(kind):
    if pa.types.is_map(kind):
        return pa.array(HEADERS, kind)
    return pa.array([row and [{"key": key, "value": value} for key, value in row] for row in HEADERS], kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.binary()),
        pa.map_(pa.large_string(), pa.large_binary()),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])),
        pa.large_list(pa.struct([("key", pa.string()), ("value", pa.string())])),
    ],
    ids=str,
)
def test_headers_may_be_lists_or_maps_and_slices_of_them(kind):
    table = pa.table({"value": [b"0", b"1", b"2", b"3"], "headers": header_array(kind), "partition": [0] * 4})
    for start in range(4):
        assert [record.headers for record in sent(table.slice(start))] == [row or [] for row in HEADERS[start:]]


def test_a_record_batch_and_slices_of_it_are_sent():
    batch = pa.record_batch({"value": [b"%d" % number for number in range(20)], "partition": [0] * 20})
    assert [record.value for record in sent(batch.slice(3, 9))] == [b"%d" % number for number in range(3, 12)]


def test_what_gives_arrow_data_by_its_capsule_is_sent():
    class Frame:
        def __init__(self, table):
            self.table = table

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

        def __len__(self):
            return len(self.table)

    assert [record.value for record in sent(Frame(pa.table({"value": ["a", "b"], "partition": [1, 1]})))] == [
        b"a",
        b"b",
    ]


def test_chunks_of_columns_may_differ():
    values = pa.chunked_array([[b"0", b"1"], [b"2"], [], [b"3", b"4", b"5"]])
    keys = pa.chunked_array([[b"k"], [b"k"] * 4, [b"k"]])
    records = sent(pa.table({"value": values, "key": keys}))
    assert [record.value for record in records] == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [1]}, "column 'value' has type int64; expected: binary or string"),
        ({"key": [[b"a"]], "value": [b""]}, "column 'key' has type list<"),
        ({"value": [b""], "timestamp": ["now"]}, "column 'timestamp' has type string; expected: timestamp of any unit"),
        ({"value": [b""], "timestamp": [1.5]}, "column 'timestamp' has type double"),
        ({"value": [b""], "partition": ["1"]}, "column 'partition' has type string; expected: integers"),
        ({"value": [b""], "partition": pa.array([2**63], pa.uint64())}, "column 'partition' of type uint64"),
        ({"value": [b""], "headers": [[("a", b"")]]}, "column 'headers' has type"),
        ({"value": [b""], "headers": [[{"key": b"a", "value": b""}]]}, "column 'headers' has type list<"),
        ({"value": [b""], "headers": [[{"name": "a", "value": b""}]]}, "expected: list<struct<key: string, value: b"),
        ({"value": [b""], "headers": [[{"key": None, "value": b""}]]}, "column 'headers'"),
        ({"valeu": [b""]}, "unknown column 'valeu'; did you mean 'value'"),
        ({"value": [b""], "offset": [1]}, "unknown column 'offset'.*key, value, headers, timestamp, partition, topic"),
        ({"partition": [1]}, "neither a column 'value' nor 'key'"),
        ({}, "neither a column 'value' nor 'key', only none"),
        ({"value": [b""], "topic": ["t"]}, "topic='t' and a column 'topic': give one of them"),
    ],
)
def test_a_column_that_cannot_be_sent_is_named(columns, message):
    with pytest.raises(UsageError, match=message):
        list(rows_of(pa.table(columns), "t"))


def test_a_null_header_is_named():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with pytest.raises(UsageError, match="column 'headers': a header is null"):
        list(rows_of(pa.table({"value": [b""], "headers": pa.array([[None]], kind)}), "t"))


def test_there_is_a_topic_and_a_row_for_each():
    with pytest.raises(UsageError, match="give a topic, or a column 'topic'"):
        list(rows_of(pa.table({"value": [b""]}), None))
    with pytest.raises(UsageError, match="column 'topic': row 1 is null"):
        list(rows_of(pa.table({"value": [b"", b""], "topic": ["t", None]}), None))
    with pytest.raises(UsageError, match="column 'topic' has type int64; expected: string"):
        list(rows_of(pa.table({"value": [b""], "topic": [1]}), None))
    with pytest.raises(UsageError, match=r"pyarrow.Table or RecordBatch.* not list"):
        list(rows_of([{"value": b""}], "t"))


# ---- where rows go


def test_keys_decide_and_rows_of_a_partition_keep_their_order():
    keys = [b"key-%d" % (number % 10) for number in range(500)]
    records = sent(pa.table({"key": keys, "value": [b"%d" % number for number in range(500)]}))
    assert {record.key: record.partition for record in records} == {key: partition_for_key(key, 3) for key in keys}
    for partition in range(3):
        found = [int(record.value) for record in in_order(records) if record.partition == partition]
        assert found == sorted(found)


def test_a_column_of_topics_sends_to_many():
    async def test(cluster):
        await cluster.create("t", 2)
        await cluster.create("u", 4)
        names = pa.array(["t", "u", "u", "t"]).dictionary_encode()
        table = pa.table({"value": [b"0", b"1", b"2", b"3"], "topic": names, "partition": [1, 3, 0, None]})
        async with cluster.producer() as producer:
            where = await (await producer.send_arrow(None, table))
        read = {topic: await cluster.read(topic, 2) for topic in ("t", "u")}
        return where, {(r.topic, r.partition, r.value) for records in read.values() for r in records if r.value != b"3"}

    where, records = on_cluster(test)
    assert records == {("t", 1, b"0"), ("u", 3, b"1"), ("u", 0, b"2")}
    assert {(rows.topic, rows.first_row) for rows in where} >= {("t", 0), ("u", 1), ("u", 2)}


def test_the_ticket_says_where_the_rows_are():
    async def test(cluster):
        await cluster.create("t", 2)
        async with cluster.producer() as producer:
            await producer.send("t", b"before", partition=1)
            table = pa.table({"value": [b"0", b"1", b"2"], "partition": [1, 0, 1]})
            ticket = await producer.send_arrow("t", table)
            assert (ticket.rows_count, ticket.done, ticket.exception(), ticket.written()) == (3, False, None, [])
            assert repr(ticket) == "ArrowTicket(3 rows in 2 batches, pending)"
            where = await ticket
            assert ticket.done and ticket.written() == where == ticket.result(0)
            return where

    assert on_cluster(test) == [SentRows("t", 1, 1, 2, 0), SentRows("t", 0, 0, 1, 1)]


def test_no_rows_are_sent_at_once():
    async def test(cluster):
        async with cluster.producer() as producer:
            ticket = await producer.send_arrow("t", pa.table({"value": pa.array([], pa.binary())}))
            return ticket.done, await ticket, ticket.result()

    assert on_cluster(test) == (True, [], [])


@given(st.data())
@settings(max_examples=examples(30), deadline=None)
def test_what_is_written_is_what_is_read(data):
    small = st.none() | st.binary(max_size=20)
    names = st.text(st.characters(codec="utf-8"), max_size=3)
    count = data.draw(st.integers(0, 50))

    def column(kind):
        return data.draw(st.lists(kind, min_size=count, max_size=count))

    keys, values, partitions = column(small), column(small), column(st.integers(0, 2))
    headers = column(st.lists(st.tuples(names, small), max_size=2))
    times = column(st.integers(0, 2**40))
    table = pa.table(
        {
            "key": pa.array(keys, data.draw(st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, pa.map_(pa.string(), pa.binary())),
            "timestamp": pa.array(times, pa.timestamp("ms")),
            "partition": pa.array(partitions, pa.int8()),
        }
    )
    start = data.draw(st.integers(0, count))
    codec = data.draw(st.sampled_from(["none", "lz4", "zstd"]))
    size = data.draw(st.sampled_from([200, 100_000]))
    records = sent(table.slice(start), producer={"compression_type": codec, "batch_size": size})
    found = [(r.partition, r.key, r.value, r.headers, r.timestamp_ms) for r in in_order(records)]
    rows = list(zip(partitions, keys, values, headers, times, strict=True))[start:]
    assert found == sorted(rows, key=lambda row: row[0])


# ---- when rows cannot be sent


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"value": [b"", bytes(900)]}, RecordTooLargeError, "row 1 takes 982 bytes uncompressed, and 800 are the most"),
        ({"value": [b"", b""], "partition": [0, 3]}, UsageError, "row 1 has 3; 't' has partitions 0 to 2"),
        ({"value": [b"", b""], "timestamp": [0, -5]}, UsageError, "column 'timestamp': row 1 has -5"),
        ({"value": [b"", b""], "timestamp": [0, -1]}, UsageError, "column 'timestamp': row 1 has -1"),
    ],
)
def test_when_one_row_cannot_be_sent_none_is(columns, error, message):
    async def test(cluster):
        await cluster.create("t", 3)
        async with cluster.producer(max_request_size=800) as producer:
            good = pa.table({name: pa.array(column[:1] * 50) for name, column in columns.items()})
            with pytest.raises(error, match=message.replace("row 1", "row 51")):
                await producer.send_arrow("t", pa.concat_tables([good, pa.table(columns)]))
            await producer.send("t", b"the only one", partition=0)
        return [record.value for record in await cluster.read("t", 1)]

    assert on_cluster(test) == [b"the only one"]


def test_an_unknown_topic_is_reported():
    async def test(cluster):
        async with cluster.producer(allow_auto_create_topics=False, max_block_ms=500) as producer:
            with pytest.raises(UnknownTopicError, match="nowhere"):
                await producer.send_arrow("nowhere", pa.table({"value": [b""]}))

    on_cluster(test)


def test_above_the_memory_bound_sending_waits():
    async def test(cluster):
        await cluster.create("t", 1)
        async with cluster.producer(buffer_memory=20_000, batch_size=4000) as producer:
            table = pa.table({"value": [b"%0100d" % number for number in range(3000)]})
            ticket = await producer.send_arrow("t", table)
            where = await ticket
        return where, [record.value for record in await cluster.read("t", 3000)]

    where, values = on_cluster(test)
    assert values == [b"%0100d" % number for number in range(3000)]
    assert sum(rows.rows_count for rows in where) == 3000
    assert [rows.first_row for rows in where] == [rows.offset for rows in where]


@pytest.mark.parametrize(
    ("answers", "least", "most"), [(True, 0, BACKPRESSURE_BYTES + 2_500_000), (False, 12_000_000, 2**24)]
)
def test_rows_are_not_far_ahead_of_a_network_that_keeps_up_and_fill_the_buffer_of_one_that_does_not(
    answers, least, most
):
    async def test(cluster):
        await cluster.create("t", 4)
        producer = cluster.producer(linger_ms=0)
        await producer.partitions_for("t")
        if not answers:
            cluster.node.faults.on("Produce").swallow()
        table = pa.table({"value": [bytes(1000)] * 12_000, "partition": [number % 4 for number in range(12_000)]})
        seen = []

        async def watch():
            while True:
                seen.append(producer._core.accumulator.open_batches.used_bytes)
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        await producer.send_arrow("t", table)
        seen.append(producer._core.accumulator.open_batches.used_bytes)
        watching.cancel()
        with contextlib.suppress(KafkaTimeoutError):
            await producer.close(5)
        return max(seen)

    assert least <= on_cluster(test) <= most


def test_send_raises_if_buffer_memory_stays_full():
    async def test(cluster):
        await cluster.create("t", 1)
        producer = cluster.producer(buffer_memory=20_000, batch_size=4000, max_block_ms=1000)
        await producer.partitions_for("t")
        cluster.node.faults.on("Produce").swallow()
        with pytest.raises(KafkaTimeoutError, match="buffer_memory=20000 bytes stayed full for max_block_ms=1000"):
            await producer.send_arrow("t", pa.table({"value": [bytes(100)] * 3000}))
        with pytest.raises(KafkaTimeoutError):
            await producer.close(1)

    on_cluster(test)


def test_a_closed_producer_refuses():
    async def test(cluster):
        async with cluster.producer() as producer:
            await producer.partitions_for("t")
        with pytest.raises(ClosedError):
            await producer.send_arrow("t", pa.table({"value": [b""]}))

    on_cluster(test)


def test_rows_of_a_transaction_are_read_together_or_not_at_all():
    async def test(cluster):
        await cluster.create("t", 1)
        table = pa.table({"value": [b"%d" % number for number in range(100)]})
        async with cluster.producer(transactional_id="id", batch_size=500) as producer:
            await producer.init_transactions()
            with pytest.raises(UsageError, match="no open transaction"):
                await producer.send_arrow("t", table)
            await producer.begin_transaction()
            await producer.send_arrow("t", table.slice(50))
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_arrow("t", table.slice(0, 50))
        async with cluster.consumer(isolation_level="read_committed") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            values = []
            while len(values) < 50:
                values += [record.value for batch in (await consumer.poll(5)).values() for record in batch]
        return values

    assert on_cluster(test) == [b"%d" % number for number in range(50)]


# ---- tickets


class Promises:
    def __init__(self, count):
        self.waiter = PromiseWaiter()
        self.all = [BatchPromise("t", number, self.waiter) for number in range(count)]
        self.ticket = ArrowTicket(self.waiter)
        self.ticket.add([SentPart(promise, 0, 10, 10 * at) for at, promise in enumerate(self.all)], 0)


def test_rows_that_go_on_in_a_batch_are_one_part():
    promises = Promises(1)
    (promise,) = promises.all
    promises.ticket.add([SentPart(promise, 10, 5, 0), SentPart(promise, 20, 5, 5)], 100)
    promise.resolve(1000)
    assert promises.ticket.result() == [SentRows("t", 0, 1000, 15, 0), SentRows("t", 0, 1020, 5, 105)]
    assert promises.ticket.rows_count == 20


def test_a_partial_failure_raises_and_names_what_was_written():
    promises = Promises(3)
    first, second, third = promises.all
    first.resolve(5)
    third.fail(error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "third"))
    second.fail(error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "second"))
    with pytest.raises(BrokerError, match="second"):
        promises.ticket.result(0)
    assert promises.ticket.written() == [SentRows("t", 0, 5, 10, 0)]
    assert second.is_seen(10) and third.is_seen(10)


def test_each_call_for_the_outcome_of_rows_that_failed_raises_an_error_of_its_own():
    waiter = PromiseWaiter()
    ticket, error = ArrowTicket(waiter), error_for(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    promise = BatchPromise("t", 0, waiter)
    ticket.add([SentPart(promise, 0, 5, 0)], 0)
    promise.fail(error)
    raised = [ticket.exception()]
    for _ in range(3):
        with pytest.raises(BrokerError) as caught:
            ticket.result()
        raised.append(caught.value)
    assert len({id(one) for one in [error, *raised]}) == 5
    assert error.__traceback__ is None
    assert {repr(one) for one in raised} == {repr(error)}


def test_waiting_ends_with_the_timeout():
    with pytest.raises(KafkaTimeoutError, match="no acknowledgement for 2 batches within"):
        Promises(2).ticket.result(0.01)


def test_waiting_ends_with_the_last_answer():
    promises = Promises(20)
    settler = threading.Thread(target=lambda: [promise.resolve(0) for promise in promises.all])
    settler.start()
    assert len(promises.ticket.result(10)) == 20
    settler.join()


def test_callbacks_hear_once_when_all_is_known():
    promises = Promises(3)
    heard = []
    promises.ticket.add_done_callback(heard.append)
    for promise in promises.all:
        assert heard == []
        promise.resolve(0)
    assert heard == [promises.ticket]
    promises.ticket.add_done_callback(heard.append)
    assert heard == [promises.ticket] * 2
    ArrowTicket(promises.waiter).add_done_callback(heard.append)
    assert len(heard) == 3


def test_a_loop_does_not_wait_for_itself():
    async def test():
        promises = Promises(1)
        promises.waiter.loop = asyncio.get_running_loop()
        with pytest.raises(UsageError, match="await"):
            promises.ticket.result(1)

    asyncio.run(test())


# ---- the blocking face, on sockets


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_blocking_face_sends_tables_from_many_threads(codec):
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 4)])
        settings = {"compression_type": codec, "buffer_memory": 600_000, "batch_size": 16_384}
        tickets = []
        with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:

            def work(thread):
                keys = [b"%d" % (number % 30) for number in range(20_000)]
                values = [b"%d-%06d" % (thread, number) for number in range(20_000)]
                tickets.append(producer.send_arrow("t", pa.table({"key": keys, "value": values})))
                producer.send("t", b"%d-999999" % thread, b"0")

            threads = [threading.Thread(target=work, args=(thread,)) for thread in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sum(rows.rows_count for ticket in tickets for rows in ticket.result(30)) == 60_000
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for("t"))
            found = {}
            while sum(map(len, found.values())) < 60_003:
                for batch in consumer.poll(10).values():
                    for record in batch:
                        thread, _, number = record.value.partition(b"-")
                        found.setdefault((record.key, thread), []).append(int(number))
    assert all(numbers == sorted(set(numbers)) for numbers in found.values())


def test_a_producer_that_was_fenced_says_so_for_rows_too():
    async def test(cluster):
        await cluster.create("t", 1)
        async with cluster.producer(transactional_id="id") as first:
            await first.init_transactions()
            await first.begin_transaction()
            async with cluster.producer(transactional_id="id") as second:
                await second.init_transactions()
            ticket = await first.send_arrow("t", pa.table({"value": [b""]}))
            with pytest.raises((BrokerError, TransactionAbortableError)):
                await ticket

    on_cluster(test)


def test_rows_of_a_batch_that_is_too_large_are_told_of_in_pieces():
    async def test(cluster):
        await cluster.create("t", max_message_bytes="400")
        table = pa.table({"value": [b"%06d" % number for number in range(200)]})
        async with cluster.producer(linger_ms=20) as producer:
            places = await (await producer.send_arrow("t", table))
        values = [record.value for record in await cluster.read("t", 200)]
        told = [value for place in places for value in values[place.offset : place.offset + place.rows_count]]
        assert told == [b"%06d" % number for number in range(200)] and len(places) > 4
        assert [place.first_row for place in places] == [0] + [-1] * (len(places) - 1)

    on_cluster(test)
