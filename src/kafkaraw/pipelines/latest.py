"""`latest_by_key()`: a compacted topic as a table, as it is when a micro-batch begins (the KTable of Kafka Streams).

The result is a static DataFrame: Spark plans it anew for each micro-batch of the query that joins it, and each plan
reads the topic up to its end. Must not keep rows between micro-batches. Start at `latest_by_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.pipelines.evaluation import Evaluation, InputKind, current_evaluation
from kafkaraw.pipelines.expectations import definition_location
from kafkaraw.pipelines.model import (
    KEY_COLUMN,
    RECORD_COLUMN,
    TIMESTAMP_COLUMN,
    TOMBSTONE_COLUMN,
    TopicSource,
)
from kafkaraw.pipelines.subjects import add_bad_rows
from kafkaraw.pipelines.topics import check, decode, records_of, schema_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_RAW_KEY, _PARTITION, _LAST = "_raw_key", "_partition", "_last"
_PLAIN: Final = ("string", "bytes")


def latest_by_key(
    topic: str,
    *,
    value: str = "bytes",
    schema: str | StructType | None = None,
    key: str = "string",
    include_key: bool | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the last record of each key of a topic as a table, for joins and for materialized views.

    Each micro-batch of a query that joins the table sees the topic as it is when the micro-batch begins. A tombstone
    deletes its key. Records that cannot be decoded do not count: the last good record of their key does, and they
    become dead letters. Records without a key are left out.

    Args:
        topic: name of the topic.
        value: format of values, as for `topic()`.
        schema: columns of JSON values.
        key: format of keys, for the column `_key`.
        include_key: whether there is a column `_key`; by default, if the value has no columns of its own.
        options: further options of format "kafkaraw".

    Raises:
        PipelineError: it is called outside of the function of a dataset, or an argument is wrong.
    """
    with_key = value in _PLAIN if include_key is None else include_key
    source = TopicSource(
        topic,
        value,
        schema_text(schema),
        key if with_key else "bytes",
        "earliest",
        dict(options or {}),
        definition_location(),
    )
    return _read(source, current_evaluation(), with_key=with_key)


def _read(source: TopicSource, evaluation: Evaluation, *, with_key: bool) -> DataFrame:
    check(source)
    evaluation.note(source.name, InputKind.TOPIC, streaming=False)
    decoded = decode(source, records_of(source, evaluation, streaming=False), evaluation)
    if decoded.may_be_bad:
        # The table itself cannot write dead letters: a stream of the same topic finds them.
        add_bad_rows(
            evaluation,
            lambda: decode(source, records_of(source, evaluation, streaming=True), evaluation).bad(),
        )
    return _latest(decoded.good(), [*([KEY_COLUMN] if with_key else []), *decoded.names])


def _latest(rows: DataFrame, names: list[str]) -> DataFrame:
    """Return the last row of each key.

    That is the one with the highest offset. Only after partitions were added has a key records in two of them; then it
    is the one with the higher timestamp.
    """
    from pyspark.sql import functions as F

    record, last = F.col(RECORD_COLUMN), F.col(_LAST)
    row = F.struct(TIMESTAMP_COLUMN, TOMBSTONE_COLUMN, *(F.col(f"`{name}`") for name in names))
    key, partition = record.getField("key").alias(_RAW_KEY), record.getField("partition").alias(_PARTITION)
    keyed = rows.where(record.getField("key").isNotNull())
    of_partition = keyed.groupBy(key, partition).agg(F.max_by(row, record.getField("offset")).alias(_LAST))
    newest = F.struct(last.getField(TIMESTAMP_COLUMN), F.col(_PARTITION))
    of_key = of_partition.groupBy(_RAW_KEY).agg(F.max_by(last, newest).alias(_LAST))
    kept = of_key.where(~last.getField(TOMBSTONE_COLUMN))
    return kept.select(*(last.getField(name).alias(name) for name in names))
