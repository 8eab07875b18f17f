"""A partition that a cluster refuses stops alone, says why, and continues by itself at the first refused record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from kafkaraw.client.admin import AclBinding, AclBindingFilter, ConfigResource, NewTopic, ResourcePattern
from kafkaraw.errors import CorruptBatchError, KafkaError
from kafkaraw.mirror import batches
from kafkaraw.mirror.interfaces import Delivery
from kafkaraw.mirror.positions import Position
from kafkaraw.mirror.refusals import BACKOFF, Refusals, refusal_of
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, ResourceType
from kafkaraw.records import TopicPartition
from tests.mirror.test_flow import DELIVERIES, assert_equal, assert_offsets_are_mapped
from tests.mirror.two_clusters import COPY, FIRST, FIRST_COPY, TOPIC, TwoClusters, between_clusters, contents

SECOND = TopicPartition(TOPIC, 1)
SECOND_COPY = TopicPartition(COPY, 1)


async def counts(clusters: TwoClusters) -> dict[int, int]:
    """Return the numbers of committed records by partition."""
    found: dict[int, int] = {}
    for record in await clusters.all_records(clusters.target, COPY):
        found[record.partition] = found.get(record.partition, 0) + 1
    return found


async def send_large(clusters: TwoClusters, size: int = 1_000, partition: int = 1) -> None:
    async with clusters.source.producer() as producer:
        await producer.send(TOPIC, bytes(size), b"large", partition=partition)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_record_above_the_limit_of_the_copy_stops_its_partition_only(
    delivery: Delivery, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(0, 10)
        await send_large(clusters)
        await clusters.fill(10, 10)
        async with clusters.mirroring(delivery) as flow:
            await clusters.until(lambda: SECOND in flow.stopped and FIRST in flow.positions)
            await clusters.fill(20, 200, partition=0)
            await clusters.until(lambda: flow.positions.get(FIRST) is not None and flow.positions[FIRST].offset == 210)
            if delivery is Delivery.EXACTLY_ONCE:
                assert await counts(clusters) == {0: 210, 1: 5}, "also the records before the refused one"
            refusal = flow.stopped[SECOND].refusal
            assert (refusal.offset, refusal.source) == (5, SECOND)
            for part in ("writing 1 record, 1,0", "orders-1 at offset 5 to a.orders-1", "max.message.bytes"):
                assert part in refusal.text
            found = flow.metrics()
            assert (found[SECOND]["is-stopped"], found[FIRST]["is-stopped"]) == (1, 0)
            assert found[SECOND]["refusals-count"] >= 1
            await asyncio.sleep(300)
            assert flow.stopped[SECOND].attempts < 15, "with backoff"
            async with clusters.target.admin() as admin:
                await admin.alter_configs({ConfigResource.topic(COPY): {"max.message.bytes": "2000"}})
            clusters.plan.configs = {"max.message.bytes": "2000"}
            await clusters.until(lambda: not flow.stopped)
            await clusters.copied_records(221)
            assert flow.metrics()[SECOND]["is-stopped"] == 0
        if delivery is Delivery.EXACTLY_ONCE:
            await assert_equal(clusters)
            await assert_offsets_are_mapped(clusters)
        else:  # batches that were in flight behind the refused one were copied before and again
            copy = contents(await clusters.all_records(clusters.target, COPY))
            source = contents(await clusters.all_records(clusters.source, TOPIC))
            assert copy[0] == source[0]
            assert copy[1][-len(source[1]) + 5 :] == source[1][5:]

    with caplog.at_level(logging.WARNING):
        between_clusters(test, target_config={"max.message.bytes": "300"})
    refused = [
        record.message for record in caplog.records if "refus" in record.message or "at offset 5" in record.message
    ]
    assert len(refused) == 1, "logged once"
    assert any("orders-1 is copied again" in record.message for record in caplog.records)


def test_refusal_is_committed_with_the_position_for_status() -> None:
    async def test(clusters: TwoClusters) -> None:
        await send_large(clusters)
        async with clusters.mirroring() as flow:
            await clusters.until(lambda: SECOND in flow.stopped)
            await asyncio.sleep(5)
            position = await committed(clusters, SECOND_COPY)
            assert position.offset == 0
            assert position.refusal == flow.stopped[SECOND].refusal.text

    between_clusters(test, target_config={"max.message.bytes": "300"})


async def committed(clusters: TwoClusters, copy: TopicPartition) -> Position:
    async with clusters.target.consumer(group_id="kafkaraw-mirror.a->b") as consumer:
        (found,) = (await consumer.committed([copy])).values()
    assert found is not None
    return Position.parse(found.offset, found.leader_epoch, found.metadata)


def test_record_without_key_stops_the_partition_of_a_compacted_copy() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.fill(1, 3, partition=1)
        await clusters.fill(0, 1, partition=1)  # without a key
        await clusters.fill(6, 3, partition=0)
        async with clusters.mirroring() as flow:
            await clusters.until(lambda: SECOND in flow.stopped)
            await clusters.copied_records(6)
            assert flow.stopped[SECOND].refusal.offset == 3
            assert "compacted topic" in flow.stopped[SECOND].refusal.text
            async with clusters.target.admin() as admin:
                await admin.alter_configs({ConfigResource.topic(COPY): {"cleanup.policy": "delete"}})
            await clusters.until(lambda: not flow.stopped)
        await assert_equal(clusters)

    between_clusters(test, target_config={"cleanup.policy": "compact"})


def test_damaged_batch_of_the_source_stops_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = [True]
    verify_crc = batches.verify_crc

    def verified(data: memoryview) -> None:
        if damaged[0] and b"value 3" in bytes(data):
            raise CorruptBatchError("the checksum is wrong")
        verify_crc(data)

    monkeypatch.setattr(batches, "verify_crc", verified)

    async def test(clusters: TwoClusters) -> None:
        for number in range(8):
            await clusters.fill(number, 1)
        async with clusters.mirroring() as flow:
            await clusters.until(lambda: SECOND in flow.stopped and FIRST in flow.positions)
            await clusters.copied_records(5)
            assert flow.stopped[SECOND].refusal.text.startswith("reading orders-1 at offset 1")
            assert await counts(clusters) == {0: 4, 1: 1}
            damaged[0] = False
            await clusters.copied_records(8)
        await assert_equal(clusters)

    between_clusters(test)


AUTHORIZES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
OTHER = "others"


@asynccontextmanager
async def denied(clusters: TwoClusters, topic: str, operation: AclOperation) -> AsyncIterator[None]:
    """Deny an operation on a topic of the target while the block runs."""
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    async with clusters.target.admin() as admin:
        await admin.create_acls(
            [
                AclBinding(pattern, "User:*", operation, AclPermissionType.DENY),
                AclBinding(pattern, "User:*", AclOperation.ALL),
            ]
        )
        yield
        await admin.delete_acls([AclBindingFilter(resource_name=topic)])


async def fill_other(clusters: TwoClusters, first: int, count: int) -> None:
    async with clusters.source.producer() as producer:
        for number in range(first, first + count):
            await producer.send(OTHER, b"%d" % number, partition=0)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE])
def test_topic_without_permission_stops_and_others_are_copied(delivery: Delivery, operation: AclOperation) -> None:
    async def test(clusters: TwoClusters) -> None:
        async with clusters.source.admin() as admin:
            await admin.create_topics([NewTopic(OTHER, 1)])
        clusters.plan.topics.append(OTHER)
        await clusters.plan.refresh()
        async with denied(clusters, COPY, operation):
            await clusters.fill(0, 10)
            await fill_other(clusters, 0, 10)
            async with clusters.mirroring(delivery) as flow:
                await clusters.until(lambda: flow.stopped.keys() >= {FIRST, SECOND})
                assert "a.orders" in flow.stopped[FIRST].refusal.text
                await fill_other(clusters, 10, 10)
                await until_copied(clusters, f"a.{OTHER}", 20)
        async with clusters.mirroring(delivery) as flow:
            await clusters.copied_records(10)
            await clusters.until(lambda: not flow.stopped)
        await assert_equal(clusters)

    between_clusters(test, target_properties=AUTHORIZES)


def test_topic_continues_when_its_permission_is_granted() -> None:
    async def test(clusters: TwoClusters) -> None:
        await clusters.plan.refresh()
        await clusters.fill(0, 10)
        async with clusters.mirroring() as flow:
            await clusters.copied_records(10)
            async with denied(clusters, COPY, AclOperation.WRITE):
                await clusters.fill(10, 10)
                await clusters.until(lambda: flow.stopped.keys() == {FIRST, SECOND})
                await asyncio.sleep(30)
            await clusters.copied_records(20)
            await clusters.until(lambda: not flow.stopped)
        await assert_equal(clusters)
        await assert_offsets_are_mapped(clusters)

    between_clusters(test, target_properties=AUTHORIZES)


async def until_copied(clusters: TwoClusters, topic: str, count: int) -> None:
    async with asyncio.timeout(120):
        while len(await clusters.all_records(clusters.target, topic)) < count:
            await asyncio.sleep(0.5)


# -- the list


def test_partitions_are_tried_together_when_the_first_is_due() -> None:
    refusals = Refusals(Random(1))
    first, second = (refusal_of(of, FIRST_COPY, 7, "writing", KafkaError("no")) for of in (FIRST, SECOND))
    assert refusals.add(first, 0.0)
    assert not refusals.add(first, 0.5), "the same again"
    assert refusals.add(second, 1.0)
    assert set(refusals.left_out(1.0)) == {FIRST, SECOND}
    assert refusals.due_at_s is not None
    assert not refusals.left_out(refusals.due_at_s)
    assert not refusals.moved(FIRST, 7)
    assert refusals.moved(FIRST, 8)
    assert set(refusals.stopped) == {SECOND}
    refusals.keep(set())
    assert refusals.due_at_s is None


def test_waits_grow_to_a_minute() -> None:
    refusals, now_s = Refusals(Random(1)), 0.0
    waits: list[float] = []
    for _ in range(12):
        refusals.add(refusal_of(FIRST, FIRST_COPY, 7, "writing", KafkaError("no")), now_s)
        waits.append(refusals.stopped[FIRST].retry_at_s - now_s)
        now_s += waits[-1]
    assert waits[0] < 2
    assert 45 < waits[-1] <= BACKOFF.max_ms / 1000


def test_position_with_a_refusal_is_read_again() -> None:
    text = "writing orders-1 at offset 5: source=x end=9 " + "x" * 3_000
    position = Position.parse(5, 1, "source=AAAAAAAAAAAAAAAAAAAAAQ target=AAAAAAAAAAAAAAAAAAAAAg run=ab end=3")
    parsed = Position.parse(5, 1, position._replace(refusal=text).metadata)
    assert parsed._replace(refusal="") == position
    assert text.startswith(parsed.refusal)
    assert len(parsed.refusal) > 500
    assert not position.refusal
