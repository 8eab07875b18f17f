"""AsyncProducer against a real broker on virtual time."""

from __future__ import annotations

import asyncio
import gc

import pytest

import kafkaraw.client.sending.sender
from kafkaraw.client.producer import AsyncProducer
from kafkaraw.client.sending.sender import Outbox, Sender
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.producer.batches import produce_request
from kafkaraw.core.producer.events import NO_IDENTITY, NumberedBatch, SendProduce
from kafkaraw.errors import (
    BrokerError,
    BufferFullError,
    ClosedError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    KafkaTimeoutError,
    NetworkError,
    RecordTooLargeError,
    StaleMetadataError,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.records import RecordMetadata, TopicPartition, partition_for_key
from kafkaraw.testing.virtual import START_MS
from tests.client.virtual_cluster import BOOTSTRAP, on_cluster

# ---- what is written


def test_a_ticket_says_where_the_record_is():
    async def test(cluster):
        async with cluster.producer() as producer:
            tickets = [await producer.send("t", b"%d" % n, timestamp_ms=1000 + n) for n in range(3)]
            return [await ticket for ticket in tickets]

    assert on_cluster(test) == [RecordMetadata("t", 0, n, 1000 + n) for n in range(3)]


def test_everything_about_a_record_arrives():
    async def test(cluster):
        await cluster.create("t", 3)
        async with cluster.producer() as producer:
            headers = [("source", b"JFK"), ("source", None)]
            await producer.send("t", b"value", b"key", headers=headers, timestamp_ms=5)
            await producer.send("t", None, b"gone", partition=2)
            await producer.send("t", b"", partition=1)
        return {record.key: record for record in await cluster.read("t", 3)}

    records = on_cluster(test)
    full = records[b"key"]
    assert (full.value, full.timestamp_ms, full.headers) == (b"value", 5, [("source", b"JFK"), ("source", None)])
    assert full.partition == partition_for_key(b"key", 3)
    assert (records[b"gone"].value, records[b"gone"].partition) == (None, 2)
    assert (records[None].value, records[None].partition) == (b"", 1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives(codec):
    async def test(cluster):
        values = [b"%d" % n * 50 for n in range(500)]
        async with cluster.producer(compression_type=codec, batch_size=4000) as producer:
            for value in values:
                await producer.send("t", value)
        return values, [record.value for record in await cluster.read("t", 500)]

    sent, read = on_cluster(test)
    assert read == sent


@pytest.mark.parametrize(("acks", "offset"), [(0, -1), (1, 0), ("all", 0), (-1, 0)])
def test_every_kind_of_acknowledgement(acks, offset):
    async def test(cluster):
        async with cluster.producer(acks=acks) as producer:
            metadata = await (await producer.send("t", b"v"))
        return metadata.offset, len(await cluster.read("t", 1)), cluster.produce_requests()[0][1].acks

    assert on_cluster(test) == (offset, 1, -1 if acks == "all" else acks)


def test_the_broker_stamps_records_when_the_topic_says_so():
    async def test(cluster):
        await cluster.create("t", message_timestamp_type="LogAppendTime")
        async with cluster.producer() as producer:
            return await (await producer.send("t", b"v", timestamp_ms=5))

    assert on_cluster(test).timestamp_ms >= START_MS


# ---- batches and requests


def test_records_wait_for_linger_and_leave_in_one_batch():
    async def test(cluster):
        async with cluster.producer(linger_ms=200) as producer:
            await producer.partitions_for("t")
            began = cluster.now
            for _ in range(10):
                ticket = await producer.send("t", b"v")
                await asyncio.sleep(0.01)
            await ticket
            ((sent_at, _),) = cluster.produce_requests()
            return sent_at - began, cluster.batch_headers()[0].records_count

    waited, count = on_cluster(test)
    assert count == 10
    assert 0.2 <= waited < 0.21


def test_a_full_batch_does_not_wait():
    async def test(cluster):
        async with cluster.producer(linger_ms=60_000, batch_size=500, request_timeout_ms=1000) as producer:
            await producer.partitions_for("t")
            began = cluster.now
            first = await producer.send("t", b"x" * 300)
            await producer.send("t", b"x" * 300)
            await first
            return cluster.now - began

    assert on_cluster(test) < 1


def test_one_request_carries_the_batches_of_several_partitions():
    async def test(cluster):
        await cluster.create("t", 4)
        async with cluster.producer(linger_ms=20) as producer:
            for partition in range(4):
                await producer.send("t", b"v", partition=partition)
        return [
            [p.index for p in topic.partition_data] for _, r in cluster.produce_requests() for topic in r.topic_data
        ]

    assert on_cluster(test) == [[0, 1, 2, 3]]


def test_five_requests_are_in_flight_at_once():
    async def test(cluster):
        async with cluster.producer(batch_size=200, linger_ms=0) as producer:
            await (await producer.send("t", b"first"))
            cluster.silence()
            for _ in range(10):
                await producer.send("t", b"x" * 150)
            await asyncio.sleep(1)
            in_flight = len(cluster.produce_requests()) - 1
            cluster.silence(False)
        return in_flight, [header.base_sequence for header in cluster.batch_headers()]

    in_flight, sequences = on_cluster(test)
    assert in_flight == 5
    assert sequences == list(range(11))


def test_a_batch_is_not_copied_on_its_way_into_the_request():
    class Batch:
        topic, partition = "t", 0
        encoded = memoryview(b"the bytes")

        def encode(self, *numbers, transactional):
            return self.encoded

    request = produce_request(
        SendProduce(0, 1, [NumberedBatch(Batch(), NO_IDENTITY, -1)]), ClusterView(), acks=1, timeout_ms=1
    )
    assert any(segment is Batch.encoded for segment in request.segments(13, 1, "me"))


def test_without_idempotence_batches_carry_no_producer_id():
    async def test(cluster):
        async with cluster.producer(enable_idempotence=False) as producer:
            await producer.send("t", b"v")
        return [header.producer_id for header in cluster.batch_headers()]

    assert on_cluster(test) == [-1]


# ---- what is refused


def test_a_record_that_is_too_large_is_refused_before_compression():
    async def test(cluster):
        async with cluster.producer(max_request_size=1000, compression_type="zstd") as producer:
            with pytest.raises(RecordTooLargeError, match="max_request_size is 1000"):
                await producer.send("t", bytes(1000))
            with pytest.raises(RecordTooLargeError):
                await producer.send("t", b"", headers=[("h", bytes(1000))])
            with pytest.raises(RecordTooLargeError):
                await producer.send("t", b"", bytes(1000))
            await (await producer.send("t", bytes(900)))

    on_cluster(test)


@pytest.mark.parametrize("idempotent", [True, False])
def test_batches_too_large_for_the_broker_are_split_and_arrive_in_order(idempotent):
    """Every ticket knows its own offset, and the memory is given back."""

    async def test(cluster):
        await cluster.create("t", max_message_bytes="400")
        async with cluster.producer(enable_idempotence=idempotent, linger_ms=50, batch_size=2000) as producer:
            tickets = [await producer.send("t", b"%06d" % n) for n in range(500)]
            offsets = [(await ticket).offset for ticket in tickets]
            assert producer._core.accumulator.open_batches.used_bytes == 0
        values = [record.value for record in await cluster.read("t", 500)]
        assert [values[offset] for offset in offsets] == [b"%06d" % n for n in range(500)]
        return values, {header.producer_epoch for header in cluster.batch_headers()}

    values, epochs = on_cluster(test)
    assert values == [b"%06d" % n for n in range(500)]
    assert epochs == ({0} if idempotent else {-1}), "a split is no reason for another epoch"


def test_a_producer_remembers_that_a_topic_takes_smaller_batches_only():
    async def test(cluster):
        await cluster.create("t", max_message_bytes="400")
        async with cluster.producer(linger_ms=50, batch_size=2000) as producer:
            seen = []
            for _ in range(10):
                for n in range(500):
                    await producer.send("t", b"%06d" % n)
                await producer.flush()
                seen.append(producer.metrics()["producer"]["batch_split_total"])
        return seen

    first, *others = on_cluster(test)
    assert first > 0
    assert others[-1] <= first + 10, "but for a try now and then whether it takes more"


def test_one_record_too_large_among_many_fails_alone():
    async def test(cluster):
        await cluster.create("t", max_message_bytes="400")
        async with cluster.producer(linger_ms=50) as producer:
            tickets = [await producer.send("t", b"x" * (500 if n == 20 else 10)) for n in range(50)]
            with pytest.raises(DeliveryError, match=r"1 record for t-0 \(number 20 sent there, not written"):
                await producer.flush()
            return [n for n, ticket in enumerate(tickets) if ticket.exception() is not None]

    assert on_cluster(test) == [20]


def test_a_record_that_the_broker_finds_too_large_fails_with_advice():
    async def test(cluster):
        await cluster.create("t", max_message_bytes="500")
        async with cluster.producer() as producer:
            good = await producer.send("t", b"small")
            await good
            bad = await producer.send("t", b"x" * 600)
            with pytest.raises(
                BrokerError, match=r"1 record for t-0 \(number 1 sent there, not written\).*max\.message\.bytes"
            ) as e:
                await bad
            assert e.value.name == "MESSAGE_TOO_LARGE"
            after = await producer.send("t", b"small again")
            return (await after).offset

    assert on_cluster(test) == 1


def test_text_is_refused_with_advice():
    async def test(cluster):
        async with cluster.producer() as producer:
            await producer.partitions_for("t")
            with pytest.raises(UsageError, match="value"):
                await producer.send("t", "text")
            with pytest.raises(UsageError, match="key"):
                await producer.send("t", b"", 5)

    on_cluster(test)


def test_an_unknown_topic_fails_fast_if_it_is_not_created():
    async def test(cluster):
        async with cluster.producer() as producer:
            with pytest.raises(UnknownTopicError, match="'nowhere' does not exist"):
                await producer.send("nowhere", b"v")
            return cluster.now

    assert on_cluster(test, auto_create_topics_enable=False) < 5


def test_an_unknown_partition_is_an_error():
    async def test(cluster):
        await cluster.create("t", 3)
        async with cluster.producer() as producer:
            for partition in (3, -1):
                with pytest.raises(UsageError, match="partitions 0 to 2"):
                    await producer.send("t", b"v", partition=partition)

    on_cluster(test)


def test_a_closed_port_is_an_error_at_once():
    async def test(cluster):
        await cluster.kill()
        async with cluster.producer() as producer:
            with pytest.raises(NetworkError, match=r"127\.0\.0\.1:9092"):
                await producer.send("t", b"v")
            return cluster.now

    assert on_cluster(test) < 1


def test_settings_that_exclude_each_other_are_refused():
    with pytest.raises(ConfigError, match="enable_idempotence"):
        AsyncProducer(bootstrap_servers=BOOTSTRAP, acks=1, enable_idempotence=True)


# ---- room


def test_send_waits_for_buffer_memory_and_continues_in_order():
    async def test(cluster):
        async with cluster.producer(
            buffer_memory=2000, batch_size=500, linger_ms=60_000, request_timeout_ms=999
        ) as producer:
            for number in range(300):
                await producer.send("t", b"%03d" % number + b"x" * 97)
        return [record.value[:3] for record in await cluster.read("t", 300)]

    assert on_cluster(test) == [b"%03d" % number for number in range(300)]


def test_all_senders_that_wait_for_buffer_memory_are_admitted():
    async def test(cluster):
        async with cluster.producer(buffer_memory=1000, batch_size=300, linger_ms=1) as producer:
            await producer.partitions_for("t")
            await asyncio.gather(*(producer.send("t", b"x" * 100) for _ in range(200)))
        return len(await cluster.read("t", 200))

    assert on_cluster(test) == 200


def test_full_buffer_memory_is_a_timeout_that_names_the_cause():
    async def test(cluster):
        producer = cluster.producer(buffer_memory=1000, batch_size=500, max_block_ms=700, request_timeout_ms=5000)
        await (await producer.send("t", b"first"))
        cluster.silence()
        began = cluster.now
        with pytest.raises(KafkaTimeoutError, match=r"buffer_memory=1000.*max_block_ms=700.*records? for t-0"):
            for _ in range(100):
                await producer.send("t", b"x" * 100)
        waited = cluster.now - began
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", b"x" * 100)
        cluster.silence(False)
        await producer.close()
        return waited

    assert 0.7 <= on_cluster(test) < 0.8


def test_send_nowait_wants_the_topic_to_be_known():
    async def test(cluster):
        async with cluster.producer() as producer:
            with pytest.raises(StaleMetadataError, match="partitions_for"):
                producer.send_nowait("t", b"v")
            assert await producer.partitions_for("t") == [TopicPartition("t", 0)]
            return (await producer.send_nowait("t", b"v")).offset

    assert on_cluster(test) == 0


def test_a_tight_loop_of_sends_lets_the_batches_leave():
    """Virtual time stands still during the loop, so nothing is answered; but what may be in flight must leave."""

    async def test(cluster):
        async with cluster.producer(batch_size=1000) as producer:
            await (await producer.send("t", b"first"))
            for _ in range(1000):
                await producer.send("t", b"x" * 100)
            return len(cluster.produce_requests())

    assert on_cluster(test) == 1 + 5


# ---- brokers that go away


def test_a_broker_that_comes_back_gets_every_record_once_and_in_order():
    async def test(cluster):
        async with cluster.producer(batch_size=300, linger_ms=0, request_timeout_ms=1000) as producer:
            await (await producer.send("t", b"first"))
            for number in range(200):
                await producer.send("t", b"%d" % number)
                if number % 50 == 25:
                    await cluster.kill()
                    await asyncio.sleep(0.3)
                    await cluster.restart()
                if number % 30 == 20:
                    await asyncio.sleep(0.01)
                    cluster.cut()
        return [record.value for record in await cluster.read("t", 201)]

    assert on_cluster(test) == [b"first", *(b"%d" % number for number in range(200))]


def test_closing_on_a_dead_broker_says_which_records_are_not_acknowledged():
    async def test(cluster):
        await cluster.create("t", 2)
        producer = cluster.producer(linger_ms=0)
        await (await producer.send("t", b"delivered", partition=0))
        await cluster.kill()
        tickets = [await producer.send("t", b"v", partition=number % 2) for number in range(10)]
        began = cluster.now
        with pytest.raises(DeliveryTimeoutError) as error:
            await producer.close(timeout=2)
        return cluster.now - began, error.value, [ticket.exception() for ticket in tickets]

    seconds, error, failures = on_cluster(test)
    assert 2 <= seconds < 3.5
    entries = {entry.partition: entry for entry in error.unacknowledged}
    assert {p: (e.records_count, e.first_index, e.last_index) for p, e in entries.items()} == {
        0: (5, 1, 5),
        1: (5, 0, 4),
    }
    assert "5 records for t-0 (numbers 1 to 5 sent there" in str(error)
    assert "Connection refused" in str(error), "the cause is missing"
    assert all(isinstance(failure, DeliveryTimeoutError) for failure in failures)


def test_flushing_on_a_dead_broker_ends_in_time_and_the_records_are_still_delivered_later():
    async def test(cluster):
        async with cluster.producer() as producer:
            await (await producer.send("t", b"one"))
            await cluster.kill()
            ticket = await producer.send("t", b"two")
            began = cluster.now
            with pytest.raises(DeliveryTimeoutError, match="flush: not acknowledged within 1 s: 1 record for t-0"):
                await producer.flush(timeout=1)
            waited = cluster.now - began
            await cluster.restart()
            return waited, (await ticket).offset

    waited, offset = on_cluster(test)
    assert (round(waited, 1), offset) == (1.0, 1)


def test_a_record_that_is_not_acknowledged_in_time_fails_its_ticket():
    async def test(cluster):
        producer = cluster.producer(delivery_timeout_ms=3000, request_timeout_ms=1000)
        await (await producer.send("t", b"one"))
        cluster.silence()
        began = cluster.now
        ticket = await producer.send("t", b"two")
        with pytest.raises(DeliveryTimeoutError, match=r"possibly written.*delivery_timeout_ms=3000"):
            await ticket
        waited = cluster.now - began
        await producer.close(0)
        return waited

    assert 2.99 <= on_cluster(test) < 3.02


def test_flushes_end_each_in_its_own_time_and_one_that_is_cancelled_disturbs_none():
    async def test(cluster):
        producer = cluster.producer()
        await (await producer.send("t", b"one"))
        await cluster.kill()
        await producer.send("t", b"two")
        began = cluster.now
        short, long, cancelled = (asyncio.create_task(producer.flush(seconds)) for seconds in (1, 4, 2))
        await asyncio.sleep(0.5)
        cancelled.cancel()
        ends = []
        for flush in (short, long):
            with pytest.raises(DeliveryTimeoutError, match="flush"):
                await flush
            ends.append(cluster.now - began)
        await cluster.node.start()
        await producer.flush(float("inf"))
        await producer.close()
        return ends

    short, long = on_cluster(test)
    assert 1 <= short < 1.1 and 4 <= long < 4.1


def test_failures_of_unread_tickets_are_reported_by_flush_once():
    async def test(cluster):
        await cluster.create("t", max_message_bytes="300")
        async with cluster.producer() as producer:
            await producer.send("t", b"x" * 400)
            with pytest.raises(DeliveryError, match="MESSAGE_TOO_LARGE") as error:
                await producer.flush()
            await producer.flush()
            seen = await producer.send("t", b"x" * 400)
            with pytest.raises(BrokerError):
                await seen
            await producer.flush()
            return error.value

    error = on_cluster(test)
    assert not isinstance(error, DeliveryTimeoutError)
    assert [entry.records_count for entry in error.unacknowledged] == [1]


def test_an_error_in_the_with_block_is_not_hidden_by_records_that_are_lost():
    async def test(cluster):
        with pytest.raises(ZeroDivisionError) as error:
            async with cluster.producer(delivery_timeout_ms=2000, request_timeout_ms=1000) as producer:
                await (await producer.send("t", b"one"))
                await cluster.kill()
                await producer.send("t", b"two")
                _ = 1 / 0
        return error.value.__notes__

    (note,) = on_cluster(test)
    assert "1 record for t-0" in note


# ---- life and end


def test_a_closed_producer_refuses():
    async def test(cluster):
        producer = cluster.producer()
        await producer.send("t", b"v")
        await producer.close()
        await producer.close()
        for call in (producer.send("t", b"v"), producer.flush(), producer.partitions_for("t")):
            with pytest.raises(ClosedError):
                await call

    on_cluster(test)


def test_closing_lets_go_of_senders_who_wait():
    async def test(cluster):
        producer = cluster.producer(buffer_memory=500, batch_size=200)
        await (await producer.send("t", b"v"))
        cluster.silence()
        sends = [asyncio.ensure_future(producer.send("t", b"x" * 150)) for _ in range(6)]
        await asyncio.sleep(0.01)
        waiting = [send for send in sends if not send.done()]
        with pytest.raises(DeliveryTimeoutError):
            await producer.close(timeout=0.1)
        return await asyncio.gather(*waiting, return_exceptions=True)

    results = on_cluster(test)
    assert results
    assert all(isinstance(result, ClosedError) for result in results)


def test_a_producer_belongs_to_one_loop():
    producers = [AsyncProducer(bootstrap_servers="127.0.0.1:1")]

    async def use():
        with pytest.raises((NetworkError, UsageError)) as error:
            await producers[0].send("t", b"v")
        return type(error.value)

    assert asyncio.run(use()) is NetworkError
    assert asyncio.run(use()) is UsageError
    with pytest.warns(ResourceWarning, match="AsyncProducer was not closed"):
        producers.clear()  # no loop is left to close it on
        gc.collect()


def test_waiting_for_a_ticket_on_the_loop_that_delivers_it_is_refused():
    async def test(cluster):
        async with cluster.producer() as producer:
            ticket = await producer.send("t", b"v")
            with pytest.raises(UsageError, match="await"):
                ticket.result(1)
            await ticket
            return ticket.result(0).offset

    assert on_cluster(test) == 0


def test_callbacks_hear_of_success_and_failure():
    async def test(cluster):
        heard = []
        producer = cluster.producer(delivery_timeout_ms=2000, request_timeout_ms=1000)
        ticket = await producer.send("t", b"one")
        ticket.add_done_callback(lambda done: heard.append(done.exception()))
        await ticket
        await cluster.kill()
        ticket = await producer.send("t", b"two")
        ticket.add_done_callback(lambda done: heard.append(done.exception()))
        await producer.close()
        return heard

    ok, failed = on_cluster(test)
    assert ok is None
    assert isinstance(failed, DeliveryTimeoutError)


def test_a_deleted_topic_is_noticed():
    async def test(cluster):
        await cluster.create("t")
        async with cluster.producer(delivery_timeout_ms=2000, request_timeout_ms=1000) as producer:
            await (await producer.send("t", b"one"))
            async with cluster.admin() as admin:
                await admin.delete_topics(["t"])
            with pytest.raises(DeliveryTimeoutError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await (await producer.send("t", b"two"))
            with pytest.raises(UnknownTopicError, match="does not exist"):
                await producer.send("t", b"three")

    on_cluster(test, auto_create_topics_enable=False)


def test_a_topic_that_was_deleted_and_made_again_takes_records():
    async def test(cluster):
        await cluster.create("t", 3)
        async with cluster.producer() as producer:
            for number in range(3):
                await (await producer.send("t", b"old", partition=number))
            async with cluster.admin() as admin:
                await admin.delete_topics(["t"])
                await admin.create_topics(["t"])
            await (await producer.send("t", b"new", partition=0))
        return [record.value for record in await cluster.read("t", 1)]

    assert on_cluster(test) == [b"new"]


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Sender, "_drain"), (kafkaraw.client.sending.sender, "produce_request"), (Outbox, "_refresh")],
)
def test_a_bug_fails_the_records_instead_of_leaving_anybody_waiting(owner, name, monkeypatch, caplog):
    def bug(*_arguments, **_keywords):
        raise ZeroDivisionError("a bug")

    async def test(cluster):
        producer = cluster.producer()
        await (await producer.send("t", b"one"))
        monkeypatch.setattr(owner, name, bug)
        cluster.cut()
        await asyncio.sleep(1)
        ticket = await producer.send("t", b"two")
        if owner is Outbox:
            await cluster.kill()
        with pytest.raises(DeliveryError, match="ZeroDivisionError"):
            await ticket
        with pytest.raises(ClosedError, match="ZeroDivisionError"):
            await producer.send("t", b"three")
        monkeypatch.undo()
        await producer.close(1)

    on_cluster(test)
    assert "unexpected error" in caplog.text
