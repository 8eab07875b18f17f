"""Batch split: make several batches of one that a broker refused as too large.

Slow path: the records are decoded and encoded again. The sender chooses sequence numbers and order of the parts.
Start at `split_batch`.  Source: KIP-126; Kafka's ProducerBatch.split.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from kafkaraw.records._implementation import BatchBuilder, read_records
from kafkaraw.records.header import HEADER_SIZE, parse_header
from kafkaraw.records.record import Record
from kafkaraw.records.sealed import SealedBatch

_NO_LIMIT: Final = 2**31 - 1
_OVERHEAD_BYTES: Final = 10
"""Overhead of one record: lengths, timestamp, offset."""


def split_batch(batch: SealedBatch) -> list[SealedBatch]:
    """Return the same records as two batches of about half its size.

    Tickets stay valid: the batch's promise is done when those of the parts are. The parts own the batch's share of
    `buffer_memory`, so only they are released.

    Args:
        batch: an encoded batch of at least two records, which no other code uses any more.
    """
    wire = batch.encoded
    records = list(read_records(wire, parse_header(wire), batch.topic, batch.partition, size_max_bytes=_NO_LIMIT))
    middle = _middle([_size_of(record) for record in records])
    builders = [_builder_of(records[:middle]), _builder_of(records[middle:])]
    promises = batch.promise.split([builder.records_count for builder in builders])
    first, second = (
        SealedBatch(builder, promise, codec=batch.codec, level=batch.level, created_ms=batch.created_ms)
        for builder, promise in zip(builders, promises, strict=True)
    )
    second.size_bytes -= HEADER_SIZE
    first.size_bytes = batch.size_bytes - second.size_bytes
    first.released = second.released = batch.released  # a batch that was never counted has nothing to release
    batch.released = True
    return [first, second]


def _middle(sizes: list[int]) -> int:
    """Return the index that comes nearest to halving the bytes, with at least one record on both sides."""
    before = list(accumulate(sizes[:-1]))
    return 1 + bisect_left(before[:-1], sum(sizes) / 2)


def _size_of(record: Record) -> int:
    """Return about how many bytes a record takes."""
    headers = sum(2 + len(name) + len(content or b"") for name, content in record.headers)
    return _OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def _builder_of(records: list[Record]) -> BatchBuilder:
    builder = BatchBuilder(_NO_LIMIT)
    for record in records:
        builder.append(record.timestamp_ms, record.key, record.value, record.headers)
    return builder
