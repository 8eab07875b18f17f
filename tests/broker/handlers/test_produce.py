"""Produce: partitions fail one by one, acks=0 is silent, ids replace names in version 13."""

from __future__ import annotations

import pytest

from kafkaraw.broker.refusal import CloseConnection
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import TopicPartition
from tests.broker.handlers.test_metadata import create
from tests.broker.support import ask, batch, make_state


def request(
    state, *records: bytes | None, topic: str = "t", acks: int = -1, topic_id: Uuid | None = None
) -> ProduceRequest:
    """One batch for each partition from 0 on."""
    known = state.catalog.topic(topic)
    if topic_id is None:
        topic_id = ZERO_UUID if known is None else known.topic_id
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    )


def outcomes(answer) -> list[tuple[ErrorCode, int]]:
    partitions = answer.responses[0].partition_responses
    return [(ErrorCode(part.error_code), part.base_offset) for part in partitions]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_tells_the_offset(version: int):
    state = make_state()
    create(state, "t", partitions=2)
    for offset in (0, 2):
        answer = ask(state, request(state, batch(b"a", b"b"), batch(b"c", b"d")), version)
        assert outcomes(answer) == [(ErrorCode.NONE, offset)] * 2
    assert answer.responses[0].partition_responses[0].log_append_time_ms == -1
    assert state.partition(TopicPartition("t", 1)).high_watermark == 4


def test_one_bad_partition_does_not_stop_the_others():
    state = make_state()
    create(state, "t", partitions=2)
    answer = ask(state, request(state, batch(b"a"), b"nonsense", batch(b"b")))
    assert outcomes(answer) == [
        (ErrorCode.NONE, 0),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert "header of a batch" in answer.responses[0].partition_responses[1].error_message


def test_an_unknown_topic_is_not_created_by_producing():
    state = make_state()
    assert outcomes(ask(state, request(state, batch(b"a")), 12)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    unknown = request(state, batch(b"a"), topic_id=Uuid(b"x" * 16))
    assert outcomes(ask(state, unknown, 13)) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1)]
    assert state.catalog.topics() == []


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_are_refused(acks: int):
    state = make_state()
    create(state, "t")
    answer = ask(state, request(state, batch(b"a"), acks=acks))
    assert outcomes(answer) == [(ErrorCode.INVALID_REQUIRED_ACKS, -1)]
    assert state.partition(TopicPartition("t", 0)).high_watermark == 0


def test_without_acks_there_is_no_answer():
    state = make_state()
    create(state, "t")
    assert ask(state, request(state, batch(b"a"), acks=0)) is None
    assert state.partition(TopicPartition("t", 0)).high_watermark == 1


def test_without_acks_an_error_closes_the_connection():
    state = make_state()
    create(state, "t")
    with pytest.raises(CloseConnection, match="UNKNOWN_TOPIC_OR_PARTITION"):
        ask(state, request(state, batch(b"a"), batch(b"b"), acks=0))


def test_the_brokers_timestamp_is_told_when_it_counts():
    state = make_state(log_message_timestamp_type="LogAppendTime")
    create(state, "t")
    answer = ask(state, request(state, batch(b"a")))
    assert answer.responses[0].partition_responses[0].log_append_time_ms == state.clock.time_ms()
