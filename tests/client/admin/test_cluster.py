"""The cluster described: its id, its nodes, its controller, also by brokers that know no DescribeCluster."""

from __future__ import annotations

import pytest

from kafkaraw.core.cluster import BrokerNode
from kafkaraw.protocol.acl_codes import AclOperation
from tests.client.virtual_cluster import HOST, PORT, VirtualCluster, on_cluster


@pytest.mark.parametrize("release", ["2.4", "2.8", None])
def test_the_cluster_is_described_by_old_brokers_and_new_ones(release: str | None):
    async def life(cluster: VirtualCluster) -> None:
        async with cluster.admin() as admin:
            found = await admin.describe_cluster()
            told = await admin.describe_cluster(authorized_operations=True)
        assert found.cluster_id == cluster.node.state.catalog.cluster_id
        assert (found.controller_id, found.brokers) == (0, (BrokerNode(0, HOST, PORT),))
        assert found.authorized_operations is None
        assert told.authorized_operations is not None and AclOperation.CREATE in told.authorized_operations

    on_cluster(life, max_versions=release)
