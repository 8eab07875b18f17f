"""Checkpoints and heartbeats: their bytes, which are written, and which offsets are committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import OffsetAndMetadata, TopicPartition
from kafkaraw.client.admin import GroupState
from kafkaraw.errors import ProtocolError
from kafkaraw.mirror.checkpoints import Checkpoint, CheckpointLog, Heartbeat, offsets_to_commit
from kafkaraw.mirror.mapping import Translation

COPY = TopicPartition("east.orders", 0)
TEXTS = st.text(max_size=50)
OFFSETS = st.integers(-(2**63), 2**63 - 1)


@given(TEXTS, TEXTS, st.integers(0, 2**31 - 1), OFFSETS, OFFSETS, TEXTS)
def test_a_checkpoint_is_read_as_it_was_written(
    group_id: str, topic: str, partition: int, upstream: int, downstream: int, metadata: str
) -> None:
    each = Checkpoint(group_id, TopicPartition(topic, partition), upstream, downstream, metadata)
    assert Checkpoint.of_record(each.key, each.value) == each


@given(TEXTS, TEXTS, OFFSETS)
def test_a_heartbeat_is_read_as_it_was_written(source: str, target: str, timestamp_ms: int) -> None:
    each = Heartbeat(source, target, timestamp_ms)
    assert Heartbeat.of_record(each.key, each.value) == each


def test_the_bytes_are_those_of_mirrormaker() -> None:
    each = Checkpoint("g", TopicPartition("ab", 3), 5, 7, "m")
    assert each.key == b"\0\1g\0\2ab\0\0\0\3"
    assert each.value == b"\0\0" + bytes(7) + b"\5" + bytes(7) + b"\7\0\1m"
    beat = Heartbeat("a", "bc", 9)
    assert (beat.key, beat.value) == (b"\0\1a\0\2bc", b"\0\0" + bytes(7) + b"\x09")


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"\0\1g", bytes(20)), (b"\0\1g\0\1t\0\0\0\1", b"\0\0")])
def test_a_record_of_another_form_is_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ProtocolError, match="is no checkpoint"):
        Checkpoint.of_record(key, value)
    with pytest.raises(ProtocolError, match="heartbeat"):
        Heartbeat.of_record(key, value[:2])


def test_a_version_that_is_not_known_is_refused() -> None:
    each = Checkpoint("g", COPY, 5, 7)
    with pytest.raises(ProtocolError, match="group 'g' has the version 1, not 0"):
        Checkpoint.of_record(each.key, b"\0\1" + each.value[2:])
    beat = Heartbeat("a", "b", 9)
    with pytest.raises(ProtocolError, match="a->b has the version 1, not 0"):
        Heartbeat.of_record(beat.key, b"\0\1" + beat.value[2:])


@pytest.mark.parametrize(
    ("upstream", "downstream", "is_new"),
    [(10, 10, False), (11, 11, True), (9, 9, True), (11, 10, False), (12, 9, False)],
)
def test_a_checkpoint_is_written_if_the_group_has_moved(upstream: int, downstream: int, is_new: bool) -> None:
    log = CheckpointLog([Checkpoint("g", COPY, 10, 10)])
    each = Checkpoint("g", COPY, upstream, downstream)
    assert log.new([(each, Translation(downstream, is_exact=False))]) == ([each] if is_new else [])


def test_a_checkpoint_that_is_ahead_of_the_exact_offset_is_replaced() -> None:
    log = CheckpointLog([Checkpoint("g", COPY, 10, 20)])  # of an earlier copy
    each, same = Checkpoint("g", COPY, 10, 12), Checkpoint("g", COPY, 10, 20)
    assert log.new([(each, Translation(12, is_exact=True)), (same, Translation(20, is_exact=True))]) == [each]


def test_a_checkpoint_counts_as_written_only_when_it_is() -> None:
    log, each = CheckpointLog(), Checkpoint("g", COPY, 10, 10)
    translated = each, Translation(10, is_exact=True)
    assert log.new([translated]) == log.new([translated]) == [each]
    log.wrote([each])
    assert log.new([translated]) == []


@pytest.mark.parametrize(
    ("state", "current", "is_committed"),
    [
        (None, None, True),
        (GroupState.EMPTY, None, True),
        (GroupState.EMPTY, 6, True),
        (GroupState.EMPTY, 7, False),
        (GroupState.EMPTY, 8, False),
        (GroupState.DEAD, 6, True),
        (GroupState.STABLE, 6, False),
        (GroupState.PREPARING_REBALANCE, None, False),
        (GroupState.UNKNOWN, None, False),
    ],
)
def test_offsets_are_committed_for_groups_without_members_and_only_forwards(
    state: GroupState | None, current: int | None, is_committed: bool
) -> None:
    states = {} if state is None else {"g": state}
    committed = {} if current is None else {"g": {COPY: OffsetAndMetadata(current)}}
    found = offsets_to_commit([Checkpoint("g", COPY, 5, 7, "m")], states, committed)
    assert found == ({"g": {COPY: OffsetAndMetadata(7, "m")}} if is_committed else {})
