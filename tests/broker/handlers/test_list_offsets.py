"""ListOffsets: by timestamp, and by the special ones."""

from __future__ import annotations

import pytest

from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkaraw.records import TopicPartition, encode_batch
from tests.broker.handlers.test_metadata import create
from tests.broker.support import append_sent, ask, make_state


@pytest.fixture
def state():
    made = make_state()
    create(made, "t")
    partition = made.partition(TopicPartition("t", 0))
    for times in ((1000, 2000), (5000, 3000), (4000,)):
        data = bytearray(encode_batch([(time, None, b"v", []) for time in times], codec="gzip"))
        append_sent(partition, memoryview(data))
    return made


def asked(*timestamps: int, topic: str = "t", index: int = 0, **fields) -> ListOffsetsRequest:
    epoch = fields.pop("current_leader_epoch", -1)
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for timestamp in timestamps
    ]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)], **fields)


def answer(state, *timestamps: int, version: int = 11, **fields):
    return ask(state, asked(*timestamps, **fields), version).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (-1, 5)),
        (-2, (-1, 0)),
        (-3, (5000, 2)),
        (-4, (-1, 0)),
        (-5, (-1, -1)),
        (-6, (-1, -1)),
        (0, (1000, 0)),
        (1000, (1000, 0)),
        (1001, (2000, 1)),
        (2001, (5000, 2)),
        (5000, (5000, 2)),
        (5001, (-1, -1)),
    ],
)
def test_a_timestamp_leads_to_an_offset(state, timestamp: int, found: tuple[int, int]):
    got = answer(state, timestamp)
    assert (got.timestamp, got.offset) == found
    assert got.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_knows_both_ends(state, version: int):
    assert answer(state, -1, version=version).offset == 5
    assert answer(state, -2, version=version).offset == 0


def test_committed_readers_end_at_the_last_stable_offset(state):
    assert answer(state, -1, isolation_level=1).offset == 5


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_special_timestamp_needs_its_version(state, timestamp: int, version: int):
    assert answer(state, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_what_does_not_exist_is_said(state):
    assert answer(state, -1, index=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer(state, -1, topic="other").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_asked_for_twice_is_an_invalid_request(state):
    partitions = ask(state, asked(-1, -2)).topics[0].partitions
    assert [part.error_code for part in partitions] == [ErrorCode.INVALID_REQUEST] * 2


def test_an_unknown_leader_epoch_is_said(state):
    assert answer(state, -1, current_leader_epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_empty_partition_has_no_timestamps():
    state = make_state()
    create(state, "t")
    assert [answer(state, timestamp).offset for timestamp in (-1, -2, -3, 0)] == [0, 0, -1, -1]
