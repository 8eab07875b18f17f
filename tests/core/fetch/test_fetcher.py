from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kafkaraw.core.fetch.requests import FetchLimits, FetchPlan
from kafkaraw.core.fetch.subscription_state import FetchState, SubscriptionState
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    AuthorizationError,
    BrokerError,
    CorruptBatchError,
    NetworkError,
    RecordTooLargeError,
    Stage,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.records import Batch, TopicPartition, encode_batch

ID = Uuid(b"t" * 16)
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def cluster(leaders: tuple[int, ...] = (1, 1, 2)) -> ClusterView:
    view = ClusterView()
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=3,
            replica_nodes=[],
            isr_nodes=[],
            offline_replicas=[],
        )
        for number, leader in enumerate(leaders)
    ]
    view.update(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=n, host="h", port=n, rack=None) for n in (1, 2)],
            topics=[MetadataResponseTopic(error_code=0, name="t", topic_id=ID, partitions=partitions)],
        ),
        0,
    )
    return view


class FetcherOf(Fetcher):
    """A fetcher, and the subscriptions that it fetches for."""

    def __init__(self, reset: Callable[[], int | None], *, notes_processed: bool = False, **settings: int) -> None:
        self.subscriptions = SubscriptionState(reset, notes_processed=notes_processed)
        super().__init__(self.subscriptions, Batch, Backoff(100, 1000, jitter=0), random.Random(1), **settings)

    def take(self) -> list[Batch]:
        """What a call is given."""
        self.subscriptions.take()
        return self.subscriptions.cursor.take(None)


def fetcher(*assigned: TopicPartition, reset: int | None = EARLIEST_TIMESTAMP, at: int | None = 0) -> FetcherOf:
    made = FetcherOf(lambda: reset)
    made.subscriptions.assign(assigned)
    if at is not None:
        for topic_partition in assigned:
            made.subscriptions.seek(topic_partition, at)
    return made


def batch(base_offset: int, count: int = 5) -> bytes:
    return encode_batch([(0, None, b"v", None)] * count, base_offset=base_offset)


def data(partition: int, records: bytes | None = None, error: int = 0, **more: object) -> PartitionData:
    fields: dict[str, object] = {"high_watermark": 100, "log_start_offset": 0} | more
    wire = None if records is None else memoryview(records)
    return PartitionData(partition_index=partition, error_code=error, records=wire, **fields)


def answer(*partitions: PartitionData, error: int = 0, endpoints: list[NodeEndpoint] | None = None) -> FetchResponse:
    return FetchResponse(
        error_code=error,
        responses=[FetchableTopicResponse(topic_id=ID, partitions=list(partitions))],
        node_endpoints=endpoints or [],
    )


def asked(plans: list[FetchPlan]) -> dict[int, list[tuple[int, int]]]:
    return {plan.node_id: [(t.topic_partition.partition, t.offset) for t in plan.targets] for plan in plans}


def problem_of(made: Fetcher, now_ms: int = 0) -> Exception | None:
    return made.problem(now_ms, patience_ms=60_000, unknown_patience_ms=3_000)


# -- what is asked for


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    made = fetcher(P0, P1, P2)
    assert asked(made.plan(cluster(), 0, busy=())) == {1: [(0, 0), (1, 0)], 2: [(2, 0)]}


def test_a_request_carries_names_ids_and_epochs_and_opens_a_session() -> None:
    (plan,) = fetcher(P0, P1, at=7).plan(cluster(), 0, busy=())
    request = plan.request(FetchLimits(min_bytes=1, max_wait_ms=500, max_bytes=1000, partition_max_bytes=100), 17)
    assert (request.session_id, request.session_epoch, request.max_bytes) == (0, 0, 1000)
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == ("t", ID)
    assert [(p.partition, p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes) for p in topic.partitions] == [
        (0, 7, 3, 100),
        (1, 7, 3, 100),
    ]


def test_a_broker_that_owes_an_answer_is_not_asked_again() -> None:
    assert asked(fetcher(P0, P2).plan(cluster(), 0, busy={1})) == {2: [(2, 0)]}


def test_a_broker_whose_answer_waits_to_be_taken_is_not_asked_again() -> None:
    made, view = fetcher(P0, P1), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, batch(0)), data(1)), view, 0)
    assert made.plan(view, 0, busy=()) == []
    made.take()
    assert asked(made.plan(view, 0, busy=())) == {1: [(1, 0), (0, 5)]}


def test_a_partition_that_gave_records_goes_to_the_end_of_the_order() -> None:
    made, view = fetcher(P0, P1), cluster()
    for expected in ([0, 1], [1, 0], [0, 1]):
        (plan,) = made.plan(view, 0, busy=())
        assert [target.topic_partition.partition for target in plan.targets] == expected
        first = plan.targets[0]
        answered = [data(t.topic_partition.partition) for t in plan.targets[1:]]
        made.receive(plan, answer(data(first.topic_partition.partition, batch(first.offset)), *answered), view, 0)
        assert len(made.take()) == 1


def test_a_partition_without_position_or_leader_is_not_asked_for() -> None:
    assert fetcher(P0, at=None).plan(cluster(), 0, busy=()) == []
    made = fetcher(P0)
    assert made.plan(cluster((-1, -1, -1)), 0, busy=()) == []
    assert made.without_leader(cluster((-1, -1, -1)), 0) == {"t"}


# -- what an answer means


def test_records_move_the_position_only_when_they_are_taken() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, batch(0) + batch(5))), view, 0)
    assert made.subscriptions.partition(P0).offset == 0
    (piece,) = made.take()
    assert (piece.start_offset, piece.next_offset, made.subscriptions.partition(P0).offset) == (0, 10, 10)
    assert made.subscriptions.partition(P0).high_watermark == 100


def test_an_answer_to_an_earlier_question_is_dropped() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    assert made.is_wanted(plan)
    made.subscriptions.seek(P0, 3)
    assert not made.is_wanted(plan)
    made.receive(plan, answer(data(0, batch(0))), view, 0)
    assert made.take() == []
    assert made.subscriptions.partition(P0).offset == 3


def test_an_answer_about_a_partition_that_is_no_longer_assigned_is_dropped() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.subscriptions.assign([P1])
    assert made.receive(plan, answer(data(0, batch(0))), view, 0) == set()
    assert made.take() == []


def test_a_batch_cut_short_is_asked_for_in_its_whole_size() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    whole = batch(0, 200)
    made.receive(plan, answer(data(0, whole[:100])), view, 0)
    (plan,) = made.plan(view, 0, busy=())
    request = plan.request(FetchLimits(max_bytes=10, partition_max_bytes=10), 17)
    assert request.topics[0].partitions[0].partition_max_bytes == len(whole)
    assert request.max_bytes == len(whole)
    made.receive(plan, answer(data(0, whole)), view, 0)
    assert [piece.records_count for piece in made.take()] == [200]


def test_a_batch_that_stays_cut_short_is_an_error() -> None:
    made, view = fetcher(P0), cluster()
    for _ in range(2):
        (plan,) = made.plan(view, 0, busy=())
        made.receive(plan, answer(data(0, batch(0, 200)[:100])), view, 0)
    assert isinstance(problem_of(made), RecordTooLargeError)


def test_a_partial_batch_behind_whole_ones_is_left_for_the_next_fetch() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, batch(0) + batch(5)[:70])), view, 0)
    assert [piece.next_offset for piece in made.take()] == [5]


def test_damaged_bytes_are_an_error_that_names_partition_and_offset() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, b"\xff" * 80)), view, 0)
    problem = problem_of(made)
    assert isinstance(problem, CorruptBatchError)
    assert "t-0 at offset 0" in str(problem)
    assert made.subscriptions.partition(P0).offset == 0


def test_batches_that_end_before_the_position_do_not_turn_in_circles() -> None:
    made, view = fetcher(P0, at=50), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, batch(0))), view, 0)
    assert isinstance(problem_of(made), CorruptBatchError)
    assert made.plan(view, 0, busy=()) == []


def test_a_partition_left_out_of_an_answer_is_asked_for_again_after_a_pause() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(), view, 0)
    assert made.plan(view, 99, busy=()) == []
    assert asked(made.plan(view, 100, busy=())) == {1: [(0, 0)]}


# -- errors


REFRESHING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
]


@pytest.mark.parametrize("code", REFRESHING, ids=lambda code: code.name)
def test_errors_about_leaders_ask_for_metadata_and_try_again(code: ErrorCode) -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    assert made.receive(plan, answer(data(0, error=code)), view, 0) == {"t"}
    assert problem_of(made) is None
    assert made.retry_at_ms(0) == 100
    assert asked(made.plan(view, 100, busy=())) == {1: [(0, 0)]}


def test_pauses_grow_until_something_works() -> None:
    made, view, now_ms, pauses = fetcher(P0), cluster(), 0, []
    for _ in range(5):
        (plan,) = made.plan(view, now_ms, busy=())
        made.receive(plan, answer(data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)), view, now_ms)
        due_ms = made.retry_at_ms(now_ms) or 0
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
    assert pauses == [100, 200, 400, 800, 1000]
    (plan,) = made.plan(view, now_ms, busy=())
    made.receive(plan, answer(data(0)), view, now_ms)
    assert made.retry_at_ms(now_ms) is None


def test_an_answer_that_names_the_new_leader_needs_no_refresh_and_no_pause() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    moved = data(
        0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=9, leader_epoch=4)
    )
    endpoints = [NodeEndpoint(node_id=9, host="new", port=1, rack=None)]
    assert made.receive(plan, answer(moved, endpoints=endpoints), view, 0) == set()
    assert asked(made.plan(view, 0, busy=())) == {9: [(0, 0)]}


def test_a_retriable_error_is_raised_only_if_it_persists() -> None:
    made, view = fetcher(P0), cluster()
    for now_ms in (0, 30_000, 60_000):
        (plan,) = made.plan(view, now_ms, busy=())
        made.fetch_failed(plan, NetworkError("gone", stage=Stage.CONNECT), now_ms)
        assert (problem_of(made, now_ms) is not None) == (now_ms == 60_000)


def test_an_unknown_topic_is_an_error_within_seconds() -> None:
    made, view = fetcher(P0), ClusterView()
    made.still_without_leader({"t"}, view, 0)
    assert problem_of(made, 2_999) is None
    problem = problem_of(made, 3_000)
    assert isinstance(problem, UnknownTopicError)
    assert "'t' does not exist" in str(problem)


def test_an_unknown_partition_says_how_many_there_are() -> None:
    made = fetcher(TopicPartition("t", 8))
    made.still_without_leader({"t"}, cluster(), 0)
    assert "has 3 partitions, there is no partition 8" in str(problem_of(made, 3_000))


def test_a_final_error_is_raised_at_once() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)), view, 0)
    assert isinstance(problem_of(made), AuthorizationError)
    assert problem_of(made) is None
    made.fetch_failed(plan, UnsupportedVersionError("too old"), 0)
    assert isinstance(problem_of(made), UnsupportedVersionError)


def test_an_error_about_the_whole_answer_pauses_all_its_partitions() -> None:
    made, view = fetcher(P0, P1), cluster()
    (plan,) = made.plan(view, 0, busy=())
    assert made.receive(plan, answer(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR), view, 0) == set()
    assert made.plan(view, 0, busy=()) == []


# -- positions


@pytest.mark.parametrize("timestamp", [EARLIEST_TIMESTAMP, LATEST_TIMESTAMP])
def test_a_new_partition_begins_where_the_policy_says(timestamp: int) -> None:
    made = fetcher(P0, reset=timestamp, at=None)
    ((topic_partition, (wanted, generation)),) = made.offset_lookups(0).items()
    assert (topic_partition, wanted) == (P0, timestamp)
    made.offset_found(P0, generation, 42)
    assert made.subscriptions.partition(P0).offset == 42


def test_without_a_policy_a_partition_without_position_is_an_error() -> None:
    made = fetcher(P0, reset=None, at=None)
    assert isinstance(problem_of(made), UsageError)
    made.subscriptions.seek(P0, 1)
    assert problem_of(made) is None


def test_a_position_that_is_gone_is_searched_by_the_policy() -> None:
    made, view = fetcher(P0, at=77), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)), view, 0)
    assert made.subscriptions.partition(P0).fetch_state is FetchState.AWAIT_RESET
    assert made.offset_lookups(0)[P0][0] == EARLIEST_TIMESTAMP
    assert problem_of(made) is None


def test_a_position_that_is_gone_is_an_error_without_a_policy() -> None:
    made, view = fetcher(P0, reset=None, at=777), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)), view, 0)
    problem = problem_of(made)
    assert isinstance(problem, BrokerError)
    assert (problem.code, "offset 777 of t-0" in str(problem)) == (ErrorCode.OFFSET_OUT_OF_RANGE, True)


def test_a_seek_overtakes_a_search_on_its_way() -> None:
    made = fetcher(P0, at=None)
    _, generation = made.offset_lookups(0)[P0]
    made.subscriptions.seek(P0, 5)
    made.offset_found(P0, generation, 42)
    assert made.subscriptions.partition(P0).offset == 5


def test_a_failed_search_is_repeated_after_a_pause() -> None:
    made = fetcher(P0, at=None)
    _, generation = made.offset_lookups(0)[P0]
    made.offset_lookup_failed(P0, generation, NetworkError("gone", stage=Stage.REQUEST), 0)
    assert made.offset_lookups(99) == {}
    assert set(made.offset_lookups(100)) == {P0}


def test_assigning_again_keeps_the_positions_of_those_that_stay() -> None:
    made = fetcher(P0, P1, at=9)
    made.subscriptions.assign([P1, P2])
    assert made.subscriptions.assignment == (P1, P2)
    assert made.subscriptions.partition(P1).offset == 9
    assert made.subscriptions.partition(P2).fetch_state is FetchState.AWAIT_RESET
    with pytest.raises(UsageError, match="t-0 is not assigned"):
        made.subscriptions.partition(P0)
