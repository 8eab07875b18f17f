"""Sequences of idempotent producers."""

from __future__ import annotations

import pytest

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.partitions.producers import EXPIRY_SWEEP_MS, SEQUENCE_MAX, ProducerTable, add_sequence
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchHeader, ControlType, encode_control_batch, parse_header
from tests.broker.support import NOW_MS, batch

DAY_MS = 86_400_000


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, offset: int = 0) -> BatchHeader:
    data = batch(*[b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return parse_header(data)._replace(base_offset=offset)


def table(*headers: BatchHeader) -> ProducerTable:
    made = ProducerTable(DAY_MS)
    for one in headers:
        assert made.check(one) is None
        made.note(one, NOW_MS)
    return made


def refused(made: ProducerTable, one: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        made.check(one)
    return caught.value.code


def test_sequences_follow_each_other_by_records():
    made = table(header(0, 3), header(3, 2))
    assert made.check(header(5)) is None


def test_a_producer_that_is_not_known_may_start_anywhere():
    assert table().check(header(41)) is None


@pytest.mark.parametrize("sequence", [0, 4, 6, 100])
def test_a_gap_or_a_step_back_is_out_of_order(sequence: int):
    made = table(header(0, 3), header(3, 2))
    assert refused(made, header(sequence, 7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_known_again_with_its_offset():
    batches = [header(at, offset=100 + at) for at in range(6)]
    made = table(*batches)
    for one in batches[1:]:
        found = made.check(one)
        assert found is not None
        assert found.base_offset == one.base_offset
    assert refused(made, batches[0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero():
    made = table(header(0, epoch=3))
    assert refused(made, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(made, header(1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.check(header(0, epoch=4)) is None
    made.note(header(0, epoch=4), NOW_MS)
    assert refused(made, header(1, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert made.check(header(1, epoch=4)) is None


def test_sequences_wrap_around_to_zero():
    assert add_sequence(SEQUENCE_MAX, 1) == 0
    made = table(header(SEQUENCE_MAX - 1, 4))
    assert made.check(header(2)) is None
    assert made.check(header(SEQUENCE_MAX - 1, 4)) is not None


def test_producers_do_not_disturb_each_other():
    made = table(header(0, producer_id=1), header(0, producer_id=2))
    assert made.check(header(1, producer_id=1)) is None
    assert len(made) == 2


def test_batches_without_a_producer_leave_no_trace():
    made = ProducerTable(DAY_MS)
    made.note(parse_header(batch(b"v")), NOW_MS)
    assert len(made) == 0


def test_a_producer_idle_for_too_long_is_forgotten():
    made = table(header(0, producer_id=1))
    later = NOW_MS + DAY_MS + EXPIRY_SWEEP_MS
    made.note(header(0, producer_id=2)._replace(max_timestamp=later), later)
    assert len(made) == 1
    assert made.check(header(9, producer_id=1)) is None


def test_a_producer_of_old_records_is_known_until_idle_producers_expire():
    made = ProducerTable(DAY_MS)
    old = header(0)._replace(max_timestamp=5)
    made.note(old, NOW_MS)
    assert made.check(old) is not None
    assert refused(made, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    made.note(header(0, producer_id=8), NOW_MS + EXPIRY_SWEEP_MS)
    assert [producer_id for producer_id, _ in made.describe()] == [8]


def test_a_producer_is_not_forgotten_while_it_has_an_open_transaction():
    made = ProducerTable(DAY_MS, {1: 40}.get)
    for producer_id in (1, 3):
        made.note(header(0, producer_id=producer_id), NOW_MS)
    later = NOW_MS + DAY_MS + EXPIRY_SWEEP_MS
    made.note(header(0, producer_id=2)._replace(max_timestamp=later), later)
    assert [producer_id for producer_id, _ in made.describe()] == [1, 2]


def test_a_producer_snapshot_detects_duplicates_and_gaps():
    made = ProducerTable(DAY_MS, {7: 90}.get)
    made.note(header(0, 3, offset=100), NOW_MS)
    made.note(header(3, 2, offset=103), NOW_MS)
    (written,) = made.snapshots()
    assert written == ProducerSnapshot(7, 0, 4, 104, 1, NOW_MS, -1, 90)
    again = table()
    again.restore(written, NOW_MS)
    repeated = again.check(header(3, 2))
    assert repeated is not None and repeated.base_offset == 103
    assert refused(again, header(0, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "only its last batch is kept"
    assert refused(again, header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert again.check(header(5)) is None


def test_an_epoch_without_batches_and_a_coordinators_are_written_down_too():
    made = table(header(0, 5, epoch=3))
    made.note(marker(4), NOW_MS, coordinator_epoch=6)
    (written,) = made.snapshots()
    assert written == ProducerSnapshot(7, 4, -1, -1, 0, NOW_MS, 6, -1)
    again = table()
    again.restore(written, NOW_MS)
    assert refused(again, header(5, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(again, header(5, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert fate_of(again, epoch=4, coordinator_epoch=5) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_sequences_that_wrapped_are_written_down():
    made = table(header(SEQUENCE_MAX - 1, 4, offset=10))
    again = table()
    again.restore(next(made.snapshots()), NOW_MS)
    assert again.check(header(SEQUENCE_MAX - 1, 4)) is not None
    assert again.check(header(2)) is None


def test_what_was_written_down_yields_to_the_log_and_expires():
    made = table(header(5, 1, offset=9))
    made.restore(ProducerSnapshot(7, 0, 3, 4, 0, NOW_MS, -1, -1), NOW_MS)
    assert made.check(header(6)) is None
    late = NOW_MS + DAY_MS
    made.restore(ProducerSnapshot(8, 0, 3, 4, 0, NOW_MS, -1, -1), late)
    made.restore(ProducerSnapshot(9, 0, 3, 4, 0, NOW_MS, -1, 4), late)
    assert [producer_id for producer_id, _ in made.describe()] == [7, 9]


def marker(epoch: int) -> BatchHeader:
    data = encode_control_batch(
        ControlType.COMMIT, producer_id=7, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    return parse_header(memoryview(data))


def test_the_epoch_that_a_marker_begins_starts_at_zero():
    made = table(header(0, 5, epoch=3))
    made.note(marker(4), NOW_MS)
    assert refused(made, header(5, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.check(header(0, epoch=4)) is None


def test_a_marker_of_the_same_epoch_leaves_the_sequences_alone():
    made = table(header(0, 5, epoch=3))
    made.note(marker(3), NOW_MS)
    assert made.check(header(5, epoch=3)) is None


def fate_of(made: ProducerTable, *, epoch: int, coordinator_epoch: int) -> ErrorCode:
    try:
        made.check_marker(7, epoch, coordinator_epoch)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_a_marker_of_an_older_coordinator_is_fenced_once_a_later_one_has_ended_a_transaction():
    made = table(header(0, 5, epoch=3))
    made.note(marker(3), NOW_MS, coordinator_epoch=6)
    made.note(header(5, epoch=3), NOW_MS)
    assert fate_of(made, epoch=3, coordinator_epoch=5) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert fate_of(made, epoch=3, coordinator_epoch=6) is ErrorCode.NONE
    made.note(marker(4), NOW_MS, coordinator_epoch=6)
    made.note(header(0, epoch=5), NOW_MS)
    assert fate_of(made, epoch=5, coordinator_epoch=5) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert fate_of(made, epoch=4, coordinator_epoch=7) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("bumps_epochs", [False, True])
def test_a_batch_does_not_take_the_place_of_one_that_was_turned_away_before(bumps_epochs: bool):
    made = table()
    made.attempted(header(0, 5), NOW_MS, bumps_epochs=bumps_epochs)
    made.attempted(header(5), NOW_MS, bumps_epochs=bumps_epochs)
    assert refused(made, header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    made.note(header(0, 5), NOW_MS)
    assert made.check(header(5)) is None


def test_the_first_batch_of_a_transaction_with_an_epoch_of_its_own_has_sequence_zero():
    made = table()
    made.attempted(header(8), NOW_MS, bumps_epochs=True)
    assert refused(made, header(8)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    made.attempted(header(8, producer_id=8), NOW_MS, bumps_epochs=False)
    assert made.check(header(8, producer_id=8)) is None


def test_a_repetition_or_an_older_epoch_holds_nothing_up():
    made = table(header(0, 5, epoch=1), header(5, epoch=1))
    made.attempted(header(0, 5, epoch=1), NOW_MS, bumps_epochs=False)
    assert made.check(header(6, epoch=1)) is None
    made.attempted(header(6, epoch=1), NOW_MS, bumps_epochs=False)
    made.attempted(header(2, epoch=0), NOW_MS, bumps_epochs=False)
    assert made.check(header(6, epoch=1)) is None


def test_what_was_tried_is_forgotten_with_time():
    made = table()
    made.attempted(header(0, producer_id=8), NOW_MS, bumps_epochs=True)
    made.note(header(0), NOW_MS + DAY_MS + EXPIRY_SWEEP_MS)
    assert made.check(header(3, producer_id=8)) is None
