"""Record batches, magic 2, for callers outside the hot path: encode one in one call, read the records of a Fetch.

`encode_batch` is the simple encoder (transaction markers, tests, tools); producers use `OpenBatches`. A consumer gets a
`Batch` for each partition. Start there. Sockets, positions and transactions belong to other packages.

Source: KIP-98; Kafka's DefaultRecordBatch and CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaraw.errors import BatchTooLargeError, ProtocolError, UsageError
from kafkaraw.records._implementation import read_batches, read_values
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES, codec_by_name, of_partition
from kafkaraw.records.header import (
    CONTROL_BIT,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    OldFormatError,
    Wire,
    patch_header,
    set_attribute,
    stamp_producer,
    verify_crc,
    whole_batches,
)
from kafkaraw.records.record import Headers, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kafkaraw.records.columns import Columns
    from kafkaraw.records.interface import AcquiredRecord, TimestampUnit

    ArrowBatch: TypeAlias = "pyarrow.RecordBatch"

ARROW_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Columns of `Batch.to_arrow`, in order."""

ARROW_DATA_BYTES: Final = 16 << 20
"""Decompressed bytes in one Arrow batch, unless a single wire batch has more."""

PlainRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Headers | None]
"""Timestamp in milliseconds, key, value, headers."""

_NO_LIMIT: Final = 2**31 - 1


def batches_of(records: memoryview) -> list[Wire]:
    """Return the whole batches of a `records` field, with messages of magic 0 and 1 converted.

    A compressed message of these stays as it is, for `unwrapped`. Its header has its magic, the lowest possible base
    offset and the highest possible number of records, because only the last offset is known.

    Raises:
        CorruptBatchError: an impossible length, or an unknown format.
    """
    try:
        return whole_batches(records)
    except OldFormatError:
        from kafkaraw.records.legacy import mixed_batches  # only for messages from before Kafka 0.11

        return mixed_batches(records)


def _unwrapped(message: memoryview) -> list[Wire]:
    """Decompress one message of magic 0 or 1; see `legacy.unwrapped`."""
    from kafkaraw.records.legacy import unwrapped  # as in `batches_of`

    return unwrapped(message)


def encode_batch(  # noqa: PLR0913  # the fields of a header
    records: Iterable[PlainRecord],
    *,
    codec: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Encode records as one batch.

    Args:
        records: (timestamp_ms, key, value, headers); None is null, headers may be None or empty.
        codec: name of the compression.
        level: its level; None for the codec's default.
        base_offset: offset of the first record; the others follow without gaps.
        producer_id: id of an idempotent producer; -1 for none.
        producer_epoch: its epoch.
        base_sequence: sequence number of the first record.
        transactional: whether the batch is part of a transaction.
        control: whether the batch is a transaction marker.
        partition_leader_epoch: epoch of the leader that appended it; -1 before that.

    Raises:
        UsageError: a field of the wrong type.
        ConfigError: the codec is unknown.
    """
    from kafkaraw.records._implementation import BatchBuilder  # consumers encode nothing

    builder = BatchBuilder(_NO_LIMIT)
    for timestamp_ms, key, value, headers in records:
        if builder.append(timestamp_ms, key, value, headers) < 0:
            raise UsageError("a batch cannot have 2 GiB or more")
    batch = builder.finish(codec_by_name(codec), level)
    patch_header(batch, base_offset=base_offset, partition_leader_epoch=partition_leader_epoch)
    if control:
        set_attribute(batch, CONTROL_BIT)
    stamp_producer(batch, producer_id, producer_epoch, base_sequence, transactional)
    return bytes(batch)


class Batch:
    """The records of one partition from one Fetch. They are decoded on use.

    Iteration, `values` and `to_arrow` decode again each time and may be used in any number and order. Control batches
    are skipped, and so are records before `start_offset`. A damaged batch raises when it is reached, not before.

    Args:
        topic: the topic of the records.
        partition: the partition of the records.
        data: wire batches one after the other, or messages of older formats; one cut short at the end is ignored. Or
            wire batches with their parsed headers.
        start_offset: the position that was fetched; brokers send the whole batch that contains it.
        end_offset: leave out records from this offset on, for readers that need a limited number; None is no limit.
        size_max_bytes: limit on the decompressed size of one wire batch.
        check_crcs: whether to verify checksums before decoding.
        convert: applied to each record by iteration, as deserializers are; columns stay bytes.

    Raises:
        CorruptBatchError: a header is invalid.

    Attributes:
        topic: as given.
        partition: as given.
        start_offset: as given.
        end_offset: as given.
        next_offset: the position after this batch: after the last wire batch, or `end_offset` if that comes first;
            `start_offset` if there is no wire batch.
        records_count: upper bound on the number of records, from the headers.
        size_bytes: size of the whole wire batches.
    """

    __slots__ = (
        "_batches",
        "_checked",
        "_convert",
        "_size_max_bytes",
        "end_offset",
        "next_offset",
        "partition",
        "records_count",
        "size_bytes",
        "start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        data: memoryview | Sequence[Wire],
        *,
        start_offset: int,
        end_offset: int | None = None,
        size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
        check_crcs: bool = True,
        convert: Callable[[Record], Record] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partition: int = partition
        self.start_offset: int = start_offset
        self.end_offset: int | None = end_offset
        self._size_max_bytes = size_max_bytes
        self._checked: set[int] | None = set() if check_crcs else None  # base offsets; shared with parts of this one
        self._convert = convert
        self._batches: Sequence[Wire] = batches_of(data) if isinstance(data, memoryview) else data
        self.size_bytes: int = sum(len(wire) for _, wire in self._batches)
        self.next_offset: int = max(self._batches[-1][0].next_offset, start_offset) if self._batches else start_offset
        self.records_count: int = 0
        self._count()
        if end_offset is not None:
            self.next_offset = min(self.next_offset, end_offset)

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value."""
        return TopicPartition(self.topic, self.partition)

    @property
    def headers(self) -> list[BatchHeader]:
        """Return the headers of the wire batches, control batches included."""
        return [header for header, _ in self._batches]

    @property
    def wires(self) -> Sequence[Wire]:
        """Return the wire batches as they were sent, with their headers, control batches included.

        The first one may begin before `start_offset`. Those of aborted transactions have no records.
        """
        return self._batches

    def starting_at(self, offset: int) -> Batch:
        """Return the same records from a later offset on, sharing the data."""
        rest = self._copy()
        rest.start_offset = offset
        rest.next_offset = max(self.next_offset, offset)
        rest._count()  # noqa: SLF001 - same class
        return rest

    def between(self, start_offset: int, end_offset: int) -> Batch:
        """Return the records with `start_offset <= offset < end_offset`, sharing the data."""
        part = self._copy()
        part.start_offset, part.end_offset = start_offset, end_offset
        part.next_offset = min(max(self.next_offset, start_offset), end_offset)
        part._count()  # noqa: SLF001 - same class
        return part

    def behind_damage(self) -> Batch:
        """Return the records after the wire batch that holds the first ones, sharing the data.

        For a reader that found the first wire batch damaged: it skips only that one.
        """
        for header, _ in self._batches:
            if not header.is_control and header.records_count and header.next_offset > self.start_offset:
                return self.starting_at(header.next_offset)
        return self.starting_at(self.next_offset)

    def first(self, limit: int) -> Batch:
        """Return the first records, sharing the data. The headers hold the record counts, so little is decoded for it.

        A compressed message of an old format that is divided stays decompressed, here and in parts that are made later,
        so that a caller that takes small parts does not decompress it for each of them.

        Args:
            limit: maximum number of records.
        """
        count = 0
        for at, (header, wire) in enumerate(self._batches):
            is_wrapped = header.magic != MAGIC
            if is_wrapped:  # its header does not hold the number of messages
                ((header, wire),) = _unwrapped(wire)
            given = self._count_in(header)
            if given and count + given > limit:
                if is_wrapped:
                    self._batches = [*self._batches[:at], (header, wire), *self._batches[at + 1 :]]
                head = self._copy()
                start = max(header.base_offset, self.start_offset)
                try:
                    end = _offset_behind(header, wire, start, limit - count)
                except ProtocolError:  # a damaged wire batch holds no record; the reader of `head` gets the error
                    end = header.next_offset
                head.end_offset = head.next_offset = end
                head.records_count = limit
                return head
            count += given
        return self

    def _count(self) -> None:
        self.records_count = sum(self._count_in(header) for header, _ in self._batches)

    def _count_in(self, header: BatchHeader) -> int:
        """Return the maximum number of records of a wire batch within the offsets."""
        if header.attributes & CONTROL_BIT:
            return 0
        end = header.next_offset
        if header.base_offset >= self.start_offset and (self.end_offset is None or end <= self.end_offset):
            return header.records_count  # all of it, the usual case
        end = end if self.end_offset is None else min(end, self.end_offset)
        return max(0, min(header.records_count, end - max(header.base_offset, self.start_offset)))

    def _copy(self) -> Batch:
        copy: Batch = object.__new__(type(self))
        for kind in type(self).__mro__[:-1]:
            for name in getattr(kind, "__slots__", ()):
                setattr(copy, name, getattr(self, name))
        return copy

    def _readable(self) -> Iterator[Wire]:
        """Yield the wire batches that hold records for the user, with verified checksums."""
        for header, wire in self._meant():
            self._check(header, wire)
            yield header, wire

    def _meant(self) -> Iterator[Wire]:
        """Yield the wire batches that hold records for the user; compressed messages of old formats one at a time."""
        for header, wire in self._batches:
            if header.attributes & CONTROL_BIT or not header.records_count or header.next_offset <= self.start_offset:
                continue
            if self.end_offset is not None and header.base_offset >= self.end_offset:
                return
            if header.magic == MAGIC:
                yield header, wire
            else:
                yield from _unwrapped(wire)

    def _check(self, header: BatchHeader, wire: memoryview) -> None:
        """Verify the checksum, once."""
        if self._checked is not None and header.base_offset not in self._checked:
            verify_crc(wire)
            self._checked.add(header.base_offset)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records, decoded one wire batch at a time.

        Raises:
            CorruptBatchError: damaged data.
            BatchTooLargeError: more than `size_max_bytes` when decompressed.
        """
        records = read_batches(
            self._readable(),
            self.topic,
            self.partition,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            size_max_bytes=self._size_max_bytes,
        )
        return records if self._convert is None else map(self._convert, records)

    def values(self) -> list[bytes | None]:
        """Yield the values alone; cheaper than records, unless they are converted.

        Raises:
            CorruptBatchError: damaged data.
            BatchTooLargeError: more than `size_max_bytes` when decompressed.
        """
        if self._convert is not None:
            return [record.value for record in self]
        values: list[bytes | None] = []
        try:
            for header, wire in self._readable():
                values += read_values(
                    wire,
                    header,
                    start_offset=self.start_offset,
                    end_offset=self.end_offset,
                    size_max_bytes=self._size_max_bytes,
                )
        except BatchTooLargeError as error:
            raise of_partition(error, self.topic, self.partition) from None
        return values

    def read_acquired(
        self,
        acquired: Iterable[tuple[int, int, int]],
        records: list[AcquiredRecord],
        kind: type[AcquiredRecord],
    ) -> None:
        """Append the records that a member of a share group has acquired; `convert` is not applied.

        Args:
            acquired: first offset, last offset and delivery count of each range, by offset.
            records: the list to append to; after an error it has the records before the damage.
            kind: the named tuple to make: with the fields of `Record`, and the delivery count behind them.

        Raises:
            CorruptBatchError: damaged data.
            BatchTooLargeError: more than `size_max_bytes` when decompressed.
        """
        from kafkaraw.records._implementation import read_acquired  # only share consumers use it

        start, end = self.start_offset, self.next_offset if self.end_offset is None else self.end_offset
        ranges = [
            (max(first, start), min(last, end - 1), delivery_count)
            for first, last, delivery_count in acquired
            if first < end and last >= start
        ]
        read_acquired(
            self._readable(),
            self.topic,
            self.partition,
            ranges,
            records,
            kind,
            size_max_bytes=self._size_max_bytes,
        )

    def fill(
        self,
        columns: Columns,
        at: int = 0,
        unit: TimestampUnit = "ms",
        *,
        end_offset: int | None = None,
        data_max_bytes: int | None = None,
    ) -> tuple[int, Batch | None]:
        """Append the records to columns, from row `at` on.

        Args:
            columns: the columns to append to.
            at: the number of rows that they have.
            unit: unit of the timestamps.
            end_offset: leave out records from this offset on; None for the batch's own limit.
            data_max_bytes: append no further wire batch once the decompressed ones have this many bytes; None is no
                limit.

        Returns:
            the new number of rows, and the remaining records; None if there are none.

        Raises:
            CorruptBatchError: damaged data.
            BatchTooLargeError: more than `size_max_bytes` when decompressed.
        """
        from kafkaraw.records._implementation import fill_batches  # as in `to_arrow`

        end_offset = self.end_offset if end_offset is None else end_offset
        last: BatchHeader | None = None

        def wires() -> Iterator[Wire]:
            nonlocal last
            for wire in self._meant():
                last = wire[0]
                if end_offset is not None and last.base_offset >= end_offset:
                    break
                yield wire
            last = None

        try:
            rows = fill_batches(
                wires(),
                columns,
                at,
                unit,
                check=None if self._checked is None else self._check,
                start_offset=self.start_offset,
                end_offset=end_offset,
                size_max_bytes=self._size_max_bytes,
                data_max_bytes=data_max_bytes,
            )
        except BatchTooLargeError as error:
            raise of_partition(error, self.topic, self.partition) from None
        rest = None if last is None else self.starting_at(last.next_offset)
        return rows, rest if rest is not None and rest.records_count else None

    def to_arrow(self, columns: Iterable[str] | None = None) -> ArrowBatch:
        """Return the records as a `pyarrow.RecordBatch`; `arrow_batches` returns them in several.

        Args:
            columns: names from `ARROW_COLUMNS`, in the order wanted; None for all.

        Returns:
            topic dictionary<int32, string>, partition int32, offset int64, timestamp timestamp[ms, UTC],
            timestamp_type int8, key and value binary, headers list<struct<key: string, value: binary>> (null if a
            record has none).

        Raises:
            UsageError: an unknown column.
            CorruptBatchError: damaged data.
            BatchTooLargeError: one wire batch, or the columns of all of them, have more than `size_max_bytes` when
                decompressed.
        """
        from kafkaraw.records.columns import COLUMN_NAMES, Columns  # most consumers make no columns

        names = _arrow_columns(columns)
        filled = Columns(COLUMN_NAMES.intersection(names), self.records_count)
        step_bytes = min(ARROW_DATA_BYTES, self._size_max_bytes)
        rows, rest = self.fill(filled, data_max_bytes=step_bytes)
        while rest is not None:
            if filled.data_size_bytes >= self._size_max_bytes:
                raise BatchTooLargeError(
                    f"{self.topic}-{self.partition}: the records from offset {self.start_offset} to "
                    f"{self.next_offset - 1} have more than the {self._size_max_bytes} bytes allowed at once when "
                    "decompressed; convert them with arrow_batches()"
                )
            rows, rest = rest.fill(filled, rows, data_max_bytes=step_bytes)
        return self._arrow(names, filled, rows)

    def arrow_batches(self, columns: Iterable[str] | None = None) -> Iterator[ArrowBatch]:
        """Yield the records as `pyarrow.RecordBatch` objects of about `ARROW_DATA_BYTES` decompressed bytes.

        A wire batch is never divided, so a larger one makes a larger `pyarrow.RecordBatch`.

        Args:
            columns: as for `to_arrow`.

        Raises:
            UsageError: an unknown column.
            CorruptBatchError: damaged data.
            BatchTooLargeError: a wire batch has more than `size_max_bytes` when decompressed.
        """
        from kafkaraw.records.columns import COLUMN_NAMES, Columns  # as in `to_arrow`

        names = _arrow_columns(columns)
        rest: Batch | None = self
        while rest is not None:
            filled = Columns(COLUMN_NAMES.intersection(names), rest.records_count)
            rows, rest = rest.fill(filled, data_max_bytes=ARROW_DATA_BYTES)
            yield self._arrow(names, filled, rows)

    def _arrow(self, names: Sequence[str], filled: Columns, rows: int) -> ArrowBatch:
        """Make an Arrow batch of columns with this number of rows."""
        import pyarrow as pa

        arrays = filled.to_arrow_arrays()
        if "topic" in names:
            indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
            arrays["topic"] = pa.DictionaryArray.from_arrays(indices, pa.array([self.topic], pa.string()))
        if "partition" in names:
            arrays["partition"] = pa.repeat(pa.scalar(self.partition, pa.int32()), rows)
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))

    def _repr_html_(self) -> str:
        """Return what notebooks show: the first records, as text."""
        from itertools import islice

        from kafkaraw.notebooks import ROWS_MAX, table, tables
        from kafkaraw.readable import time_text

        try:
            rows = [
                (each.offset, time_text(each.timestamp_ms), each.key, each.value, ", ".join(h[0] for h in each.headers))
                for each in islice(self, ROWS_MAX)
            ]
        except ProtocolError as error:  # damaged, or too large
            return tables(f"{self!r}: {error}")
        names = ("offset", "timestamp", "key", "value", "headers")
        return tables(repr(self), table(names, rows, count=max(self.records_count, len(rows))))

    def __repr__(self) -> str:
        return (
            f"Batch({self.topic}-{self.partition}, offsets {self.start_offset} to {self.next_offset - 1}, "
            f"{self.size_bytes} bytes)"
        )


def _arrow_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    names = ARROW_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in ARROW_COLUMNS]
    if unknown:
        raise UsageError(f"unknown columns {unknown}; known are {list(ARROW_COLUMNS)}")
    return names


def _offset_behind(header: BatchHeader, wire: memoryview, start: int, count: int) -> int:
    """Return the offset after the `count`-th record from `start` on; read offsets only where compaction left gaps."""
    if header.records_count == header.last_offset_delta + 1 or not count:
        return start + count
    from kafkaraw.records._implementation import fill  # as in `to_arrow`
    from kafkaraw.records.columns import Columns

    columns = Columns(frozenset({"offset"}), header.records_count)
    rows = fill(wire, columns, 0, "ms", start_offset=start)
    assert columns.offset is not None
    return columns.offset[count - 1] + 1 if rows >= count else header.next_offset
