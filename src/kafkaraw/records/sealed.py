"""A sealed batch: it takes no more records and waits to be sent.

It owns its bytes until the client releases it. Start at `SealedBatch.encode`. The sender decides when to send it, and
with which sequence; `OpenBatches` adds the records. `WireBatch` is one that was made elsewhere, as for a mirror.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.records.compression import Codec, codec_by_id
from kafkaraw.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Wire,
    stamp_crc,
    stamp_producer,
)
from kafkaraw.records.interface import BatchBuilder
from kafkaraw.records.promise import BatchPromise

_NO_PRODUCER: Final = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, False)


class SealedBatch:
    """One batch to produce, closed for appending.

    Attributes:
        topic: its topic.
        partition: its partition.
        records_count: number of records, at least 1.
        codec: the compression.
        level: its level; None for the codec's default.
        created_ms: when its first record was added, by the clock given to `OpenBatches`.
        size_bytes: uncompressed size, header included, which counts against `buffer_memory`. After a batch split, the
            parts share its size.
        promise: set when the broker has responded.
        released: whether it counts for no buffer memory, any more or at all.
    """

    __slots__ = (
        "_builder",
        "_encoded",
        "_stamp",
        "codec",
        "created_ms",
        "level",
        "partition",
        "promise",
        "records_count",
        "released",
        "size_bytes",
        "topic",
    )

    def __init__(
        self, builder: BatchBuilder, promise: BatchPromise, *, codec: Codec, level: int | None, created_ms: int
    ) -> None:
        self.topic: str = promise.topic
        self.partition: int = promise.partition
        self.promise: BatchPromise = promise
        self.records_count: int = builder.records_count
        self.size_bytes: int = builder.size_bytes
        self.created_ms: int = created_ms
        self.released: bool = False
        self.codec: Codec = codec
        self.level: int | None = level
        self._builder: BatchBuilder | None = builder
        self._encoded = memoryview(b"")
        self._stamp: tuple[int, int, int, bool] | None = None

    def encode(
        self, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1, transactional: bool = False
    ) -> memoryview:
        """Return the batch in wire format; the first call compresses it, later ones are cheap.

        A retry with the same arguments returns the same bytes. Another sequence makes new bytes and does not change
        those returned before: they may still be in a socket's buffer.

        Args:
            producer_id: from InitProducerId; -1 without idempotence.
            producer_epoch: the producer's epoch.
            base_sequence: sequence number of the first record.
            transactional: whether the batch belongs to a transaction.
        """
        stamp = (producer_id, producer_epoch, base_sequence, transactional)
        if stamp == self._stamp:
            return self._encoded
        if self._builder is not None:
            batch = self._builder.finish(self.codec, self.level)
            self._builder = None
            if stamp == _NO_PRODUCER:  # the values that `finish` writes
                stamp_crc(batch)
            else:
                stamp_producer(batch, producer_id, producer_epoch, base_sequence, transactional)
        else:
            # What was never sent is written to in place.
            batch = self._encoded if self._stamp is None else memoryview(bytearray(self._encoded))
            stamp_producer(batch, producer_id, producer_epoch, base_sequence, transactional)
        self._encoded = batch
        self._stamp = stamp
        return batch

    @property
    def encoded(self) -> memoryview:
        """The batch as `encode` returned it last; empty before that."""
        return self._encoded

    def __repr__(self) -> str:
        return f"SealedBatch({self.topic}-{self.partition}, {self.records_count} records, {self.size_bytes} bytes)"


class WireBatch(SealedBatch):
    """A whole batch in wire format to produce, which is not decoded, and counts for no buffer memory.

    Args:
        wire: header and bytes; records without gaps in their offsets. The bytes become this batch's own: `encode`
            writes the producer's numbers and the checksum into them, unless they are read-only.
        promise: set when the broker has responded.
        created_ms: when it was made, in milliseconds since 1970.
    """

    __slots__ = ()

    def __init__(self, wire: Wire, promise: BatchPromise, *, created_ms: int) -> None:
        header, encoded = wire
        self.topic: str = promise.topic
        self.partition: int = promise.partition
        self.promise: BatchPromise = promise
        self.records_count: int = header.records_count
        self.size_bytes: int = header.size
        self.created_ms: int = created_ms
        self.released: bool = True
        self.codec: Codec = codec_by_id(header.codec_id)
        self.level: int | None = None
        self._builder, self._stamp = None, None
        self._encoded = memoryview(bytearray(encoded)) if encoded.readonly else encoded
