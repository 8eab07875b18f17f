"""What a produce response teaches about leaders (KIP-951)."""

from __future__ import annotations

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.core.producer.batches import outcomes_of
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkaraw.protocol.produce_frames import Produce
from kafkaraw.records import TopicPartition

T0 = TopicPartition("t", 0)
REQUEST = Produce(None, -1, 1, [])


def a_view(leader_id: int = 1, leader_epoch: int = 5) -> ClusterView:
    view = ClusterView()
    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader_id, leader_epoch=leader_epoch, replica_nodes=[], isr_nodes=[]
    )
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=[partition])
    brokers = [MetadataResponseBroker(node_id=1, host="one", port=9092, rack=None)]
    view.update(MetadataResponse(brokers=brokers, topics=[topic], controller_id=1), 0)
    return view


def answer(leader_id: int, leader_epoch: int, *, code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> ProduceResponse:
    hint = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=-1, current_leader=hint)
    return ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[partition])],
        node_endpoints=[NodeEndpoint(node_id=2, host="two", port=9093, rack=None)],
    )


def test_an_error_that_names_the_new_leader_is_believed_at_once_with_its_address():
    view = a_view()
    outcome = outcomes_of(REQUEST, answer(2, 6), view, 1)[T0]
    assert outcome.new_leader_known and view.leader_of(T0) == 2 and view.leader_epoch_of(T0) == 6
    assert view.brokers[2] == BrokerNode(2, "two", 9093)


def test_a_hint_of_an_older_epoch_changes_nothing_and_leads_to_a_refresh():
    view = a_view()
    assert not outcomes_of(REQUEST, answer(2, 4), view, 1)[T0].new_leader_known
    assert view.leader_of(T0) == 1


def test_the_second_error_of_the_same_move_knows_the_leader_too():
    view = a_view()
    outcomes_of(REQUEST, answer(2, 6), view, 1)
    assert outcomes_of(REQUEST, answer(2, 6), view, 1)[T0].new_leader_known


def test_an_answer_without_a_hint_or_without_an_error_says_nothing_about_leaders():
    view = a_view()
    assert not outcomes_of(REQUEST, answer(-1, -1), view, 1)[T0].new_leader_known
    assert not outcomes_of(REQUEST, answer(2, 6, code=0), view, 1)[T0].new_leader_known
    assert view.leader_of(T0) == 1
