"""list_offsets, describe_producers and describe_topics by id: what they refuse, and old brokers."""

from __future__ import annotations

import pytest

from kafkaraw import OffsetSpec, TopicPartition
from kafkaraw.errors import BrokerError, UnsupportedVersionError, UsageError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
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
