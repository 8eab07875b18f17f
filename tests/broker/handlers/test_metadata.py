"""Metadata: what is told about the cluster, and when asking for a topic creates it."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.broker.auto_creation import WAITING_MAX
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.topics.topic_creation import PARTITIONS_PER_TURN, TopicSpec, plan_topic
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkaraw.testing.virtual import run_virtual
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import ask, in_a_loop, make_state

VERSIONS = range(14)


def create(state, *names: str, partitions: int = 1) -> None:
    for name in names:
        in_a_loop(
            lambda name=name: state.create_topic(
                plan_topic(TopicSpec(name, partitions, 1), state.catalog, state.config)
            )
        )


def named(*names: str, **fields) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_brokers_and_leaders(version: int):
    state = make_state()
    create(state, "t", partitions=2)
    answer = ask(state, named("t"), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(0, "127.0.0.1", 9092)]
    assert [topic.name for topic in answer.topics] == ["t"]
    partitions = answer.topics[0].partitions
    assert [(part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes) for part in partitions] == [
        (0, 0, [0], [0]),
        (1, 0, [0], [0]),
    ]
    if version >= 1:
        assert answer.controller_id == 0
    if version >= 2:
        assert answer.cluster_id == state.catalog.cluster_id
    if version >= 10:
        assert answer.topics[0].topic_id == state.catalog.topic("t").topic_id


def test_all_topics_are_an_empty_list_in_version_0_and_null_later():
    state = make_state()
    create(state, "b", "a")
    assert [topic.name for topic in ask(state, MetadataRequest(topics=[]), 0).topics] == ["a", "b"]
    assert ask(state, MetadataRequest(topics=[]), 1).topics == []
    for version in (1, 12, 13):
        assert [topic.name for topic in ask(state, MetadataRequest(topics=None), version).topics] == ["a", "b"]


def in_a_loop_with_turns(body: Callable[[], Awaitable[None]]) -> None:
    run_virtual(lambda simulation: body(), 1)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_asking_for_a_topic_has_it_created_behind_the_answer(version: int):
    async def main() -> None:
        state = make_state(num_partitions=3)
        answer = ask(state, named("new"), version)
        assert (answer.topics[0].name, answer.topics[0].error_code) == ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert answer.topics[0].partitions == []
        assert state.catalog.topic("new") is None
        await turns()
        again = ask(state, named("new"), version)
        assert again.topics[0].error_code == ErrorCode.NONE
        assert len(again.topics[0].partitions) == 3

    in_a_loop_with_turns(main)


def test_topics_of_one_request_are_created_in_turns_with_other_clients():
    async def main() -> None:
        state = make_state()
        names = [f"t{number}" for number in range(2_000)]
        answer = ask(state, named(*names))
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        made = [0]
        while not made[1:] or made[-1] > made[-2]:
            await turns(1)
            made.append(len(state.catalog.topics()))
        assert max(after - before for before, after in itertools.pairwise(made)) == PARTITIONS_PER_TURN
        assert made[-1] == WAITING_MAX, "the others are created when they are asked for again"
        ask(state, named(*names))
        await turns(2 * WAITING_MAX // PARTITIONS_PER_TURN)
        assert {topic.error_code for topic in ask(state, named(*names)).topics} == {ErrorCode.NONE}

    in_a_loop_with_turns(main)


def test_an_internal_topic_that_is_asked_for_gets_its_own_settings():
    async def main() -> None:
        state = make_state(offsets_topic_num_partitions=7)
        ask(state, named("__consumer_offsets", "__transaction_state", "__cluster_metadata"))
        await turns()
        assert [topic.name for topic in state.catalog.topics()] == ["__consumer_offsets", "__transaction_state"]
        assert state.catalog.topic("__consumer_offsets").partitions_count == 7
        assert state.catalog.topic("__consumer_offsets").configs["cleanup.policy"] == "compact"

    in_a_loop_with_turns(main)


def test_nothing_is_created_after_the_broker_has_closed():
    async def main() -> None:
        state = make_state()
        ask(state, named("new"))
        state.close()
        await turns()
        assert state.catalog.topics() == []

    in_a_loop_with_turns(main)


def test_a_client_may_forbid_the_creation():
    state = make_state()
    answer = ask(state, named("new", allow_auto_topic_creation=False), 4)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert state.catalog.topics() == []


def test_the_broker_may_forbid_the_creation():
    state = make_state(auto_create_topics_enable=False)
    assert ask(state, named("new")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert state.catalog.topics() == []


@pytest.mark.parametrize("allowed", [True, False])
def test_an_illegal_name_is_refused_with_its_own_code(allowed: bool):
    state = make_state()
    answer = ask(state, named("no spaces", allow_auto_topic_creation=allowed))
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("properties", "name", "why"),
    [({"default_replication_factor": 3}, "new", "only 1 broker"), ({}, "a_b.c", "collides with existing topic: a.b_c")],
)
def test_a_topic_that_cannot_be_created_stays_unknown_and_the_log_says_why(
    properties: dict[str, int], name: str, why: str, caplog: pytest.LogCaptureFixture
):
    async def main() -> None:
        state = make_state(**properties)
        create(state, "a.b_c")
        for _ in range(2):
            assert ask(state, named(name)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await turns()

    with caplog.at_level("INFO"):
        in_a_loop_with_turns(main)
    assert why in caplog.text


def test_a_topic_is_found_by_its_id():
    state = make_state()
    create(state, "t")
    topic_id = state.catalog.topic("t").topic_id
    asked = [
        MetadataRequestTopic(topic_id=topic_id, name=None),
        MetadataRequestTopic(topic_id=Uuid(b"x" * 16), name=None),
    ]
    found, unknown = ask(state, MetadataRequest(topics=asked), 12).topics
    assert (found.error_code, found.name) == (ErrorCode.NONE, "t")
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_a_request_have_no_meaning_before_version_12(version: int):
    state = make_state()
    create(state, "t")
    asked = MetadataRequestTopic(topic_id=state.catalog.topic("t").topic_id, name="")
    assert ask(state, MetadataRequest(topics=[asked]), version).topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_neither_name_nor_id_is_an_invalid_request():
    asked = MetadataRequestTopic(topic_id=ZERO_UUID, name=None)
    answer = ask(make_state(), MetadataRequest(topics=[asked]), 12)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_asked_for_twice_is_answered_once():
    assert len(ask(make_state(), named("t", "t", allow_auto_topic_creation=False)).topics) == 1


def test_authorized_operations_are_returned_on_request_only():
    state = make_state()
    create(state, "t")
    plain = ask(state, named("t"), 8)
    assert plain.topics[0].topic_authorized_operations == -(1 << 31)
    asked = named("t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    told = ask(state, asked, 8)
    assert told.topics[0].topic_authorized_operations == 3576
    assert told.cluster_authorized_operations == 8096
    absent = ask(state, named("absent", include_topic_authorized_operations=True, allow_auto_topic_creation=False))
    assert absent.topics[0].topic_authorized_operations == 3576  # Kafka tells it of topics that are not there, too


def test_a_topic_that_cannot_be_created_for_lack_of_descriptors_stays_unknown_until_there_are_some():
    async def main() -> None:
        storage = FaultyStorage(MemoryStorage())
        state = make_state(storage)
        for operation in (1, 5):  # making the replica, writing the topics down
            storage.fail_at(operation, errno.EMFILE)
            ask(state, named("new"))
            await turns()
            assert storage.failures
            assert state.catalog.topics() == []
        ask(state, named("new"))
        await turns()
        assert ask(state, named("new")).topics[0].error_code == ErrorCode.NONE

    in_a_loop_with_turns(main)
