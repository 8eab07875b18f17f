"""Start offsets of share groups, seen and changed by an administrator; each against our broker on virtual time."""

from __future__ import annotations

import pytest

from kafkaraw import BrokerError, KafkaError, SharePartitionOffsetInfo, TopicPartition, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0, P1, NO_TOPIC = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("no-such-topic", 0)


def test_altered_offsets_of_a_share_group_are_listed_and_deleted_by_topic() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin:
            await admin.alter_share_group_offsets("queue", {P0: 0, P1: 0})
            listed = await admin.list_share_group_offsets(["queue", "no-such-group"])
            assert listed["no-such-group"] == {}
            assert {key: (each.start_offset, each.lag) for key, each in listed["queue"].items()} == {
                P0: (0, 0),
                P1: (0, 0),
            }
            assert isinstance(listed["queue"][P0], SharePartitionOffsetInfo)
            assert list((await admin.list_share_group_offsets({"queue": [P1]}))["queue"]) == [P1]
            await admin.delete_share_group_offsets("queue", ["t"])
            assert await admin.list_share_group_offsets(["queue"]) == {"queue": {}}

    on_cluster(life)


def test_each_partition_or_topic_that_failed_is_named_and_the_others_are_changed() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 1)
        async with cluster.admin() as admin:
            with pytest.raises(KafkaError, match="no-such-topic") as caught:
                await admin.alter_share_group_offsets("queue", {P0: 0, NO_TOPIC: 0})
            assert set(caught.value.failures) == {NO_TOPIC}
            assert list((await admin.list_share_group_offsets(["queue"]))["queue"]) == [P0]
            with pytest.raises(KafkaError, match="no-such-topic") as caught:
                await admin.delete_share_group_offsets("queue", ["t", "no-such-topic"])
            assert set(caught.value.failures) == {"no-such-topic"}
            assert await admin.list_share_group_offsets(["queue"]) == {"queue": {}}

    on_cluster(life)


def test_offsets_of_a_group_of_another_type_are_refused() -> None:
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 1)
        async with cluster.admin() as admin:
            await admin.alter_group_offsets("readers", {P0: 0})
            with pytest.raises(BrokerError, match="readers") as caught:
                await admin.alter_share_group_offsets("readers", {P0: 0})
            assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
            with pytest.raises(UsageError, match="list of names"):
                await admin.list_share_group_offsets("readers")

    on_cluster(life)
