"""Logs that part from what was read (KIP-320), and replicas near by (KIP-392)."""

from __future__ import annotations

import pytest

from kafkaraw.core.fetch.fetcher import Fetcher
from kafkaraw.core.fetch.positions import Standing
from kafkaraw.core.fetch.reset import parse_reset_policy
from kafkaraw.errors import LogTruncated, NetworkError, Stage
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import EpochEndOffset
from kafkaraw.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.records import encode_batch
from tests.core.fetch.test_fetcher import P0, answer, asked, cluster, data, fetcher, problem_of


def read(made: Fetcher, count: int = 5, epoch: int = 3) -> None:
    """Take a batch of so many records, which the leader of that epoch wrote."""
    (plan,) = made.plan(cluster(), 0, busy=())
    offset = plan.targets[0].offset
    wire = encode_batch([(0, None, b"v", None)] * count, base_offset=offset, partition_leader_epoch=epoch)
    made.receive(plan, answer(data(0, wire)), cluster(), 0)
    made.take()


def diverge(made: Fetcher, epoch: int, end_offset: int) -> None:
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
    made.seek(P0, 3)
    assert made.position(P0).last_epoch == -1


def test_a_log_that_was_truncated_is_read_on_from_where_it_parts() -> None:
    made = fetcher(P0)
    read(made)
    diverge(made, 2, 3)
    assert (made.position(P0).offset, made.position(P0).last_epoch) == (3, 2)
    assert problem_of(made) is None


def test_without_a_policy_a_truncation_is_an_error_that_says_from_where_on() -> None:
    made = fetcher(P0, reset=None)
    read(made)
    diverge(made, 2, 3)
    error = problem_of(made)
    assert isinstance(error, LogTruncated)
    assert "t-0 at offset 5" in str(error)
    assert "from offset 3 on" in str(error)
    assert made.position(P0).standing is Standing.LOST


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
def test_a_policy_says_from_when_on(text: str, timestamp: int | None) -> None:
    assert parse_reset_policy(text).timestamp_at(10**9) == timestamp


@pytest.mark.parametrize("text", ["", "early", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT",
                                  "by_duration:-PT1H", "by_duration:1h", "by_duration:P1Y"])  # fmt: skip
def test_nonsense_is_no_policy(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        parse_reset_policy(text)


def test_when_all_records_are_older_a_search_goes_on_at_the_end() -> None:
    made = fetcher(P0, reset=1234, at=None)
    ((timestamp, generation),) = made.searches(0).values()
    made.found(P0, generation, -1)
    assert (timestamp, made.position(P0).search_timestamp) == (1234, -1)
    assert made.position(P0).standing is Standing.SEARCHING


def test_the_epoch_of_a_topic_that_is_gone_is_not_told_to_its_successor() -> None:
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
