"""A transaction whose predecessor is still being carried out: the broker waits for a while before it says so."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.end_txn import EndTxnRequest
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.support import batch
from tests.broker.virtual_nodes import VirtualNodes, on_nodes, outcome

SECOND_GENERATION = 12  # of Produce: the broker adds partitions to the transaction
TRANSACTION = 1


async def produced(nodes: VirtualNodes, producer_id: int, epoch: int) -> ErrorCode:
    records = batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=5_000, topic_data=[topic])
    leader = nodes.cluster.leader_of("t", 0)
    assert leader is not None
    return outcome(await nodes.ask(leader, request, SECOND_GENERATION))[0]


async def two_transactions(nodes: VirtualNodes) -> ErrorCode:
    """Write in one, commit it, and write in the next one at once; what the latter gave."""
    nodes.create()
    find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["tx"])
    node = (await nodes.ask(0, find, 4)).coordinators[0].node_id
    begin = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    started = await nodes.ask(node, begin, 5)
    who, epoch = started.producer_id, started.producer_epoch
    assert await produced(nodes, who, epoch) == ErrorCode.NONE
    end = EndTxnRequest(transactional_id="tx", producer_id=who, producer_epoch=epoch, committed=True)
    ended = await nodes.ask(node, end, 5)
    assert (ended.error_code, ended.producer_epoch) == (ErrorCode.NONE, epoch + 1)
    return await produced(nodes, ended.producer_id, ended.producer_epoch)


@pytest.mark.parametrize(("patience_ms", "told"), [(100, ErrorCode.NONE), (0, ErrorCode.CONCURRENT_TRANSACTIONS)])
def test_the_next_transaction_begins_when_the_one_before_is_through(patience_ms: int, told: ErrorCode) -> None:
    async def life(nodes: VirtualNodes) -> None:
        assert await two_transactions(nodes) == told

    on_nodes(life, add_partitions_to_txn_retry_backoff_max_ms=patience_ms)
