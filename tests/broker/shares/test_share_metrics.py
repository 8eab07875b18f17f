"""What a node counts about share groups, and how Prometheus gets it."""

from __future__ import annotations

import asyncio
import urllib.request

from kafkaraw import AcknowledgeType
from kafkaraw.broker.share_metrics import (
    ACKNOWLEDGEMENTS,
    GROUPS,
    IN_FLIGHT,
    IN_FLIGHT_BATCHES,
    LOCK_TIMEOUTS,
    Sample,
    ShareGroupCollector,
    share_samples,
)
from kafkaraw.broker.telemetry.prometheus import MetricsServer
from tests.client.test_share_outcomes import GROUP, TOPIC, a_consumer
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def test_acknowledgements_expired_locks_and_records_in_flight_are_counted():
    def samples(cluster: VirtualCluster) -> dict[tuple[str, ...], float]:
        state = cluster.node.state
        found = share_samples(state.node_id, state.share_partitions, state.groups.hosted())
        assert all(sample.labels["node"] == str(state.node_id) for sample in found)
        return {(name, *[labels[key] for key in labels if key != "node"]): value for name, labels, value in found}

    async def test(cluster: VirtualCluster) -> None:
        async with await a_consumer(cluster, 4, share_acknowledgement_mode="explicit") as consumer:
            (batch,) = (await consumer.poll(10)).values()
            for record, kind in zip(batch, (AcknowledgeType.ACCEPT, *[AcknowledgeType.REJECT] * 2), strict=False):
                consumer.acknowledge(record, kind)
            await consumer.commit()
            found = samples(cluster)
            assert found[ACKNOWLEDGEMENTS, GROUP, "accept"] == 1
            assert found[ACKNOWLEDGEMENTS, GROUP, "reject"] == 2
            assert (found[IN_FLIGHT, GROUP, TOPIC, "0"], found[IN_FLIGHT_BATCHES, GROUP, TOPIC, "0"]) == (1, 1)
            assert found[GROUPS, "Stable"] == 1
            await asyncio.sleep(31)
            assert samples(cluster)[LOCK_TIMEOUTS, GROUP, TOPIC, "0"] == 1

    on_cluster(test)


def test_metrics_of_share_groups_are_served_for_prometheus():
    labels = {"node": "1", "group": "jobs", "ackType": "accept"}
    server = MetricsServer("127.0.0.1", 0, list, [ShareGroupCollector(lambda: [Sample(ACKNOWLEDGEMENTS, labels, 3)])])
    try:
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    assert f'{ACKNOWLEDGEMENTS}_total{{ackType="accept",group="jobs",node="1"}} 3.0' in text
