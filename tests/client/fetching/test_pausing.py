"""Pausing partitions, the lag behind their ends, and what a group hooks into reading."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.committed import OffsetAndMetadata
from kafkaraw.client.consumer import AsyncConsumer, reading_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.consumer_metrics import MEANINGS
from kafkaraw.errors import UsageError
from kafkaraw.protocol.messages.fetch import FetchRequest
from kafkaraw.records import TopicPartition
from tests.client.scripted_cluster import ScriptedCluster
from tests.client.test_consumer import P0, P1, read, simulate, values


def test_nothing_of_a_paused_partition_is_given_and_the_others_go_on() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a")
        cluster.append("t", 1, b"b")
        consumer.pause([P0])
        assert consumer.paused() == [P0]
        assert values(await consumer.poll(5)) == [b"b"]
        assert await consumer.poll(2) == {}
        consumer.resume([P0])
        assert values(await consumer.poll(5)) == [b"a"]

    simulate(play, leaders=(1, 1))


def test_what_was_fetched_of_a_partition_before_its_pause_is_not_fetched_again() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c")
        assert values(await consumer.poll(5, max_records=1)) == [b"a"]
        consumer.pause([P0])
        before = len(cluster.asked(FetchRequest))
        assert await consumer.poll(3) == {}
        assert await consumer.position(P0) == 1
        consumer.resume([P0])
        assert await read(consumer, 2) == [b"b", b"c"]
        later = [asked.message for asked in cluster.asked(FetchRequest)[before:]]
        assert {part.fetch_offset for fetch in later for topic in fetch.topics for part in topic.partitions} <= {3}

    simulate(play)


def test_all_paused_costs_no_request() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        await consumer.poll(1)
        consumer.pause([P0])
        await consumer.poll(1)
        before = len(cluster.asked(FetchRequest))
        assert await consumer.poll(30) == {}
        assert len(cluster.asked(FetchRequest)) == before

    simulate(play)


def test_pausing_what_is_not_assigned_pauses_nothing() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(UsageError, match="t-1 is not assigned"):
            consumer.pause([P0, P1])
        assert consumer.paused() == []

    simulate(play)


def test_a_partition_that_is_given_up_and_taken_again_is_not_paused() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        consumer.pause([P0])
        consumer.assign([])
        consumer.assign([P0])
        assert consumer.paused() == []

    simulate(play)


def test_the_lag_is_what_lies_between_the_position_and_the_end() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        assert consumer.lag(P0) is None
        cluster.append("t", 0, b"a", b"b", b"c")
        await consumer.poll(5, max_records=1)
        assert consumer.lag(P0) == 2
        await read(consumer, 2)
        assert consumer.lag(P0) == 0

    simulate(play)


def test_a_partition_with_a_start_begins_there() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 1, b"a", b"b")
        reading = reading_of(consumer)
        reading.assign([P0])
        reading.assign([P0, P1], {P1: OffsetAndMetadata(1), P0: OffsetAndMetadata(99)})
        assert reading.subscriptions.position(P1) == 1
        assert await read(consumer, 1) == [b"b"]

    simulate(play, leaders=(1, 1))


def test_what_comes_first_is_done_before_anything_is_given() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        reading, done = reading_of(consumer), [True]

        async def turn(deadline: Deadline) -> bool:
            reading.cursor.must_enter_loop = False
            return done[0]

        reading.turn = turn
        cluster.append("t", 0, b"a", b"b", b"c")
        assert values(await consumer.poll(5, max_records=1)) == [b"a"]
        done[0] = False
        assert await consumer.poll(5, max_records=1) == {}
        done[0] = True
        reading.cursor.must_enter_loop = True
        assert reading.cursor.next_batch() is None
        assert values(await consumer.poll(5)) == [b"b", b"c"]

    simulate(play)


def test_the_mark_changes_with_every_visit() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        cluster.append("t", 0, b"a", b"b", b"c")
        cursor, marks = reading_of(consumer).cursor, set()
        for _ in range(3):
            await consumer.__anext__()
            marks.add(cursor.mark)
        consumer.pause([TopicPartition("t", 0)])
        await consumer.poll(0)
        marks.add(cursor.mark)
        assert len(marks) == 4

    simulate(play)


def test_what_is_fetched_is_counted() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        told = consumer.metrics()["consumer"]
        assert told.keys() == MEANINGS.keys()
        assert (told["records_lag_max"], told["records_lead_min"], told["records_per_request_avg"]) == (-1, -1, 0)
        cluster.append("t", 0, b"a", b"b", b"c")
        await consumer.poll(5, max_records=1)
        told = consumer.metrics()["consumer"]
        assert (told["fetch_total"], told["fetch_failed_total"], told["records_consumed_total"]) == (1, 0, 3)
        assert told["bytes_consumed_total"] == told["fetch_size_avg"] == told["fetch_size_max"]
        assert told["fetch_size_max"] == sum(map(len, cluster.topics["t"].logs[0].batches))
        assert (told["records_per_request_avg"], told["records_lag"], told["records_lag_max"]) == (3, {"t-0": 2}, 2)
        assert told["records_lead_min"] == 1
        assert 0 < told["fetch_latency_avg_s"] == told["fetch_latency_max_s"] == told["fetch_latency_total_s"] < 1
        await read(consumer, 2)
        assert await consumer.poll(2) == {}
        told = consumer.metrics()["consumer"]
        assert (told["records_consumed_total"], told["records_lag_max"], told["records_lead_min"]) == (3, 0, 3)
        assert told["fetch_total"] > 2

    simulate(play)


def test_records_of_a_cancelled_call_are_returned_by_the_next_call() -> None:
    async def play(consumer: AsyncConsumer, cluster: ScriptedCluster) -> None:
        reading = reading_of(consumer)
        put, under_way = reading.cursor.put, []
        waiting = asyncio.create_task(consumer.poll(60))

        def give_up(batches):
            put(batches)
            asyncio.get_running_loop().call_soon(lambda: under_way.append(len(reading._fetch_requests._in_flight)))
            waiting.cancel()

        reading.cursor.put = give_up
        await asyncio.sleep(2)
        cluster.append("t", 0, b"a", b"b")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert under_way == [1]  # the next fetch goes out before anybody has woken up
        assert await consumer.position(P0) == 0
        assert values(await consumer.poll(0)) == [b"a", b"b"]

    simulate(play)
