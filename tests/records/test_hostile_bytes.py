"""Damaged batches, from seeds, read by both twins: the same records, or a refusal by both; never anything else."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import Columns, encode_batch, iter_headers
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.columns import COLUMN_NAMES
from kafkaraw.records.header import HEADER_SIZE
from tests.records.twins import IMPLEMENTATIONS, things_of

SIZE_MAX_BYTES = 1_000_000
REFUSALS = (CorruptBatchError, BatchTooLargeError)


@pytest.fixture(autouse=True)
def _both(implementation: str) -> None:
    if implementation != IMPLEMENTATIONS[-1]:
        pytest.skip("once for both")


def batch_of(rng: random.Random) -> bytes:
    def blob() -> bytes | None:
        return rng.choice([None, b"", rng.randbytes(rng.randrange(40)), rng.randbytes(rng.randrange(300))])

    records: list[PlainRecord] = [
        (
            rng.choice([-1, 0, 1_700_000_000_000 + rng.randrange(99), 2**63 - 1]),
            blob(),
            blob(),
            [(rng.choice(["a", "größe", ""]), blob())] * rng.randrange(4),
        )
        for _ in range(rng.randrange(12))
    ]
    return encode_batch(records, codec=rng.choice(["none"] * 4 + ["gzip", "snappy", "lz4", "zstd"]))


def damage(batch: bytearray, rng: random.Random) -> None:
    """Change one thing: mostly among the records, where lengths are."""
    at = rng.randrange(len(batch)) if len(batch) <= HEADER_SIZE or rng.random() < 0.3 else rng.randrange(61, len(batch))
    match rng.choice(["byte", "byte", "byte", "bytes", "count", "delta", "attributes"]):
        case "byte":
            batch[at] = rng.choice([0, 1, 2, 127, 128, 255, batch[at] ^ 1 << rng.randrange(8)])
        case "bytes":
            batch[at : at + 1] = rng.choice([b"", b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", rng.randbytes(2)])
        case "count":
            batch[57:61] = struct.pack(">i", rng.choice([0, 1, 2, 2**31 - 1, -1, rng.randrange(20)]))
        case "delta":
            batch[23:27] = struct.pack(">i", rng.choice([0, 1, 2, 2**31 - 1, rng.randrange(20)]))
        case "attributes":
            batch[21:23] = struct.pack(">h", rng.choice([0, 8, 16, 1, 2, 3, 4, 64]))


def outcomes(implementation: str, batch: bytes, unit: str) -> list[object]:
    """What all ways of reading give, refusals included."""
    twin = things_of(implementation)
    found: list[object] = []
    try:
        for header, wire in iter_headers(memoryview(batch)):
            for name, more in (("read_records", ("t", 0)), ("read_values", ())):
                try:
                    found.append(list(twin[name](wire, header, *more, size_max_bytes=SIZE_MAX_BYTES)))  # type: ignore[operator]
                except REFUSALS as error:
                    found.append(type(error))
            acquired: list[object] = []
            try:
                ranges = [(0, 0, 1), (2, 5, 2), (9, 2**40, 3)]
                twin["read_acquired"]([(header, wire)], "t", 0, ranges, acquired, tuple, size_max_bytes=SIZE_MAX_BYTES)  # type: ignore[operator]
            except REFUSALS as error:
                found.append(type(error))
            found.append(acquired)
            columns = Columns(COLUMN_NAMES, 0)
            try:
                twin["fill"](wire, columns, 0, unit, start_offset=1, size_max_bytes=SIZE_MAX_BYTES)  # type: ignore[operator]
            except REFUSALS as error:
                found.append(type(error))
            for name, column in columns.to_arrow_arrays().items():
                column.validate(full=True)
                found.append((name, (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()))
    except REFUSALS as error:
        found.append(type(error))
    return found


@pytest.mark.parametrize(
    ("seed", "count"), [(seed, 300) for seed in range(3)] + [pytest.param(7, 100_000, marks=pytest.mark.soak)]
)
@pytest.mark.timeout(600)
def test_damaged_batches_give_the_same_on_both_twins_and_do_no_harm(seed: int, count: int) -> None:
    rng = random.Random(seed)
    readable = 0
    for _ in range(count):
        batch = bytearray(batch_of(rng))
        for _ in range(rng.choice((1, 1, 2, 5))):
            damage(batch, rng)
        if len(batch) >= HEADER_SIZE:
            batch[8:12] = struct.pack(">i", len(batch) - 12)
        unit = rng.choice(["ms", "us"])
        first, *others = [outcomes(implementation, bytes(batch), unit) for implementation in IMPLEMENTATIONS]
        assert all(other == first for other in others), bytes(batch).hex()
        readable += CorruptBatchError not in first
    assert 0 < readable < count
