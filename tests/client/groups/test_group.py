"""Members of groups of both protocols against our broker, on virtual time: what takes minutes, what users do wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest

from kafkaraw import AsyncConsumer, OffsetAndMetadata, TopicPartition, UsageError
from kafkaraw.core.group.assignors import RangeAssignor, Topics
from kafkaraw.core.group.assignors.interface import Assignment, Members
from kafkaraw.core.group.classic import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from kafkaraw.errors import (
    BrokerError,
    ClosedError,
    CommitFailedError,
    GroupError,
    KafkaError,
    KafkaTimeoutError,
    MaxPollExceededError,
    TransactionAbortableError,
)
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkaraw.records import Batch
from tests.client.virtual_cluster import VirtualCluster, on_cluster
from tests.simulation import seeds

TOPIC = "t"
PARTITIONS = 4


PROTOCOLS: dict[str, dict[str, object]] = {"classic": {}, "KIP-848": {"group_protocol": "consumer"}}
COOPERATIVE: dict[str, object] = {"partition_assignment_strategy": "cooperative-sticky"}
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def member(cluster: VirtualCluster, protocol: str = "classic", **settings: object) -> AsyncConsumer:
    of_protocol = COOPERATIVE if protocol == "cooperative" else PROTOCOLS[protocol]
    consumer = cluster.consumer(group_id="g", **of_protocol, **settings)
    consumer.subscribe([TOPIC])
    return consumer


async def settle(*consumers: AsyncConsumer) -> None:
    """Poll until the members share the topic."""
    for _ in range(400):
        for consumer in consumers:
            with contextlib.suppress(KafkaError):
                await consumer.poll(0.1)
        owned = [partition for consumer in consumers for partition in consumer.assignment()]
        if len(owned) == len(set(owned)) == PARTITIONS and all(consumer.assignment() for consumer in consumers):
            return
    raise AssertionError([consumer.assignment() for consumer in consumers])


async def fill(cluster: VirtualCluster, count: int) -> None:
    async with cluster.producer(linger_ms=0) as producer:
        for number in range(count):
            await producer.send(TOPIC, b"v", partition=number % PARTITIONS)


@both_protocols
@pytest.mark.parametrize("seconds", [400, pytest.param(3600, marks=pytest.mark.soak)])
def test_member_survives_outage_longer_than_all_timeouts(seconds: int, protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, protocol) as first, member(cluster, protocol) as second:
            await settle(first, second)
            for consumer in (first, second):
                assert await consumer.poll(1) == {}
            await cluster.kill()
            end = cluster.now + seconds
            while cluster.now < end:
                for consumer in (first, second):
                    assert await consumer.poll(30) == {}
            await cluster.restart()
            await settle(first, second)

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_outage_before_first_fetch_response_raises_nothing(protocol: str) -> None:
    """At every moment between joining and the first answer to a Fetch."""
    polls = 0

    async def test(cluster: VirtualCluster, delay_s: float) -> None:
        nonlocal polls
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, protocol, default_api_timeout_ms=10_000) as consumer:
            end = cluster.now + delay_s
            while cluster.now < end:
                assert await consumer.poll(end - cluster.now) == {}
            if not consumer.assignment():
                return  # perhaps no broker was reached yet, so the address may be wrong
            await cluster.kill()
            end = cluster.now + 20
            while cluster.now < end:
                assert await consumer.poll(7) == {}
                polls += 1
            await cluster.restart()
            await fill(cluster, 8)
            offsets = Counter[int]()
            while offsets.total() < 8:
                offsets.update({of.partition: batch.records_count for of, batch in (await consumer.poll(7)).items()})
            assert offsets == dict.fromkeys(range(PARTITIONS), 2)
            for _ in range(30):
                assert await consumer.poll(1) == {}

    for step in range(12, 24, 1 if seeds.with_soak else 2):
        on_cluster(partial(test, delay_s=step * 0.001), seed=step, group_initial_rebalance_delay_ms=0)
    assert polls


def test_outage_during_offset_fetch_of_manual_assignment_raises_nothing() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        partitions = [TopicPartition(TOPIC, number) for number in range(2)]
        async with cluster.consumer(group_id="g", default_api_timeout_ms=20_000) as consumer:
            consumer.assign(partitions[:1])
            assert await consumer.poll(1) == {}
            await cluster.kill()
            consumer.assign(partitions)
            for _ in range(20):
                assert await consumer.poll(7) == {}
            await cluster.restart()
            await fill(cluster, PARTITIONS)
            found: set[TopicPartition] = set()
            while found != set(partitions):
                found |= (await consumer.poll(7)).keys()

    on_cluster(test)


def test_commit_and_committed_name_cause_if_no_broker_is_reachable() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        partition = TopicPartition(TOPIC, 0)
        async with cluster.consumer(group_id="g") as consumer:
            await consumer.commit({partition: 1})
            await cluster.kill()
            with pytest.raises(KafkaTimeoutError, match="Connection refused"):
                await consumer.commit({partition: 2}, timeout=5)
            with pytest.raises(KafkaTimeoutError, match="Connection refused"):
                await consumer.committed([partition], timeout=5)
            await cluster.restart()

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_blocked_event_loop_is_logged_with_its_duration(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, protocol) as consumer:
            await settle(consumer)
            cluster.simulation.loop.advance(20)  # what time.sleep(20) in a coroutine does
            await consumer.poll(1)

    on_cluster(test, group_initial_rebalance_delay_ms=0)
    told = [record.getMessage() for record in caplog.records if "event loop was blocked" in record.getMessage()]
    assert len(told) == 1
    assert "asyncio.to_thread" in told[0]


def test_rejoin_waits_for_retried_leave() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, "KIP-848", max_poll_interval_ms=1000) as consumer:
            await settle(consumer)
            refuse_the_first_goodbye(consumer)
            await asyncio.sleep(1.001)
            with pytest.raises(MaxPollExceededError):
                await consumer.poll(1)
            await settle(consumer)
        beats = [each for each in cluster.requests() if isinstance(each, ConsumerGroupHeartbeatRequest)]
        assert [each.member_epoch for each in beats if each.member_epoch <= 0] == [0, -1, 0, -1]

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def refuse_the_first_goodbye(consumer: AsyncConsumer) -> None:
    coordinator = consumer._group.membership._coordinator
    ask = coordinator.once

    async def once(make: Callable[[object], object], **how: object) -> object:
        request = make(SimpleNamespace(version_for=lambda _: 1))
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0:
            coordinator.once = ask
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ConsumerGroupHeartbeatResponse(error_code=loading, member_epoch=0, heartbeat_interval_ms=0)
        return await ask(make, **how)

    coordinator.once = once


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "classic": ({"session_timeout_ms": 100, "heartbeat_interval_ms": 30}, "session_timeout_ms=100 is outside"),
    "KIP-848": ({"group_remote_assignor": "nonesuch"}, "has no assignor group_remote_assignor='nonesuch'"),
}


@both_protocols
def test_waiting_poll_raises_fatal_error_of_member_at_once(protocol: str) -> None:
    settings, problem = REFUSED[protocol]

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        began_s = asyncio.get_running_loop().time()
        async with member(cluster, protocol, **settings) as consumer:
            with pytest.raises(KafkaError, match=problem):
                await anext(consumer)  # by itself it would wait for a minute
        assert asyncio.get_running_loop().time() - began_s < 5

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_invalid_assignment_is_raised_by_next_poll_and_member_rejoins() -> None:
    answers: list[object] = [None]

    class Mine(RangeAssignor):
        name = "mine"

        def assign(self, topics: Topics, members: Members) -> Assignment:
            return answers.pop() if answers else super().assign(topics, members)  # type: ignore[return-value]

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, partition_assignment_strategy=Mine) as consumer:
            with pytest.raises(GroupError, match=r"assignor 'mine': Mine\.assign\(\) returned None"):
                await consumer.poll(60)
            await settle(consumer)

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_iteration_resets_poll_timer_and_absence_expires_it(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        await fill(cluster, 40)
        async with member(cluster, protocol, max_poll_interval_ms=30_000) as consumer:
            joined_as, read = None, 0
            async for _ in consumer:
                read += 1
                joined_as = joined_as or consumer.group_metadata()
                await asyncio.sleep(12)
                if read == 20:
                    break
            assert consumer.group_metadata() == joined_as, "it was a member all the time"
            await asyncio.sleep(40)
            with pytest.raises(MaxPollExceededError):
                await consumer.poll(1)
            await settle(consumer)

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_poll_timer_is_disabled_from_unsubscribe_to_next_poll(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, protocol, max_poll_interval_ms=30_000) as consumer:
            await settle(consumer)
            await consumer.unsubscribe()
            consumer.subscribe([TOPIC])
            await asyncio.sleep(20)
            assert consumer.group_metadata().generation_id < 0, "it is a member, though nobody reads"
            await asyncio.sleep(20)
            await consumer.poll(0.1)
            await settle(consumer)

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_last_batch_is_not_committed_if_its_processing_failed(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        await fill(cluster, 40)
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        with pytest.raises(ZeroDivisionError):
            async with member(cluster, protocol) as consumer:
                while not await consumer.poll(1):
                    pass
                raise ZeroDivisionError
        async with cluster.consumer(group_id="g") as other:
            committed = await other.committed(partitions)
            assert all(position is None or position.offset == 0 for position in committed.values())
        async with member(cluster, protocol) as again:
            read = 0
            while read < 40:
                read += sum(batch.records_count for batch in (await again.poll(1)).values())
        async with cluster.consumer(group_id="g") as other:
            committed = await other.committed(partitions)
            assert [position and position.offset for position in committed.values()] == [10] * PARTITIONS

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@pytest.mark.parametrize("protocol", ["classic", "cooperative", "KIP-848"])
def test_no_records_are_returned_during_commit_before_revocation(protocol: str) -> None:
    """Nothing of what is in hand, either: the partitions' next owner begins where that commit says."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        await fill(cluster, 40)
        async with member(cluster, protocol) as first, member(cluster, protocol) as second:
            read = Counter(offsets_of(await anext(first.batches(10))))
            for _ in range(100):  # so that the first one has to give something up, and has records in hand
                read.update([at for batch in (await second.poll(0.1)).values() for at in offsets_of(batch)])
            cluster.silence()
            for _ in range(3):
                read.update([at async for batch in first.batches(0.2) for at in offsets_of(batch)])
            cluster.silence(False)
            end = cluster.now + 30
            while cluster.now < end:
                for consumer in (first, second):
                    batches = (await consumer.poll(0.1)).values()
                    read.update([at for batch in batches for at in offsets_of(batch)])
        assert read == Counter((number, offset) for number in range(PARTITIONS) for offset in range(10))

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def offsets_of(batch: Batch) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in batch]


@both_protocols
def test_commit_with_oversized_metadata_does_not_end_membership(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, protocol) as consumer:
            await settle(consumer)
            joined_as = consumer.group_metadata()
            with pytest.raises(BrokerError, match="OFFSET_METADATA_TOO_LARGE"):
                await consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(0, "x" * 5_000)})
            await consumer.poll(10)
            assert consumer.group_metadata() == joined_as

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
@pytest.mark.parametrize("commits", [False, True])
def test_member_of_deleted_group_rejoins(protocol: str, commits: bool) -> None:
    lost: list[TopicPartition] = []

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer = cluster.consumer(group_id="g", enable_auto_commit=False, **PROTOCOLS[protocol])
        async with consumer, cluster.admin() as admin:
            consumer.subscribe([TOPIC], on_lost=lost.extend)
            await settle(consumer)
            await admin.remove_members("g")
            await admin.delete_groups(["g"])
            if commits:
                with pytest.raises(CommitFailedError, match="moved on without it"):
                    await consumer.commit({TopicPartition(TOPIC, 0): 0})
            end = cluster.now + 30
            while cluster.now < end:
                await consumer.poll(1)
            assert len(lost) == len(consumer.assignment()) == PARTITIONS
            await consumer.commit({TopicPartition(TOPIC, 0): 0})

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_offsets_of_a_member_that_was_removed_are_refused_in_a_transaction(protocol: str) -> None:
    """KIP-447: the coordinator accepts offsets without member id and generation from any producer."""

    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer = cluster.consumer(group_id="g", enable_auto_commit=False, **PROTOCOLS[protocol])
        producer = cluster.producer(transactional_id="t")
        async with consumer, producer, cluster.admin() as admin:
            await producer.init_transactions()
            consumer.subscribe([TOPIC])
            await settle(consumer)
            joined_as = consumer.group_metadata()
            await admin.remove_members("g")
            await admin.delete_groups(["g"])
            for _ in range(100):  # its heartbeats tell it, without a call of the application
                await asyncio.sleep(0.1)
                assert consumer.group_metadata() == joined_as
            await producer.begin_transaction()
            with pytest.raises((CommitFailedError, TransactionAbortableError)):
                await producer.send_offsets_to_transaction(
                    {TopicPartition(TOPIC, 0): OffsetAndMetadata(1)}, consumer.group_metadata()
                )
            await producer.abort_transaction()
            await settle_once(consumer)
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction(
                {TopicPartition(TOPIC, 0): OffsetAndMetadata(1)}, consumer.group_metadata()
            )
            await producer.commit_transaction()

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
def test_listener_callback_cannot_poll(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol])

        async def assigned(_: list[TopicPartition]) -> None:
            await consumer.poll(1)

        async with consumer:
            consumer.subscribe([TOPIC], on_assigned=assigned)
            with pytest.raises(UsageError, match="a callback of a rebalance cannot read"):
                await settle_once(consumer)
            assert len(consumer.assignment()) == PARTITIONS, "the rebalance goes on"

    on_cluster(test, group_initial_rebalance_delay_ms=0)


async def settle_once(consumer: AsyncConsumer) -> None:
    for _ in range(100):
        await consumer.poll(0.1)


@both_protocols
def test_subscription_and_manual_assignment_exclude_each_other(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with cluster.consumer(group_id="g", **PROTOCOLS[protocol]) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            with pytest.raises(UsageError, match="assigned by hand"):
                consumer.subscribe([TOPIC])
            consumer.assign([])
            with pytest.raises(UsageError, match="nothing is assigned"):
                await consumer.poll(1)
            consumer.subscribe([TOPIC])
            await settle(consumer)
            with pytest.raises(UsageError, match="unsubscribe"):
                consumer.assign([TopicPartition(TOPIC, 0)])
            await consumer.unsubscribe()
            assert consumer.assignment() == []

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_close_calls_on_revoked_if_commit_is_impossible() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer, given_up = cluster.consumer(group_id="g", enable_auto_commit=True), []
        consumer.subscribe([TOPIC], on_revoked=given_up.extend)
        await settle(consumer)
        await fill(cluster, 8)
        while not await consumer.poll(1):
            pass
        owned = consumer.assignment()
        cluster.silence()
        began_s = cluster.now
        await consumer.close(2)
        assert given_up == owned
        assert cluster.now - began_s < 3

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_request_of_member_that_has_left_is_not_sent() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        async with member(cluster, group_instance_id="one") as consumer:
            await settle(consumer)
            await cluster.kill()
            await asyncio.sleep(4)
            cluster.silence()
            await cluster.restart()
            await asyncio.sleep(4)  # by now a heartbeat waits for a connection
            await consumer.unsubscribe(0.5)
            left_s = cluster.now
            cluster.silence(False)
            await asyncio.sleep(20)
        keys = {int.from_bytes(sent.data[4:6], "big") for sent in cluster.network.history if sent.at_s > left_s}
        assert keys.isdisjoint({JOIN_GROUP, HEARTBEAT, SYNC_GROUP})

    on_cluster(test, group_initial_rebalance_delay_ms=0)


@both_protocols
@pytest.mark.parametrize("way", ["poll", "batches", "records"])
def test_no_records_are_returned_after_another_task_begins_close(protocol: str, way: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create(TOPIC, PARTITIONS)
        consumer, given = cluster.consumer(group_id="g", **PROTOCOLS[protocol]), []

        async def store_and_take_time(_: list[TopicPartition]) -> None:
            await consumer.commit()
            await fill(cluster, 40)
            await asyncio.sleep(1)

        async def read() -> None:
            if way == "poll":
                with pytest.raises(ClosedError):
                    given.append(await consumer.poll(60))
            else:
                given.extend([each async for each in (consumer.batches() if way == "batches" else consumer)])

        consumer.subscribe([TOPIC], on_revoked=store_and_take_time)
        await settle(consumer)
        reading = asyncio.create_task(read())
        await asyncio.sleep(1)
        await consumer.close()
        await reading
        assert given == []

    on_cluster(test, group_initial_rebalance_delay_ms=0)
