"""FindCoordinator, OffsetCommit and OffsetFetch for consumers without membership; InitProducerId."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.handlers.offset_checks import OFFSETS_PER_STEP
from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.handlers.test_metadata import create
from tests.broker.support import ask, make_state


@pytest.fixture
def state():
    made = make_state()
    create(made, "t", partitions=2)
    return made


def commit(
    state, index: int = 0, offset: int = 5, *, version: int = 10, topic: str = "t", metadata: str | None = "m", **fields
) -> ErrorCode:
    known = state.catalog.topic(topic)
    topic_id = Uuid(b"x" * 16) if known is None else known.topic_id
    part = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_leader_epoch=0, committed_metadata=metadata
    )
    asked = OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[part])
    answer = ask(state, OffsetCommitRequest(group_id="g", topics=[asked], **fields), version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(state, version: int = 10, group: str = "g") -> list[tuple[int, str]]:
    """What the group has committed in partitions 0 and 1."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        partitions = ask(state, OffsetFetchRequest(group_id=group, topics=topics), version).topics[0].partitions
    else:
        wanted = OffsetFetchRequestTopics(
            name="t", topic_id=state.catalog.topic("t").topic_id, partition_indexes=[0, 1]
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
        partitions = ask(state, request, version).groups[0].topics[0].partitions
    assert [part.error_code for part in partitions] == [0, 0]
    return [(part.committed_offset, part.metadata) for part in partitions]


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits(state, version: int):
    assert commit(state, 1, 42, version=version) is ErrorCode.NONE
    assert committed(state) == [(-1, ""), (42, "m")]


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_fetches(state, version: int):
    commit(state, 0, 7)
    commit(state, 0, 8, metadata=None)
    assert committed(state, version) == [(8, ""), (-1, "")]
    assert committed(state, version, group="other") == [(-1, ""), (-1, "")]


def test_all_of_a_groups_offsets_are_asked_for_with_null(state):
    create(state, "u")
    commit(state, 1, 3)
    commit(state, 0, 4, topic="u")
    old = ask(state, OffsetFetchRequest(group_id="g", topics=None), 7).topics
    assert [(topic.name, [part.committed_offset for part in topic.partitions]) for topic in old] == [
        ("t", [3]),
        ("u", [4]),
    ]
    new = ask(state, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])).groups[0].topics
    assert [topic.topic_id for topic in new] == [state.catalog.topic(name).topic_id for name in ("t", "u")]


def test_offsets_in_what_does_not_exist_are_refused(state):
    assert commit(state, 9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(state, -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(state, topic="other", version=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(state, topic="other") is ErrorCode.UNKNOWN_TOPIC_ID
    wanted = OffsetFetchRequestTopics(topic_id=Uuid(b"x" * 16), partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[wanted])])
    assert ask(state, request).groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_impossible_membership_is_refused(state):
    stranger = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(state, version=8, **stranger) is ErrorCode.ILLEGAL_GENERATION
    assert commit(state, version=9, **stranger) is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(state) is ErrorCode.NONE
    assert commit(state, **stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(state, generation_id_or_member_epoch=0, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(state) == [(5, "m"), (-1, "")]


def test_unknown_partitions_are_reported_before_errors_of_the_group(state):
    stranger = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(state, 9, **stranger) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(state, topic="other", **stranger) is ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_has_a_limit(state):
    assert commit(state, metadata="x" * 4096) is ErrorCode.NONE
    assert commit(state, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("version", range(6))
def test_this_node_coordinates_every_group(version: int):
    state = make_state()
    if version < 4:
        found = ask(state, FindCoordinatorRequest(key="g"), version)
    else:
        found = ask(state, FindCoordinatorRequest(coordinator_keys=["g"]), version).coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, "127.0.0.1", 9092)


@pytest.mark.parametrize(("key_type", "what"), [(2, "k"), (9, "key type 9")])
def test_other_coordinators_do_not_exist_and_it_says_so(key_type: int, what: str):
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
    found = ask(make_state(), request).coordinators[0]
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert what in found.error_message


@pytest.mark.parametrize("key_type", [0, 1])
def test_the_key_of_a_coordinator_must_not_be_empty(key_type: int):
    found = ask(make_state(), FindCoordinatorRequest(key_type=key_type, coordinator_keys=[""])).coordinators[0]
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message == "the key is empty; it has to be a group id or a transactional id"


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_an_id_of_its_own(version: int):
    state = make_state()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answers = [ask(state, request, version) for _ in range(3)]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}


@pytest.mark.parametrize(
    "request_fields",
    [
        {"transactional_id": ""},
        {"transactional_id": None, "producer_id": 5},
        {"transactional_id": None, "producer_epoch": 1},
    ],
)
def test_a_nameless_or_contradictory_producer_is_refused(request_fields):
    request = InitProducerIdRequest(transaction_timeout_ms=60_000, **request_fields)
    answer = ask(make_state(), request)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_a_commit_of_many_positions_is_judged_in_turns_with_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    count = 3 * OFFSETS_PER_STEP

    async def scenario(_: Simulation) -> None:
        state = make_state(offsets_topic_num_partitions=1)
        state.create_topic(plan_topic(TopicSpec("t", count, 1), state.catalog, state.config))
        ask(state, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        parts = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index, committed_leader_epoch=0, committed_metadata=""
            )
            for index in range(count + 1)
        ]
        topic_id = state.catalog.topic("t").topic_id
        asked = OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=parts)
        later = ask(state, OffsetCommitRequest(group_id="g", topics=[asked]), 10)
        assert isinstance(later, Deferred)
        answers: list = []
        later.when_done(answers.append)
        for _ in range(10):
            await asyncio.sleep(0)
        codes = [part.error_code for part in answers[0].topics[0].partitions]
        assert codes == [ErrorCode.NONE] * count + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert committed(state) == [(0, ""), (1, "")]

    run_virtual(scenario, seed=1)
