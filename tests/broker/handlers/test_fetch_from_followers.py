"""Replicas near by: whom a leader names, and what a follower gives (KIP-392); truncated logs (KIP-320)."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker.configs.config import RACK_AWARE, BrokerConfig
from kafkaraw.broker.handlers import fetch as handler
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkaraw.records import iter_headers
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

RACKS = ("a", "b", "b")


class RackedNodes(VirtualNodes):
    """Nodes 0, 1 and 2 in the racks a, b and b."""

    def config_of(self, node_id: int) -> BrokerConfig:
        self.properties = {**self.properties, "broker.rack": RACKS[node_id]}
        return super().config_of(node_id)


async def fetch(
    nodes: VirtualNodes, node: int, offset: int, *, rack: str = "", version: int = 18, last_epoch: int = -1, **fields
) -> PartitionData:
    known = nodes.cluster.nodes[node].state.catalog.topic("t")
    assert known is not None
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, last_fetched_epoch=last_epoch)
    request = FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1} | fields,
        rack_id=rack if version >= 11 else "",
        topics=[FetchTopic(topic="t", topic_id=known.topic_id, partitions=[part])],
    )
    answer = await nodes.ask(node, request, version)
    return answer.responses[0].partitions[0]


def offsets(data: PartitionData) -> list[int]:
    return [header.base_offset for header, _ in iter_headers(memoryview(data.records))]


async def written(nodes: VirtualNodes, count: int = 3) -> None:
    nodes.create()
    for _ in range(count):
        await nodes.produce(0, b"v")
    await asyncio.sleep(2)


def nodes_that_give(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the nodes that give records from now on, in order."""
    nodes: list[int] = []
    read = handler._Fetch.read

    def noted(self):
        reading = read(self)
        if reading.size_bytes:
            nodes.append(self.state.node_id)
        return reading

    monkeypatch.setattr(handler._Fetch, "read", noted)
    return nodes


def racked(life, **properties) -> None:
    on_nodes(life, kind=RackedNodes, **{"replica_selector_class": RACK_AWARE, **properties})


def test_the_leader_names_a_replica_in_the_clients_rack_and_gives_nothing() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        data = await fetch(nodes, 0, 0, rack="b")
        assert (data.error_code, data.preferred_read_replica in (1, 2), len(data.records)) == (0, True, 0)
        assert (data.high_watermark, data.log_start_offset) == (3, 0)

    racked(life)


def test_a_leader_in_the_clients_rack_gives_records_itself() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        for rack in ("a", "", "elsewhere"):
            data = await fetch(nodes, 0, 0, rack=rack)
            assert (data.preferred_read_replica, offsets(data)) == (-1, [0, 1, 2])

    racked(life)


def test_without_a_selector_the_leader_is_read() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        data = await fetch(nodes, 0, 0, rack="b")
        assert (data.preferred_read_replica, offsets(data)) == (-1, [0, 1, 2])

    on_nodes(life, kind=RackedNodes)


def test_a_replica_without_the_offset_is_not_named() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        assert (await fetch(nodes, 0, 4, rack="b")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    racked(life)


def test_a_follower_gives_what_consumers_may_read() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        data = await fetch(nodes, 2, 1, rack="b")
        assert (data.error_code, offsets(data), data.preferred_read_replica) == (0, [1, 2], -1)
        assert (await fetch(nodes, 2, 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    racked(life)


def test_clients_without_racks_are_sent_to_the_leader() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        assert (await fetch(nodes, 2, 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    racked(life)


def test_a_fetch_that_waits_at_a_follower_is_woken_by_its_high_watermark() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        began = nodes.now
        await nodes.produce(0, b"v")
        data = await fetch(nodes, 2, 3, rack="b", max_wait_ms=60_000)
        assert offsets(data) == [3]
        assert nodes.now - began < 5

    racked(life)


def test_a_log_that_was_truncated_says_so_before_the_range_is_looked_at() -> None:
    async def life(nodes: VirtualNodes) -> None:
        await written(nodes)
        nodes.cluster.move_leader("t", 0, 1)
        await asyncio.sleep(2)
        data = await fetch(nodes, 1, 7, last_epoch=0)
        assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 3)

    racked(life)


def test_another_selector_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replica\.selector\.class"):
        BrokerConfig.parse({"replica.selector.class": "org.example.Selector"})
