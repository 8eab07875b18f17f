"""Large requests: one at a time on a node, left and encoded in turns with other connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.connection import BrokerConnection
from kafkaraw.broker.large_requests import ASIDE_MAX, LARGE_REQUEST_BYTES, LargeRequests
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import LISTENER
from tests.broker.test_connection import Peer
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

LARGE = DescribeGroupsRequest(groups=[f"group-{number}" for number in range(LARGE_REQUEST_BYTES // 5)])


def another_of(peer: Peer) -> Peer:
    """Another connection of the same node."""
    other = Peer()
    other.state = peer.state
    other.connection = BrokerConnection(peer.state, LISTENER, other.lost.append)
    other.connection.link_made(other.link)
    return other


def noting(leave: Callable[[LargeRequests, object], None], left: list[object]) -> Callable[..., None]:
    def leave_and_note(requests: LargeRequests, owner: object) -> None:
        left.append(owner)
        leave(requests, owner)

    return leave_and_note


def test_a_large_request_is_decoded_asked_and_encoded_in_turns_with_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        large = Peer()
        other = another_of(large)
        large.send(LARGE, 5)
        large.send(MetadataRequest(topics=[]), 9)
        other.send(MetadataRequest(topics=[]), 9)
        assert len(other.link.sent) == 1
        assert large.link.sent == []
        await asyncio.sleep(1)
        assert large.link.correlation_ids() == [0, 1]
        (_, answer) = decode_response(large.link.sent[0], 15, 5)
        assert [group.group_id for group in answer.groups] == LARGE.groups

    run_virtual(scenario, seed=1)


def test_large_requests_of_several_connections_are_answered_one_after_the_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        first = Peer()
        second, third = another_of(first), another_of(first)
        for peer in (first, second, third):
            peer.send(LARGE, 5)
        second.connection.link_lost(None)
        left: list[object] = []
        monkeypatch.setattr(LargeRequests, "leave", noting(LargeRequests.leave, left))
        assert first.link.sent == third.link.sent == []
        await asyncio.sleep(1)
        assert len(first.link.sent) == len(third.link.sent) == 1
        assert second.link.sent == []
        assert left == [first.connection, third.connection]
        first.send(LARGE, 5)
        await asyncio.sleep(1)
        assert len(first.link.sent) == 2

    run_virtual(scenario, seed=1)


def test_a_large_request_that_cannot_be_decoded_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        bad = Peer()
        good = another_of(bad)
        bad.send_bytes(b"\0\x0f\0\0\0\0\0\1\xff\xff" + b"\0\0\x10\0" + b"\x7f\xff" * LARGE_REQUEST_BYTES)
        good.send(LARGE, 5)
        await asyncio.sleep(1)
        assert "close" in bad.link.log
        assert len(good.link.sent) == 1

    run_virtual(scenario, seed=1)


def test_a_request_that_leaves_the_queue_is_not_begun():
    begun: list[str] = []

    async def scenario(_: Simulation) -> None:
        requests = LargeRequests()
        for name in "abc":
            requests.enter(name, lambda name=name: begun.append(name))  # type: ignore[misc]
        assert begun == ["a"]
        requests.leave("b")
        requests.leave("a")
        await asyncio.sleep(1)
        assert begun == ["a", "c"]
        requests.leave("c")
        requests.enter("d", lambda: begun.append("d"))
        assert begun == ["a", "c", "d"]

    run_virtual(scenario, seed=1)


def deletion_of_many() -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(1_000)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=60_000)


def test_a_large_request_that_waits_for_replication_lets_the_next_one_begin():
    async def life(nodes: VirtualNodes) -> None:
        nodes.create(partitions=1, replicas=2)
        await nodes.produce(0, b"a")
        leader = nodes.cluster.leader_of("t", 0)
        nodes.cluster.pause_replication(1 - leader)
        node = Peer()
        node.state = nodes.cluster.nodes[leader].state
        waiting, other = another_of(node), another_of(node)
        waiting.send(deletion_of_many(), 2)
        await asyncio.sleep(0.1)
        other.send(LARGE, 5)
        await asyncio.sleep(1)
        assert waiting.link.sent == []
        assert len(other.link.sent) == 1
        nodes.cluster.resume_replication(1 - leader)
        await asyncio.sleep(1)
        assert len(waiting.link.sent) == 1

    on_nodes(life, nodes=2)


def test_few_large_requests_wait_without_their_place():
    begun: list[int] = []

    async def scenario(_: Simulation) -> None:
        requests = LargeRequests()
        for number in range(ASIDE_MAX + 3):
            requests.enter(number, lambda number=number: begun.append(number))  # type: ignore[misc]
        for number in range(ASIDE_MAX + 1):
            requests.step_aside(number)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert begun == list(range(ASIDE_MAX + 1)), "the last one that waits keeps its place"
        requests.leave(0)
        requests.step_aside(ASIDE_MAX)
        await asyncio.sleep(0)
        assert begun[-1] == ASIDE_MAX + 1

    run_virtual(scenario, seed=1)
