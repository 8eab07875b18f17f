"""Acquired records as the application gets them: `ShareBatch`, a list of `ShareRecord`s, or Arrow columns.

`AcquiredBatch` is what a broker has sent of one partition, of which this consumer has acquired some ranges. Nothing
here sends acknowledgements. Start at `AcquiredBatch.decoded`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from kafkaraw.core.share.acknowledgements import AcknowledgeType, RecordsInHand
from kafkaraw.errors import BatchTooLargeError, CorruptBatchError, DeserializationError, KafkaError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.records import Batch, Header, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kafkaraw.client.deserializers import AwaitingConversion

DELIVERY_COUNT: Final = "delivery_count"
"""The Arrow column that `Batch.to_arrow` does not have."""


class ShareRecord(NamedTuple):
    """One record as a share consumer sees it: a `Record` and its delivery count.

    Attributes:
        topic: the topic it was read from.
        partition: the partition it was read from.
        offset: its position in the partition.
        timestamp_ms: milliseconds since 1970 UTC; -1 if it has none.
        timestamp_type: origin of the timestamp, as of `Record`.
        key: the key; None is null.
        value: the value; None is null.
        headers: names and values, in the producer's order; names may repeat.
        delivery_count: how often the record has been delivered, this time included.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Decoding:
    """What happens to each record before the application gets it.

    Attributes:
        convert: the deserializers; None for bytes, or if they may return awaitables.
        convert_awaiting: the deserializers, if they may return awaitables.
        intercept: the interceptors; None without any.
    """

    convert: Callable[[Record], Record] | None = None
    convert_awaiting: AwaitingConversion | None = None
    intercept: Callable[[list[Record]], list[Record]] | None = None


class ShareBatch:
    """Acquired records of one partition, decoded. They stay locked for this consumer until they are acknowledged.

    Args:
        in_hand: the acknowledgements of the records.
        records: the records, by offset.

    Attributes:
        topic: the topic of the records.
        partition: the partition of the records.
        records: as given.
        in_hand: as given; for the consumer.
    """

    __slots__ = ("in_hand", "partition", "records", "topic")

    def __init__(self, in_hand: RecordsInHand, records: list[ShareRecord]) -> None:
        self.topic: str
        self.partition: int
        self.topic, self.partition = in_hand.topic_partition
        self.records: list[ShareRecord] = records
        self.in_hand: RecordsInHand = in_hand

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one value."""
        return self.in_hand.topic_partition

    def __iter__(self) -> Iterator[ShareRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def values(self) -> list[bytes | None]:
        """Return the values alone."""
        return [record.value for record in self.records]

    def _repr_html_(self) -> str:
        """Return what notebooks show: the first records, as text."""
        from kafkaraw.notebooks import table, tables
        from kafkaraw.readable import time_text

        rows = (
            (each.offset, time_text(each.timestamp_ms), each.delivery_count, each.key, each.value)
            for each in self.records
        )
        names = ("offset", "timestamp", "delivery count", "key", "value")
        return tables(repr(self), table(names, rows, count=len(self.records)))

    def __repr__(self) -> str:
        return f"ShareBatch({self.topic}-{self.partition}, {len(self.records)} records)"


class Refused(NamedTuple):
    """An error in place of records that cannot be returned.

    Attributes:
        in_hand: the acknowledgements of the records.
        offset: of the first of them.
        error: to be raised.
    """

    in_hand: RecordsInHand
    offset: int
    error: KafkaError


class AcquiredBatch:
    """What a broker has sent of one partition, with the ranges of offsets that are locked for this consumer.

    Args:
        batch: everything that the broker has sent of the partition.
        in_hand: which of it was acquired, and its acknowledgements.
        decoding: what happens to each record.
        expires_s: when the acquisition locks expire, by the loop's time.

    Attributes:
        in_hand: as given.
        expires_s: as given.
    """

    __slots__ = ("_batch", "_decoding", "expires_s", "in_hand")

    def __init__(self, batch: Batch, in_hand: RecordsInHand, decoding: Decoding, expires_s: float) -> None:
        self.expires_s: float = expires_s
        self.in_hand: RecordsInHand = in_hand
        self._batch = batch
        self._decoding = decoding

    @property
    def offsets_count(self) -> int:
        """Number of acquired offsets: an upper bound on the number of records."""
        return sum(last - first + 1 for first, last, _ in self.in_hand.acquired)

    def decoded(self, *, notes_gaps: bool) -> list[ShareBatch | Refused]:
        """Decode the records, and acknowledge those that cannot be: damaged ones are rejected, others released.

        Args:
            notes_gaps: acknowledge offsets without a record as gaps, and wait for each record to be acknowledged.

        Returns:
            batches, divided by the errors of records that cannot be returned.
        """
        parts: list[ShareBatch | Refused] = []
        refused: dict[int, AcknowledgeType] = {}
        offsets: list[int] = []
        start, end = self.in_hand.acquired[0].first_offset, self.in_hand.acquired[-1].last_offset + 1
        while start < end:
            records: list[ShareRecord] = []
            rest = self._batch.between(start, end)
            try:
                self._read(rest, records)  # as far as they can be decoded
                start = end
            except DeserializationError as error:
                refused[error.offset] = AcknowledgeType.RELEASE
                problem: Refused | None = Refused(self.in_hand, error.offset, error)
                start = error.offset + 1
            except (CorruptBatchError, BatchTooLargeError) as error:
                at = records[-1].offset + 1 if records else start
                start = max(rest.between(at, end).behind_damage().start_offset, at + 1)
                refused |= dict.fromkeys(self._locked(at, start), AcknowledgeType.REJECT)
                problem = Refused(self.in_hand, at, error)
            else:
                problem = None
            if notes_gaps:
                offsets += [record.offset for record in records]
            if records:
                parts.append(ShareBatch(self.in_hand, records))
            if problem is not None:
                parts.append(problem)
        if notes_gaps:
            self.in_hand.found([*offsets, *refused])
        for offset, kind in refused.items():
            self.in_hand.acknowledge(offset, kind)
        return parts

    async def decoded_awaiting(self, *, notes_gaps: bool) -> list[ShareBatch | Refused]:
        """Decode the records as `decoded` does, with deserializers that may return awaitables."""
        convert = self._decoding.convert_awaiting
        if convert is None:
            return self.decoded(notes_gaps=notes_gaps)
        found: list[ShareBatch | Refused] = []
        for part in self.decoded(notes_gaps=notes_gaps):
            if isinstance(part, Refused):
                found.append(part)
                continue
            records: list[ShareRecord] = []
            for record in part.records:
                try:
                    made = convert(cast("Record", record))  # a ShareRecord has its fields, too
                    converted = await made if isinstance(made, Awaitable) else made
                    records.append(cast("ShareRecord", converted))
                except DeserializationError as error:
                    found += self._intercepted(records)
                    found.append(Refused(self.in_hand, record.offset, error))
                    records = []
            found += self._intercepted(records)
        for part in found:  # only now: if a deserializer cannot ask its server, everything is decoded again
            if isinstance(part, Refused) and isinstance(part.error, DeserializationError):
                self.in_hand.acknowledge(part.offset, AcknowledgeType.RELEASE)
        return found

    def _intercepted(self, records: list[ShareRecord]) -> list[ShareBatch]:
        intercept = self._decoding.intercept
        if intercept is not None and records:
            counts = {record.offset: record.delivery_count for record in records}
            seen = intercept([Record(*record[:-1]) for record in records])
            records = [ShareRecord._make((*record, counts.get(record.offset, 1))) for record in seen]
        return [ShareBatch(self.in_hand, records)] if records else []

    def _read(self, batch: Batch, records: list[ShareRecord]) -> None:
        """Append the acquired records of a batch, with their delivery counts."""
        decoding = self._decoding
        if decoding.convert is None and (decoding.intercept is None or decoding.convert_awaiting is not None):
            batch.read_acquired(self.in_hand.acquired, records, ShareRecord)
        else:
            records.extend(self._counted(self._converted(batch)))

    def _converted(self, batch: Batch) -> Iterator[Record]:
        convert, intercept = self._decoding.convert, self._decoding.intercept
        records: Iterable[Record] = batch
        ranges = self.in_hand.acquired
        if any(before.last_offset + 1 != after.first_offset for before, after in pairwise(ranges)):
            records = self._without_others(batch)
        if convert is not None:
            records = map(convert, records)
        if intercept is None:
            return iter(records)
        return iter(intercept(list(records)))

    def _without_others(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the acquired records alone: other members may have acquired those between them."""
        left = iter(self.in_hand.acquired)
        first, last, _ = next(left)
        for record in records:
            while record.offset > last:
                first, last, _ = next(left)
            if record.offset >= first:
                yield record

    def _counted(self, records: Iterator[Record]) -> Iterator[ShareRecord]:
        """Yield the records with their delivery counts, in half the time that `ShareRecord(*record, count)` takes."""
        new, left = tuple.__new__, iter(self.in_hand.acquired)
        _, last, count = next(left)
        for each in records:
            offset = each.offset
            while offset > last:
                _, last, count = next(left)
            fields = (
                each.topic, each.partition, offset, each.timestamp_ms, each.timestamp_type,
                each.key, each.value, each.headers, count,
            )  # fmt: skip
            yield new(ShareRecord, fields)

    def _locked(self, start: int, end: int) -> Iterator[int]:
        """Yield the acquired offsets between two offsets."""
        for first, last, _ in self.in_hand.acquired:
            yield from range(max(first, start), min(last + 1, end))

    def to_arrow(self, columns: Sequence[str], *, notes_gaps: bool) -> tuple[pyarrow.Table, list[Refused]]:
        """Return the records as Arrow columns, and the errors of damaged batches, whose records are rejected."""
        import pyarrow as pa

        names = dict.fromkeys([*(name for name in columns if name != DELIVERY_COUNT), "offset"])
        parts: list[pa.Table] = []
        problems: list[Refused] = []
        for first, last, delivery_count in self.in_hand.acquired:
            for part in self._readable(self._batch.between(first, last + 1), [*names], problems):
                counts = pa.repeat(pa.scalar(delivery_count, pa.int16()), part.num_rows)
                parts.append(pa.Table.from_batches([part]).append_column(DELIVERY_COUNT, counts))
        table = pa.concat_tables(parts or [empty_table()])
        if notes_gaps:
            refused = [offset for offset in self._offsets() if self.in_hand.is_refused(offset)]
            self.in_hand.found([*table["offset"].to_pylist(), *refused])
        return table.select(columns), problems

    def _readable(self, batch: Batch, names: list[str], problems: list[Refused]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the columns of a range; if something in it is damaged, wire batch by wire batch."""
        try:
            yield from list(batch.arrow_batches(names))
        except (CorruptBatchError, BatchTooLargeError):
            for header, _ in batch.wires:
                start = max(batch.start_offset, header.base_offset)
                end = min(batch.next_offset, header.next_offset)
                if start >= end:
                    continue
                try:
                    yield from list(batch.between(start, end).arrow_batches(names))
                except (CorruptBatchError, BatchTooLargeError) as error:
                    problems.append(Refused(self.in_hand, start, error))
                    for offset in range(start, end):
                        self.in_hand.acknowledge(offset, AcknowledgeType.REJECT)

    def _offsets(self) -> Iterator[int]:
        for first, last, _ in self.in_hand.acquired:
            yield from range(first, last + 1)


def empty_table() -> pyarrow.Table:
    """Return a table without rows, with all columns of `AsyncShareConsumer.poll_arrow`."""
    import pyarrow as pa

    from kafkaraw.client.fetching.arrow import to_arrow

    table = pa.Table.from_batches([to_arrow([])[0]])
    return table.append_column(DELIVERY_COUNT, pa.array([], pa.int16()))
