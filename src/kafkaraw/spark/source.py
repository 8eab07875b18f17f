"""Format "kafkaraw" as Spark calls it: the data source, its batch reader and its streaming reader.

The classes here are thin: each method calls a module that does not import Spark. The options are checked when the
DataFrame is made. What depends on the kind of read is checked when Spark calls a method of the reader: if
`streamReader()` itself raised, Spark would hide the message behind an error of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.ranges.planning import OffsetRange, bundle, ranges_between, split
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.data_source_api import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from kafkaraw.spark.errors import without_traceback
from kafkaraw.spark.options import tables
from kafkaraw.spark.options.client import BOOTSTRAP
from kafkaraw.spark.options.offsets import OffsetJson, from_checkpoint
from kafkaraw.spark.options.parsing import (
    SparkOptions,
    check_batch_read,
    check_read,
    check_stream_read,
    parse_options,
    patient,
)
from kafkaraw.spark.options.positions import check_order
from kafkaraw.spark.options.schemas import JSON_COLUMN, typed_names
from kafkaraw.spark.reading.arrow import check_selection, schema_text, spark_schema
from kafkaraw.spark.shipping import Shipped
from kafkaraw.spark.versions import features
from kafkaraw.spark.worker import cores_of_this_machine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceArrowWriter
    from pyspark.sql.types import StructType

    from kafkaraw.logs.segment_reader import LogRange
    from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
    from kafkaraw.spark.reading.json_values import JsonValues
    from kafkaraw.spark.reading.lookup import ClusterLookup
    from kafkaraw.spark.reading.stream_plan import StreamPlan
    from kafkaraw.spark.reading.task import ReadSettings
    from kafkaraw.spark.reading.typed_columns import Decoding

_log = logging.getLogger(__name__)

# Spark marks Trigger.Once only by its limit ReadAllAvailable, so the default limit must never be that one.
_NO_LIMIT = 2**63 - 1

# Offsets: reading this many takes about as long as starting a task.
_LITTLE_WORK = 10_000
# The number of tasks of a small batch read on a cluster, whose number of cores is not known here.
_TASKS_ENOUGH = 200


class KafkaPartition(InputPartition):
    """The work of one task.

    Args:
        work: the partitions and offsets to read, and of log directories where they are; empty for a batch read that
            has nothing to read.
    """

    def __init__(self, work: tuple[OffsetRange, ...] | tuple[LogRange, ...]) -> None:
        super().__init__(work)


class KafkaDataSource(Shipped, DataSource):
    """Kafka topics as DataFrames: batch and streaming reads and writes.

    Args:
        options: options of the DataFrame; names in any case.

    Raises:
        ConfigError: an option is unknown or wrong.
    """

    @without_traceback()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._given = tables.given(options)
        # Without a cluster or log directories this may be a table; only the reader's schema has the options of a table.
        self._checked = parse_options(self._given) if tables.names_source(self._given) else None

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw"

    @without_traceback()
    def schema(self) -> str | StructType:
        """Return all columns. Spark calls this for a DataFrame without a user-defined schema, and for a table."""
        if tables.is_definition(self.options):
            return self._schema_of_table()
        options = self._parsed(self._given)
        check_read(options)
        if options.schemas is not None:
            from kafkaraw.spark.reading.typed_columns import typed_schema

            plain = spark_schema(include_headers=options.include_headers)
            return typed_schema(plain, options.schemas, options.topics)
        if options.json_columns is not None:
            from kafkaraw.spark.reading.json_values import JsonValues

            plain = spark_schema(include_headers=options.include_headers)
            return JsonValues.from_text(options.json_columns).added_to(plain)
        return schema_text(include_headers=options.include_headers)

    def _schema_of_table(self) -> StructType:
        brokers_come_later = {} if tables.names_source(self._given) else {BOOTSTRAP: "localhost:9092"}
        tables.check_kept(self._given)
        options = parse_options(self._given | brokers_come_later)
        return tables.with_options(spark_schema(include_headers=options.include_headers), self._given)

    def _parsed(self, options: Mapping[str, str]) -> SparkOptions:
        return self._checked or parse_options(options)

    def _to_write(self) -> SparkOptions:
        tables.check_writer(self._given)
        return self._parsed(self._given)

    @without_traceback()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader of these columns."""
        options = self._parsed(tables.completed(self._given, schema))
        return LogDirectoryReader(options, schema) if options.log_dirs else KafkaBatchReader(options, schema)

    @without_traceback()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Return a streaming reader of these columns."""
        try:
            options = self._parsed(tables.completed(self._given, schema))
            if options.log_dirs:
                check_stream_read(options)
            if features().read_limits:
                return KafkaStreamReader(options, schema)
            return KafkaUnlimitedStreamReader(options, schema)
        except KafkaError as error:
            return _RefusedStream(error)

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a batch writer of these columns."""
        from kafkaraw.spark.sink import KafkaBatchWriter

        if overwrite:
            raise ConfigError('mode("overwrite") is not possible: Kafka topics are appended to; use mode("append")')
        return KafkaBatchWriter(self._to_write(), schema)

    @without_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a streaming writer of these columns. Complete mode appends all rows, as in Spark's own connector."""
        from kafkaraw.spark.sink import KafkaStreamWriter

        return KafkaStreamWriter(self._to_write(), schema)


class _SchemaReader(Shipped):
    """What all readers share. Spark pickles it to the workers, so it holds settings only."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._decoding: Decoding | JsonValues | None = None
        if options.schemas is not None:  # here, because Spark makes a reader of its own for the tasks of a stream
            from kafkaraw.spark.reading.typed_columns import decoding_for

            self._decoding = decoding_for(options, schema)
        elif options.json_columns is not None:
            from kafkaraw.spark.reading.json_values import JsonValues

            self._decoding = JsonValues.from_text(options.json_columns)

    def _check_selection(self) -> None:
        typed = typed_names(self._options.schemas)
        check_selection(self._schema, typed if self._options.json_columns is None else typed | {JSON_COLUMN})


class _TaskReader(_SchemaReader):
    """What the tasks of both readers of a cluster do."""

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kafkaraw.spark.reading.task import read_ranges

        with without_traceback():
            yield from read_ranges(partition.value, arrow_schema(self._schema), self._read_settings())

    def _tasks(self, ranges: list[OffsetRange]) -> list[InputPartition]:
        """Return one task per range, unless the options ask for more or fewer; many small ranges share tasks."""
        options = self._options
        parts = split(ranges, options.partitions_min, options.rows_per_partition_max)
        given = options.partitions_min is not None or options.rows_per_partition_max is not None
        worth_while = -(-sum(each.size for each in parts) // _LITTLE_WORK)
        tasks_max = options.tasks_max or (None if given else max(worth_while, self._tasks_min()))
        return [KafkaPartition(work) for work in bundle(parts, tasks_max)]

    def _tasks_min(self) -> int:
        """Return the number of tasks for ranges with few offsets; fewer if there are fewer ranges."""
        return _TASKS_ENOUGH

    def _read_settings(self) -> ReadSettings:
        from kafkaraw.spark.reading.lookup import consumer_settings
        from kafkaraw.spark.reading.task import ReadSettings

        return ReadSettings(
            consumer_settings(self._options.client),
            self._options.fail_on_data_loss,
            self._options.poll_timeout_ms,
            self._decoding,
        )


class KafkaBatchReader(_TaskReader, DataSourceReader):
    """Reads from `startingOffsets` to `endingOffsets`.

    Must not accept filters (`pushFilters`): Spark, at least up to 4.3, stores the plan of a filtered scan on the
    relation that all scans of a DataFrame share (`PythonDataSourceV2.setReadInfo`), so the filter of one scan would
    decide which rows another scan reads.
    """

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(patient(options), schema)

    @without_traceback()
    def partitions(self) -> list[InputPartition]:
        """Return one task per partition with records, or more or fewer if the options ask for that."""
        from kafkaraw.spark.reading.lookup import ClusterLookup

        starting, ending = check_batch_read(self._options)
        self._check_selection()
        lookup = ClusterLookup(self._options)
        try:
            lookup.require_all()
            partitions = lookup.partitions()
            start = starting.resolve(partitions, lookup)
            end = ending.resolve(partitions, lookup)
            check_order(starting, start, ending, end)
            ranges = ranges_between(start.offsets, end.offsets, lookup.topic_ids())
        finally:
            lookup.close()
        # Spark takes an empty list to mean one task without a partition.
        return self._tasks(ranges) or [KafkaPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one task, as Arrow batches."""
        return self._read(partition)


class LogDirectoryReader(_SchemaReader, DataSourceReader):
    """Reads log directories from `startingOffsets` to `endingOffsets`, without a broker."""

    @without_traceback()
    def partitions(self) -> list[InputPartition]:
        """Return one task per core, or per 128 MiB of files, or more or fewer if the options ask for that."""
        from kafkaraw.spark.reading.log_lookup import planned

        starting, ending = check_batch_read(self._options)
        self._check_selection()
        tasks = planned(self._options, starting, ending, cores_of_this_machine())
        return [KafkaPartition(work) for work in tasks] or [KafkaPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one task, as Arrow batches."""
        from kafkaraw.spark.reading.log_task import read_log_range

        with without_traceback():
            for work in partition.value:
                yield from read_log_range(
                    work,
                    arrow_schema(self._schema),
                    fail_on_data_loss=self._options.fail_on_data_loss,
                    decoding=self._decoding,
                )


class _RefusedStream(DataSourceStreamReader):
    """Replaces the reader of a stream whose options are wrong, and raises their error where Spark shows it."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    @without_traceback()
    def initialOffset(self) -> OffsetJson:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


class _StreamReader(_TaskReader, DataSourceStreamReader):
    """Plans micro-batches on the driver, where it lives as long as the query; its tasks read them in the workers."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(patient(options), schema)
        self._lookup: ClusterLookup | None = None
        self._plan: StreamPlan | None = None
        self._committed: OffsetJson = {}

    @without_traceback()
    def initialOffset(self) -> OffsetJson:
        """Return the offsets at which a query without a checkpoint starts."""
        return self._initial()

    def _initial(self) -> OffsetJson:
        plan = self._planned()
        self._looked_up().require_all()
        return plan.initial()

    def _latest_after(self, start: OffsetJson, rows_max: int | None) -> OffsetJson:
        """Return the end of the next micro-batch; `start` itself if there are no new records.

        Offsets before `start` are processed. Spark's `commit` comes later, and after the last batch not at all.
        """
        if self._options.commit_offsets and start != self._committed:
            self._looked_up().commit(from_checkpoint(start))
            self._committed = start
        return self._planned().latest(start, rows_max, wait=self._looked_up().wait_for_change)

    @without_traceback()
    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return one task per partition with new records; none if `end` is not after `start`."""
        return self._tasks(self._planned().ranges(start, end))

    def _tasks_min(self) -> int:
        """Return the number of cores: a task of a small micro-batch that waits for a core only costs its start."""
        return cores_of_this_machine() or _TASKS_ENOUGH

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one task, as Arrow batches."""
        return self._read(partition)

    def stop(self) -> None:
        """Close the clients; Spark usually ends the process instead of calling this."""
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None
            self._plan = None

    def _looked_up(self) -> ClusterLookup:
        from kafkaraw.spark.reading.lookup import ClusterLookup

        if self._lookup is None:
            self._lookup = ClusterLookup(self._options)
        return self._lookup

    def _planned(self) -> StreamPlan:
        from kafkaraw.spark.reading.stream_plan import BatchLimits, StreamPlan

        if self._plan is None:
            options = self._options
            starting = check_stream_read(options)
            self._check_selection()
            self._plan = StreamPlan(
                self._looked_up(),
                starting,
                fail_on_data_loss=options.fail_on_data_loss,
                limits=BatchLimits(options.rows_per_trigger_min, options.trigger_delay_max_ms),
            )
        return self._plan


class KafkaStreamReader(_StreamReader, SupportsTriggerAvailableNow):
    """The streaming reader for versions of Spark that pass the start of a micro-batch and its limit (4.2)."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit of rows, always, so that Trigger.Once is recognised by its ReadAllAvailable."""
        return ReadMaxRows(self._options.rows_per_trigger_max or _NO_LIMIT)

    @without_traceback()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current end of the topics as the end of the query."""
        self._planned().fix_target()

    @without_traceback()
    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the end of the next micro-batch; `start` itself if there are no new records."""
        rows_max = None if isinstance(limit, ReadAllAvailable) else self._rows_max(limit)
        return self._latest_after(start, rows_max)

    def reportLatestOffset(self) -> OffsetJson | None:
        """Return the end offsets of the partitions, for the query's progress."""
        return self._planned().known_latest

    def _rows_max(self, limit: ReadLimit) -> int:
        return limit.max_rows if isinstance(limit, ReadMaxRows) else _NO_LIMIT


class KafkaUnlimitedStreamReader(_StreamReader):
    """The streaming reader for versions of Spark that have no read limits (4.0 and 4.1).

    Spark asks for the latest offset and does not say where the micro-batch starts, so this reader keeps the position:

    - The end that it returned last is where the next micro-batch starts. Spark logs each end that is new.
    - When a query continues from a checkpoint, Spark first asks for the partitions between the newest offset of the
      checkpoint and itself (`PythonMicroBatchStream.setLatestSeenOffset`).
    - If Spark asks for the latest offset before either, there is no checkpoint: the query starts at `initialOffset`.

    This reader applies the limits of the options, too. Spark does not say which trigger the query has: Trigger.Once
    and, in these versions, Trigger.AvailableNow ask once and run one micro-batch, to which the limit applies as to any.
    """

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._position: OffsetJson | None = None

    @without_traceback()
    def latestOffset(self) -> OffsetJson:  # type: ignore[override]  # as Spark 4.0 and 4.1 call it
        """Return the end of the next micro-batch; the end of the last one if there are no new records."""
        options = self._options
        if self._position is None:
            self._position = self._initial()
            if options.rows_per_trigger_max is not None:
                _log.warning(
                    "maxOffsetsPerTrigger=%d: before Spark 4.2, Trigger.AvailableNow and Trigger.Once run one "
                    "micro-batch of that size and end the query, even if more is there",
                    options.rows_per_trigger_max,
                )
        waits = None if options.rows_per_trigger_min is None else _NO_LIMIT
        self._position = self._latest_after(self._position, options.rows_per_trigger_max or waits)
        return self._position

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return one task per partition with new records; none if `end` is not after `start`."""
        self._position = end
        return super().partitions(start, end)
