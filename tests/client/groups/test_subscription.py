"""The subscription of a consumer that changes while its topics are refreshed, on virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from kafkaraw.client.groups.subscription import SubscribedTopics
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def clear(subscribed: SubscribedTopics) -> None:
    subscribed.clear()


def subscribe_by_name(subscribed: SubscribedTopics) -> None:
    subscribed.clear()
    subscribed.subscribe(["ferries"], None)


def subscribe_to_other_pattern(subscribed: SubscribedTopics) -> None:
    subscribed.subscribe(None, re.compile("fl.*"))


@pytest.mark.parametrize("begin", [(["flights"], None), (None, re.compile("f.*"))], ids=["by name", "by pattern"])
@pytest.mark.parametrize(
    ("change", "topics"),
    [(clear, set()), (subscribe_by_name, {"ferries"}), (subscribe_to_other_pattern, {"flights"})],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_subscription_changed_during_refresh_is_refreshed_again(
    begin: tuple[list[str] | None, re.Pattern[str] | None], change: Callable[[SubscribedTopics], None], topics: set[str]
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("flights")
        await cluster.create("ferries")
        async with cluster.consumer(group_id="g") as consumer:
            await consumer.partitions_for("flights")
            subscribed = SubscribedTopics(consumer._engine, consumer._config)
            subscribed.subscribe(*begin)
            refreshing = asyncio.ensure_future(subscribed.refresh(0))
            await asyncio.sleep(0)
            change(subscribed)
            await refreshing
            assert subscribed.is_refresh_due(1) == bool(topics)
            if topics:
                await subscribed.refresh(1)
                assert subscribed.is_known
            assert subscribed.subscription.topics == topics

    on_cluster(test)
