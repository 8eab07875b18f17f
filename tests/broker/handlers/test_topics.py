"""CreateTopics and DeleteTopics, as messages; the rules themselves are tested in test_topic_creation."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.topics.topic_creation import PARTITIONS_PER_TURN
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkaraw.testing.virtual import run_virtual
from tests.broker.handlers.test_metadata import create
from tests.broker.support import ask, make_state


def topic(name: str, partitions: int = -1, replicas: int = -1, assignments=(), **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=at, broker_ids=ids) for at, ids in assignments],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(version: int):
    state = make_state()
    result = ask(state, CreateTopicsRequest(topics=[topic("t", 3, 1)]), version).topics[0]
    assert (result.name, result.error_code, result.error_message) == ("t", ErrorCode.NONE, None)
    made = state.catalog.topic("t")
    assert made.partitions_count == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    if version >= 7:
        assert result.topic_id == made.topic_id


def test_the_answer_lists_every_setting_with_its_source():
    state = make_state(message_max_bytes=7000)
    result = ask(state, CreateTopicsRequest(topics=[topic("t", retention_ms="5")])).topics[0]
    found = {config.name: (config.value, config.config_source) for config in result.configs}
    assert found["retention.ms"] == ("5", 1)
    assert found["max.message.bytes"] == ("7000", 4)
    assert found["cleanup.policy"] == ("delete", 5)
    assert found["preallocate"] == ("false", 5)
    assert len(found) == 33


def test_one_refused_topic_does_not_stop_the_others():
    state = make_state()
    topics = [topic("good"), topic("bad name"), topic("two", 0), topic("three", replicas=3), topic("four", nothing="1")]
    results = ask(state, CreateTopicsRequest(topics=topics)).topics
    assert [ErrorCode(result.error_code) for result in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
    ]
    assert all(result.error_message for result in results[1:])
    assert [one.name for one in state.catalog.topics()] == ["good"]


def test_a_name_given_twice_is_created_not_at_all():
    state = make_state()
    results = ask(state, CreateTopicsRequest(topics=[topic("t"), topic("t")])).topics
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST]
    assert state.catalog.topics() == []


def test_validating_says_what_would_happen_and_does_nothing():
    state = make_state(num_partitions=4)
    request = CreateTopicsRequest(topics=[topic("t"), topic("u", 0)], validate_only=True)
    good, bad = ask(state, request).topics
    assert (good.error_code, good.num_partitions, good.topic_id) == (ErrorCode.NONE, 4, ZERO_UUID)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert state.catalog.topics() == []


def test_partitions_may_be_assigned_by_the_client():
    state = make_state()
    request = CreateTopicsRequest(
        topics=[topic("t", assignments=[(0, [0]), (1, [0])]), topic("u", assignments=[(0, [7])])]
    )
    good, bad = ask(state, request).topics
    assert (good.error_code, good.num_partitions) == (ErrorCode.NONE, 2)
    assert bad.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def delete(state, *names: str, version: int = 6):
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    return ask(state, request, version).responses


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(version: int):
    state = make_state()
    create(state, "t", "u")
    results = delete(state, "t", "absent", version=version)
    assert [(result.name, ErrorCode(result.error_code)) for result in results] == [
        ("t", ErrorCode.NONE),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [one.name for one in state.catalog.topics()] == ["u"]


def test_a_topic_is_deleted_by_its_id():
    state = make_state()
    create(state, "t")
    asked = [
        DeleteTopicState(topic_id=state.catalog.topic("t").topic_id),
        DeleteTopicState(topic_id=Uuid(b"x" * 16)),
        DeleteTopicState(),
        DeleteTopicState(name="t", topic_id=Uuid(b"y" * 16)),
    ]
    results = ask(state, DeleteTopicsRequest(topics=asked, timeout_ms=1000)).responses
    assert [ErrorCode(result.error_code) for result in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert results[0].name == "t"


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(version: int, code: ErrorCode):
    state = make_state(delete_topic_enable=False)
    create(state, "t")
    assert [result.error_code for result in delete(state, "t", version=version)] == [code]
    assert state.catalog.topic("t") is not None


def asking_for(*names: str, partitions: int = 1, **fields: Any) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, **fields)


def test_topics_of_a_large_request_are_made_in_turns_with_other_clients():
    async def main() -> None:
        state = make_state()
        names = [f"t{number}" for number in range(10 * PARTITIONS_PER_TURN)]
        answer = ask(state, asking_for(*names))
        assert isinstance(answer, Deferred)
        answers: list[CreateTopicsResponse] = []
        answer.when_done(answers.append)
        made = []
        while not answers:
            made.append(len(state.catalog.topics()))
            await asyncio.sleep(0)
        assert max(after - before for before, after in itertools.pairwise(made)) <= PARTITIONS_PER_TURN
        assert len(made) >= 9
        assert {topic.error_code for topic in answers[0].topics} == {ErrorCode.NONE}
        assert [topic.name for topic in answers[0].topics] == names

    run_virtual(lambda simulation: main(), 1)


def test_topics_that_are_left_are_not_made_when_the_client_has_gone():
    async def main() -> None:
        state = make_state()
        answer = ask(state, asking_for(*(f"t{number}" for number in range(3 * PARTITIONS_PER_TURN))))
        answer.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(state.catalog.topics()) == PARTITIONS_PER_TURN

    run_virtual(lambda simulation: main(), 1)


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ((5_000, 5_000), ErrorCode.NONE),
        ((5_000, 5_001), ErrorCode.POLICY_VIOLATION),
        ((10_000, -1), ErrorCode.POLICY_VIOLATION),
        ((10_001,), ErrorCode.POLICY_VIOLATION),
        ((10_000, -5), ErrorCode.NONE),
    ],
)
def test_a_request_for_more_than_10000_partitions_is_refused_as_a_whole(counts: tuple[int, ...], code: ErrorCode):
    async def main() -> CreateTopicsResponse:
        topics = [asking_for(f"t{at}", partitions=count).topics[0] for at, count in enumerate(counts)]
        answer = ask(make_state(), CreateTopicsRequest(topics=topics, validate_only=True))
        if not isinstance(answer, Deferred):
            return answer
        done: asyncio.Future[CreateTopicsResponse] = asyncio.get_running_loop().create_future()
        answer.when_done(done.set_result)
        return await done

    answer = run_virtual(lambda simulation: main(), 1)
    assert answer.topics[0].error_code == code
    if code:
        assert {topic.error_message for topic in answer.topics} == {
            "Excessively large number of partitions per request."
        }


def test_names_collide_with_topics_that_are_there_and_no_longer_with_deleted_ones():
    state = make_state()
    assert [topic.error_code for topic in ask(state, asking_for("a.b_c", "a_b.c")).topics] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    state.delete_topic(state.catalog.topic("a.b_c"))
    assert ask(state, asking_for("a_b.c")).topics[0].error_code == ErrorCode.NONE
    assert state.catalog.colliding("a.b.c") == "a_b.c"
