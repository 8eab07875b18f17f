"""Write Arrow batches of rows to Kafka and wait for the acknowledgements: the work of a task of the sink.

Runs in Spark's workers. Must not decide what becomes visible when: the sink delivers at least once; Spark runs a failed
task again, which may write its rows twice. `Summed` counts rows for the exactly-once sink. Start at `write_rows`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.sending.arrow_rows import rows_of
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import Rows
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.options.parsing import ExactlyOnce, SparkOptions, check_write
from kafkaraw.spark.worker import ClientPool, freeze_modules_once
from kafkaraw.spark.writing.dead_letters import Letter, Sieve, rules_pool
from kafkaraw.spark.writing.decision import NO_ROWS, RowSum

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.spark.writing.typed_rows import EncodedColumn

_log = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The maximum that brokers allow by default: a transaction is open until the slowest task of its batch is done."""

_TIMESTAMP: Final = "timestamp"
_TOPIC: Final = "topic"

# Column -> the Spark types it may have. Other columns are ignored, as in Spark's own connector.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    _TOPIC: ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>", "map<string,binary>"),
    _TIMESTAMP: ("timestamp",),
}


@dataclass(frozen=True)
class WriteSettings:
    """Settings of a task's writes; pickled to the workers.

    Attributes:
        producer: settings of the producer, as text.
        topic: topic of all rows; overrides the column `topic`. None to use the column.
        client: settings of all clients, as text.
        exactly_once: write in transactions; None for at least once.
        dead_letter_topic: topic for rows that cannot be records of their topic; None to fail.
        dead_letter_headers: of these rows, in front of their own; None for the usual ones.
        include_timestamp: whether the column `timestamp` becomes the records' timestamps. Otherwise it is a column like
            any other, which is ignored, as by Spark's JVM connector.
        encoding: the columns that are encoded with schemas of a registry.
    """

    producer: Settings
    topic: str | None
    client: Settings
    exactly_once: ExactlyOnce | None = None
    dead_letter_topic: str | None = None
    dead_letter_headers: tuple[tuple[str, str], ...] | None = None
    include_timestamp: bool = False
    encoding: tuple[EncodedColumn, ...] = ()


def write_settings(options: SparkOptions, schema: StructType) -> WriteSettings:
    """Check options and columns, and return the settings for the tasks.

    Raises:
        ConfigError: a column is missing or has a type that Kafka cannot take.
    """
    check_write(options)
    types = {column.name: column.dataType.simpleString() for column in schema.fields}
    ignored = set() if options.include_timestamp else {_TIMESTAMP}
    if options.topic is not None:
        ignored.add(_TOPIC)
    with_schema = set() if options.schemas is None else {each.name for each in options.schemas.columns}
    if "value" not in types:
        raise ConfigError(f"there is no column `value` to write; the columns are {', '.join(types) or 'none'}")
    if options.include_timestamp and _TIMESTAMP not in types:
        raise ConfigError(f"includeTimestamp=true needs a column `timestamp`; the columns are {', '.join(types)}")
    for name, allowed in _COLUMNS.items():
        if name in types and name not in ignored | with_schema and types[name] not in allowed:
            hint = f", or give {name}.format" if name in ("key", "value") else ""
            raise ConfigError(
                f"the column {name} is {types[name]}; to be written it must be {' or '.join(allowed)}{hint}"
            )
    if options.topic is None and "topic" not in types:
        raise ConfigError("where to write? give the option topic, or a column `topic`")
    defaults = {"client_id": "kafkaraw-spark"}
    if options.exactly_once is not None:
        defaults["transaction_timeout_ms"] = str(TRANSACTION_TIMEOUT_MS)
    producer = defaults | settings_for(ProducerConfig, options.client)
    return WriteSettings(
        producer,
        options.topic,
        options.client,
        options.exactly_once,
        options.dead_letter_topic,
        options.dead_letter_headers,
        options.include_timestamp,
        _encoding(options, schema),
    )


def _encoding(options: SparkOptions, schema: StructType) -> tuple[EncodedColumn, ...]:
    if options.schemas is None:
        return ()
    from pyspark.errors import PySparkException

    from kafkaraw.spark.arrow_schemas import arrow_schema
    from kafkaraw.spark.writing.typed_rows import encoding_for

    try:
        types = arrow_schema(schema)
    except PySparkException as error:
        raise UsageError(f"the columns have a type that Arrow lacks; cast it first: {error}") from None
    return encoding_for(options, types)


def make_producer(settings: Settings) -> Producer:
    """Make a producer from settings that are text."""
    return Producer(runtime=None, **typed_settings(ProducerConfig, settings))


_producers: ClientPool[Producer] = ClientPool(make_producer, settle=Producer.flush)
"""Their errors belong to the task that sent the records: `flush` raises the first of them."""


def write_rows(batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> int:
    """Write all rows and wait for their acknowledgements: at least once.

    Args:
        batches: rows in the columns that `write_settings` checked.
        settings: where and how to write.

    Returns:
        number of records written.

    Raises:
        UsageError: a row names no topic, or a header has no name.
        DeliveryError: a record was not acknowledged within `delivery_timeout_ms`; others may have been written.
    """
    freeze_modules_once()
    with _producers.borrow(settings.producer) as producer:
        return send_rows(producer, batches, settings)  # the pool waits for the acknowledgements


def send_rows(producer: Producer, batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> int:
    """Pass all rows to a producer without waiting for acknowledgements; return the number of rows."""
    count = dead = 0
    with _sieve(settings) as sieve:
        for batch in batches:
            if sieve is None:
                rows, letters = columns_to_send(batch, settings), list[Letter]()
            else:
                rows, letters = _sifted(batch, settings, sieve)
            for letter in letters:
                headers, timestamp_ms = letter.headers, letter.timestamp_ms
                dead_topic = settings.dead_letter_topic
                producer.send(str(dead_topic), letter.value, letter.key, headers=headers, timestamp_ms=timestamp_ms)
            producer.send_arrow(settings.topic, rows)
            count += batch.num_rows
            dead += len(letters)
    if dead:
        topic = settings.dead_letter_topic
        _log.warning("%d of %d rows cannot be records of their topics, and go to topic %s", dead, count, topic)
    return count


def _sifted(batch: pa.RecordBatch, settings: WriteSettings, sieve: Sieve) -> tuple[pa.RecordBatch, list[Letter]]:
    """Return the records of the rows that can be sent, and dead letters for the others."""
    rows = _columns_of_records(batch, settings)
    if not settings.encoding:
        return sieve.sift(rows, settings.topic)
    from kafkaraw.spark.writing.typed_rows import encodable

    records, unfit = encodable(rows, settings.encoding)
    kept, letters = sieve.sift(records, settings.topic)
    return kept, [*sieve.unfit(rows, settings.topic, unfit), *letters]


@contextmanager
def _sieve(settings: WriteSettings) -> Iterator[Sieve | None]:
    """Return the filter for rows that cannot be sent; None without a dead-letter topic."""
    if settings.dead_letter_topic is None:
        yield None
        return
    producer = parse(ProducerConfig, settings.producer, from_text=True)
    with rules_pool.borrow(settings.client) as rules:
        yield Sieve(settings.dead_letter_topic, producer, rules, settings.dead_letter_headers)


def columns_to_send(batch: pa.RecordBatch, settings: WriteSettings, *, for_sums: bool = False) -> pa.RecordBatch:
    """Return the columns of the records; the option `topic` overrides the column.

    Args:
        batch: the rows.
        settings: how they are written.
        for_sums: columns with schemas become bytes that do not depend on the version of the schema.

    Raises:
        SerializationError: a value does not fit its schema.
        UsageError: a row names no topic, and there is no option.
    """
    nulls_count = batch.column(_TOPIC).null_count if settings.topic is None else 0
    selected = _columns_of_records(batch, settings)
    if nulls_count and settings.dead_letter_topic is None:
        raise UsageError(
            f"the column topic is null in {nulls_count} of {batch.num_rows} rows: name a topic in each, or give the "
            f"option topic, which then counts for all"
        )
    if nulls_count:  # dead letters, which count in sums like all rows
        at = selected.schema.get_field_index(_TOPIC)
        selected = selected.set_column(at, _TOPIC, selected.column(at).fill_null(""))
    if settings.encoding:
        from kafkaraw.spark.writing.typed_rows import comparable, encoded

        return (comparable if for_sums else encoded)(selected, settings.encoding)
    return selected


def _columns_of_records(batch: pa.RecordBatch, settings: WriteSettings) -> pa.RecordBatch:
    ignored = {_TOPIC} if settings.topic is not None else set()
    if not settings.include_timestamp:
        ignored.add(_TIMESTAMP)
    return batch.select([name for name in batch.schema.names if name in _COLUMNS and name not in ignored])


# -- row sums


class Summed:
    """Sums up batches while the caller iterates over them, so that a repetition can be compared with its rows.

    The checksum of a row covers what becomes its record: topic, key, value, headers, timestamp if it is written, and
    the partition if the row names one. Sums of checksums do not depend on the order of rows, nor on how they are cut
    into Arrow batches: a shuffle may change both.

    Args:
        batches: rows in the columns that `write_settings` checked.
        settings: how they are written, which defines what becomes a record.

    Attributes:
        total: count and checksum of the batches so far.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> None:
        self.total: RowSum = NO_ROWS
        self._batches = batches
        self._settings = settings

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.total = self.total.plus(_sum_of(batch, self._settings))
            yield batch


def sum_rows(batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> RowSum:
    """Iterate over all batches, and sum them up."""
    summed = Summed(batches, settings)
    for _ in summed:
        pass
    return summed.total


def _sum_of(batch: pa.RecordBatch, settings: WriteSettings) -> RowSum:
    columns = rows_of(columns_to_send(batch, settings, for_sums=True), settings.topic)
    return RowSum(batch.num_rows, sum(Rows(each).checksum() for each in columns) % (1 << 64))
