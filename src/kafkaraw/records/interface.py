"""The interface of the two implementations of the hot path: plain Python (`_fallback`) and compiled.

Callers use these protocols, tests run on both. Only types and status codes are here, no behaviour. The interface of
`BatchTable` is that of its form in plain Python, `_fallback/batch_table.py`. Start at `BatchBuilder` for writing and
`ReadRecords` and `Fill` for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.compression import Codec
from kafkaraw.records.header import BatchHeader
from kafkaraw.records.record import Headers, Record, RecordMetadata

if TYPE_CHECKING:
    from kafkaraw.records.columns import Columns
    from kafkaraw.records.open_batches import OpenBatches
    from kafkaraw.records.promise import BatchPromise
    from kafkaraw.records.rows import BadRow, SentPart

TimestampUnit: TypeAlias = Literal["ms", "us"]
AcquiredRecord = TypeVar("AcquiredRecord", bound=tuple[object, ...])


KEY_SIZE_SAFE: Final = 1024
"""Keys of at most this many bytes need no check of the record's size if the value is small, too."""


class AppendStatus(IntEnum):
    """The result of `OpenBatches.append`. All but OK are slow paths of the client."""

    OK = 0
    """Appended to an open batch: nothing to do."""
    SEALED = 1
    """Appended, and a batch is sealed: wake the sender loop. A batch may have been opened, too."""
    FULL = 2
    """Not appended: `buffer_memory` is in use. All open batches were sealed; wait for a release, then retry."""
    OPENED = 4
    """Appended to a new batch, and none is sealed: make sure that the batch is sealed after its linger time."""
    UNKNOWN_TOPIC = 3
    """Not appended: the topic, or the requested partition, is not known (yet)."""


class Lock(Protocol):
    """A mutual exclusion lock that its owner can take again, as `threading.RLock()`."""

    def acquire(self) -> bool:
        """Acquire the lock."""

    def release(self) -> None:
        """Release the lock."""

    def __enter__(self) -> object:
        """Acquire the lock."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object:
        """Release the lock."""


class BatchBuilder(Protocol):
    """Records of one batch, encoded as they are added."""

    @property
    def records_count(self) -> int:
        """Number of records so far."""

    @property
    def size_bytes(self) -> int:
        """Uncompressed size so far, header included."""

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Add one record; return its index in the batch, or -1 if it does not fit (the first always does)."""

    def finish(self, codec: Codec, level: int | None) -> memoryview:
        """Close the batch and return it, without the producer's fields and the checksum in its header. Once only."""


class Ticket(Protocol):
    """A handle of the result of one record."""

    @property
    def batch_promise(self) -> BatchPromise:
        """The promise of its batch."""

    @property
    def index(self) -> int:
        """Its index in the batch."""

    @property
    def done(self) -> bool:
        """Return whether the result is known."""

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result; the timeout is in seconds."""

    def exception(self) -> BaseException | None:
        """Return the error of a failed record; None if it is acknowledged or still pending."""

    def add_done_callback(self, callback: Callable[[Ticket], None]) -> None:
        """Call `callback(ticket)` when the result is known."""

    def __await__(self) -> Generator[object, object, RecordMetadata]:
        """Wait for the result on the running loop."""


class Rows(Protocol):
    """Columns to send."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def check(self, partition_counts: Sequence[int], size_max: int) -> BadRow | None:
        """Find the first row that cannot be sent."""

    def append_to(self, open_batches: OpenBatches, start: int) -> tuple[AppendStatus, int, list[SentPart]]:
        """Add rows from `start` on to open batches, in their order, until one does not fit."""

    def checksum(self) -> int:
        """Sum up the checksums of all rows, modulo 2**64; their order does not matter."""


class ReadRecords(Protocol):
    """Reads the records of one wire batch, lazily."""

    def __call__(
        self,
        batch: memoryview,
        header: BatchHeader,
        topic: str,
        partition: int,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        size_max_bytes: int = ...,
    ) -> Iterator[Record]:
        """Yield the records with `start_offset <= offset < end_offset`."""


class ReadBatches(Protocol):
    """Reads the records of many wire batches, one batch after the other as they are reached."""

    def __call__(
        self,
        wires: Iterable[tuple[BatchHeader, memoryview]],
        topic: str,
        partition: int,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        size_max_bytes: int = ...,
    ) -> Iterator[Record]:
        """Yield the records with `start_offset <= offset < end_offset`."""


class ReadValues(Protocol):
    """Reads the values of one wire batch."""

    def __call__(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        size_max_bytes: int = ...,
    ) -> list[bytes | None]:
        """Return the values of the records with `start_offset <= offset < end_offset`."""


class ReadAcquired(Protocol):
    """Reads the records of many wire batches that a member of a share group has acquired."""

    def __call__(
        self,
        wires: Iterable[tuple[BatchHeader, memoryview]],
        topic: str,
        partition: int,
        acquired: Sequence[tuple[int, int, int]],
        records: list[AcquiredRecord],
        kind: type[AcquiredRecord],
        *,
        size_max_bytes: int = ...,
    ) -> None:
        """Append the records in ranges of offsets.

        Args:
            wires: the wire batches; if one is damaged, the records before it are appended.
            topic: their topic.
            partition: their partition.
            acquired: first offset, last offset and delivery count of each range, by offset.
            records: the list to append to.
            kind: the named tuple to make: with the fields of `Record`, and the delivery count behind them.
            size_max_bytes: limit on the decompressed size of a wire batch.
        """


class FillBatches(Protocol):
    """Appends the records of many wire batches to columns; all of them, or none if one is damaged."""

    def __call__(  # noqa: PLR0913 - what, where to, and the limits
        self,
        wires: Iterable[tuple[BatchHeader, memoryview]],
        columns: Columns,
        at: int,
        unit: TimestampUnit,
        *,
        check: Callable[[BatchHeader, memoryview], None] | None = None,
        start_offset: int = 0,
        end_offset: int | None = None,
        size_max_bytes: int = ...,
        data_max_bytes: int | None = ...,
    ) -> int:
        """Append the records with `start_offset <= offset < end_offset` from row `at` on; return the new row count.

        The last wire batch that is taken from `wires` is the one with which the decompressed bytes reach
        `data_max_bytes`. Control batches and those without records are skipped.

        Each wire batch is passed to `check` just before its records are read: then its bytes are in the processor's
        cache.
        """


class RenderRecords(Protocol):
    """Writes the records of one wire batch as the text of kafka-dump-log."""

    def __call__(
        self,
        batch: memoryview,
        batch_header: BatchHeader,
        time_type: str,
        text: Callable[[bytes], str] | None,
        *,
        skip_metadata: bool = False,
        size_max_bytes: int = ...,
    ) -> str:
        """Return a line for each record, joined by line feeds.

        Args:
            batch: a wire batch; control batches are read as others.
            batch_header: its parsed header.
            time_type: Kafka's name for the origin of the timestamps.
            text: decodes keys and values that are not ASCII; None shows no keys and values.
            skip_metadata: show nothing but keys and values.
            size_max_bytes: limit on the decompressed size of the batch.
        """


class Fill(Protocol):
    """Appends the records of one wire batch to columns."""

    def __call__(
        self,
        batch: memoryview,
        columns: Columns,
        at: int,
        unit: TimestampUnit,
        *,
        start_offset: int = 0,
        end_offset: int | None = None,
        size_max_bytes: int = ...,
    ) -> int:
        """Append the records with `start_offset <= offset < end_offset` from row `at` on; return the new row count."""


class Retained(NamedTuple):
    """The records of one batch that compaction retains.

    Attributes:
        records_count: records that are retained.
        without_key: records that are removed because they have no key.
        batch: room for a header, and then the records that are retained, not compressed. None if there are none, or if
            the batch stays as it is.
        base_timestamp: of `batch`: what its timestamps count from.
        max_timestamp: of `batch`: the highest timestamp of its records.
        sets_horizon: whether `base_timestamp` is a delete horizon that the batch did not have before.
    """

    records_count: int
    without_key: int
    batch: bytearray | None
    base_timestamp: int = -1
    max_timestamp: int = -1
    sets_horizon: bool = False


class OffsetMap(Protocol):
    """The last offset of each key in the dirty section of a log; constructed as `OffsetMap(keys_max, seed)`.

    Keys with the same hash count as the same key; the seed of the hash, 16 bytes, must be unknown to producers.
    """

    latest_offset: int
    """The offset up to which the map is complete; -1 at the start."""

    @property
    def keys_max(self) -> int:
        """Number of keys with which the map is full."""

    @property
    def keys_count(self) -> int:
        """Number of keys."""

    @property
    def size_bytes(self) -> int:
        """Memory in use: at most 24 bytes a key, but for the smallest maps."""

    def put(self, key: bytes, offset: int) -> None:
        """Set the last offset of a key, and `latest_offset`.

        Raises:
            UsageError: the map is full.
        """

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, or -1."""

    def clear(self) -> None:
        """Remove all keys."""

    def add_batch(self, batch: memoryview, header: BatchHeader, start_offset: int, size_max_bytes: int = ...) -> bool:
        """Put the records of a batch that have a key, from an offset on, into the map.

        Returns:
            False if the map was full before the last of them: `latest_offset` is the last record that it took.

        Raises:
            CorruptBatchError: the batch cannot be decoded.
            BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        """

    def retain(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        everything: bool = False,
        tombstones: bool = True,
        horizon_ms: int = -1,
        size_max_bytes: int = ...,
    ) -> Retained:
        """Choose the records of a batch that compaction retains: the last of each key, and those behind the map.

        Args:
            batch: one whole batch.
            header: its header.
            everything: retain all records, of a control batch.
            tombstones: whether records without a value are retained.
            horizon_ms: the delete horizon of the batch from now on if records without a value are retained, or
                everything; -1 if the batch has one already or needs none.
            size_max_bytes: limit on its decompressed size.

        Raises:
            CorruptBatchError: the batch cannot be decoded.
            BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        """
