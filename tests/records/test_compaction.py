"""The offset map of log compaction, compiled and in plain Python: its limits, and the records that it retains."""

from __future__ import annotations

import random

import pytest

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError, UsageError
from kafkaraw.records import HEADER_SIZE, Batch, encode_batch, parse_header
from kafkaraw.records.compaction import OffsetMap
from kafkaraw.records.header import LAYOUT, stamp_crc

SEED = bytes(range(16))
NOW_MS = 1_760_000_000_000


def filled(*keys: bytes, latest_offset: int = 1_000) -> OffsetMap:
    offsets = OffsetMap(90, SEED)
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    offsets.latest_offset = latest_offset
    return offsets


def batch_of(*records: tuple[bytes | None, bytes | None], codec: str = "none", base_offset: int = 0) -> memoryview:
    plain = [(NOW_MS + number, key, value, None) for number, (key, value) in enumerate(records)]
    return memoryview(encode_batch(plain, codec=codec, base_offset=base_offset))


def test_the_last_offset_of_a_key_counts() -> None:
    offsets = filled(b"a", b"b", b"a", b"")
    assert [offsets.get(key) for key in (b"a", b"b", b"", b"c")] == [2, 1, 3, -1]
    assert offsets.keys_count == 3
    offsets.clear()
    assert (offsets.get(b"a"), offsets.keys_count, offsets.latest_offset) == (-1, 0, -1)


def test_the_map_keeps_every_key_while_it_grows() -> None:
    rng = random.Random(7)
    keys = [rng.randbytes(rng.randint(0, 40)) + b"%d" % number for number in range(20_000)]
    offsets = OffsetMap(20_000, SEED)
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
        if offset & offset - 1 == 0:
            assert all(offsets.get(keys[at]) == at for at in range(0, offset + 1, max(1, offset // 50)))
    assert [offsets.get(key) for key in keys] == list(range(len(keys)))
    assert offsets.get(b"other") == -1
    assert offsets.size_bytes <= 20_000 * 24


@pytest.mark.parametrize("keys_max", [100_000, 4_500_000])
def test_a_map_takes_at_most_24_bytes_a_key_at_every_size(keys_max: int) -> None:
    offsets = OffsetMap(keys_max, SEED)
    for number in range(100_000):
        offsets.put(b"%d" % number, number)
        if number >= 20_000:
            assert offsets.size_bytes <= 24 * (number + 1), f"with {number + 1} keys"
    assert all(offsets.get(b"%d" % number) == number for number in range(100_000))


def test_a_map_keeps_offsets_of_63_bits() -> None:
    offsets = OffsetMap(3, SEED)
    for key, offset in ((b"a", 2**63 - 2), (b"b", 2**32 - 1), (b"c", 2**32 - 2)):
        offsets.put(key, offset)
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [2**63 - 2, 2**32 - 1, 2**32 - 2]


@pytest.mark.parametrize("keys_max", [1, 2, 100, 128, 129, 1_000, 1_500])
def test_a_map_of_any_size_takes_all_of_its_keys(keys_max: int) -> None:
    for seed in range(20):
        offsets = OffsetMap(keys_max, bytes([seed]) * 16)
        for _ in range(2):
            for number in range(keys_max):
                offsets.put(b"%d" % number, number)
            assert [offsets.get(b"%d" % number) for number in range(keys_max + 1)] == [*range(keys_max), -1]
            offsets.clear()


def test_a_full_map_refuses_keys() -> None:
    offsets = OffsetMap(3, SEED)
    for number in range(3):
        offsets.put(b"%d" % number, number)
    with pytest.raises(UsageError, match="the offset map has the 3 keys that it has room for"):
        offsets.put(b"3", 3)
    # As Kafka's: a key that it has already does not make it go on.
    batch = batch_of((b"0", b"x"))
    assert not offsets.add_batch(batch, parse_header(batch), 0)


@pytest.mark.parametrize(("keys_max", "seed"), [(0, SEED), (-1, SEED), (5, b"short"), (2**31, SEED)])
def test_impossible_maps_are_refused(keys_max: int, seed: bytes) -> None:
    with pytest.raises(UsageError, match="an offset map cannot have"):
        OffsetMap(keys_max, seed)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_is_added_from_an_offset_on(codec: str) -> None:
    offsets = OffsetMap(90, SEED)
    batch = batch_of((b"a", b"1"), (None, b"2"), (b"b", None), (b"a", b"3"), codec=codec, base_offset=50)
    assert offsets.add_batch(batch, parse_header(batch), 52)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.keys_count, offsets.latest_offset) == (53, 52, 2, 53)


def test_a_batch_that_does_not_fit_is_added_up_to_there() -> None:
    offsets = OffsetMap(2, SEED)
    batch = batch_of((b"a", b""), (b"b", b""), (b"c", b""))
    assert not offsets.add_batch(batch, parse_header(batch), 0)
    assert offsets.latest_offset == 1


def test_the_last_record_of_each_key_is_retained() -> None:
    batch = batch_of((b"a", b"old"), (b"b", b"x"), (None, b"no key"), (b"a", b"new"), (b"c", b"y"), base_offset=0)
    offsets = OffsetMap(90, SEED)
    offsets.put(b"a", 3)
    offsets.put(b"b", 9)
    offsets.latest_offset = 9
    retained = offsets.retain(batch, parse_header(batch))
    assert (retained.records_count, retained.without_key) == (2, 1)
    assert retained.batch is not None
    assert retained.base_timestamp == NOW_MS + 3
    header = parse_header(batch)._replace(
        batch_length=len(retained.batch) - 12, base_timestamp=retained.base_timestamp, records_count=2
    )
    LAYOUT.pack_into(retained.batch, 0, *header)
    stamp_crc(retained.batch)
    read = [
        (one.offset, one.timestamp_ms, one.key, one.value)
        for one in Batch("t", 0, memoryview(retained.batch), start_offset=0)
    ]
    assert read == [(3, NOW_MS + 3, b"a", b"new"), (4, NOW_MS + 4, b"c", b"y")]


def test_a_batch_without_removed_records_stays_as_it_is() -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"2"))
    retained = filled(b"a", b"b").retain(batch, parse_header(batch), horizon_ms=NOW_MS)
    assert (retained.records_count, retained.batch) == (2, None)


def test_records_behind_the_map_are_retained() -> None:
    batch = batch_of((b"a", b"1"), (None, b"2"), (b"a", None))
    retained = filled(b"a", latest_offset=-1).retain(batch, parse_header(batch), tombstones=False)
    assert (retained.records_count, retained.without_key, retained.batch) == (3, 0, None)


def test_a_tombstone_sets_the_delete_horizon_and_is_removed_later() -> None:
    batch = batch_of((b"a", None), (b"b", b"2"))
    offsets = filled(b"a", b"b")
    first = offsets.retain(batch, parse_header(batch), horizon_ms=NOW_MS + 500)
    assert (first.records_count, first.sets_horizon, first.base_timestamp) == (2, True, NOW_MS + 500)
    assert first.max_timestamp == NOW_MS + 1
    later = offsets.retain(batch, parse_header(batch), tombstones=False)
    assert (later.records_count, later.sets_horizon) == (1, False)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_damaged_batch_is_refused(cut: int) -> None:
    batch = bytearray(batch_of(*[(b"key", b"value" * 10)] * 3))
    LAYOUT.pack_into(batch, 0, *parse_header(batch)._replace(batch_length=len(batch) - 12 - cut))
    damaged = memoryview(batch)[: len(batch) - cut]
    offsets = filled(b"key")
    with pytest.raises(CorruptBatchError, match="batch at offset 0: "):
        offsets.add_batch(damaged, parse_header(damaged), 0)
    with pytest.raises(CorruptBatchError, match="batch at offset 0: "):
        offsets.retain(damaged, parse_header(damaged))


def test_a_batch_with_bytes_behind_its_records_is_refused() -> None:
    batch = memoryview(bytes(batch_of((b"a", b"1"))) + b"more")
    with pytest.raises(CorruptBatchError, match="4 bytes are left behind its 1 records"):
        filled().add_batch(batch, parse_header(batch), 0)
    with pytest.raises(CorruptBatchError, match="4 bytes are left behind its 1 records"):
        filled().retain(batch, parse_header(batch))


def test_a_batch_that_grows_too_much_is_refused() -> None:
    batch = batch_of((b"a", bytes(100_000)), codec="zstd")
    with pytest.raises(BatchTooLargeError, match="more than the 1000 bytes allowed"):
        filled().add_batch(batch, parse_header(batch), 0, 1_000)
    with pytest.raises(BatchTooLargeError, match="more than the 1000 bytes allowed"):
        filled().retain(batch, parse_header(batch), size_max_bytes=1_000)


def test_an_empty_batch_has_nothing_to_retain() -> None:
    batch = memoryview(encode_batch([]))
    assert len(batch) == HEADER_SIZE
    assert filled().retain(batch, parse_header(batch), everything=True, horizon_ms=NOW_MS) == (
        0,
        0,
        None,
        -1,
        -1,
        False,
    )
