"""Large topics are created, grown and deleted in turns of the loop; others see all of a change or nothing of it."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import TopicSpec, plan_topic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import run_virtual
from tests.broker.log.faulty_storage import FaultyStorage
from tests.broker.support import append_sent, ask, batch, make_state
from tests.broker.virtual_nodes import VirtualNodes, on_nodes

PARTITIONS = 6


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition takes a turn of its own."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)


def creation(*names: str, partitions: int = PARTITIONS, replicas: int = 1) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics)


def growth(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)], timeout_ms=1000, validate_only=False
    )


def deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)


def in_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    run_virtual(lambda simulation: scenario(), 1)


async def answered(state: BrokerState, *requests: object, each_turn: Callable[[], None] = lambda: None) -> list:
    """The error codes of requests that are asked at once, in the order of the answers."""
    answers: list[object] = []
    for request in requests:
        later = ask(state, request)
        assert isinstance(later, Deferred)
        later.when_done(answers.append)
    while len(answers) < len(requests):
        each_turn()
        await asyncio.sleep(0)
    lists = [getattr(one, "topics", None) or getattr(one, "results", None) or one.responses for one in answers]
    return [[ErrorCode(result.error_code) for result in results] for results in lists]


def test_a_topic_is_visible_when_all_its_partitions_are_made(tmp_path: Path):
    async def scenario() -> None:
        state = make_state(FileStorage(tmp_path))
        seen = []

        def look() -> None:
            folders = len([path for path in tmp_path.iterdir() if path.is_dir()])
            there = state.partition(TopicPartition("t", 0)) is not None
            seen.append((folders, state.catalog.topic("t") is not None, there))

        assert await answered(state, creation("t"), each_turn=look) == [[ErrorCode.NONE]]
        assert [folders for folders, _, _ in seen[:4]] == [1, 2, 3, 4], "a partition in each turn"
        assert {(visible, there) for _, visible, there in seen} == {(False, False)}
        topic = state.catalog.topic("t")
        assert topic is not None
        assert [one.is_leader for one in state.partitions_of(topic)] == [True] * PARTITIONS

    in_loop(scenario)


def test_changes_of_topics_are_made_one_after_another():
    async def scenario() -> None:
        state = make_state()
        codes = await answered(
            state,
            creation("t"),
            creation("t"),
            growth(9),
            deletion("t"),
            creation("t", "t_2"),
            creation("t.2"),
            growth(8),
        )
        assert codes == [
            [ErrorCode.NONE],
            [ErrorCode.TOPIC_ALREADY_EXISTS],
            [ErrorCode.NONE],
            [ErrorCode.NONE],
            [ErrorCode.NONE, ErrorCode.NONE],
            [ErrorCode.INVALID_TOPIC_EXCEPTION],
            [ErrorCode.NONE],
        ]
        assert state.catalog.topic("t").partitions_count == 8
        assert len(state.partitions_of(state.catalog.topic("t"))) == 8

    in_loop(scenario)


def test_an_internal_topic_that_is_being_created_is_completed_when_it_is_needed():
    async def scenario() -> None:
        state = make_state()
        name = "__consumer_offsets"
        later = ask(state, creation(name))
        assert state.catalog.topic(name) is None
        state.groups.topic.create_if_missing(state.controller, state.config)
        assert state.catalog.topic(name).partitions_count == PARTITIONS
        answers: list = []
        later.when_done(answers.append)
        state.create_topic(plan_topic(TopicSpec("other", 1, 1), state.catalog, state.config))
        assert [topic.name for topic in state.catalog.topics()] == [name, "other"]

    in_loop(scenario)


@pytest.mark.parametrize("grows", [False, True])
def test_a_failure_in_the_middle_takes_back_what_was_made(grows: bool):
    async def scenario() -> None:
        storage = FaultyStorage(MemoryStorage())
        state = make_state(storage)
        state.create_topic(plan_topic(TopicSpec("u", 1, 1), state.catalog, state.config))
        if grows:
            state.create_topic(plan_topic(TopicSpec("t", 1, 1), state.catalog, state.config))
        folders = storage.folders()
        made: list[str] = []
        storage.on_attempt = lambda name: (
            made.append(name) or storage.fail_at(1, errno.EMFILE)
            if (made.count("make_folder") == 3 and name == "make_folder")
            else made.append(name)
        )
        codes = await answered(state, growth(PARTITIONS) if grows else creation("t"))
        assert codes == [[ErrorCode.KAFKA_STORAGE_ERROR]]
        storage.on_attempt = lambda name: None
        assert storage.folders() == folders
        assert (state.catalog.topic("t") is not None) == grows
        assert state.partition(TopicPartition("t", 1)) is None
        assert await answered(state, growth(PARTITIONS) if grows else creation("t")) == [[ErrorCode.NONE]]

    in_loop(scenario)


async def begun(state: BrokerState, request: object, turns_count: int) -> None:
    assert isinstance(ask(state, request), Deferred)
    for _ in range(turns_count):
        await asyncio.sleep(0)


def test_a_crash_in_the_middle_of_a_creation_leaves_nothing():
    async def scenario() -> None:
        storage = MemoryStorage()
        state = make_state(storage)
        await begun(state, creation("t"), 3)
        state.close(sync=False)
        assert len(storage.folders()) == 4
        again = make_state(storage, seed=2)
        assert (storage.folders(), again.catalog.topics()) == ([], [])
        for _ in range(10):
            await asyncio.sleep(0)
        assert storage.folders() == [], "the creation does not go on"

    in_loop(scenario)


def test_a_crash_in_the_middle_of_a_growth_leaves_the_topic_as_it_was():
    async def scenario() -> None:
        storage = MemoryStorage()
        state = make_state(storage)
        state.create_topic(plan_topic(TopicSpec("t", 2, 1), state.catalog, state.config))
        await begun(state, growth(PARTITIONS), 2)
        state.close(sync=False)
        again = make_state(storage, seed=2)
        assert storage.folders() == ["t-0", "t-1"]
        assert again.catalog.topic("t").partitions_count == 2

    in_loop(scenario)


def test_a_crash_in_the_middle_of_a_deletion_leaves_no_records(caplog: pytest.LogCaptureFixture):
    async def scenario() -> None:
        storage = MemoryStorage()
        state = make_state(storage, log_segment_delete_delay_ms=0)
        state.create_topic(plan_topic(TopicSpec("t", PARTITIONS, 1), state.catalog, state.config))
        for partition in state.partitions_of(state.catalog.topic("t")):
            append_sent(partition, memoryview(bytearray(batch(b"v"))))
        await begun(state, deletion("t"), 2)
        assert state.catalog.topic("t") is None
        assert state.partition(TopicPartition("t", PARTITIONS - 1)) is None
        state.close(sync=False)
        assert len(storage.folders()) == 3
        with caplog.at_level(logging.INFO, "kafkaraw.broker"):
            make_state(storage, seed=2)
        assert storage.folders() == []
        assert "folders that have no records, or whose topic was being deleted" in caplog.text

    in_loop(scenario)


def test_nodes_that_come_and_go_while_a_topic_is_made_get_the_parts_that_are_theirs():
    async def life(nodes: VirtualNodes) -> None:
        await nodes.cluster.stop_node(2)
        state = nodes.cluster.nodes[0].state
        answers: list = []
        ask(state, creation("t", partitions=9, replicas=3)).when_done(answers.append)
        for _ in range(3):
            await asyncio.sleep(0)
        starting = asyncio.create_task(nodes.cluster.start_node(2))
        for _ in range(6):
            await asyncio.sleep(0)
        await nodes.cluster.kill_node(1)
        await starting
        while not answers:
            await asyncio.sleep(0.01)
        assert [one.error_code for one in answers[0].topics] == [ErrorCode.NONE]
        await nodes.cluster.start_node(1)
        await nodes.cluster.wait_until_in_sync()
        states = [nodes.cluster.partition_state("t", index) for index in range(9)]
        assert all(state.leader != NO_LEADER for state in states)
        for node_id in range(3):
            for index in range(9):
                replica = nodes.replica(node_id, "t", index)
                assert replica.state == nodes.cluster.partition_state("t", index)

    on_nodes(life, nodes=3)
