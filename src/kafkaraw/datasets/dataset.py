"""`dataset`: a topic as a data set of Arrow, which DuckDB, Polars, pandas and PyArrow scan.

A data set is a snapshot: the end offsets are looked up once, so a scan is finite and can be repeated. Its readers hand
over the columns and the filter of a query. Columns that are not asked for are not decoded, and ranges of offsets in
which no record can match are not fetched. Must not be changed; `refresh` makes another one. Start at
`KafkaDataset.scanner`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Unpack

import pyarrow as pa
import pyarrow.dataset as ds

from kafkaraw.datasets import values
from kafkaraw.datasets.origins import Locations, Origin, Topics, origin_of
from kafkaraw.datasets.pruning import earliest_timestamp_us, matching_ranges, needed_columns
from kafkaraw.datasets.scan import Scan, scanned
from kafkaraw.datasets.scanner import Columns, TopicScanner
from kafkaraw.datasets.values import Decoding, Format
from kafkaraw.errors import UsageError
from kafkaraw.ranges.planning import OffsetRange, bundle, split
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import polars
    import pyarrow.compute as pc

    from kafkaraw.client.settings_types import ConsumerSettings
    from kafkaraw.schemas.blocking import Registry

OnError = Literal["null", "raise"]

_SAMPLE_OFFSETS: Final = 1_000
"""As many of the oldest records of a topic, and of its newest ones, show the format and the fields of its values."""
_THREADS_MAX: Final = 4
_PIECES_OF_PART: Final = 4
"""Of smaller pieces, parts of more equal size are made."""
_POLL_TIMEOUT_MS: Final = 60_000

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)
"""Kafka's columns; those of fields of values are in front of `key`."""


@dataclass(frozen=True)
class Source:
    """Where records come from, and how they are decoded.

    Attributes:
        topics: names, or a pattern of names.
        origin: the cluster, or log directories.
        registry: of formats with schemas; not shown, because it may have passwords.
        threads: how many read at most.
        key: how keys are decoded.
        value: how values are decoded.
        fails: a record that does not decode is an error.
        record_bytes: the mean size of keys and values of a sample; None if none was taken.
        address: of the registry, with which other processes make one; not shown either.
    """

    topics: Topics
    origin: Origin
    registry: Registry | None = field(repr=False)
    threads: int
    key: Format
    value: Format
    fails: bool
    record_bytes: float | None = None
    address: str | Mapping[str, object] | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        if self.registry is not None and self.address is None:
            raise UsageError(
                "a data set with a Registry cannot be sent to another process: give registry= its URL or its settings"
            )
        return _source_at, (self.topics, self.origin, self.threads, self.key, self.value, self.fails, self.address)


def _source_at(
    topics: Topics,
    origin: Origin,
    threads: int,
    key: Format,
    value: Format,
    fails: bool,
    address: str | Mapping[str, object] | None,
) -> Source:
    return Source(topics, origin, _registry(address), threads, key, value, fails, address=address)


def dataset(  # noqa: PLR0913 - what is read, and how it is decoded
    topics: str | Iterable[str] | re.Pattern[str],
    *,
    key: str = values.BYTES,
    value: str = values.BYTES,
    schema: pa.Schema | str | None = None,
    registry: Registry | str | Mapping[str, object] | None = None,
    subject: str | None = None,
    on_error: OnError = "null",
    threads: int | None = None,
    poll_timeout_ms: int = _POLL_TIMEOUT_MS,
    log_dirs: Locations | None = None,
    **settings: Unpack[ConsumerSettings],
) -> KafkaDataset:
    """Return the records that topics have now, as a data set.

    Args:
        topics: a name, several names, or a compiled pattern that whole names match; Kafka's internal topics match none.
        key: "bytes", "string" or "auto", which looks at some records.
        value: "bytes"; "string"; "json", whose fields become columns; "avro", "protobuf" or "json-schema", with the
            schemas of a registry; or "auto", which looks at some records.
        schema: of "json", the fields and their types (`pyarrow.schema`), otherwise they are those of a sample; of
            formats with schemas, the text of the schema to which all records are resolved, otherwise it is the newest
            one of the subject.
        registry: a `Registry`, its URL, or its settings.
        subject: of the newest schema; None is the topic's name and "-value".
        on_error: what a record that does not decode is: "null" in the columns of its value, with the reason in the
            column `value_error` (for keys `key_error`), or "raise".
        threads: how many read at most; None is the number of processors, at most 4.
        poll_timeout_ms: the longest time without a change of a position while the data set is scanned, in ms.
        log_dirs: log directories of Apache Kafka or of the embedded broker, which are read instead of a cluster: local
            paths or URIs, with patterns. No broker is asked, and nothing is written.
        settings: of the consumers that read, as for `Consumer`; `isolation_level="read_committed"` leaves out what
            transactions have aborted or not committed yet. Of log directories, only this one.

    Raises:
        UnknownTopicError: there is no such topic.
        UsageError: an argument does not fit; the message says which.
        KafkaError: the cluster or the registry cannot be asked.
        OSError: a log directory cannot be read.
    """
    if on_error not in ("null", "raise"):
        raise UsageError(f'dataset: on_error={on_error!r} must be "null" or "raise"')
    chosen: Topics = topics if isinstance(topics, re.Pattern) else _names(topics)
    check_formats(key, value)
    origin = origin_of(log_dirs, settings, poll_timeout_ms)
    source = source_of(chosen, origin, registry, threads, fails=on_error == "raise")
    return with_formats(KafkaDataset(source, origin.snapshot(chosen)), key, value, schema, subject)


def check_formats(key: str, value: str) -> None:
    """Raise UsageError for a format that there is not."""
    for name, given, known in (("key", key, values.KEY_FORMATS), ("value", value, values.FORMATS)):
        if given not in known:
            raise UsageError(f"dataset: {name}={given!r} is none of {', '.join(known)}")


def source_of(
    topics: Topics,
    origin: Origin,
    registry: Registry | str | Mapping[str, object] | None,
    threads: int | None,
    *,
    fails: bool = False,
) -> Source:
    """Return a source of bytes; arguments and errors as for `dataset`."""
    if threads is not None and threads < 1:
        raise UsageError(f"dataset: threads={threads} must be 1 or more")
    count = threads or min(os.cpu_count() or 1, _THREADS_MAX)
    plain = Format(values.BYTES)
    address = registry if isinstance(registry, str | Mapping) else None
    return Source(topics, origin, _registry(registry), count, plain, plain, fails, address=address)


def _names(topics: str | Iterable[str]) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names:
        raise UsageError("dataset: no topic is named")
    return names


def with_formats(
    plain: KafkaDataset, key: str, value: str, schema: pa.Schema | str | None, subject: str | None
) -> KafkaDataset:
    """Return a data set of bytes with formats of keys and values; arguments and errors as for `dataset`."""
    formats = _Formats(plain, plain.source, schema, subject)
    found = replace(plain.source, key=formats.of_keys(key), value=formats.of_values(value))
    return KafkaDataset(replace(found, record_bytes=formats.record_bytes), plain.ranges)


if TYPE_CHECKING:

    class _ArrowDataset:
        """What data sets inherit of `pyarrow.dataset.Dataset`, which has no types."""

        def to_table(
            self, columns: Columns = None, filter: pc.Expression | None = None, **options: object
        ) -> pa.Table: ...

        def head(
            self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: object
        ) -> pa.Table: ...

        def take(
            self,
            indices: pa.Array | Sequence[int],
            columns: Columns = None,
            filter: pc.Expression | None = None,
            **options: object,
        ) -> pa.Table: ...
else:
    _ArrowDataset = ds.Dataset


class KafkaDataset(_ArrowDataset):
    """A snapshot of topics; see `dataset`. PyArrow, DuckDB, Polars and others scan it.

    Args:
        source: where records come from.
        ranges: their offsets, of different partitions.
        condition: what all records fulfil.
    """

    def __init__(self, source: Source, ranges: Sequence[OffsetRange], condition: pc.Expression | None = None) -> None:
        # Not the constructor of pyarrow's class: it is for data sets of files.
        self.source: Source = source
        self.ranges: tuple[OffsetRange, ...] = tuple(ranges)
        self.condition: pc.Expression | None = condition
        fields = [pa.field(column, kind) for column, _, kind in source.value.fields]
        columns = list(RECORD_SCHEMA)
        for name, each in (("key", source.key), ("value", source.value)):
            if each.is_text:
                columns[RECORD_SCHEMA.get_field_index(name)] = pa.field(name, pa.string())
        place = RECORD_SCHEMA.get_field_index("key")
        errors = [
            pa.field(name, pa.string())
            for name, is_there in (
                (values.KEY_ERROR, source.key.is_text),
                (values.VALUE_ERROR, bool(fields) or source.value.is_text),
            )
            if is_there and not source.fails
        ]
        self._schema = pa.schema([*columns[:place], *fields, *columns[place:], *errors])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.source, self.ranges, self.condition)

    def __repr__(self) -> str:
        topics = ", ".join(dict.fromkeys(each.topic for each in self.ranges))
        return f"<KafkaDataset {topics}: {len(self.ranges)} partitions, {self.offsets_count:,} offsets>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: columns, and offsets by partition."""
        from kafkaraw.notebooks import table, tables

        fields = ((each.name, str(each.type)) for each in self._schema)
        ranges = ((each.topic, each.partition, each.start, each.end) for each in self.ranges)
        return tables(
            repr(self)[1:-1],
            table(("column", "type"), fields, count=len(self._schema)),
            table(("topic", "partition", "start", "end"), ranges, count=len(self.ranges)),
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    @property
    def offsets(self) -> dict[TopicPartition, tuple[int, int]]:
        """First offset, and the offset behind the last one, of each partition: what a scan reads."""
        found: dict[TopicPartition, tuple[int, int]] = {}
        for each in self.ranges:
            start, end = found.get(each.topic_partition, (each.start, each.end))
            found[each.topic_partition] = min(start, each.start), max(end, each.end)
        return found

    @property
    def offsets_count(self) -> int:
        """The number of offsets; the number of records may be smaller."""
        return sum(each.size for each in self.ranges)

    @property
    def files(self) -> list[str]:
        """What a scan reads, as a text for each range: Dask, which asks for files, tells data sets apart by them."""
        source = self.source
        how = f"{source.key.name}, {source.value.name}, {'raise' if source.fails else 'null'}, {self.condition}"
        return [
            f"{source.origin.address}: {each.topic}-{each.partition} {each.start}-{each.end} {each.topic_id} ({how})"
            for each in self.ranges
        ]

    def refresh(self) -> KafkaDataset:
        """Return the data set of what the topics have now, with the same columns."""
        source = replace(self.source, origin=self.source.origin.refreshed())
        return KafkaDataset(source, source.origin.snapshot(source.topics), self.condition)

    def tail(self, count: int) -> KafkaDataset:
        """Return the newest offsets of each partition, at most so many; markers of transactions count, too."""
        if count < 0:
            raise UsageError(f"tail: {count} must be 0 or more")
        kept = [replace(each, start=max(each.start, each.end - count)) for each in self.ranges]
        return KafkaDataset(self.source, kept, self.condition)

    def split(self, count: int) -> list[KafkaDataset]:
        """Return at most `count` data sets of about equal size, which have the records of this one together.

        They can be pickled: other processes read them, such as Dask's with `dask.dataframe.from_map`.
        """
        if count < 1:
            raise UsageError(f"split: {count} must be 1 or more")
        ranges = [each for each in self.ranges if each.size]
        parts = bundle(split(ranges, _PIECES_OF_PART * count), count) or [self.ranges[:1]]
        return [KafkaDataset(self.source, part, self.condition) for part in parts]

    def filter(self, expression: pc.Expression) -> KafkaDataset:
        """Return the records for which an expression is true."""
        return KafkaDataset(self.source, self.ranges, self._and(expression))

    def narrowed(self, filter: pc.Expression) -> KafkaDataset:
        """Return the records of the offsets that `planned` returns; the filter is not applied to them.

        For readers with filters of their own, which may have other results for null and NaN than those of PyArrow.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        return KafkaDataset(self.source, self.planned(filter), self.condition)

    def planned(self, filter: pc.Expression | None = None) -> list[OffsetRange]:
        """Return the offsets that a scan with this filter fetches; asks for offsets of times if the filter needs them.

        Raises:
            KafkaError: the cluster cannot be asked.
        """
        filter = self._and(filter)
        ranges = [each for each in self.ranges if each.size]
        if filter is None or not ranges:
            return ranges
        ranges = matching_ranges(ranges, filter, self._schema)
        earliest_us = earliest_timestamp_us(filter, self._schema) if ranges else None
        if earliest_us is None:
            return ranges
        return self.source.origin.since(ranges, max(earliest_us // 1_000, 0))

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        *,
        on_read: Callable[[int], None] | None = None,
        **options: object,
    ) -> TopicScanner:
        """Return a scan of some columns of the records for which a filter is true.

        It has the methods of `pyarrow.dataset.Scanner` that return records, and reads them again with each call.

        Args:
            columns: names, or expressions by the name of the result; None is all columns.
            filter: over any columns.
            batch_size: ignored: batches have at most 20,000 rows.
            on_read: called with the number of offsets that were read since the last call, from any thread.
            options: of PyArrow's scanners; ignored, too.

        Raises:
            pyarrow.ArrowInvalid: a column does not exist.
            KafkaError: the cluster cannot be asked; the scan itself raises as `scanned` does.
        """
        found = TopicScanner(self.scan(columns, filter).watched(on_read), columns, self._and(filter))
        if "use_threads" in options:  # PyArrow writes files, and needs a scanner of its own
            written: TopicScanner = ds.Scanner.from_batches(found.to_reader())
            return written
        return found

    def scan(self, columns: Columns = None, filter: pc.Expression | None = None) -> Scan:
        """Return what `scanner` reads; arguments and errors as there."""
        filter = self._and(filter)
        names = needed_columns(self._schema, columns, filter) or ["partition"]
        source = self.source
        return Scan(
            self.planned(filter),
            pa.schema([self._schema.field(name) for name in names]),
            source.origin,
            source.threads,
            lambda: Decoding(source.key, source.value, names, source.registry, fails=source.fails),
        )

    def count_rows(self, filter: pc.Expression | None = None, **_: object) -> int:
        """Return the number of records for which the filter is true; they are read, because offsets may have gaps."""
        return sum(batch.num_rows for batch in self.scanner(["partition"], filter).to_batches())

    def to_batches(
        self, columns: Columns = None, filter: pc.Expression | None = None, **_: object
    ) -> Iterator[pa.RecordBatch]:
        """Return the batches of a scan; arguments as for `scanner`."""
        yield from self.scanner(columns, filter).to_batches()

    def to_polars(self) -> polars.LazyFrame:
        """Return the records as a lazy frame of Polars; only the columns and offsets that a query needs are read.

        Raises:
            UsageError: Polars is not installed.
        """
        from kafkaraw.datasets.frames import lazy_frame

        return lazy_frame(self)

    # What pyarrow's class does with files: calling it would end the process.

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[ds.Fragment]:
        """Raise UsageError: the records are in no files."""
        raise UsageError("a data set of topics has no fragments; `planned(filter)` returns the offsets that are read")

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:
        """Raise UsageError: the columns are those of the format."""
        raise UsageError("the columns of a data set of topics are fixed; give schema= to `dataset`")

    def sort_by(
        self, sorting: object, columns: Columns = None, filter: pc.Expression | None = None, **options: object
    ) -> ds.InMemoryDataset:
        """Return the records in an order, in memory."""
        return ds.dataset(self.to_table(columns, filter, **options).sort_by(sorting))

    def join(self, right_dataset: ds.Dataset, *arguments: object, **options: object) -> ds.InMemoryDataset:
        """Return the join with a data set, in memory; arguments as for `pyarrow.dataset.Dataset.join`."""
        return ds.dataset(self.to_table().join(right_dataset.to_table(), *arguments, **options))

    def join_asof(self, right_dataset: ds.Dataset, *arguments: object, **options: object) -> ds.InMemoryDataset:
        """Return the asof join with a data set, in memory; arguments as for `pyarrow.dataset.Dataset.join_asof`."""
        return ds.dataset(self.to_table().join_asof(right_dataset.to_table(), *arguments, **options))

    @property
    def partition_expression(self) -> pc.Expression:
        """What all records fulfil, for pyarrow: true."""
        import pyarrow.compute as pc

        return pc.scalar(True)

    def _and(self, filter: pc.Expression | None) -> pc.Expression | None:
        both = [each for each in (self.condition, filter) if each is not None]
        return both[0] & both[1] if len(both) > 1 else both[0] if both else None


def _registry(given: Registry | str | Mapping[str, object] | None) -> Registry | None:
    if given is None:
        return None
    from kafkaraw.schemas.blocking import Registry

    if isinstance(given, str):
        return Registry(given)
    return Registry.from_config(given) if isinstance(given, Mapping) else given


# -- formats


class _Formats:
    """Finds out how keys and values are decoded.

    Args:
        plain: the data set without formats.
        source: where records come from.
        schema: see `dataset`.
        subject: see `dataset`.
    """

    def __init__(
        self, plain: KafkaDataset, source: Source, schema: pa.Schema | str | None, subject: str | None
    ) -> None:
        self._plain = plain
        self._source = source
        self._schema = schema
        self._subject = subject
        self._sampled: pa.Table | None = None

    @property
    def record_bytes(self) -> float | None:
        """The mean size of keys and values of the sample; None if none was taken."""
        import pyarrow.compute as pc

        sampled = self._sampled
        if sampled is None or not sampled.num_rows:
            return None
        sizes = [pc.sum(pc.binary_length(sampled.column(name))).as_py() or 0 for name in ("key", "value")]
        return float(sum(sizes) / sampled.num_rows)

    def of_keys(self, given: str) -> Format:
        """Return the format of keys."""
        is_auto = given == values.AUTO
        return Format(
            values.detected(self._sample("key"), has_registry=False, formats=(values.STRING,)) if is_auto else given
        )

    def of_values(self, given: str) -> Format:
        """Return the format of values; errors as for `dataset`."""
        if given == values.AUTO:
            has_registry = self._source.registry is not None
            given = values.detected(self._sample("value"), has_registry=has_registry, formats=values.FORMATS)
            if given == values.AUTO:
                given = self._language()
        if self._schema is not None and given not in (values.JSON, *values.WITH_SCHEMA):
            raise UsageError(f"dataset: schema= is for values with fields, and value={given!r} has none")
        return self._value(given)

    def _value(self, name: str) -> Format:
        if name == values.JSON:
            if isinstance(self._schema, str):
                raise UsageError('dataset: schema= of value="json" is a pyarrow.Schema; for a text use "json-schema"')
            return values.json_format(self._sample("value") if self._schema is None else (), self._schema)
        if name in values.WITH_SCHEMA:
            return self._with_schema(name)
        return Format(name)

    def _with_schema(self, name: str) -> Format:
        from kafkaraw.schemas.arrow.decode import FORMATS, ColumnDecoder
        from kafkaraw.schemas.arrow.plans import Texts
        from kafkaraw.schemas.model import Schema

        registry = self._source.registry
        if registry is None:
            raise UsageError(f'dataset: value="{name}" needs registry=, the URL of the registry of its schemas')
        if self._schema is not None:
            if not isinstance(self._schema, str):
                raise UsageError(f'dataset: schema= of value="{name}" is the text of the schema')
            texts = Texts.of(registry.bundle(Schema(self._schema, FORMATS[name])))
        else:
            subject = self._subject or self._subject_of_topic()
            found = registry.version(subject)
            if found.schema.schema_type is not FORMATS[name]:
                raise UsageError(
                    f"dataset: value={name!r}, but the schema of {subject!r} is of the language "
                    f"{found.schema.schema_type.value}"
                )
            texts = Texts.of(registry.bundle(found.schema, subject=subject))
        return values.schema_format(name, ColumnDecoder(registry, name, texts, "value").arrow_type, texts)

    def _subject_of_topic(self) -> str:
        topics = list(dict.fromkeys(each.topic for each in self._plain.planned()))
        topics = topics or [*self._source.topics] if not isinstance(self._source.topics, re.Pattern) else topics
        if len(topics) != 1:
            raise UsageError("dataset: several topics are read, so give subject= or schema=, the schema of the rows")
        return f"{topics[0]}-value"

    def _language(self) -> str:
        from kafkaraw.schemas.arrow.decode import FORMATS

        registry = self._source.registry
        first = next(each for each in self._sample("value") if each is not None)
        assert registry is not None
        language = registry.schema_by_id(int.from_bytes(first[1:5])).schema.schema_type
        return {kind: name for name, kind in FORMATS.items() if name in values.WITH_SCHEMA}[language]

    def _sample(self, column: str) -> list[bytes | None]:
        if self._sampled is None:
            ranges = [each for each in self._plain.planned() if each.size]
            each_count = max(1, _SAMPLE_OFFSETS // max(1, len(ranges)))
            chosen = []
            for each in ranges[:_SAMPLE_OFFSETS]:
                middle = min(each.start + each_count, each.end)
                chosen.append(replace(each, end=middle))
                if middle < each.end:
                    chosen.append(replace(each, start=max(middle, each.end - each_count)))
            schema = pa.schema([RECORD_SCHEMA.field("key"), RECORD_SCHEMA.field("value")])
            source = self._source
            scan = Scan(chosen, schema, source.origin, 1, None)
            self._sampled = pa.Table.from_batches(scanned(scan), schema=schema)
        found: list[bytes | None] = self._sampled.column(column).to_pylist()
        return found
