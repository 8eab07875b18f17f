"""Recovery of a segment: the batches that are kept, the indexes and the state that follow from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.batches import iter_batches, problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.leader_epochs import LeaderEpochs
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import Segment, recover_segment
from kafkaraw.records import ControlType, encode_batch, encode_control_batch


def batch(offset: int, *, records: int = 2, size: int = 100, epoch: int = 0, time: int = 1000, **more: object) -> bytes:
    plain = [(time + each, b"k", bytes(size), ()) for each in range(records)]
    return encode_batch(plain, base_offset=offset, partition_leader_epoch=epoch, **more)  # type: ignore[arg-type]


def marker(kind: ControlType, offset: int, producer_id: int, epoch: int = 0) -> bytes:
    return encode_control_batch(
        kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=3, timestamp_ms=5000, base_offset=offset
    )


def recovered(
    data: bytes, producers: ProducerState | None = None, epochs: LeaderEpochs | None = None, **more
) -> Segment:
    return recover_segment(memoryview(data), "0.log", 0, producers or ProducerState(), epochs or LeaderEpochs(), **more)


LOG = b"".join(batch(2 * number, size=50 * number, time=1000 * (number % 4)) for number in range(8))
STARTS = [at for at, _ in iter_batches(memoryview(LOG), "0.log")]


@given(st.integers(0, len(LOG)))
def test_a_log_that_is_cut_anywhere_keeps_its_whole_batches(size: int):
    segment = recovered(LOG[:size])
    whole = [start for start, end in zip(STARTS, [*STARTS[1:], len(LOG)], strict=True) if end <= size]
    assert segment.batches == len(whole)
    assert segment.next_offset == 2 * len(whole)
    assert segment.valid_bytes == ([*STARTS, len(LOG)])[len(whole)]
    assert (segment.damage is None) == (segment.valid_bytes == size)


@given(st.binary(max_size=200))
def test_any_bytes_behind_a_log_are_cut_off_or_are_batches(tail: bytes):
    segment = recovered(LOG + tail)
    assert segment.valid_bytes >= len(LOG)
    assert (segment.damage is not None) == (segment.valid_bytes < len(LOG + tail))


def test_indexes_have_an_entry_after_each_interval_and_never_for_the_first_batch():
    segment = recovered(LOG, index_interval_bytes=500)
    assert segment.offset_index[0].position > 500
    for entry in segment.offset_index:
        assert entry.offset == 2 * STARTS.index(entry.position) + 1
    assert [(entry.timestamp_ms, entry.offset) for entry in segment.time_index][-1] == (3001, 7)
    times = [entry.timestamp_ms for entry in segment.time_index]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (batch(4) + batch(2), "base offset 2 is below 6"),
        (batch(2**31), "too far above the segment's base offset"),
        (batch(0) + b"\0" * 100, "record size 0 is smaller"),
        (batch(0)[:16] + b"\3" + batch(0)[17:], "magic 3"),
    ],
)
def test_what_no_batch_can_be_ends_the_segment(data: bytes, words: str):
    damage = recovered(data).damage
    assert damage is not None
    assert words in str(damage)


def test_damage_tells_the_offsets_behind_it():
    spoilt = bytearray(LOG)
    spoilt[STARTS[3] + 70] ^= 1
    segment = recovered(bytes(spoilt))
    assert (segment.next_offset, segment.lost) == (6, (6, 15))


def test_leader_epochs_of_batches_are_collected():
    epochs = LeaderEpochs()
    recovered(batch(0, epoch=1) + batch(2, epoch=1) + batch(4, epoch=5), epochs=epochs)
    assert epochs.rows == [(1, 0), (5, 4)]


def test_aborted_transactions_get_the_last_stable_offset_of_their_end():
    state = ProducerState()
    pieces = (
        batch(0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
        batch(2, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True),
        marker(ControlType.ABORT, 4, 1),
        marker(ControlType.ABORT, 5, 2),
        batch(6, producer_id=1, producer_epoch=0, base_sequence=2, transactional=True),
        marker(ControlType.COMMIT, 8, 1),
        batch(9, producer_id=3, producer_epoch=0, base_sequence=0, transactional=True),
    )
    segment = recovered(b"".join(pieces), state)
    assert segment.transactions == [AbortedTransaction(1, 0, 4, 2), AbortedTransaction(2, 2, 5, 6)]
    assert state.first_ongoing_offset == 9
    snapshots = {one.producer_id: one for one in state.snapshots()}
    assert snapshots[1] == ProducerSnapshot(1, 0, 3, 7, 1, 5000, 3, -1)
    assert snapshots[3].transaction_first_offset == 9


def test_a_transaction_that_began_before_a_snapshot_is_followed_to_its_end():
    state = ProducerState([ProducerSnapshot(1, 0, 3, 90, 1, 5000, -1, 80)])
    recovered_segment = recover_segment(
        memoryview(marker(ControlType.ABORT, 100, 1)), "100.log", 100, state, LeaderEpochs()
    )
    assert recovered_segment.transactions == [AbortedTransaction(1, 80, 100, 101)]


def test_a_marker_of_a_newer_epoch_forgets_the_sequences():
    state = ProducerState()
    recovered(batch(0, producer_id=1, producer_epoch=0, base_sequence=0) + marker(ControlType.COMMIT, 2, 1, 1), state)
    assert state.snapshots() == [ProducerSnapshot(1, 1, -1, -1, 0, 5000, 3, -1)]


@given(st.binary(max_size=300), st.integers(0, 50))
def test_any_bytes_are_batches_or_an_error(data: bytes, at: int):
    view = memoryview(data)
    try:
        for position, header in iter_batches(view, "0.log", at):
            problem_of(view, position, header, 0)
    except DamagedFileError as error:
        assert at <= error.position <= len(data)
