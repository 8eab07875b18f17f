"""Logs that part from what was read (KIP-320), and replicas near by (KIP-392)."""

from __future__ import annotations

import pytest

from kafkaraw.core.fetch.offsets import parse_reset_policy
from kafkaraw.core.fetch.requests import epoch_ends_request, must_validate
from kafkaraw.core.fetch.subscription_state import FetchState
from kafkaraw.errors import LogTruncationError, NetworkError, Stage, UnsupportedVersionError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import EpochEndOffset
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.protocol.messages.offset_for_leader_epoch import EpochEndOffset as EndOfEpoch
from kafkaraw.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult
from kafkaraw.records import encode_batch
from tests.core.fetch.test_fetcher import P0, FetcherOf, answer, asked, cluster, data, fetcher, problem_of


def read(made: FetcherOf, count: int = 5, epoch: int = 3) -> None:
    """Take a batch of so many records, which the leader of that epoch wrote."""
    (plan,) = made.plan(cluster(), 0, busy=())
    offset = plan.targets[0].offset
    wire = encode_batch([(0, None, b"v", None)] * count, base_offset=offset, partition_leader_epoch=epoch)
    made.receive(plan, answer(data(0, wire)), cluster(), 0)
    made.take()


def diverge(made: FetcherOf, epoch: int, end_offset: int) -> None:
    (plan,) = made.plan(cluster(), 0, busy=())
    made.receive(
        plan, answer(data(0, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))), cluster(), 0
    )


def test_the_epoch_of_the_last_record_is_sent_along() -> None:
    made = fetcher(P0)
    assert made.plan(cluster(), 0, busy=())[0].targets[0].last_epoch == -1
    made = fetcher(P0)
    read(made, epoch=2)
    (plan,) = made.plan(cluster(), 0, busy=())
    assert (plan.targets[0].last_epoch, plan.targets[0].leader_epoch) == (2, 3)
    made.subscriptions.seek(P0, 3)
    assert made.subscriptions.partition(P0).last_epoch == -1


def test_a_log_that_was_truncated_is_read_on_from_where_it_parts() -> None:
    made = fetcher(P0)
    read(made)
    diverge(made, 2, 3)
    assert (made.subscriptions.partition(P0).offset, made.subscriptions.partition(P0).last_epoch) == (3, 2)
    assert problem_of(made) is None


def test_without_a_policy_a_truncation_is_an_error_that_says_from_where_on() -> None:
    made = fetcher(P0, reset=None)
    read(made)
    diverge(made, 2, 3)
    error = problem_of(made)
    assert isinstance(error, LogTruncationError)
    assert "t-0 at offset 5" in str(error)
    assert "from offset 3 on" in str(error)
    assert made.subscriptions.partition(P0).fetch_state is FetchState.INITIALIZING


def test_a_later_epoch_without_records_is_no_truncation() -> None:
    made = fetcher(P0, reset=None)
    read(made)
    diverge(made, 2, 5)
    assert problem_of(made) is None
    assert (made.subscriptions.partition(P0).offset, made.subscriptions.partition(P0).last_epoch) == (5, 2)


def test_positions_in_what_was_handed_over_last_know_their_epochs() -> None:
    made = fetcher(P0)
    read(made, 5, epoch=1)
    (plan,) = made.plan(cluster(), 0, busy=())
    wire = [
        encode_batch([(0, None, b"v", None)] * 2, base_offset=5 + 2 * n, partition_leader_epoch=epoch)
        for n, epoch in enumerate((1, 2, 3))
    ]
    made.receive(plan, answer(data(0, b"".join(wire))), cluster(), 0)
    made.take()
    position = made.subscriptions.partition(P0)
    assert [position.epoch_before(offset) for offset in range(5, 12)] == [1, 1, 1, 2, 2, 3, 3]
    assert position.last_epoch == 3


def test_a_place_with_an_epoch_is_told_to_the_leader_and_one_that_is_found_too() -> None:
    made = fetcher(P0)
    made.subscriptions.seek(P0, 7, 2)
    assert made.plan(cluster(), 0, busy=())[0].targets[0].last_epoch == 2
    made = fetcher(P0, reset=-1, at=None)
    ((_, generation),) = made.offset_lookups(0).values()
    made.offset_found(P0, generation, 9, 3)
    assert made.plan(cluster(), 0, busy=())[0].targets[0].last_epoch == 3


def test_an_epoch_later_than_the_leaders_asks_for_metadata_once_and_is_forgotten_if_these_know_no_better() -> None:
    made, view = fetcher(P0), cluster()
    made.subscriptions.seek(P0, 7, 9)
    assert made.plan(view, 0, busy=()) == []
    assert made.behind(view) == {"t"}
    made.still_behind(view)
    assert made.behind(view) == set()
    assert made.plan(view, 0, busy=())[0].targets[0].last_epoch == -1


# -- leaders whose Fetch cannot tell


def end_of(made: FetcherOf, epoch: int, end_offset: int, error: int = 0) -> set[str]:
    """Ask the leader where the epoch ends, and have this answered."""
    (plan,) = made.plan(cluster(), 0, busy=())
    targets = made.unvalidated(plan, cluster())
    (asked_for,) = epoch_ends_request(targets).topics
    assert [(p.partition, p.current_leader_epoch, p.leader_epoch) for p in asked_for.partitions] == [(0, 3, 2)]
    end = EndOfEpoch(error_code=error, partition=0, leader_epoch=epoch, end_offset=end_offset)
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])
    refresh = made.validated(targets, response, cluster(), 0)
    made.abandon(plan)
    return refresh


def test_a_leader_that_has_what_was_read_is_asked_once_in_its_epoch() -> None:
    made = fetcher(P0)
    made.subscriptions.seek(P0, 7, 2)
    assert end_of(made, 2, 7) == set()
    (plan,) = made.plan(cluster(), 0, busy=())
    assert (plan.targets[0].offset, made.unvalidated(plan, cluster())) == (7, [])
    made.subscriptions.seek(P0, 8, 2)
    assert len(made.unvalidated(plan, cluster())) == 0  # the plan is about where it was
    assert len(made.unvalidated(made.plan(cluster(), 0, busy=())[0], cluster())) == 1


def test_where_an_epoch_ends_before_the_position_reading_goes_on_there() -> None:
    made = fetcher(P0)
    made.subscriptions.seek(P0, 7, 2)
    end_of(made, 1, 4)
    assert (made.subscriptions.partition(P0).offset, made.subscriptions.partition(P0).last_epoch) == (4, 1)
    made = fetcher(P0, reset=None)
    made.subscriptions.seek(P0, 7, 2)
    end_of(made, 1, 4)
    assert isinstance(problem_of(made), LogTruncationError)


def test_an_epoch_that_the_leader_knows_nothing_of_is_a_position_that_is_gone() -> None:
    made = fetcher(P0, reset=-2)
    made.subscriptions.seek(P0, 7, 2)
    end_of(made, -1, -1)
    assert (made.subscriptions.partition(P0).fetch_state, made.subscriptions.partition(P0).reset_timestamp) == (
        FetchState.AWAIT_RESET,
        -2,
    )


def test_a_leader_that_has_moved_is_looked_for_before_it_is_asked_again() -> None:
    made = fetcher(P0)
    made.subscriptions.seek(P0, 7, 2)
    assert end_of(made, -1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == {"t"}
    assert made.plan(cluster(), 0, busy=()) == []  # in a moment
    assert made.subscriptions.partition(P0).offset == 7


def test_a_partition_that_is_left_out_of_the_answer_is_asked_about_again() -> None:
    made = fetcher(P0)
    made.subscriptions.seek(P0, 7, 2)
    (plan,) = made.plan(cluster(), 0, busy=())
    made.validated(made.unvalidated(plan, cluster()), OffsetForLeaderEpochResponse(topics=[]), cluster(), 0)
    assert made.subscriptions.partition(P0).failures_count == 1


@pytest.mark.parametrize(("fetch", "ends", "asks"), [(17, 4, False), (12, 4, False), (11, 3, True), (11, 2, False)])
def test_leaders_are_asked_where_a_fetch_cannot_tell_and_they_may_be(fetch: int, ends: int, asks: bool) -> None:
    assert must_validate(fetch, {23: ends}.__getitem__) is asks


def test_a_broker_without_that_api_is_not_asked() -> None:
    def version_for(api_key: int) -> int:
        raise UnsupportedVersionError(f"no {api_key}")

    assert not must_validate(11, version_for)


def test_a_replica_near_by_is_read_until_its_time_is_over() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, preferred_read_replica=2)), view, 0)
    assert asked(made.plan(view, 299_999, busy=())) == {2: [(0, 0)]}
    made = fetcher(P0)
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, preferred_read_replica=2)), view, 0)
    assert asked(made.plan(view, 300_000, busy=())) == {1: [(0, 0)]}


def test_a_replica_that_is_not_known_is_not_asked() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, preferred_read_replica=9)), view, 0)
    assert asked(made.plan(view, 0, busy=())) == {1: [(0, 0)]}


def test_an_offset_that_a_replica_does_not_have_is_asked_of_the_leader_before_any_reset() -> None:
    made, view = fetcher(P0, at=50), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, preferred_read_replica=2)), view, 0)
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)), view, 0)
    assert asked(made.plan(view, 0, busy=())) == {1: [(0, 50)]}


def test_a_replica_that_cannot_be_reached_is_left() -> None:
    made, view = fetcher(P0), cluster()
    (plan,) = made.plan(view, 0, busy=())
    made.receive(plan, answer(data(0, preferred_read_replica=2)), view, 0)
    (plan,) = made.plan(view, 0, busy=())
    made.fetch_failed(plan, NetworkError("gone", stage=Stage.REQUEST), 0)
    assert asked(made.plan(view, 10_000, busy=())) == {1: [(0, 0)]}


# -- where to begin


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("earliest", -2),
        ("Latest", -1),
        ("none", None),
        ("by_duration:PT1H", 10**9 - 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 10**9 - (86_400 + 7200 + 180 + 4.5) * 1000),
        ("by_duration:pt0s", 10**9),
        ("by_duration:P100D", 0),
    ],
)
def test_a_reset_policy_has_a_timestamp(text: str, timestamp: int | None) -> None:
    assert parse_reset_policy(text).timestamp_at(10**9) == timestamp


@pytest.mark.parametrize("text", ["", "early", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT",
                                  "by_duration:-PT1H", "by_duration:1h", "by_duration:P1Y"])  # fmt: skip
def test_nonsense_is_no_policy(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        parse_reset_policy(text)


def test_when_all_records_are_older_a_search_goes_on_at_the_end() -> None:
    made = fetcher(P0, reset=1234, at=None)
    ((timestamp, generation),) = made.offset_lookups(0).values()
    made.offset_found(P0, generation, -1)
    assert (timestamp, made.subscriptions.partition(P0).reset_timestamp) == (1234, -1)
    assert made.subscriptions.partition(P0).fetch_state is FetchState.AWAIT_RESET


def test_the_leader_epoch_of_a_deleted_topic_is_not_sent_for_its_successor() -> None:
    made = fetcher(P0)
    read(made, epoch=2)
    anew = cluster()
    anew.update(
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=1, rack=None)],
            topics=[
                MetadataResponseTopic(
                    error_code=0,
                    name="t",
                    topic_id=Uuid(b"n" * 16),
                    partitions=[
                        MetadataResponsePartition(
                            error_code=0,
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=0,
                            replica_nodes=[],
                            isr_nodes=[],
                            offline_replicas=[],
                        )
                    ],
                )
            ],
        ),
        0,
    )
    (plan,) = made.plan(anew, 0, busy=())
    assert (plan.targets[0].offset, plan.targets[0].last_epoch) == (5, -1)
