"""list_offsets, describe_producers and describe_topics by id: what they refuse, and old brokers."""

from __future__ import annotations

import asyncio
import random

import pytest

from kafkaraw import AsyncAdmin, OffsetSpec, TopicPartition
from kafkaraw.client.admin.calls import LEADERS_AGE_S
from kafkaraw.client.runtime import Runtime
from kafkaraw.errors import BrokerError, UnsupportedVersionError, UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import MetadataRequest
from tests.broker.virtual_nodes import VirtualNodes, on_nodes
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0 = TopicPartition("t", 0)


def test_offsets_of_both_ends():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer() as producer:
            await producer.send("t", b"v")
        async with cluster.admin() as admin:
            assert await admin.list_offsets({P0: OffsetSpec.EARLIEST}) == {P0: (0, -1, 0)}
            assert await admin.list_offsets({P0: OffsetSpec.LATEST}) == {P0: (1, -1, 0)}
            assert await admin.list_offsets({P0: OffsetSpec.LATEST_TIERED}) == {P0: None}

    on_cluster(life)


def test_leaders_that_were_just_told_are_not_asked_for_again():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:

            async def metadata_requests() -> int:
                asked = len(cluster.requests())
                await admin.list_offsets({P0: OffsetSpec.LATEST})
                return sum(isinstance(each, MetadataRequest) for each in cluster.requests()[asked:])

            await admin.describe_topics(["t"])
            assert await metadata_requests() == 0
            await asyncio.sleep(LEADERS_AGE_S + 1)
            assert await metadata_requests() == 1

    on_cluster(life)


def test_a_leader_that_has_moved_since_is_found():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create("t", partitions=1, replicas=3)
        runtime = Runtime(nodes.simulation.network, nodes.simulation.clock, random.Random(1))
        async with AsyncAdmin(bootstrap_servers=nodes.cluster.bootstrap_servers, runtime=runtime) as admin:
            leader = (await admin.describe_topics(["t"]))["t"].partitions[0].leader_id
            other = (leader + 1) % 3
            await admin.alter_partition_reassignments({P0: [other]}, timeout=20)
            while nodes.cluster.leader_of("t", 0) == leader:
                await asyncio.sleep(0.1)
            found = (await admin.list_offsets({P0: OffsetSpec.LATEST}))[P0]
            assert found is not None and found.leader_epoch == nodes.leader("t").leader_epoch

    on_nodes(life)


def test_arguments_that_do_not_fit_are_refused():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            with pytest.raises(UsageError, match="timestamp -1 must be 0 or more"):
                await admin.list_offsets({P0: -1})
            with pytest.raises(UsageError, match="isolation_level='committed' must be one of 'read_uncommitted'"):
                await admin.list_offsets({P0: OffsetSpec.LATEST}, isolation_level="committed")
            with pytest.raises(UsageError, match="no broker 7"):
                await admin.describe_producers([P0], broker=7)
            with pytest.raises(UsageError, match="is not a ProducerState"):
                await admin.abort_transaction(P0, 1000)  # type: ignore[arg-type]
            with pytest.raises(BrokerError) as refused:
                await admin.describe_topics([Uuid(bytes(15) + b"\x07")])
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_ID

    on_cluster(life)


def test_a_broker_that_is_too_old_is_named_by_version():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            assert await admin.list_offsets({P0: OffsetSpec.LATEST}) == {P0: (0, -1, 0)}
            with pytest.raises(UnsupportedVersionError, match="MAX_TIMESTAMP in t-0: this needs ListOffsets 7"):
                await admin.list_offsets({P0: OffsetSpec.MAX_TIMESTAMP})
            with pytest.raises(UnsupportedVersionError, match="by id with Metadata 12"):
                await admin.describe_topics([Uuid(bytes(15) + b"\x07")])

    on_cluster(life, max_versions="2.8")
