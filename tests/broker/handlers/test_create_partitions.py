"""CreatePartitions: who may grow and how, in Kafka's words, and that old partitions stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaraw.records import TopicPartition
from tests.broker.support import append_sent, ask, batch, make_state

Asked = tuple[str, int, Sequence[list[int]] | None]


def state_with_topic(storage: MemoryStorage | None = None) -> BrokerState:
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,), (0,)), {}))
    return state


def grow(
    state: BrokerState, *asked: Asked, validate_only: bool = False, version: int | None = None
) -> list[tuple[str, int, str | None]]:
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if chosen is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in chosen],
        )
        for name, count, chosen in asked
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only)
    return [(one.name, one.error_code, one.error_message) for one in ask(state, request, version).results]


def partitions_of(state: BrokerState, name: str = "t") -> int:
    topic = state.catalog.topic(name)
    assert topic is not None
    return topic.partitions_count


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_topic_grows_and_keeps_what_it_has(version: int):
    state = state_with_topic()
    old = state.partition(TopicPartition("t", 0))
    assert old is not None
    append_sent(old, batch(b"x"))
    assert grow(state, ("t", 4, None), version=version) == [("t", 0, None)]
    assert partitions_of(state) == 4
    assert state.partition(TopicPartition("t", 0)) is old
    new = state.partition(TopicPartition("t", 3))
    assert new is not None and new.is_leader and append_sent(new, batch(b"x"))


def test_the_new_partitions_are_there_after_a_restart():
    storage = MemoryStorage()
    state = state_with_topic(storage)
    grow(state, ("t", 3, None))
    state.close()
    assert partitions_of(make_state(storage)) == 3


def test_validating_adds_nothing():
    state = state_with_topic()
    assert grow(state, ("t", 3, None), validate_only=True) == [("t", 0, None)]
    assert partitions_of(state) == 2


def test_every_topic_is_named_and_one_that_cannot_grow_does_not_stop_the_others():
    state = state_with_topic()
    state.create_topic(Plan("u", ((0,),), {}))
    assert grow(state, ("nope", 2, None), ("t", 1, None), ("u", 2, None)) == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("t", 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        ("u", 0, None),
    ]
    assert partitions_of(state, "u") == 2


@pytest.mark.parametrize(
    ("count", "chosen", "code", "message"),
    [
        (2, None, 37, "Topic already has 2 partition(s)."),
        (-1, None, 37, "The topic t currently has 2 partition(s); -1 would not be an increase."),
        (4, [[0]], 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (3, [[]], 39, "The manual partition assignment includes an empty replica list."),
        (3, [[0, 0]], 39, "The manual partition assignment includes the broker 0 more than once."),
        (3, [[9]], 39, "The manual partition assignment includes broker 9, but no such broker is registered."),
        (20_000, None, -1, None),
        (3, [[0]], 0, None),
    ],
)
def test_the_rules_are_kafkas(count: int, chosen: list[list[int]] | None, code: int, message: str | None):
    assert grow(state_with_topic(), ("t", count, chosen)) == [("t", code, message)]


def test_a_topic_named_twice_is_refused():
    state = state_with_topic()
    assert grow(state, ("t", 3, None), ("t", 4, None)) == [("t", 42, "Duplicate topic name.")]
    assert partitions_of(state) == 2


def test_when_the_storage_is_full_the_topic_is_as_it_was(monkeypatch: pytest.MonkeyPatch):
    storage = MemoryStorage()
    state = state_with_topic(storage)
    write = storage.write_text

    def full(folder: str, name: str, text: str, **settings: bool) -> None:
        if name == "kafkaraw-topics.json":
            raise OSError(28, "No space left on device")
        write(folder, name, text, **settings)

    monkeypatch.setattr(storage, "write_text", full)
    ((_, code, _),) = grow(state, ("t", 3, None))
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions_of(state) == 2
    assert state.partition(TopicPartition("t", 2)) is None
    assert "t-2" not in storage.folders()
    monkeypatch.undo()
    assert grow(state, ("t", 3, None)) == [("t", 0, None)]
