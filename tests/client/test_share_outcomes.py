"""Share consumers and a broker on virtual time: what becomes of acknowledgements and deserializers, and the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from kafkaraw import ConfigResource, ConfigResourceType, TopicPartition
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.shares.partitions import SharePartitions
from kafkaraw.client.metrics.pushed import PushedValues
from kafkaraw.client.metrics.share_consumer_metrics import MEANINGS, MEMBER_MEANINGS
from kafkaraw.client.share_consumer import AsyncShareConsumer
from kafkaraw.client.sharing.batch import AcquiredBatch, Refused
from kafkaraw.client.sharing.delivery import Delivery
from kafkaraw.core.share.acknowledgements import AcknowledgeType
from kafkaraw.core.share.sessions import FINAL_EPOCH
from kafkaraw.core.telemetry.reporter import TelemetrySubscription
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    CorruptBatchError,
    DeserializationError,
    KafkaError,
    KafkaTimeoutError,
    RetriableError,
    UsageError,
)
from kafkaraw.metrics import ClientCollector
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkaraw.protocol.messages.share_fetch import ShareFetchRequest
from tests.client.virtual_cluster import BOOTSTRAP, VirtualCluster, on_cluster

TOPIC = GROUP = "jobs"
PARTITION = TopicPartition(TOPIC, 0)
Told = list[tuple[dict[TopicPartition, list[int]], KafkaError | None]]


async def a_consumer(cluster: VirtualCluster, records: int = 3, **settings: object) -> AsyncShareConsumer:
    """Return a member of a group that begins at the first of some records."""
    await cluster.create(TOPIC)
    async with cluster.admin() as admin:
        group = ConfigResource(ConfigResourceType.GROUP, GROUP)
        await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    async with cluster.producer() as producer:
        for number in range(records):
            await producer.send(TOPIC, b"%d" % number)
    return another_consumer(cluster, **settings)


def another_consumer(cluster: VirtualCluster, **settings: object) -> AsyncShareConsumer:
    consumer = AsyncShareConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, runtime=cluster.runtime, **settings)
    consumer.subscribe([TOPIC])
    return consumer


async def lag(cluster: VirtualCluster) -> int | None:
    async with cluster.admin() as admin:
        return (await admin.list_share_group_offsets([GROUP]))[GROUP][PARTITION].lag


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_acknowledgements_of_a_session_that_has_ended_are_reported_as_failed(mode: str):
    async def test(cluster: VirtualCluster) -> None:
        told: Told = []
        async with await a_consumer(cluster, share_acknowledgement_mode=mode) as consumer:
            consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
            (batch,) = (await consumer.poll(10)).values()
            if mode == "explicit":
                consumer.acknowledge(batch)
            cluster.cut()
            await asyncio.sleep(1)
            results = await consumer.commit()
            assert isinstance(results[PARTITION], KafkaError)
            assert [(offsets, type(error)) for offsets, error in told] == [
                ({PARTITION: [0, 1, 2]}, type(results[PARTITION]))
            ]
        assert await lag(cluster) == 3

    on_cluster(test)


def test_a_callback_that_raises_gets_the_other_results_and_its_first_exception_is_raised():
    async def test(cluster: VirtualCluster) -> None:
        told: list[int] = []

        def tell(offsets: dict[TopicPartition, list[int]], error: KafkaError | None) -> None:
            told.extend(offsets[PARTITION])
            raise ValueError(offsets[PARTITION])

        async with await a_consumer(cluster, share_acknowledgement_mode="explicit") as consumer:
            consumer.set_acknowledgement_commit_callback(tell)
            (batch,) = (await consumer.poll(10)).values()
            for record in batch:
                consumer.acknowledge(record)
                consumer.commit_nowait()
            await asyncio.sleep(1)
            with pytest.raises(ValueError, match="0"):
                consumer.commit_nowait()
            assert told == [0, 1, 2]
            consumer.set_acknowledgement_commit_callback(None)

    on_cluster(test)


def failing_writes(monkeypatch: pytest.MonkeyPatch, times: int, code: ErrorCode) -> Callable[[], int]:
    """Have the share coordinator refuse writes; return how many it has refused."""
    store, refused = SharePartitions._store, 0

    def refuse(self, led, machine, batches, done):
        nonlocal refused
        if refused < times:
            refused += 1
            done(ApiError(code, "not now"))
        else:
            store(self, led, machine, batches, done)

    monkeypatch.setattr(SharePartitions, "_store", refuse)
    return lambda: refused


def test_an_acknowledgement_that_the_broker_could_not_store_is_sent_again(monkeypatch: pytest.MonkeyPatch):
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster, share_acknowledgement_mode="explicit") as consumer:
            (batch,) = (await consumer.poll(10)).values()
            refused = failing_writes(monkeypatch, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            consumer.acknowledge(batch)
            assert await consumer.commit(20) == {PARTITION: None}
            assert refused() == 3
        assert await lag(cluster) == 0

    on_cluster(test)


def test_an_acknowledgement_is_not_sent_again_after_its_deadline_or_when_the_leader_has_moved(
    monkeypatch: pytest.MonkeyPatch,
):
    async def test(cluster: VirtualCluster, code: ErrorCode) -> int:
        settings = {"share_acknowledgement_mode": "explicit", "default_api_timeout_ms": 2_000}
        async with await a_consumer(cluster, **settings) as consumer:
            (batch,) = (await consumer.poll(1.9)).values()
            with monkeypatch.context() as patch:
                refused = failing_writes(patch, 1_000, code)
                consumer.acknowledge(batch)
                error = (await consumer.commit(20))[PARTITION]
            assert isinstance(error, BrokerError)
            assert error.code == code
            return refused()

    assert on_cluster(lambda cluster: test(cluster, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)) > 2
    assert on_cluster(lambda cluster: test(cluster, ErrorCode.NOT_LEADER_OR_FOLLOWER)) == 1


def test_deserializers_of_the_asyncio_consumer_may_return_awaitables():
    async def shout(data: bytes) -> str:
        await asyncio.sleep(0.01)
        if data == b"1":
            raise ValueError("one")
        return f"{data.decode()}!"

    async def test(cluster: VirtualCluster) -> None:
        seen: list[str] = []

        class Interceptor:
            def on_consume(self, records):
                seen.extend(record.value for record in records)
                return records

        settings = {"value_deserializer": shout, "interceptors": Interceptor()}
        async with await a_consumer(cluster, share_acknowledgement_mode="explicit", **settings) as consumer:
            (batch,) = (await consumer.poll(10)).values()
            assert [(record.value, record.delivery_count) for record in batch] == [("0!", 1)]
            consumer.acknowledge(batch)
            with pytest.raises(DeserializationError, match="unless you acknowledge it"):
                await consumer.poll(10)
            consumer.acknowledge_offset(PARTITION, 1, AcknowledgeType.REJECT)
            (batch,) = (await consumer.poll(10)).values()
            assert [(record.value, record.delivery_count) for record in batch] == [("2!", 1)]
            assert seen == ["0!", "2!"]
            consumer.acknowledge(batch)
        assert await lag(cluster) == 0

    on_cluster(test)


@pytest.mark.parametrize("awaits", [False, True])
def test_records_that_a_deserializer_could_not_decode_yet_are_decoded_again_and_not_accepted(awaits: bool):
    tries = 0

    def decode(data: bytes) -> bytes:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise RetriableError("the schema registry cannot be reached")
        return data

    async def decode_awaiting(data: bytes) -> bytes:
        return decode(data)

    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster, value_deserializer=decode_awaiting if awaits else decode) as consumer:
            for _ in range(2):
                with pytest.raises(RetriableError):
                    await consumer.poll(10)
                assert await consumer.commit() == {}
            (batch,) = (await consumer.poll(10)).values()
            assert batch.values() == [b"0", b"1", b"2"]

    on_cluster(test)


def test_metrics_have_javas_names_and_are_exported_and_pushed():
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster) as consumer:
            await consumer.poll(10)
            await asyncio.sleep(2)
            await consumer.commit()
            await consumer.poll(0.1)
            metrics = consumer.metrics()
            assert metrics["share_consumer"].keys() == MEANINGS.keys()
            assert metrics["share_group"].keys() == MEMBER_MEANINGS.keys()
            expected = {
                "records_consumed_total": 3,
                "records_per_request_max": 3,
                "acknowledgements_send_total": 3,
                "acknowledgements_error_total": 0,
                "polls_total": 2,
            }
            assert metrics["share_consumer"].items() >= expected.items()
            assert metrics["share_consumer"]["time_between_poll_max_s"] >= 2
            assert metrics["share_group"]["assigned_partitions"] == 1
            exported = {family.name for family in ClientCollector(consumer).collect()}
            assert {"kafkaraw_share_consumer_records_consumed", "kafkaraw_share_group_heartbeat"} <= exported
            subscription = TelemetrySubscription(Uuid(b"client-instance!"), 1, 1_000, 0, False, ("*",))
            values = PushedValues.read(metrics, 1_000)
            pushed = {point.name: point.value for point in values.points("consumer", PushedValues(0), subscription)}
            name = "org.apache.kafka.consumer.share.fetch.manager.acknowledgements.send.total"
            assert pushed[name] == 3

    on_cluster(test)


def test_an_interceptor_that_a_share_consumer_would_never_call_is_refused():
    class Committed:
        def on_commit(self, offsets): ...

    with pytest.raises(ConfigError, match=r"Committed has no on_consume\(\)"):
        AsyncShareConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, interceptors=Committed())


def test_an_idle_connection_stays_open_while_its_records_are_processed():
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster, connections_max_idle_ms=1_000) as consumer:
            (batch,) = (await consumer.poll(10)).values()
            assert len(batch) == 3
            await asyncio.sleep(10)
            assert await consumer.commit() == {PARTITION: None}
            opened = consumer.metrics()["0"]["connections_opened"]
            await asyncio.sleep(10)
            await consumer.poll(1)
            assert consumer.metrics()["0"]["connections_opened"] > opened, "nothing is in hand, so it was closed"

    on_cluster(test)


def test_commit_waits_for_what_earlier_calls_have_sent():
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster, share_acknowledgement_mode="explicit") as consumer:
            (batch,) = (await consumer.poll(10)).values()
            consumer.acknowledge(batch.records[0])
            consumer.commit_nowait()
            assert await consumer.commit() == {PARTITION: None}
            assert await consumer.commit() == {}
            cluster.silence()
            consumer.acknowledge(batch.records[1])
            assert isinstance((await consumer.commit(1))[PARTITION], KafkaTimeoutError)
            consumer.acknowledge(batch.records[2])
            assert isinstance((await consumer.commit(1))[PARTITION], KafkaTimeoutError)
            cluster.silence(False)
            cluster.cut()
            assert isinstance((await consumer.commit())[PARTITION], KafkaError)
            assert await consumer.commit() == {}

    on_cluster(test)


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_leaving_ends_in_its_time_though_no_broker_answers_and_loses_no_record(end: str):
    async def test(cluster: VirtualCluster) -> None:
        told: Told = []
        consumer = await a_consumer(cluster, request_timeout_ms=60_000)
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
        (batch,) = (await consumer.poll(10)).values()
        assert len(batch) == 3
        cluster.silence()
        began = cluster.now
        await getattr(consumer, end)(2)
        assert cluster.now - began < 2.1
        assert [(offsets, type(error)) for offsets, error in told] == [({PARTITION: [0, 1, 2]}, KafkaTimeoutError)]
        cluster.cut()
        cluster.silence(False)
        if end == "close":  # the broker gets what was sent before the connection was closed
            assert await lag(cluster) == 0
            return
        consumer.subscribe([TOPIC])  # that was lost with the connection
        (batch,) = (await consumer.poll(60)).values()
        assert [(record.offset, record.delivery_count) for record in batch] == [(0, 2), (1, 2), (2, 2)]
        await consumer.close()
        assert await lag(cluster) == 0

    on_cluster(test)


def test_an_answer_that_comes_after_unsubscribing_does_not_belong_to_the_next_session():
    async def test(cluster: VirtualCluster) -> None:
        consumer = await a_consumer(cluster, records=0, fetch_max_wait_ms=5_000)
        assert not await consumer.poll(1)  # the ShareFetch is in flight
        await consumer.unsubscribe(0.1)
        async with cluster.producer() as producer:
            await producer.send(TOPIC, b"0")
        consumer.subscribe([TOPIC])
        (batch,) = (await consumer.poll(60)).values()
        assert batch.values() == [b"0"]
        assert await consumer.commit() == {PARTITION: None}
        await consumer.close()

    on_cluster(test)


def test_records_that_are_not_in_hand_any_more_cannot_be_acknowledged():
    async def test(cluster: VirtualCluster) -> None:
        one = await a_consumer(cluster, share_acknowledgement_mode="explicit")
        (batch,) = (await one.poll(10)).values()
        other = another_consumer(cluster, share_acknowledgement_mode="explicit")
        with pytest.raises(UsageError, match="not acquired it"):
            other.acknowledge(batch)
        one.acknowledge(batch.records[0])
        one.acknowledge(batch.records[0], AcknowledgeType.REJECT)  # replaces the first one
        assert await one.commit() == {PARTITION: None}
        with pytest.raises(UsageError, match="was sent already"):
            one.acknowledge(batch.records[0])
        await one.unsubscribe()
        for what in (batch, batch.records[1]):
            with pytest.raises(UsageError, match="has released it"):
                one.acknowledge(what)
        await one.close()
        for what in (batch, batch.records[1]):
            with pytest.raises(ClosedError, match="is closed"):
                one.acknowledge(what)
        with pytest.raises(ClosedError, match="is closed"):
            one.acknowledge_offset(PARTITION, 1)
        (batch,) = (await other.poll(10)).values()
        assert [(record.offset, record.delivery_count) for record in batch] == [(1, 2), (2, 2)]
        await other.close()

    on_cluster(test)


def test_closing_during_a_poll_acquires_nothing_more():
    async def test(cluster: VirtualCluster) -> None:
        consumer = await a_consumer(cluster, records=0)
        poll = asyncio.create_task(consumer.poll(60))
        await asyncio.sleep(5.1)
        await consumer.close()
        with pytest.raises(ClosedError):
            await poll
        sent = [
            message
            for message in cluster.requests()
            if isinstance(message, ShareFetchRequest | ShareAcknowledgeRequest)
        ]
        assert isinstance(sent[-1], ShareAcknowledgeRequest)
        assert sent[-1].share_session_epoch == FINAL_EPOCH

    on_cluster(test)


@pytest.mark.parametrize("waits", [True, False])
def test_a_cancelled_poll_loses_no_record(waits: bool):
    async def test(cluster: VirtualCluster) -> None:
        consumer = await a_consumer(cluster, records=20, max_poll_records=3)
        seen = list[int]()
        for round in range(200):
            poll = asyncio.create_task(consumer.poll(10))
            await asyncio.sleep(round % 7 * (0.01 if waits else 0))
            if poll.done():
                seen += [record.offset for batch in poll.result().values() for record in batch]
            else:
                poll.cancel()
                with suppress(asyncio.CancelledError):
                    seen += [record.offset for batch in (await poll).values() for record in batch]
        while len(seen) < 20 and (batches := await consumer.poll(10)):
            seen += [record.offset for batch in batches.values() for record in batch]
        assert seen == [*range(20)]
        await consumer.close()
        assert await lag(cluster) == 0

    on_cluster(test)


@pytest.mark.parametrize("form", ["poll", "poll_arrow"])
def test_records_of_a_call_that_was_interrupted_are_not_accepted_and_come_with_the_next_call(
    monkeypatch: pytest.MonkeyPatch, form: str
):
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster) as consumer:
            with monkeypatch.context() as patch:
                patch.setattr(consumer, "_report", interrupt)
                patch.setattr(Delivery, "decode", lambda self: interrupt())
                with pytest.raises(InterruptedError):
                    await getattr(consumer, form)(10)
            assert await consumer.commit() == {}
            if form == "poll":
                (batch,) = (await consumer.poll(10)).values()
                assert batch.values() == [b"0", b"1", b"2"]
            else:
                table = await consumer.poll_arrow(10, ["value"])
                assert table["value"].to_pylist() == [b"0", b"1", b"2"]
            assert await consumer.commit() == {PARTITION: None}

    on_cluster(test)


def interrupt() -> None:
    raise InterruptedError


def test_a_poll_after_an_iteration_that_ended_with_the_last_record_waits_for_others():
    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster) as consumer, cluster.producer() as producer:
            async for record in consumer:
                if record.offset == 2:
                    break
            poll = asyncio.create_task(consumer.poll(10))
            await asyncio.sleep(1)
            await producer.send(TOPIC, b"3")
            (batch,) = (await poll).values()
            assert batch.values() == [b"3"]

    on_cluster(test)


def test_poll_arrow_raises_the_error_of_damaged_records_and_continues_behind_them(monkeypatch: pytest.MonkeyPatch):
    async def test(cluster: VirtualCluster) -> None:
        to_arrow = AcquiredBatch.to_arrow

        def damaged(self, columns, *, notes_gaps):
            table, problems = to_arrow(self, columns, notes_gaps=notes_gaps)
            return table, [*problems, Refused(self.in_hand, 2, CorruptBatchError("damaged"))]

        async with await a_consumer(cluster) as consumer, cluster.producer() as producer:
            with monkeypatch.context() as patch:
                patch.setattr(AcquiredBatch, "to_arrow", damaged)
                assert (await consumer.poll_arrow(10)).num_rows == 3
            with pytest.raises(CorruptBatchError, match="damaged"):
                await consumer.poll_arrow(10)
            await producer.send(TOPIC, b"3")
            assert (await consumer.poll_arrow(10, ["value"]))["value"].to_pylist() == [b"3"]

    on_cluster(test)
