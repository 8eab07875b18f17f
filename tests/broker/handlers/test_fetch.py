"""Fetch: limits, long polling on virtual time, errors, topic ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkaraw.broker import turns
from kafkaraw.broker.handlers.fetch import PARTITIONS_PER_STEP
from kafkaraw.broker.log.file_storage import FileStorage
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.replies import Deferred
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.records import TopicPartition, iter_headers
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.handlers.test_metadata import create
from tests.broker.support import append_sent, ask, batch, make_state, through_bytes

LATEST_VERSION = 18
BATCH = batch(b"x" * 100)
SIZE = len(BATCH)


@pytest.fixture(params=["memory", "files"])
def state(request: pytest.FixtureRequest, tmp_path: Path):
    made = make_state(MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "data"))
    create(made, "t", partitions=3)
    yield made
    made.close()


def append(state: BrokerState, index: int = 0, count: int = 1) -> None:
    for _ in range(count):
        append_sent(state.partition(TopicPartition("t", index)), BATCH)


def fetch(
    state: BrokerState,
    *offsets: int,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 20,
    topic_id: Uuid | None = None,
    **fields,
) -> FetchRequest:
    """Ask for partitions 0, 1, ... from these offsets on."""
    epoch = fields.pop("current_leader_epoch", -1)
    known = state.catalog.topic("t")
    partitions = [
        FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, current_leader_epoch=epoch
        )
        for index, offset in enumerate(offsets)
    ]
    if topic_id is None:
        topic_id = ZERO_UUID if known is None else known.topic_id
    topics = [FetchTopic(topic="t", topic_id=topic_id, partitions=partitions)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **fields)


def partitions(answer) -> list:
    return [part for topic in answer.responses for part in topic.partitions]


def counts(answer) -> list[int]:
    """Batches in each partition's records; fails on a batch that is not whole."""
    found = []
    for part in partitions(answer):
        batches = list(iter_headers(memoryview(part.records)))
        assert sum(header.size for header, _ in batches) == len(part.records)
        found.append(len(batches))
    return found


def codes(answer) -> list[ErrorCode]:
    return [ErrorCode(part.error_code) for part in partitions(answer)]


@pytest.mark.parametrize("version", range(4, LATEST_VERSION + 1))
def test_every_version_gives_records_and_offsets(state: BrokerState, version: int):
    append(state, count=3)
    answer = ask(state, fetch(state, 1, 0), version)
    assert counts(answer) == [2, 0]
    assert [part.high_watermark for part in partitions(answer)] == [3, 0]
    assert [part.last_stable_offset for part in partitions(answer)] == [3, 0]
    assert answer.session_id == 0
    if version >= 13:
        assert answer.responses[0].topic_id == state.catalog.topic("t").topic_id
    else:
        assert answer.responses[0].topic == "t"


def test_the_partition_limit_gives_whole_batches(state: BrokerState):
    append(state, 0, 5)
    assert counts(ask(state, fetch(state, 0, partition_max_bytes=3 * SIZE - 1))) == [2]


def test_only_the_first_batch_of_a_response_may_exceed_the_limits(state: BrokerState):
    append(state, 0, 2)
    append(state, 1, 2)
    assert counts(ask(state, fetch(state, 0, 0, partition_max_bytes=1))) == [1, 0]
    assert counts(ask(state, fetch(state, 2, 0, max_bytes=1))) == [0, 1]


def test_the_response_limit_is_shared_by_the_partitions(state: BrokerState):
    for index in range(3):
        append(state, index, 2)
    assert counts(ask(state, fetch(state, 0, 0, 0, max_bytes=3 * SIZE))) == [2, 1, 0]


def test_the_brokers_own_limit_holds_too():
    state = make_state(fetch_max_bytes=1024)
    create(state, "t")
    append(state, 0, 20)
    assert counts(ask(state, fetch(state, 0))) == [1024 // SIZE]


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_an_offset_outside_the_log_is_out_of_range(state: BrokerState, offset: int):
    append(state)
    answer = ask(state, fetch(state, offset, max_wait_ms=1000))
    assert codes(answer) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_what_does_not_exist_is_said_at_once(state: BrokerState):
    assert codes(ask(state, fetch(state, 0, 0, 0, 0, max_wait_ms=1000)))[3] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = fetch(state, 0, topic_id=Uuid(b"x" * 16), max_wait_ms=1000)
    assert codes(ask(state, unknown)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    unknown.topics[0].topic = "other"
    assert codes(ask(state, unknown, 12)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("epoch", "code"), [(1, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE), (-1, ErrorCode.NONE)]
)
def test_the_leader_epoch_is_compared(state: BrokerState, epoch: int, code: ErrorCode):
    assert codes(ask(state, fetch(state, 0, current_leader_epoch=epoch))) == [code]


def test_aborted_transactions_are_a_list_for_committed_readers_only(state: BrokerState):
    assert partitions(ask(state, fetch(state, 0, isolation_level=1)))[0].aborted_transactions == []
    assert partitions(ask(state, fetch(state, 0)))[0].aborted_transactions is None


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_partition_that_is_named_again_is_read_once_from_the_offset_named_last(
    state: BrokerState, session_epoch: int
):
    append(state, 0, 4)
    append(state, 1, 2)
    request = fetch(state, 0, 0, session_epoch=session_epoch)
    (topic,) = request.topics
    again = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)
    request.topics += [replace(topic, partitions=[again] * 1000)] * 3
    answer = ask(state, request)
    assert [part.partition_index for part in partitions(answer)] == [0, 1]
    assert counts(answer) == [1, 2]


def test_a_fetch_of_nothing_is_answered_at_once(state: BrokerState):
    assert partitions(ask(state, fetch(state, max_wait_ms=1000))) == []


def test_old_clients_are_kept_from_zstd():
    state = make_state(compression_type="zstd")
    create(state, "t")
    assert codes(ask(state, fetch(state, 0), 9)) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert codes(ask(state, fetch(state, 0), 10)) == [ErrorCode.NONE]


class Waiting:
    """A deferred fetch, and when it was answered."""

    def __init__(self, deferred: Deferred) -> None:
        assert isinstance(deferred, Deferred)
        self.deferred = deferred
        self.answer = None
        self.at_ms = -1.0
        self._start = asyncio.get_running_loop().time()
        deferred.when_done(self._done)

    def _done(self, response) -> None:
        self.answer = through_bytes(response, LATEST_VERSION)
        self.at_ms = round((asyncio.get_running_loop().time() - self._start) * 1000, 3)


def simulate(scenario) -> None:
    async def main(_) -> None:
        await scenario()

    run_virtual(main, seed=1)


def test_a_fetch_waits_until_its_time_is_up(state: BrokerState):
    async def scenario() -> None:
        waiting = Waiting(ask(state, fetch(state, 0, max_wait_ms=500)))
        await asyncio.sleep(1)
        assert waiting.at_ms == 500
        assert counts(waiting.answer) == [0]

    simulate(scenario)


def test_an_append_wakes_a_waiting_fetch_at_once(state: BrokerState):
    async def scenario() -> None:
        waiting = Waiting(ask(state, fetch(state, 0, 0, max_wait_ms=500)))
        await asyncio.sleep(0.1)
        append(state, 1)
        assert waiting.at_ms == 100
        assert counts(waiting.answer) == [0, 1]
        append(state, 1)
        await asyncio.sleep(1)
        assert counts(waiting.answer) == [0, 1]

    simulate(scenario)


def test_a_fetch_waits_for_min_bytes_in_all_its_partitions_together(state: BrokerState):
    async def scenario() -> None:
        append(state, 0)
        waiting = Waiting(ask(state, fetch(state, 0, 0, max_wait_ms=500, min_bytes=3 * SIZE)))
        append(state, 1)
        assert waiting.answer is None
        append(state, 2)  # not asked for
        assert waiting.answer is None
        append(state, 1)
        assert counts(waiting.answer) == [1, 2]

    simulate(scenario)


def test_bytes_above_the_partition_limit_do_not_count_as_there(state: BrokerState):
    async def scenario() -> None:
        asked = fetch(state, 0, 0, max_wait_ms=500, min_bytes=2 * SIZE, partition_max_bytes=SIZE)
        waiting = Waiting(ask(state, asked))
        append(state, 0, 3)
        assert waiting.answer is None
        append(state, 1)
        assert counts(waiting.answer) == [1, 1]

    simulate(scenario)


def test_what_has_come_is_given_when_the_time_is_up(state: BrokerState):
    async def scenario() -> None:
        waiting = Waiting(ask(state, fetch(state, 0, max_wait_ms=500, min_bytes=1 << 20)))
        append(state, 0, 2)
        await asyncio.sleep(1)
        assert waiting.at_ms == 500
        assert counts(waiting.answer) == [2]

    simulate(scenario)


def test_more_min_bytes_than_a_response_may_have_are_not_waited_for(state: BrokerState):
    append(state, 0, 3)
    assert counts(ask(state, fetch(state, 0, max_wait_ms=500, min_bytes=1 << 20, max_bytes=2 * SIZE))) == [2]


def test_the_end_of_a_segment_does_not_hold_a_fetch_back():
    state = make_state()
    create(state, "t")
    partition = state.partition(TopicPartition("t", 0))
    partition.log.settings = SegmentSettings(segment_bytes=SIZE)
    append(state, 0, 3)
    assert counts(ask(state, fetch(state, 0, max_wait_ms=500, min_bytes=3 * SIZE))) == [1]


def test_deleting_the_topic_ends_the_wait(state: BrokerState):
    async def scenario() -> None:
        waiting = Waiting(ask(state, fetch(state, 0, max_wait_ms=500)))
        state.delete_topic(state.catalog.topic("t"))
        assert waiting.at_ms == 0
        assert codes(waiting.answer) == [ErrorCode.UNKNOWN_TOPIC_ID]

    simulate(scenario)


def test_a_cancelled_fetch_leaves_no_watchers(state: BrokerState):
    async def scenario() -> None:
        waiting = Waiting(ask(state, fetch(state, 0, 0, max_wait_ms=500)))
        waiting.deferred.cancel()
        assert not state.partition(TopicPartition("t", 0))._watchers
        append(state)
        await asyncio.sleep(1)
        assert waiting.answer is None

    simulate(scenario)


LONG = 3 * PARTITIONS_PER_STEP


def long_fetch(state, *, max_wait_ms: int = 500, min_bytes: int = 1) -> FetchRequest:
    asked = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(LONG)]
    topics = [FetchTopic(topic_id=state.catalog.topic("long").topic_id, partitions=asked)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, topics=topics)


async def long_answer(state, request: FetchRequest, each_turn: Callable[[int], None] = lambda turn: None):
    """The answer, and in how many turns of the loop it came."""
    later = ask(state, request, 17)
    assert isinstance(later, Deferred)
    answers: list = []
    later.when_done(lambda answer: answers.append(through_bytes(answer, 17)))
    turn = 0
    while not answers:
        each_turn(turn)
        turn += 1
        await asyncio.sleep(0 if turn < 30 else 0.001)
    return answers[0], turn


def appended(state, index: int, *values: bytes) -> None:
    append_sent(state.partition(TopicPartition("long", index)), batch(*values))


@pytest.fixture
def in_long_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs a scenario with a topic of many partitions, of which few are read in a turn."""

    def run(scenario: Callable[[Any], Awaitable[None]], *, on_disk: bool = False) -> None:
        async def main(_: Simulation) -> None:
            state = make_state(FileStorage(tmp_path) if on_disk else None)
            create(state, "long", partitions=LONG)
            monkeypatch.setattr(turns, "TURN_S", 0.0)
            await scenario(state)

        run_virtual(main, seed=1)

    return run


def test_a_fetch_of_many_partitions_is_read_in_turns_and_keeps_the_files_open(in_long_turns):
    async def scenario(state) -> None:
        for index in (0, LONG - 1):
            appended(state, index, b"value %d" % index)

        def close_files(turn: int) -> None:
            for index in range(LONG):
                for segment in state.partition(TopicPartition("long", index)).log._segments:
                    segment.close()

        answer, turns_taken = await long_answer(state, long_fetch(state), close_files)
        assert turns_taken >= 3
        assert len(partitions(answer)) == LONG
        assert [part.partition_index for part in partitions(answer) if part.records] == [0, LONG - 1]
        for index in (0, LONG - 1):
            assert b"value %d" % index in bytes(partitions(answer)[index].records)

    in_long_turns(scenario, on_disk=True)


@pytest.mark.parametrize("index", [0, LONG - 1])
@pytest.mark.parametrize("turn", [1, 3, 4, 5, 6, 20])
def test_a_fetch_of_many_partitions_misses_nothing_that_comes_between_its_turns(in_long_turns, turn: int, index: int):
    async def scenario(state) -> None:
        began = asyncio.get_running_loop().time()
        answer, _ = await long_answer(
            state,
            long_fetch(state, max_wait_ms=60_000),
            lambda now: appended(state, index, b"late") if now == turn else None,
        )
        assert asyncio.get_running_loop().time() - began < 1
        assert [part.partition_index for part in partitions(answer) if part.records] == [index]

    in_long_turns(scenario)


@pytest.mark.parametrize("max_wait_ms", [0, 1, 4, 100])
def test_a_fetch_of_many_partitions_is_answered_when_its_time_is_up(in_long_turns, max_wait_ms: int):
    async def scenario(state) -> None:
        answer, _ = await long_answer(state, long_fetch(state, max_wait_ms=max_wait_ms))
        assert not any(part.records for part in partitions(answer))

    in_long_turns(scenario)


@pytest.mark.parametrize("turn", [1, 4, 30])
def test_a_fetch_of_many_partitions_that_is_cancelled_watches_nothing(in_long_turns, turn: int):
    async def scenario(state) -> None:
        later = ask(state, long_fetch(state, max_wait_ms=60_000), 17)
        later.when_done(lambda answer: pytest.fail("it was cancelled"))
        for _ in range(turn):
            await asyncio.sleep(0)
        assert not later.is_working, "the connection cancels it when the client is lost"
        later.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        watched = [state.partition(TopicPartition("long", index))._watchers for index in range(LONG)]
        assert not any(watched)

    in_long_turns(scenario)
