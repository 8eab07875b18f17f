"""Which batches are sent as they are, what of their headers changes, and what is written record by record."""

from __future__ import annotations

import pytest

from kafkaraw.errors import CorruptBatchError
from kafkaraw.mirror.batches import (
    TargetLimits,
    Treatment,
    groups_of,
    pieces,
    rewritten,
    runs_of,
    some_of,
    treatment_of,
    verbatim,
)
from kafkaraw.records import (
    Batch,
    TopicPartition,
    Wire,
    encode_batch,
    encode_control_batch,
    parse_header,
    patch_header,
    unpack_header,
    verify_crc,
)
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import DELETE_HORIZON_BIT, TIMESTAMP_TYPE_BIT, set_attribute, stamp_crc
from kafkaraw.records.promise import BatchPromise
from kafkaraw.records.sealed import WireBatch

PARTITION = TopicPartition("orders", 3)
ANY = TargetLimits()


def wire_of(count: int = 5, *, base_offset: int = 100, codec: str = "lz4", **settings: object) -> Wire:
    records = [(1_000 + number, b"k%d" % number, b"v%d" % number, [("n", None)]) for number in range(count)]
    encoded = encode_batch(records, codec=codec, base_offset=base_offset, partition_leader_epoch=7, **settings)
    batch = memoryview(bytearray(encoded))
    return parse_header(batch), batch


def with_gap() -> Wire:
    """Return a batch whose last record was compacted away: its offsets are those of six records, it has five."""
    _, batch = wire_of()
    batch[23:27] = (5).to_bytes(4, "big")
    stamp_crc(batch)
    return parse_header(batch), batch


def appended() -> Wire:
    _, batch = wire_of()
    patch_header(batch, max_timestamp=9_000)
    return parse_header(batch), batch


def no_waiter() -> BatchPromise:
    return BatchPromise(*PARTITION, None)  # type: ignore[arg-type]


def test_only_whole_batches_of_the_current_format_are_sent_as_they_are() -> None:
    header, _ = wire_of()
    assert treatment_of(header, 0, ANY) is Treatment.VERBATIM
    assert treatment_of(header, 100, ANY) is Treatment.VERBATIM
    assert treatment_of(header, 101, ANY) is Treatment.REWRITE
    assert treatment_of(header, 105, ANY) is Treatment.SKIP
    assert treatment_of(with_gap()[0], 0, ANY) is Treatment.REWRITE
    assert treatment_of(header._replace(magic=1), 0, ANY) is Treatment.REWRITE
    assert treatment_of(header._replace(records_count=0), 0, ANY) is Treatment.SKIP
    marker = encode_control_batch(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    assert treatment_of(unpack_header(marker), 0, ANY) is Treatment.SKIP


def test_append_times_are_kept_unless_the_copy_has_its_own() -> None:
    header, _ = appended()
    assert treatment_of(header, 0, ANY) is Treatment.REWRITE
    assert treatment_of(header, 0, TargetLimits.of({"message.timestamp.type": "LogAppendTime"})) is Treatment.VERBATIM
    (new,) = rewritten(PARTITION, [appended()], 0, ANY)
    assert [record.timestamp_ms for record in _records(new.builder.finish(new.codec, None))] == [9_000] * 5


def test_batches_above_the_limit_are_divided() -> None:
    wire = wire_of(40, codec="none")
    limits = TargetLimits.of({"max.message.bytes": str(len(wire[1]) - 1)})
    assert treatment_of(wire[0], 0, limits) is Treatment.REWRITE
    assert treatment_of(wire[0], 0, TargetLimits(len(wire[1]))) is Treatment.VERBATIM
    parts = list(rewritten(PARTITION, [wire], 0, TargetLimits(300)))
    assert len(parts) > 1
    assert [offset for part in parts for run in part.runs for offset in run] == list(range(100, 140))
    assert all(part.builder.size_bytes <= 300 for part in parts)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_verbatim_batch_has_other_numbers_and_the_same_records(codec: str) -> None:
    header, batch = wire_of(codec=codec, producer_id=42, producer_epoch=3, base_sequence=17, transactional=True)
    set_attribute(batch, DELETE_HORIZON_BIT)
    stamp_crc(batch)
    wire = parse_header(batch), batch
    payload = bytes(batch[61:])
    sealed = WireBatch(verbatim(wire), no_waiter(), created_ms=0)
    encoded = sealed.encode(7, 1, 50, transactional=False)
    verify_crc(encoded)
    sent = parse_header(encoded)
    assert (sent.producer_id, sent.producer_epoch, sent.base_sequence, sent.is_transactional) == (7, 1, 50, False)
    assert (sent.base_offset, sent.partition_leader_epoch, sent.has_delete_horizon) == (0, -1, False)
    assert (sent.base_timestamp, sent.max_timestamp) == (header.base_timestamp, header.max_timestamp)
    assert (sent.codec_id, sent.records_count, bytes(encoded[61:])) == (header.codec_id, 5, payload)
    assert sealed.released, "it counts for no buffer memory"


def test_retry_with_other_numbers_does_not_change_bytes_in_flight() -> None:
    sealed = WireBatch(verbatim(wire_of()), no_waiter(), created_ms=0)
    first = sealed.encode(7, 1, 50, transactional=True)
    before = bytes(first)
    assert sealed.encode(7, 1, 50, transactional=True) is first
    second = sealed.encode(7, 2, 0, transactional=True)
    assert bytes(first) == before
    assert parse_header(second).producer_epoch == 2
    verify_crc(second)


def test_damaged_batch_is_refused() -> None:
    header, batch = wire_of()
    batch[80] ^= 1
    with pytest.raises(CorruptBatchError, match="offset 100"):
        verbatim((header, batch))


def test_batch_of_a_read_only_buffer_is_copied() -> None:
    header, batch = wire_of()
    kept = bytes(batch)
    sealed = WireBatch(verbatim((header, memoryview(kept))), no_waiter(), created_ms=0)
    verify_crc(sealed.encode(1, 0, 0))
    assert unpack_header(kept).base_offset == 100


def test_rewritten_batch_keeps_records_and_leaves_out_earlier_ones() -> None:
    (new,) = rewritten(PARTITION, [with_gap()], 102, ANY)
    assert new.runs == (range(102, 105),)
    records = _records(new.builder.finish(new.codec, None))
    assert [(record.offset, record.key, record.value, record.timestamp_ms) for record in records] == [
        (number, b"k%d" % (number + 2), b"v%d" % (number + 2), 1_002 + number) for number in range(3)
    ]
    assert [list(record.headers) for record in records] == [[("n", None)]] * 3


def test_small_batches_become_one_and_large_ones_stay() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, base_offset=103, coordinator_epoch=0, timestamp_ms=0
    )
    wires = [
        wire_of(1, base_offset=100),
        wire_of(2, base_offset=101),
        (parse_header(marker), memoryview(marker)),
        wire_of(1, base_offset=104),
        wire_of(17, base_offset=105),  # has too many records
        wire_of(1, base_offset=122),
        wire_of(1, base_offset=123, codec="gzip"),
        wire_of(1, base_offset=124, codec="gzip"),
    ]
    groups = list(groups_of(wires, 0, ANY))
    assert [(group.treatment, [header.base_offset for header, _ in group.wires]) for group in groups] == [
        (Treatment.REWRITE, [100, 101, 104]),
        (Treatment.VERBATIM, [105]),
        (Treatment.VERBATIM, [122]),
        (Treatment.REWRITE, [123, 124]),
    ]
    (new,) = rewritten(PARTITION, groups[0].wires, 0, ANY)
    assert new.runs == (range(100, 103), range(104, 105))
    keys = [record.key for record in _records(new.builder.finish(new.codec, None))]
    assert keys == [b"k0", b"k0", b"k1", b"k0"]
    alone = list(groups_of(wires, 0, ANY, joins=False))
    assert [len(group.wires) for group in alone] == [1] * 7


def test_groups_of_small_batches_have_a_limit() -> None:
    wires = [wire_of(1, base_offset=number) for number in range(10_000)]
    groups = list(groups_of(wires, 0, ANY))
    sizes = [sum(len(data) for _, data in group.wires) for group in groups]
    assert len(groups) > 1
    assert max(sizes) <= 256 << 10 < sizes[0] + len(wires[0][1])
    assert [header.base_offset for group in groups for header, _ in group.wires] == list(range(10_000))


def test_small_batches_before_a_damaged_one_are_sent() -> None:
    _, data = wires = wire_of(1, base_offset=102)
    damaged = bytearray(data)
    damaged[-1] ^= 1
    groups = groups_of([wire_of(1), wire_of(1, base_offset=101), (wires[0], memoryview(damaged))], 0, ANY)
    assert len(next(groups).wires) == 2
    with pytest.raises(CorruptBatchError):
        next(groups)


def test_what_is_taken_at_once_has_a_limit_and_the_rest_stays_in_hand() -> None:
    wires = [wire_of(5, base_offset=offset) for offset in (100, 110, 115)]
    first = Batch(*PARTITION, wires, start_offset=100)
    other = Batch("orders", 4, [wire_of(5, base_offset=7)], start_offset=9)
    size = len(first.wires[0][1])
    some, left = some_of([first, other], 4 * size)
    assert [header.base_offset for header, _ in some[PARTITION].wires] == [100, 110]
    assert some[other.topic_partition] is other
    assert [(batch.topic_partition, batch.start_offset, len(batch.wires)) for batch in left] == [(PARTITION, 115, 1)]
    some, left = some_of([first, other], 1)
    assert [len(batch.wires) for batch in some.values()] == [1, 1]
    assert [batch.start_offset for batch in left] == [105]
    assert some_of([], 1) == ({}, [])


def test_runs_of_offsets() -> None:
    runs = runs_of([1, 2, 3, 7, 9, 10])
    assert runs == (range(1, 4), range(7, 8), range(9, 11))
    assert runs_of([]) == ()
    assert pieces(runs, 2, 3) == (range(3, 4), range(7, 8), range(9, 10))
    assert pieces(runs, 5, 9) == (range(10, 11),)


def test_timestamp_bit_is_cleared_where_the_copy_stamps_anew() -> None:
    _, batch = verbatim(appended())
    assert not parse_header(batch).attributes & TIMESTAMP_TYPE_BIT


def _records(encoded: memoryview) -> list[object]:
    batch = memoryview(bytearray(encoded))
    stamp_crc(batch)
    return list(Batch("copy", 0, batch, start_offset=0))
