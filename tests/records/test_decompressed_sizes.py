"""What a few hostile bytes become: one batch at a time is decompressed, or about as much as was asked for."""

from __future__ import annotations

import functools
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.records import ARROW_DATA_BYTES, Batch, Columns, encode_batch
from kafkaraw.records.compression import codec_by_name
from tests.records.test_legacy import message, wrapper

MIB = 1 << 20
BATCH_BYTES = 2 * MIB
BATCHES = 20
ROWS_PER_BATCH = 2
LARGE_BYTES = 24 * MIB


@functools.cache
def bombs(codec: str = "zstd") -> bytes:
    """Batches of zeros, which compress well."""
    bomb = encode_batch([(0, None, bytes(BATCH_BYTES // ROWS_PER_BATCH), None)] * ROWS_PER_BATCH, codec=codec)
    return b"".join(struct.pack(">q", ROWS_PER_BATCH * number) + bomb[8:] for number in range(BATCHES))


@functools.cache
def old_bombs(magic: int) -> bytes:
    """The same as compressed messages of an old format."""
    return b"".join(
        wrapper(number, message(number if magic == 0 else 0, value=bytes(BATCH_BYTES), magic=magic), magic=magic)
        for number in range(BATCHES)
    )


def batch(data: bytes, **settings: int) -> Batch:
    return Batch("t", 3, memoryview(data), start_offset=0, **settings)


@contextmanager
def memory_bytes() -> Iterator[Callable[[], int]]:
    """Gives the most memory that Python objects took meanwhile."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_large_batch_is_in_memory_once_while_it_is_decompressed(codec: str) -> None:
    """Joining its parts took the same again."""
    used = codec_by_name(codec)
    data = used.compress(bytes(LARGE_BYTES), None)
    with memory_bytes() as most:
        made = used.decompress(data, 2 * LARGE_BYTES)
        assert most() < 1.75 * LARGE_BYTES
    assert made == bytes(LARGE_BYTES)


def test_large_batches_do_not_stay_with_the_last_records() -> None:
    one = encode_batch([(0, None, bytes(LARGE_BYTES), None)], codec="zstd")
    data = b"".join(struct.pack(">q", number) + one[8:] for number in range(5))
    with memory_bytes() as most:
        assert sum(len(record.value or b"") for record in batch(data)) == 5 * LARGE_BYTES
        assert most() < 4 * LARGE_BYTES


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_of_an_old_format_is_not_decompressed_before_it_is_read(magic: int) -> None:
    data = old_bombs(magic)
    with memory_bytes() as most:
        made = batch(data)
        assert made.next_offset == BATCHES
        assert made.records_count == BATCHES
        assert most() < MIB


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_messages_of_old_formats_are_decompressed_one_at_a_time(magic: int) -> None:
    data = old_bombs(magic)
    with memory_bytes() as most:
        assert [len(record.value or b"") for record in batch(data)] == [BATCH_BYTES] * BATCHES
        assert most() < BATCHES // 2 * BATCH_BYTES


def test_the_first_records_of_old_messages_are_counted() -> None:
    inner = b"".join(message(number, b"") for number in range(4))
    data = wrapper(103, inner) + wrapper(107, inner)
    head = batch(data).first(6)
    assert [record.offset for record in head] == [100, 101, 102, 103, 104, 105]
    assert (head.next_offset, head.records_count) == (106, 6)


def filled(data: bytes, data_max_bytes: int) -> list[int]:
    """How many rows each call of `fill` gives."""
    rest: Batch | None = batch(data)
    counts = []
    while rest is not None:
        columns = Columns(frozenset({"offset", "value"}))
        rows, rest = rest.fill(columns, data_max_bytes=data_max_bytes)
        assert columns.offset is not None
        assert list(columns.offset) == list(range(sum(counts), sum(counts) + rows))
        counts.append(rows)
    assert sum(counts) == BATCHES * ROWS_PER_BATCH
    return counts


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_columns_are_filled_up_to_a_number_of_decompressed_bytes(codec: str) -> None:
    data = bombs(codec)
    assert filled(data, 1) == [ROWS_PER_BATCH] * BATCHES
    assert filled(data, 3 * BATCH_BYTES) == [3 * ROWS_PER_BATCH] * 6 + [2 * ROWS_PER_BATCH]
    assert filled(data, 100 * BATCH_BYTES) == [BATCHES * ROWS_PER_BATCH]


def test_columns_of_old_messages_are_filled_up_to_a_number_of_decompressed_bytes() -> None:
    rest: Batch | None = batch(old_bombs(1))
    with memory_bytes() as most:
        offsets = []
        while rest is not None:
            columns = Columns(frozenset({"offset"}))
            _, rest = rest.fill(columns, data_max_bytes=2 * BATCH_BYTES)
            offsets += list(columns.offset or ())
        assert offsets == list(range(BATCHES))
        assert most() < 12 * BATCH_BYTES


def test_a_rest_keeps_the_end_of_its_batch() -> None:
    head = batch(bombs()).first(3)
    _, rest = head.fill(Columns(), data_max_bytes=1)
    assert rest is not None
    assert [record.offset for record in rest] == [2]
    assert rest.fill(Columns(), data_max_bytes=1) == (1, None)


def test_arrow_batches_are_cut_by_decompressed_bytes() -> None:
    pytest.importorskip("pyarrow")
    data = bombs()
    with memory_bytes() as most:
        sizes, rows = [], 0
        for converted in batch(data).arrow_batches(["offset", "value"]):
            sizes.append(converted.nbytes)
            rows += converted.num_rows
        assert rows == BATCHES * ROWS_PER_BATCH
        assert max(sizes) <= ARROW_DATA_BYTES + BATCH_BYTES
        assert most() < 6 * ARROW_DATA_BYTES


def test_an_empty_batch_is_one_empty_arrow_batch() -> None:
    pytest.importorskip("pyarrow")
    assert [converted.num_rows for converted in batch(b"").arrow_batches()] == [0]


def test_one_arrow_batch_of_all_records_holds_them_and_little_else() -> None:
    pytest.importorskip("pyarrow")
    data = bombs()
    with memory_bytes() as most:
        assert batch(data).to_arrow(["value"]).nbytes >= BATCHES * BATCH_BYTES
        assert batch(data).to_arrow(["offset"]).num_rows == BATCHES * ROWS_PER_BATCH
        assert most() < BATCHES * BATCH_BYTES * 3


def test_what_does_not_fit_into_one_arrow_batch_is_refused_with_the_way_out() -> None:
    pytest.importorskip("pyarrow")
    limit = 3 * BATCH_BYTES
    message = rf"t-3: the records from offset 0 to 39 have more than the {limit} bytes .* arrow_batches\(\)"
    with pytest.raises(BatchTooLargeError, match=message):
        batch(bombs(), size_max_bytes=limit).to_arrow()


READERS = {
    "iterating": lambda made: list(made),
    "values": lambda made: made.values(),
    "fill": lambda made: made.fill(Columns()),
    "to_arrow": lambda made: made.to_arrow(),
}


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_batch_above_the_limit_is_named_with_the_offset_behind_it(
    read: Callable[[Batch], object], codec: str
) -> None:
    pytest.importorskip("pyarrow")
    small = encode_batch([(0, None, b"", None)] * 7)
    data = small + struct.pack(">q", 7) + bombs(codec)[8:]
    message = "t-3: the batch at offset 7 has more than the 1000 bytes allowed .* seek to offset 9$"
    with pytest.raises(BatchTooLargeError, match=message):
        read(batch(data, size_max_bytes=1000))
