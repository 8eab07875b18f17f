"""What is fuzzed of the records layer, and what must hold for any bytes, on both twins.

An input is one byte of choices and then the `records` field of a Fetch. The rules: reading gives records,
CorruptBatchError or BatchTooLargeError, never anything else, whether checksums are looked at or not; both twins give
the same, as records, as values and as columns; and what was read, written again by both builders, is the same bytes and
reads the same.
"""

from __future__ import annotations

import random
import struct
import zlib

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import Batch, iter_headers, modern
from kafkaraw.records.compression import codec_by_name
from kafkaraw.records.header import HEADER_SIZE, stamp_crc
from kafkaraw.records.record import Headers
from tests.records.test_hostile_bytes import batch_of, damage, outcomes
from tests.records.test_legacy import CODECS, message, wrapper
from tests.records.twins import IMPLEMENTATIONS, things_of

REFUSALS = (CorruptBatchError, BatchTooLargeError)
IN_MICROSECONDS = 1
LENGTH_IS_RIGHT = 2
CHECKSUM_IS_RIGHT = 4
CHOICES = 8
OLD_SHARE = 0.3
SIZE_MAX_BYTES = 1 << 20
_BUILDER_LIMIT = 2**31 - 1
_NONE = codec_by_name("none")


def check(data: bytes) -> None:
    """Hold one input to the rules; an AssertionError, or any error but those two, is a finding."""
    if data:
        check_records(data[0] % CHOICES, data[1:])


def check_records(choices: int, records: bytes) -> None:
    """Hold a `records` field to the rules."""
    field = bytearray(records)
    if choices & LENGTH_IS_RIGHT and len(field) >= HEADER_SIZE:
        field[8:12] = struct.pack(">i", len(field) - 12)
    if choices & CHECKSUM_IS_RIGHT and len(field) >= HEADER_SIZE:
        stamp_crc(field)
    unit = "us" if choices & IN_MICROSECONDS else "ms"
    try:
        today = bytes(modern(memoryview(bytes(field))))
    except REFUSALS:
        return
    first, *others = [outcomes(implementation, today, unit) for implementation in IMPLEMENTATIONS]
    assert all(other == first for other in others), "the twins disagree"
    check_batch(bytes(field))


def check_batch(records: bytes) -> None:
    """Read as a consumer does, and write what was read."""
    for check_crcs in (True, False):
        try:
            batch = Batch(
                "t", 0, memoryview(records), start_offset=0, size_max_bytes=SIZE_MAX_BYTES, check_crcs=check_crcs
            )
            read = [(one.timestamp_ms, one.key, one.value, list(one.headers)) for one in batch]
        except REFUSALS:
            continue
        assert batch.next_offset >= 0
        if read and all(timestamp >= -1 for timestamp, *_ in read):  # others are read, but not written
            check_builders(read)


def check_builders(records: list[tuple[int, bytes | None, bytes | None, Headers]]) -> None:
    """Both builders write the same, and it reads as what it was."""
    written = []
    for implementation in IMPLEMENTATIONS:
        builder = things_of(implementation)["BatchBuilder"](_BUILDER_LIMIT)  # type: ignore[operator]
        for at, fields in enumerate(records):
            assert builder.append(*fields) == at
        written.append(bytes(builder.finish(_NONE, None)))
    assert len(set(written)) == 1, "the builders disagree"
    again = Batch("t", 0, memoryview(written[0]), start_offset=0, check_crcs=False)
    assert [(one.timestamp_ms, one.key, one.value, list(one.headers)) for one in again] == records


def seed_input(rng: random.Random) -> bytes:
    """A good input: batches, or messages of old formats, or both."""
    choices = bytes((rng.randrange(CHOICES),))
    if rng.random() < OLD_SHARE:
        return choices + old_messages(rng)
    return choices + b"".join(batch_of(rng) for _ in range(rng.choice((1, 1, 2))))


def old_messages(rng: random.Random) -> bytes:
    magic = rng.randrange(2)
    inner = b"".join(
        message(at, rng.choice((None, rng.randbytes(rng.randrange(60)))), magic=magic, key=rng.choice((None, b"k")))
        for at in range(rng.randrange(1, 6))
    )
    codec = rng.choice(CODECS)
    return inner if codec == "none" else wrapper(rng.choice((0, 9)), inner, codec, magic=magic)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The input with a few changes; old messages get their checksum right again now and then."""
    changed = bytearray(data[1:])
    for _ in range(rng.choice((1, 1, 2, 5))):
        if len(changed) > HEADER_SIZE:
            damage(changed, rng)
        elif changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if len(changed) > HEADER_SIZE and changed[16] < 2 and rng.random() < 0.5:
        changed[8:12] = struct.pack(">i", len(changed) - 12)
        changed[12:16] = struct.pack(">I", zlib.crc32(bytes(changed[16:])))
    return data[:1] + bytes(changed)


def batches_in(data: bytes) -> int:
    """How many whole batches an input has; for those who want to know that a run got anywhere."""
    try:
        return sum(1 for _ in iter_headers(modern(memoryview(data[1:]))))
    except REFUSALS:
        return 0
