"""DeleteRecords: where a log starts afterwards, what is refused, and that it holds over a restart and on followers."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import ROOT
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan
from kafkaraw.core.log.offset_checkpoint import LOG_STARTS_FILE
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaraw.records import TopicPartition
from tests.broker.support import append_sent, ask, batch, make_state

KEY = TopicPartition("t", 0)


def state_with_records(storage: MemoryStorage | None = None) -> BrokerState:
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,), (0,)), {}))
    for number in range(10):
        append_sent(partition_of(state), batch(b"%d" % number))
    return state


def partition_of(state: BrokerState) -> Partition:
    partition = state.partition(KEY)
    assert partition is not None
    return partition


def delete(state: BrokerState, offset: int, *, topic: str = "t", partition: int = 0, version: int | None = None):
    asked = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    answer = ask(state, DeleteRecordsRequest(topics=[asked], timeout_ms=1000), version)
    ((result,),) = [one.partitions for one in answer.topics]
    return result.low_watermark, result.error_code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_starts_at_the_offset_given(version: int):
    state = state_with_records()
    assert delete(state, 4, version=version) == (4, 0)
    assert (partition_of(state).log.log_start_offset, partition_of(state).high_watermark) == (4, 10)


def test_minus_one_deletes_everything_that_consumers_could_see():
    state = state_with_records()
    assert delete(state, -1) == (10, 0)
    assert partition_of(state).log.log_start_offset == 10


def test_a_log_does_not_start_earlier_again():
    state = state_with_records()
    delete(state, 5)
    assert delete(state, 3) == (5, 0)


@pytest.mark.parametrize(
    ("offset", "topic", "partition", "code"),
    [
        (11, "t", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "t", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, "t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_there_is_refused(offset: int, topic: str, partition: int, code: ErrorCode):
    assert delete(state_with_records(), offset, topic=topic, partition=partition) == (-1, code)


def test_records_of_compacted_and_of_internal_topics_are_not_deleted():
    state = make_state()
    state.create_topic(Plan("t", ((0,),), {"cleanup.policy": "compact"}))
    assert delete(state, 0) == (-1, ErrorCode.POLICY_VIOLATION)
    state.create_topic(Plan("__consumer_offsets", ((0,),), {}))
    assert delete(state, 0, topic="__consumer_offsets") == (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_it_holds_over_a_restart_in_kafkas_own_checkpoint():
    storage = MemoryStorage()
    state = state_with_records(storage)
    delete(state, 4)
    assert storage.read_text(ROOT, LOG_STARTS_FILE) == "0\n1\nt 0 4\n"
    state.close(sync=False)
    assert partition_of(make_state(storage)).log.log_start_offset == 4


def test_a_topic_made_anew_under_the_name_starts_at_zero_even_after_a_restart():
    storage = MemoryStorage()
    state = state_with_records(storage)
    delete(state, 4)
    topic = state.catalog.topic("t")
    assert topic is not None
    state.delete_topic(topic)
    state.create_topic(Plan("t", ((0,),), {}))
    assert partition_of(state).log.log_start_offset == 0
    state.close()
    assert partition_of(make_state(storage)).log.log_start_offset == 0


@pytest.mark.parametrize("is_started", [False, True])
def test_the_log_starts_of_one_request_are_written_once(monkeypatch: pytest.MonkeyPatch, *, is_started: bool):
    storage = MemoryStorage()
    state = make_state(storage)
    state.create_topic(Plan("t", ((0,),) * 5, {}))
    partitions = [state.partition(TopicPartition("t", number)) for number in range(5)]
    for partition in partitions:
        assert partition is not None
        append_sent(partition, batch(b"0"))
        append_sent(partition, batch(b"1"))
    written: list[str] = []
    write = storage.write_text

    def note(folder: str, name: str, text: str, **how: bool) -> None:
        written.extend([text] if name == LOG_STARTS_FILE else [])
        write(folder, name, text, **how)

    monkeypatch.setattr(storage, "write_text", note)
    asked = [DeleteRecordsPartition(partition_index=number, offset=1) for number in range(5)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=asked)], timeout_ms=1000)

    async def delete_all() -> None:
        if is_started:
            state.start()
        answer = ask(state, request)
        assert [part.low_watermark for part in answer.topics[0].partitions] == [1] * 5
        assert written == ["0\n5\n" + "".join(f"t {number} 1\n" for number in range(5))], "before the response"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(written) == 1
        state.close()

    asyncio.run(delete_all())


def test_when_it_cannot_be_written_down_it_is_said_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    storage = MemoryStorage()
    state = state_with_records(storage)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write_text", full)
    assert delete(state, 4) == (4, 0)
    assert "Error while writing t-0/leader-epoch-checkpoint in dir memory" in caplog.text
    assert state.is_offline(KEY), "after a restart, the log may start where it did before"
