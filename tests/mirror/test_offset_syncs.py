"""Offset syncs: their bytes, when they are written, and what MirrorMaker makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import TopicPartition
from kafkaraw.errors import ProtocolError
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.mapping import Translation
from kafkaraw.mirror.offset_syncs import OffsetSync, SyncSchedule, translated

ORDERS = TopicPartition("orders", 0)
OFFSETS = st.integers(-(2**63), 2**63 - 1)


def batch(source: range, target: int, of: TopicPartition = ORDERS) -> CopiedBatch:
    return CopiedBatch(of, TopicPartition(f"east.{of.topic}", of.partition), source, (source,), target)


@given(st.text(max_size=50), st.integers(0, 2**31 - 1), OFFSETS, OFFSETS)
def test_an_offset_sync_is_read_as_it_was_written(topic: str, partition: int, upstream: int, downstream: int) -> None:
    sync = OffsetSync(TopicPartition(topic, partition), upstream, downstream)
    assert OffsetSync.of_record(sync.key, sync.value) == sync


def test_the_bytes_of_an_offset_sync_are_those_of_mirrormaker() -> None:
    sync = OffsetSync(TopicPartition("ab", 3), 5, 7)
    assert sync.key == b"\0\2ab\0\0\0\3"
    assert sync.value == bytes(7) + b"\5" + bytes(7) + b"\7"


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0\5ab", bytes(16)), (b"\0\2ab\0\0\0\3", b"x"), (b"\0\2ab\0\0\0\3", None)]
)
def test_a_record_of_another_form_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError, match="is no offset sync"):
        OffsetSync.of_record(key, value)


def test_the_first_batch_and_each_step_of_the_difference_are_due() -> None:
    schedule = SyncSchedule(100)
    schedule.add(batch(range(10), 0))
    assert schedule.take() == [OffsetSync(ORDERS, 9, 9)]
    schedule.add(batch(range(10, 20), 10))
    assert schedule.take() == []
    schedule.add(batch(range(25, 30), 20))
    assert schedule.take() == [OffsetSync(ORDERS, 29, 24)]


def test_a_sync_is_due_after_the_largest_lag_and_others_when_nothing_else_happens() -> None:
    schedule = SyncSchedule(100)
    schedule.add(batch(range(1), 0))
    schedule.take()
    schedule.add(batch(range(1, 100), 1))
    assert schedule.take() == []
    schedule.add(batch(range(100, 150), 100))
    assert schedule.take() == [OffsetSync(ORDERS, 149, 149)]
    schedule.add(batch(range(150, 160), 150))
    assert schedule.take() == []
    assert schedule.take(delayed=True) == [OffsetSync(ORDERS, 159, 159)]
    assert schedule.take(delayed=True) == []


def test_only_the_newest_sync_of_a_partition_is_kept() -> None:
    schedule = SyncSchedule(0)
    for start in range(0, 50, 10):
        schedule.add(batch(range(start, start + 10), start))
    schedule.add(batch(range(3), 5, TopicPartition("orders", 1)))
    schedule.add(CopiedBatch(ORDERS, ORDERS, range(50, 51), (), 50))
    assert schedule.take() == [OffsetSync(ORDERS, 49, 49), OffsetSync(TopicPartition("orders", 1), 2, 7)]


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (9, None),
        (10, Translation(110, is_exact=True)),
        (11, Translation(111, is_exact=True)),
        (15, Translation(111, is_exact=False)),
        (20, Translation(120, is_exact=True)),
        (99, Translation(121, is_exact=False)),
    ],
)
def test_an_offset_is_translated_as_mirrormaker_does(offset: int, found: Translation | None) -> None:
    assert translated([OffsetSync(ORDERS, 10, 110), OffsetSync(ORDERS, 20, 120)], offset) == found


def test_syncs_from_before_a_source_that_has_begun_anew_are_not_used() -> None:
    syncs = [OffsetSync(ORDERS, 10, 110), OffsetSync(ORDERS, 0, 200)]
    assert translated(syncs, 10) == Translation(201, is_exact=False)
