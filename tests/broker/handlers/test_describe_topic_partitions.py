"""DescribeTopicPartitions: pages by name, cursors, and what does not exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.support import ask, make_state

COUNTS = {"a": 2, "b": 1, "c": 5}


@pytest.fixture(scope="module")
def state() -> BrokerState:
    made = make_state()
    for name, count in COUNTS.items():
        made.create_topic(Plan(name, ((0,),) * count, {}))
    return made


def page(
    state: BrokerState, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer: DescribeTopicPartitionsResponse = ask(state, request)
    return answer


def shown(answer: DescribeTopicPartitionsResponse) -> tuple[list[tuple[str | None, list[int]]], tuple[str, int] | None]:
    following = answer.next_cursor
    return (
        [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics],
        None if following is None else (following.topic_name, following.partition_index),
    )


def test_topics_are_sorted_by_name(state: BrokerState):
    assert shown(page(state, "b", "a")) == ([("a", [0, 1]), ("b", [0])], None)
    (topic,) = page(state, "b").topics
    found = state.catalog.topic("b")
    assert found is not None and topic.topic_id == found.topic_id
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, [0], [0])


@given(limit=st.integers(-1, 10))
def test_the_pages_together_are_everything_once(state: BrokerState, limit: int):
    found: list[tuple[str | None, int]] = []
    cursor = None
    while True:
        topics, cursor = shown(page(state, limit=limit, cursor=cursor))
        assert 0 < sum(len(numbers) for _, numbers in topics) <= max(1, limit)
        found += [(name, number) for name, numbers in topics for number in numbers]
        if cursor is None:
            break
    assert found == [(name, number) for name, count in COUNTS.items() for number in range(count)]


def test_a_cursor_may_point_behind_what_there_is(state: BrokerState):
    assert shown(page(state, cursor=("bb", 0))) == ([("c", [0, 1, 2, 3, 4])], None)
    assert shown(page(state, "a", cursor=("a", 7))) == ([("a", [])], None)
    assert shown(page(state, cursor=("z", 0))) == ([], None)


def test_what_does_not_exist_takes_no_room(state: BrokerState):
    answer = page(state, "b", "bad name", "aa", limit=1)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.NONE),
    ]
    assert shown(answer)[1] == ("bad name", 0)
    (last,) = page(state, "bad name").topics
    assert last.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("cursor", [("a", -1), ("zz", 0)])
def test_a_cursor_that_makes_no_sense_spoils_the_request(state: BrokerState, cursor: tuple[str, int]):
    answer = page(state, "a", "b", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
