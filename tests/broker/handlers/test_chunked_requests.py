"""Requests over very many names: answered in parts, as they would be at once, with turns for other connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.handlers import chunked_requests, describe_configs
from kafkaraw.broker.handlers.chunked_requests import divide
from kafkaraw.broker.handlers.registration import REGISTERED, load_handlers
from kafkaraw.protocol import decode_response
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkaraw.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.test_connection import Peer


def offset_fetch(topics: int, partitions: int) -> OffsetFetchRequest:
    asked = [
        OffsetFetchRequestTopics(name=f"t{number}", partition_indexes=list(range(partitions)))
        for number in range(topics)
    ]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=asked) for name in ("g", "h")]
    return OffsetFetchRequest(groups=groups)


def list_offsets() -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=number % 300, timestamp=-1) for number in range(301)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def markers(partitions: int) -> WriteTxnMarkersRequest:
    topics = [
        WritableTxnMarkerTopic(name="t", partition_indexes=list(range(partitions))),
        WritableTxnMarkerTopic(name="u", partition_indexes=[0, 1]),
    ]
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=topics
    )
    return WriteTxnMarkersRequest(markers=[marker])


LARGE: list[tuple[Any, int]] = [
    (DescribeGroupsRequest(groups=[f"g{number}" for number in range(500)]), 5),
    (FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(500)]), 4),
    (MetadataRequest(topics=[MetadataRequestTopic(name=f"n{number % 450}") for number in range(500)]), 9),
    (offset_fetch(topics=3, partitions=500), 8),
    (offset_fetch(topics=500, partitions=3), 8),
    (list_offsets(), 7),
    (markers(1_000), 1),
    (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=ConfigResourceType.TOPIC, resource_name="t", configuration_keys=["retention.ms"]
                )
            ]
            * 25
        ),
        4,
    ),
]


async def answer_of(peer: Peer, message: Any, version: int) -> Any:
    before = len(peer.link.sent)
    peer.send(message, version)
    while len(peer.link.sent) == before:
        assert "close" not in peer.link.log
        await asyncio.sleep(0)
    return decode_response(peer.link.sent[-1], api_of(message).key, version)[1]


def by_key(answer: Any) -> Any:
    """ListOffsets: the partitions by number, as the topic may be named more than once."""
    return sorted(
        (topic.name, part.partition_index, part.error_code) for topic in answer.topics for part in topic.partitions
    )


@pytest.mark.parametrize(("message", "version"), LARGE, ids=lambda value: type(value).__name__)
def test_a_request_is_answered_in_parts_as_it_would_be_at_once(
    monkeypatch: pytest.MonkeyPatch, message: Any, version: int
):
    api = api_of(message)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        in_chunks = await answer_of(peer, message, version)
        monkeypatch.setitem(load_handlers(), api.key, REGISTERED[api.key].handle)
        at_once = await answer_of(peer, message, version)
        if isinstance(message, ListOffsetsRequest):
            codes = [code for _, _, code in by_key(in_chunks)]
            assert by_key(in_chunks) == by_key(at_once)
            assert codes.count(ErrorCode.INVALID_REQUEST) == 2
        else:
            assert in_chunks == at_once

    run_virtual(scenario, seed=1)


@pytest.mark.parametrize(("message", "version"), LARGE, ids=lambda value: type(value).__name__)
def test_other_connections_are_answered_between_the_parts(monkeypatch: pytest.MonkeyPatch, message: Any, version: int):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        large = Peer()
        other = Peer()
        other.state = large.state
        large.send(message, version)
        other.send(MetadataRequest(topics=None), 9)
        assert large.link.sent == []
        assert len(other.link.sent) == 1
        turns = 0
        while not large.link.sent:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2

    run_virtual(scenario, seed=1)


def test_a_request_that_is_cancelled_is_asked_no_further_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.send(DescribeGroupsRequest(groups=["g"] * 1_000), 5)
        await asyncio.sleep(0)
        peer.connection.link_lost(None)
        for _ in range(20):
            await asyncio.sleep(0)
        assert peer.link.sent == []

    run_virtual(scenario, seed=1)


def test_more_names_than_the_limit_close_the_connection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunked_requests, "ENTRIES_MAX", 1_000)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        peer.send(markers(1_001), 1)
        assert peer.link.log == ["close"]

    run_virtual(scenario, seed=1)


def test_a_transaction_of_more_partitions_than_the_limit_is_refused():
    topics = [AddPartitionsToTxnTopic(name="t", partitions=list(range(1 << 17)))]
    one = AddPartitionsToTxnTransaction(transactional_id="x", producer_id=1, producer_epoch=0, topics=topics)

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        answer = await answer_of(peer, AddPartitionsToTxnRequest(transactions=[one]), 4)
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    run_virtual(scenario, seed=1)


def test_settings_beyond_the_size_of_an_answer_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(describe_configs, "ANSWER_BYTES_MAX", 100_000)
    broker = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="0", configuration_keys=None
    )

    async def scenario(_: Simulation) -> None:
        peer = Peer()
        broker.resource_name = str(peer.state.node_id)
        answer = await answer_of(peer, DescribeConfigsRequest(resources=[broker] * 100), 4)
        codes = [result.error_code for result in answer.results]
        assert len(codes) == 100
        assert codes == sorted(codes)
        assert codes[0] == ErrorCode.NONE
        assert codes[-1] == ErrorCode.POLICY_VIOLATION
        assert "fewer resources" in answer.results[-1].error_message

    run_virtual(scenario, seed=1)


def test_a_part_has_no_more_names_than_it_may_and_no_name_is_lost():
    message = offset_fetch(topics=7, partitions=45)
    pieces = list(divide(message, ("groups", "topics", "partition_indexes"), 20))
    named = [
        (group.group_id, topic.name, index)
        for piece, _ in pieces
        for group in piece.groups
        for topic in group.topics
        for index in topic.partition_indexes
    ]
    assert named == [(group, f"t{topic}", index) for group in "gh" for topic in range(7) for index in range(45)]
    for piece, _ in pieces:
        assert sum(len(topic.partition_indexes) for group in piece.groups for topic in group.topics) <= 20
