"""What a consumer is subscribed to, while topics are looked at and the user changes their mind, on virtual time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from kafkaraw.client.groups.subscribed import Subscribed
from tests.client.virtual_cluster import VirtualCluster, on_cluster


def clear(subscribed: Subscribed) -> None:
    subscribed.clear()


def come_back_by_name(subscribed: Subscribed) -> None:
    subscribed.clear()
    subscribed.subscribe(["ferries"], None)


def take_another_pattern(subscribed: Subscribed) -> None:
    subscribed.subscribe(None, re.compile("fl.*"))


@pytest.mark.parametrize("begin", [(["flights"], None), (None, re.compile("f.*"))], ids=["by name", "by pattern"])
@pytest.mark.parametrize(
    ("change", "topics"),
    [(clear, set()), (come_back_by_name, {"ferries"}), (take_another_pattern, {"flights"})],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_who_changes_their_mind_while_topics_are_looked_at_has_them_looked_at_anew(
    begin: tuple[list[str] | None, re.Pattern[str] | None], change: Callable[[Subscribed], None], topics: set[str]
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("flights")
        await cluster.create("ferries")
        async with cluster.consumer(group_id="g") as consumer:
            await consumer.partitions_for("flights")
            subscribed = Subscribed(consumer._engine, consumer._config)
            subscribed.subscribe(*begin)
            looking = asyncio.ensure_future(subscribed.look(0))
            await asyncio.sleep(0)
            change(subscribed)
            await looking
            assert subscribed.is_due(1) == bool(topics)
            if topics:
                await subscribed.look(1)
                assert subscribed.is_known
            assert subscribed.wanted.topics == topics

    on_cluster(test)
