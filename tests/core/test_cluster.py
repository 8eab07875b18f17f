from __future__ import annotations

from collections.abc import Iterable

from kafkaraw.core.cluster import BrokerNode, ClusterView
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.protocol.metadata_frames import DecodedMetadata
from kafkaraw.records import TopicPartition

ID_A = Uuid(b"a" * 16)
ID_B = Uuid(b"b" * 16)
P0 = TopicPartition("t", 0)


def partition(index: int = 0, leader: int = 1, epoch: int = 5) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
    )


def topic(name: str = "t", *partitions: MetadataResponsePartition, topic_id: Uuid = ID_A, error: int = 0):
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=False, partitions=list(partitions)
    )


def answer(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"host{n}", port=9092, rack=None) for n in brokers],
        cluster_id="cluster",
        controller_id=2,
        topics=list(topics),
    )


def view_of(*topics: MetadataResponseTopic) -> ClusterView:
    view = ClusterView()
    view.update(answer(*topics), 1000)
    return view


def test_an_empty_view_knows_nothing_and_is_due_at_once() -> None:
    view = ClusterView()
    assert view.leader_of(P0) is None
    assert view.partitions_of("t") is None
    assert view.topic_id_of("t") == ZERO_UUID
    assert view.refresh_due_ms(300_000) == 0


def test_an_answer_gives_leaders_epochs_ids_and_the_next_refresh() -> None:
    view = view_of(topic("t", partition(1, leader=2), partition(0)))
    assert view.leader_of(P0) == 1
    assert view.leader_epoch_of(P0) == 5
    assert view.partitions_of("t") == [P0, TopicPartition("t", 1)]
    assert view.name_of(ID_A) == "t"
    assert view.controller_id == 2
    assert view.brokers[2].address == "host2:9092"
    assert view.node_at("host2", 9092) == 2
    assert view.refresh_due_ms(300_000) == 301_000


def test_a_leader_that_is_no_known_broker_is_no_leader() -> None:
    assert view_of(topic("t", partition(leader=7))).leader_of(P0) is None
    assert view_of(topic("t", partition(leader=-1))).leader_of(P0) is None


def test_an_answer_about_one_topic_leaves_the_others_alone() -> None:
    view = view_of(topic("t", partition()))
    view.update(answer(topic("u", partition(), topic_id=ID_B)), 2000)
    assert view.leader_of(P0) == 1
    assert set(view.topics) == {"t", "u"}


def test_an_answer_about_all_topics_forgets_those_it_does_not_name() -> None:
    view = view_of(topic("t", partition()))
    view.update(answer(topic("u", partition(), topic_id=ID_B)), 2000, all_topics=True)
    assert set(view.topics) == {"u"}
    assert view.name_of(ID_A) is None


def test_metadata_of_an_older_leader_epoch_are_not_believed() -> None:
    view = view_of(topic("t", partition(leader=1, epoch=5)))
    view.update(answer(topic("t", partition(leader=2, epoch=4))), 2000)
    assert (view.leader_of(P0), view.leader_epoch_of(P0)) == (1, 5)


def test_metadata_without_epochs_are_believed() -> None:
    view = view_of(topic("t", partition(leader=1, epoch=5)))
    view.update(answer(topic("t", partition(leader=2, epoch=-1))), 2000)
    assert view.leader_of(P0) == 2


def test_a_topic_made_anew_starts_with_lower_epochs() -> None:
    view = view_of(topic("t", partition(leader=1, epoch=5)))
    view.update(answer(topic("t", partition(leader=2, epoch=0), topic_id=ID_B)), 2000)
    assert (view.leader_of(P0), view.leader_epoch_of(P0)) == (2, 0)
    assert view.name_of(ID_A) is None
    assert view.name_of(ID_B) == "t"


def test_a_topic_that_is_gone_is_forgotten_and_the_reason_kept() -> None:
    view = view_of(topic("t", partition()))
    view.update(answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_id=ZERO_UUID)), 2000)
    assert view.partitions_of("t") is None
    assert view.error_of("t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_passing_error_leaves_what_was_known_in_place() -> None:
    view = view_of(topic("t", partition()))
    view.update(answer(topic("t", error=ErrorCode.LEADER_NOT_AVAILABLE)), 2000)
    assert view.leader_of(P0) == 1
    assert view.error_of("t") == ErrorCode.LEADER_NOT_AVAILABLE
    view.update(answer(topic("t", partition())), 3000)
    assert view.error_of("t") == 0


def test_an_answer_that_names_no_broker_does_not_erase_the_known_ones() -> None:
    view = view_of(topic("t", partition()))
    view.update(answer(brokers=()), 2000)
    assert set(view.brokers) == {1, 2}


def test_a_named_leader_is_taken_over_only_when_its_epoch_is_newer() -> None:
    view = view_of(topic("t", partition(leader=1, epoch=5)))
    assert not view.update_leader(P0, 2, 5)
    assert view.leader_of(P0) == 1
    view.add_brokers([BrokerNode(3, "host3", 9092)])
    assert view.update_leader(P0, 3, 6)
    assert (view.leader_of(P0), view.leader_epoch_of(P0)) == (3, 6)
    assert not view.update_leader(P0, -1, 9)
    assert not view.update_leader(TopicPartition("unknown", 0), 1, 9)


def test_old_metadata_of_unused_topics_is_dropped() -> None:
    view = ClusterView()
    view.update(answer(topic("old", partition()), topic("used", partition(), topic_id=ID_B)), 1000)
    view.update(answer(topic("gone", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), 1000)
    view.update(answer(topic("new", partition(), topic_id=Uuid(b"c" * 16))), 2000)
    changes = view.changes
    view.forget_old(1000, {"used"})
    assert set(view.topics) == {"old", "used", "new"}
    assert (view.error_of("gone"), view.changes) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, changes)
    view.forget_old(1001, {"used"})
    assert set(view.topics) == {"used", "new"}
    assert (view.error_of("gone"), view.name_of(ID_A)) == (0, None)
    assert view.changes > changes


def test_forgetting_what_is_old_looks_at_nothing_that_is_not() -> None:
    """However many topics there are: it is done after each answer."""
    view = ClusterView()
    for number in range(100):
        view.update(answer(topic(f"t{number}", partition(), topic_id=Uuid(bytes([number] * 16)))), number)
    view.update(answer(topic("t0", partition())), 200)  # not the oldest any more
    looked_at: list[str] = []

    class InUse(set[str]):
        def __contains__(self, name: object) -> bool:
            looked_at.append(str(name))
            return super().__contains__(name)

    view.forget_old(4, InUse({"t2"}))
    assert looked_at == ["t1", "t2", "t3"]
    assert view.topics.keys() == {f"t{number}" for number in range(100)} - {"t1", "t3"}


def decoded(*topics: MetadataResponseTopic, unchanged: tuple[str, ...] = (), **encoded: bytes) -> DecodedMetadata:
    return DecodedMetadata(answer(*topics), list(unchanged), encoded)


def test_topic_that_a_response_repeats_stays_as_it_is() -> None:
    view = ClusterView()
    first = decoded(topic("t", partition()), topic("u", partition(), topic_id=ID_B), t=b"t-bytes", u=b"u-bytes")
    exhaust(view.update_in_steps(first, 1000))
    before = view.topics["t"]
    assert view.encoded == {"t": b"t-bytes", "u": b"u-bytes"}
    exhaust(view.update_in_steps(decoded(unchanged=("t",)), 2000, all_topics=True))
    assert view.topics["t"] is before
    assert set(view.topics) == set(view.encoded) == {"t"}, "the response has all topics, and u is not there"
    view.forget_old(2000, ())
    assert set(view.topics) == {"t"}


def test_bytes_of_a_topic_are_dropped_when_anything_else_has_changed_its_view() -> None:
    """Otherwise a later response with those bytes would leave the view as it is."""
    view = ClusterView()
    exhaust(view.update_in_steps(decoded(topic("t", partition()), t=b"t-bytes"), 1000))
    view.update(answer(topic("t", partition())), 2000)  # a small response, which has no bytes
    assert view.encoded == {}
    exhaust(view.update_in_steps(decoded(topic("t", partition()), t=b"t-bytes"), 3000))
    assert view.update_leader(P0, 2, 9)
    assert view.encoded == {}
    failed = decoded(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), t=b"t-bytes")
    exhaust(view.update_in_steps(failed, 4000))
    assert view.encoded == {}


def test_leader_that_is_updated_between_two_steps_is_kept() -> None:
    view = view_of(topic("t", partition(0), partition(1)))
    steps = view.update_in_steps(decoded(topic("t", partition(0, epoch=6), partition(1, epoch=6))), 2000)
    next(steps)
    assert view.leader_epoch_of(P0) == 5, "a topic is as before until all of its partitions are merged"
    assert view.update_leader(P0, 2, 9)
    exhaust(steps)
    assert (view.leader_of(P0), view.leader_epoch_of(P0)) == (2, 9)
    assert view.leader_epoch_of(TopicPartition("t", 1)) == 6


def exhaust(steps: Iterable[None]) -> None:
    for _ in steps:
        pass
