"""A flow copies batches from one cluster to another: their records, and the mapping of their offsets, are exact."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from kafkaraw.client.admin import NewPartitions, NewTopic
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.mirror.interfaces import Delivery, OnLoss, StartAt
from kafkaraw.mirror.positions import FlowTakenOverError, RecordsLostError, SourceReplacedError
from kafkaraw.records import TIMESTAMP_CREATE_TIME, TopicPartition
from tests.mirror.two_clusters import COPY, FIRST, FIRST_COPY, TOPIC, TwoClusters, between_clusters, contents, send
from tests.rotation import rotating

DELIVERIES = [Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE]


async def assert_equal(clusters: TwoClusters) -> None:
    source = await clusters.all_records(clusters.source, TOPIC)
    copy = await clusters.all_records(clusters.target, COPY)
    assert contents(copy) == contents(source)


async def assert_offsets_are_mapped(clusters: TwoClusters, *, is_whole: bool = True) -> None:
    """Each record of the source is at the offset of the copy that was told; every offset was told once, in order.

    A commit whose response is lost was not told (`is_whole=False`): `OffsetService` fills that gap.
    """
    source = await clusters.all_records(clusters.source, TOPIC)
    copy = await clusters.all_records(clusters.target, COPY)
    values = {(record.partition, record.offset): record.value for record in copy}
    mapped: dict[tuple[int, int], bytes | None] = {}
    settled: dict[TopicPartition, int] = {}
    for batch in clusters.copied:
        begin = settled.get(batch.source, 0)
        assert batch.source_offsets.start == begin or (not is_whole and batch.source_offsets.start > begin)
        settled[batch.source] = batch.source_offsets.stop
        offsets = [offset for run in batch.runs for offset in run]
        assert all(offset in batch.source_offsets for offset in offsets)
        for index, offset in enumerate(offsets):
            mapped[batch.source.partition, offset] = values[batch.target.partition, batch.target_base_offset + index]
    all_values = {(record.partition, record.offset): record.value for record in source}
    assert mapped == (all_values if is_whole else {at: all_values[at] for at in mapped})


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_batches_are_copied_without_being_decompressed(delivery: Delivery) -> None:
    async def test(clusters: TwoClusters) -> None:
        for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            await clusters.fill(number * 100, 100, compression_type=codec, linger_ms=50)
        assert len(await clusters.copy(500, delivery)) == 500
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)
        payloads = [
            [bytes(wire[61:]) for batch in await clusters.batches(cluster, topic) for _, wire in batch.wires]
            for cluster, topic in ((clusters.source, TOPIC), (clusters.target, COPY))
        ]
        assert sorted(each for each in payloads[1] if len(each) > 100) == sorted(payloads[0])

    between_clusters(test)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_records_that_were_written_one_by_one_are_copied_in_few_batches(delivery: Delivery) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 400, batch_size=1)
        assert len((await clusters.batches(clusters.source, TOPIC))[0].wires) > 50
        await clusters.copy(400, delivery)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)
        assert sum(len(batch.wires) for batch in await clusters.batches(clusters.target, COPY)) < 40

    between_clusters(test)


def test_what_one_response_has_is_divided_among_transactions() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 400, batch_size=300, partition=0)
        await clusters.copy(400, commit_interval_s=0.001, in_flight_max_bytes=1)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)
        wires = [wire for batch in await clusters.batches(clusters.target, COPY) for wire in batch.wires]
        assert sum(header.is_control for header, _ in wires) > 10

    between_clusters(test)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_flow_continues_at_its_positions(delivery: Delivery) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 50)
        await clusters.copy(50, delivery)
        await clusters.fill(50, 50)
        await clusters.copy(100, delivery)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test)


def test_record_is_copied_soon_after_it_was_written() -> None:
    async def test(clusters: TwoClusters) -> None:
        async with clusters.mirroring():
            await clusters.fill(0, 1)
            await clusters.copied_records(1)
            before = clusters.target.now
            await clusters.fill(1, 1)
            await clusters.copied_records(2)
            assert clusters.target.now - before < 0.5

    between_clusters(test)


@pytest.mark.parametrize("seed", rotating(range(30), 3))
def test_killed_flow_loses_and_repeats_nothing(seed: int) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 300, batch_size=500)
        for kill in range(4):
            flow = clusters.flow(commit_interval_s=0.02, in_flight_max_bytes=500)
            task = asyncio.create_task(flow.run())
            await asyncio.sleep(0.02 + 0.017 * seed + 0.023 * kill)
            clusters.target.cut()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await clusters.copy(300)
        await assert_equal(clusters)

    between_clusters(test, seed)


@pytest.mark.parametrize("seed", rotating(range(30), 3))
def test_lost_connections_and_silence_lose_and_repeat_nothing(seed: int) -> None:
    async def test(clusters: TwoClusters) -> None:
        chosen = random.Random(seed)
        async with clusters.mirroring(commit_interval_s=0.05, in_flight_max_bytes=2_000) as flow:
            await clusters.until(lambda: bool(flow.positions))
            for number in range(12):
                await clusters.fill(50 * number, 50, batch_size=chosen.choice([300, 1_000, 16_384]))
                await write_transaction(clusters, number, commit=chosen.random() < 0.7)
                for cluster in (clusters.source, clusters.target):
                    if chosen.random() < 0.5:
                        cluster.cut()
                    if chosen.random() < 0.15:
                        cluster.silence()
                        await asyncio.sleep(chosen.uniform(1, 100))
                        cluster.silence(False)
                await asyncio.sleep(chosen.uniform(0, 0.5))
            ends = await end_offsets(clusters)
            await clusters.until(lambda: all(flow.positions[of].offset >= end for of, end in ends.items()), 600)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters, is_whole=False)

    between_clusters(test, seed)


async def write_transaction(clusters: TwoClusters, number: int, *, commit: bool) -> None:
    async with clusters.source.producer(transactional_id="writer") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        for index in range(5):
            await send(producer, 10_000 + 100 * number + index)
        await (producer.commit_transaction() if commit else producer.abort_transaction())


async def end_offsets(clusters: TwoClusters) -> dict[TopicPartition, int]:
    async with clusters.source.consumer(isolation_level="read_committed") as consumer:
        return await consumer.end_offsets(await consumer.partitions_for(TOPIC))


@pytest.mark.parametrize(
    ("delivery", "seed"), rotating([(delivery, seed) for seed in range(6) for delivery in DELIVERIES], 4)
)
def test_one_of_two_processes_of_a_flow_ends(delivery: Delivery, seed: int) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        flows = [clusters.flow(delivery) for _ in range(2)]
        tasks = [asyncio.create_task(flows[0].run())]
        await clusters.copied_records(20)
        tasks.append(asyncio.create_task(flows[1].run()))
        written = 20
        while not any(task.done() for task in tasks):
            await clusters.fill(written, 20)
            written += 20
            await clusters.copied_records(written)
            assert clusters.target.now < 300
        (ended,) = [task for task in tasks if task.done()]
        assert isinstance(ended.exception(), FlowTakenOverError)
        assert ended is tasks[0]
        assert flows[1].sessions_count == 1, "the process that has replaced it is not fenced in turn"
        await clusters.fill(written, 20)
        await clusters.copied_records(written + 20)
        for flow in flows:
            flow.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        if delivery is Delivery.EXACTLY_ONCE:
            await assert_equal(clusters)
        told = [batch.source_offsets for batch in clusters.copied if batch.source == FIRST and batch.source_offsets]
        assert all(before.stop <= after.start for before, after in pairwise(told)), "records were told twice"

    between_clusters(test, seed)


def test_at_least_once_records_are_outside_of_transactions_and_positions_in_one_of_their_own() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        await clusters.copy(20, Delivery.AT_LEAST_ONCE)
        batches = await clusters.batches(clusters.target, COPY)
        assert not any(header.is_transactional for batch in batches for header, _ in batch.wires)
        async with clusters.target.admin() as admin:
            (listed,) = await admin.list_transactions()
        assert listed.transactional_id == "kafkaraw-mirror.a->b-0", "the id that the next process fences"

    between_clusters(test)


def test_outage_of_either_cluster_is_survived() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        async with clusters.mirroring():
            await clusters.copied_records(20)
            for number, cluster in enumerate((clusters.target, clusters.source)):
                await cluster.kill()
                await asyncio.sleep(130)
                await cluster.restart()
                await clusters.fill(20 + 20 * number, 20)
                await clusters.copied_records(40 + 20 * number, 600)
        await assert_equal(clusters)

    between_clusters(test)


# -- transactions of the source


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_aborted_and_open_transactions_are_not_copied(delivery: Delivery) -> None:
    async def test(clusters: TwoClusters) -> None:
        async with clusters.source.producer(transactional_id="writer") as producer:
            await producer.init_transactions()
            for first, commit in ((0, True), (10, False), (20, True), (30, False)):
                await producer.begin_transaction()
                for number in range(first, first + 10):
                    await send(producer, number)
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            async with clusters.mirroring(delivery):
                await clusters.copied_records(20)
                await producer.begin_transaction()
                for number in range(40, 50):
                    await send(producer, number)
                await producer.flush()
                await clusters.fill(50, 10)
                await asyncio.sleep(5)
                assert len(await clusters.all_records(clusters.target, COPY)) == 20
                await producer.commit_transaction()
                await clusters.copied_records(40)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test)


# -- record by record


def test_append_times_of_the_source_become_timestamps_of_the_copy() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 40, compression_type="lz4", linger_ms=20)
        copied = await clusters.copy(40)
        assert {record.timestamp_type for record in copied} == {TIMESTAMP_CREATE_TIME}
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test, source_config={"message.timestamp.type": "LogAppendTime"})


COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "2000",
    "segment.ms": "200",
}


def test_batches_with_gaps_are_copied_record_by_record() -> None:
    async def test(clusters: TwoClusters) -> None:
        async with clusters.source.producer(linger_ms=20, compression_type="lz4") as producer:
            for number in range(400):
                await producer.send(TOPIC, b"value %d" % number, b"key %d" % (number % 90), partition=0)
                if number % 20 == 19:
                    await producer.flush()
        await asyncio.sleep(10)
        kept = await clusters.all_records(clusters.source, TOPIC)
        assert len(kept) < 400, "the cleaner has run"
        headers = [header for batch in await clusters.batches(clusters.source, TOPIC) for header in batch.headers]
        assert any(header.records_count <= header.last_offset_delta for header in headers)
        await clusters.copy(len(kept))
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test, source_config=COMPACTED, source_properties={"log.cleaner.backoff.ms": "100"})


@pytest.mark.parametrize("is_known", [True, False])
def test_batches_above_the_limit_of_the_copy_are_divided(is_known: bool) -> None:
    async def test(clusters: TwoClusters) -> None:
        clusters.plan.configs = {"max.message.bytes": "300"}
        await clusters.plan.refresh()
        if not is_known:
            clusters.plan.configs = {}
        await clusters.fill(0, 60, linger_ms=50)
        await clusters.copy(60)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test)


# -- what clusters lose


def test_records_that_retention_deleted_are_reported_exactly() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20, partition=0)
        await clusters.copy(20)
        await clusters.fill(20, 20, partition=0)
        async with clusters.source.admin() as admin:
            await admin.delete_records({FIRST: 33})
        with pytest.raises(RecordsLostError, match=r"orders-0.*20 to 32") as raised:
            await clusters.flow().run()
        assert (raised.value.first_offset, raised.value.last_offset) == (20, 32)
        await clusters.copy(27, on_loss=OnLoss.CONTINUE)
        values = [record.value for record in await clusters.all_records(clusters.target, COPY)]
        assert values == [b"value %d" % number for number in (*range(20), *range(33, 40))]

    between_clusters(test)


def test_records_that_are_deleted_while_a_flow_runs_are_reported() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20, partition=0)
        flow = clusters.flow()
        task = asyncio.create_task(flow.run())
        await clusters.copied_records(20)
        clusters.source.silence()
        await asyncio.sleep(5)
        clusters.source.silence(False)
        async with clusters.source.producer() as producer, clusters.source.admin() as admin:
            clusters.source.cut()
            for number in range(20, 40):
                await send(producer, number, 0)
            await producer.flush()
            await admin.delete_records({FIRST: 40})
        await clusters.until(lambda: task.done() or clusters.copied[-1].source_offsets.stop == 40)
        if task.done():
            assert isinstance(task.exception(), RecordsLostError)
        flow.stop()
        await asyncio.gather(task, return_exceptions=True)

    between_clusters(test)


def test_topic_of_the_source_that_was_created_again_is_noticed() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        await clusters.copy(20)
        async with clusters.source.admin() as admin:
            await admin.delete_topics([TOPIC])
            await admin.create_topics([NewTopic(TOPIC, 2)])
        await clusters.fill(100, 40)
        with pytest.raises(SourceReplacedError, match="created again"):
            await clusters.flow().run()
        assert len(await clusters.copy(60, on_loss=OnLoss.CONTINUE)) == 60

    between_clusters(test)


def test_topic_that_is_created_again_while_a_flow_runs_is_noticed() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        task = asyncio.create_task(clusters.flow().run())
        await clusters.copied_records(20)
        async with clusters.source.admin() as admin:
            await admin.delete_topics([TOPIC])
            await admin.create_topics([NewTopic(TOPIC, 2)])
        await clusters.fill(100, 40)
        async with asyncio.timeout(120):
            with pytest.raises(SourceReplacedError):
                await task
        assert len(await clusters.all_records(clusters.target, COPY)) == 20

    between_clusters(test)


def test_copy_that_was_deleted_is_copied_anew() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        await clusters.copy(20)
        async with clusters.target.admin() as admin:
            await admin.delete_topics([COPY])
        await clusters.copy(20)
        await assert_equal(clusters)

    between_clusters(test)


@pytest.mark.parametrize("is_idle", [False, True])
def test_copy_that_is_created_again_while_a_flow_runs_is_copied_anew_without_repetition(is_idle: bool) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        async with clusters.mirroring():
            await clusters.copied_records(20)
            async with clusters.target.admin() as admin:
                await admin.delete_topics([COPY])
                await admin.create_topics([NewTopic(COPY, 2)])
            await clusters.fill(20, 0 if is_idle else 20)
            await clusters.copied_records(20 if is_idle else 40)
        await assert_equal(clusters)

    between_clusters(test)


def test_copy_with_records_and_without_position_needs_a_choice() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.plan.refresh()
        async with clusters.target.producer() as producer:
            await producer.send(COPY, b"of another tool", partition=0)
        await clusters.fill(0, 10, partition=0)
        with pytest.raises(UsageError, match=r"auto\.offset\.reset=earliest"):
            await clusters.flow().run()
        await clusters.copy(11, start_at=StartAt.EARLIEST)
        values = [record.value for record in await clusters.all_records(clusters.target, COPY)]
        assert values == [b"of another tool", *(b"value %d" % number for number in range(10))]

    between_clusters(test)


def test_flow_may_begin_at_the_end() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 10)
        async with clusters.mirroring(start_at=StartAt.LATEST) as flow:
            await clusters.until(lambda: bool(flow.metrics()))
            await asyncio.sleep(1)
            await clusters.fill(10, 10)
            copied = await clusters.copied_records(10)
        assert {record.value for record in copied} == {b"value %d" % number for number in range(10, 20)}

    between_clusters(test)


# -- clusters


def test_cluster_is_not_mirrored_onto_itself() -> None:
    async def test(clusters: TwoClusters) -> None:
        clusters.target = clusters.source
        with pytest.raises(UsageError, match="same cluster"):
            await clusters.flow().run()

    between_clusters(test)


def test_partitions_that_a_topic_gains_are_copied() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20)
        async with clusters.mirroring():
            await clusters.copied_records(20)
            async with clusters.source.admin() as admin:
                await admin.create_partitions({TOPIC: NewPartitions(3)})
            await asyncio.sleep(1)
            await clusters.fill(20, 10, partition=2)
            await clusters.until(lambda: sum(batch.records_count for batch in clusters.copied) == 30)
        await assert_equal(clusters)

    between_clusters(test)


def test_positions_name_both_topics() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20, partition=0)
        await clusters.copy(20)
        async with clusters.target.consumer(group_id="kafkaraw-mirror.a->b") as consumer:
            (found,) = (await consumer.committed([FIRST_COPY])).values()
            await consumer.partitions_for(COPY)
            assert found is not None
            assert found.offset == 20
            assert f"target={consumer.topic_id(COPY)}" in found.metadata
            assert "end=0" in found.metadata  # before the transaction that the position is in

    between_clusters(test)


def test_unreachable_cluster_is_an_error_at_the_start() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.target.kill()
        with pytest.raises(KafkaError):
            async with asyncio.timeout(120):
                await clusters.flow().run()

    between_clusters(test)


def test_metrics_have_the_names_of_mirrormaker() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 20, partition=0)
        async with clusters.mirroring() as flow:
            await clusters.copied_records(20)
            found = flow.metrics()[FIRST]
            assert found["record-count"] == 20
            assert found["byte-count"] > 0
            assert {"record-rate", "byte-rate", "record-age-ms-max", "replication-latency-ms-avg"} <= found.keys()

    between_clusters(test)
