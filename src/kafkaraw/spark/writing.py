"""Write Arrow batches of rows to Kafka and wait until the brokers have them: what a task of the sink does.

Runs in Spark's workers. Must not decide what becomes visible when: the sink is at least once, a task that fails is run
again and may write its rows twice. Start at `write_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from kafkaraw.client.blocking import Producer
from kafkaraw.client.config import ProducerConfig
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.spark.options import ExactlyOnce, Settings, SparkOptions, settings_for, typed_settings
from kafkaraw.spark.worker import ClientPool, freeze_modules_once

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.records import Headers

TRANSACTION_TIMEOUT_MS: Final = 900_000
"""As long as brokers allow by default: a transaction is open until the slowest task of its batch is done."""

# Column -> the Spark types it may have. Other columns are left alone, as Spark's own connector does.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True)
class WriteSettings:
    """How tasks write; travels to the workers.

    Attributes:
        producer: settings of the producer, as text.
        topic: where to write, whatever the column `topic` says; None to go by the column.
        client: settings of all clients, as text.
        exactly_once: write in transactions; None for at least once.
    """

    producer: Settings
    topic: str | None
    client: Settings
    exactly_once: ExactlyOnce | None = None


def write_settings(options: SparkOptions, schema: StructType) -> WriteSettings:
    """Check what is to be written, and say how.

    Raises:
        ConfigError: a column is missing or has a type that Kafka cannot take.
    """
    types = {column.name: column.dataType.simpleString() for column in schema.fields}
    if "value" not in types:
        raise ConfigError(f"there is no column `value` to write; the columns are {', '.join(types) or 'none'}")
    for name, allowed in _COLUMNS.items():
        if name in types and types[name] not in allowed:
            raise ConfigError(f"the column {name} is {types[name]}; to be written it must be {' or '.join(allowed)}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("where to write? give the option topic, or a column `topic`")
    defaults = {"client_id": "kafkaraw-spark"}
    if options.exactly_once is not None:
        defaults["transaction_timeout_ms"] = str(TRANSACTION_TIMEOUT_MS)
    producer = defaults | settings_for(ProducerConfig, options.client)
    return WriteSettings(producer, options.topic, options.client, options.exactly_once)


def make_producer(settings: Settings) -> Producer:
    """A producer with settings that are text."""
    return Producer(runtime=None, **typed_settings(ProducerConfig, settings))


_producers: ClientPool[Producer] = ClientPool(make_producer)


def write_rows(batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> int:
    """Write all rows and wait for their acknowledgements: at least once.

    Args:
        batches: rows in the columns that `write_settings` checked.
        settings: where and how.

    Returns:
        number of records written.

    Raises:
        UsageError: a row names no topic.
        DeliveryError: a record was not acknowledged within `delivery_timeout_ms`; others may have been written.
    """
    freeze_modules_once()
    with _producers.borrow(settings.producer) as producer:
        count = send_rows(producer, batches, settings.topic)
        # Raises what any of the records failed with: no ticket needs to be kept.
        producer.flush()
        return count


def send_rows(producer: Producer, batches: Iterable[pa.RecordBatch], topic: str | None) -> int:
    """Hand all rows to a producer, without waiting for their acknowledgements; gives how many there were."""
    count = 0
    for batch in batches:
        for name, value, key, headers, partition, timestamp_ms in record_arguments(batch, topic):
            producer.send(name, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        count += batch.num_rows
    return count


_Row = tuple[str, bytes | None, bytes | None, "Headers | None", int | None, int | None]
_Values = Sequence[object]


def record_arguments(batch: pa.RecordBatch, topic: str | None) -> Iterator[_Row]:
    """Topic, value, key, headers, partition and timestamp in ms of each row."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    nothing: _Values = [None] * batch.num_rows

    def values(name: str, convert: Callable[[pa.Array], _Values]) -> _Values:
        return convert(columns[name]) if name in columns else nothing

    topics: _Values = [topic] * batch.num_rows if topic is not None else _topics(columns["topic"])
    rows = zip(
        topics,
        values("value", _bytes),
        values("key", _bytes),
        values("headers", _headers),
        values("partition", _plain),
        values("timestamp", _milliseconds),
        strict=True,
    )
    return cast("Iterator[_Row]", rows)


def _plain(column: pa.Array) -> _Values:
    return cast(_Values, column.to_pylist())


def _bytes(column: pa.Array) -> _Values:
    import pyarrow as pa

    return _plain(column.cast(pa.binary()))


def _topics(column: pa.Array) -> _Values:
    if column.null_count:
        raise UsageError(
            "the column topic is null in some row: fill it, or name one topic for all with the option topic"
        )
    return _plain(column)


def _milliseconds(column: pa.Array) -> _Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Kafka counts in milliseconds. Round down, also before 1970, as Java does.
    return _plain(pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))


def _headers(column: pa.Array) -> _Values:
    if column.null_count == len(column):
        return [None] * len(column)
    flat = column.flatten()
    names, contents = _plain(flat.field("key")), _plain(flat.field("value"))
    if None in names:
        raise UsageError("the column headers has a header whose key is null; Kafka's header keys are never null")
    pairs = iter(zip(names, contents, strict=True))
    lengths = cast("list[int | None]", column.value_lengths().to_pylist())
    # flatten() leaves null lists out, so the pairs are dealt out by the length of each row's list.
    return [None if count is None else list(islice(pairs, count)) for count in lengths]
