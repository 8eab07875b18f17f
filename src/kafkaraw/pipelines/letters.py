"""The form of a dead letter: the record's key, value and timestamp, and its headers behind ours.

A dead letter begins with one header for each of `HEADERS`, always all of them and in this order; the headers of the
record follow unchanged. So those of the record are found even if they have the same names. A replayed record has the
same form, since the flows that read it need to know which of them has missed it.

Must not import pyspark at run time. Start at `Letter` (the client's side) and `letter_columns` (Spark's).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import DeserializationError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import RECORD_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkaraw.records import Record

PREFIX: Final = "kafkaraw."
HEADERS: Final = (
    "kafkaraw.pipeline",
    "kafkaraw.dataset",
    "kafkaraw.reason",
    "kafkaraw.expectation",
    "kafkaraw.error",
    "kafkaraw.topic",
    "kafkaraw.partition",
    "kafkaraw.offset",
    "kafkaraw.time",
)
_PIPELINE, _DATASET, _REASON, _EXPECTATION, _ERROR, _TOPIC, _PARTITION, _OFFSET, _TIME = range(len(HEADERS))
LARGEST_RECORD: Final = 64 << 20
"""Of dead letters in bytes, and of requests of the sinks: records larger than the brokers' default are no failure."""
REPLAYED_FOR: Final = "replayed_for"
"""Field of `_record`: the dataset that a replayed record is for; null for other records."""


class Reason(StrEnum):
    """Why a record is a dead letter."""

    DECODE = "decode"
    """Its value or key cannot be decoded."""
    EXPECTATION = "expectation"
    """It does not meet an expectation that quarantines."""
    FUNCTION = "function"
    """The function of `map_records` raised."""
    SINK = "sink"
    """The topic it is for does not take it."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as it is in the topic.

    Args:
        pipeline: that wrote it.
        dataset: the dataset or flow that could not use the record.
        reason: why.
        expectation: names of the expectations that it does not meet; empty for other reasons.
        error: what is wrong, as text.
        topic: where the record comes from; for reason SINK, where it was to go.
        partition: of that topic; -1 for reason SINK.
        offset: in that partition; -1 for reason SINK.
        time_ms: when it was written, in ms since 1970.
        key: of the record.
        value: of the record.
        headers: of the record.
        timestamp_ms: of the record; -1 if it has none.
        place: partition and offset in the dead-letter topic.
    """

    pipeline: str
    dataset: str
    reason: str
    expectation: str
    error: str
    topic: str
    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    place: tuple[int, int] = (-1, -1)


def letter_of(record: Record) -> Letter:
    """Return what a record of a dead-letter topic says.

    Raises:
        DeserializationError: the record is not a dead letter of a pipeline.
    """
    headers = tuple(record.headers)
    own, rest = headers[: len(HEADERS)], headers[len(HEADERS) :]
    if tuple(name for name, _ in own) != HEADERS:
        raise DeserializationError(
            f"{record.topic}-{record.partition} at offset {record.offset}: the record does not begin with the headers "
            f"{HEADERS[0]} to {HEADERS[-1]}, so it is not a dead letter of a pipeline",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
    texts = [(value or b"").decode("utf-8", "replace") for _, value in own]
    return Letter(
        pipeline=texts[_PIPELINE],
        dataset=texts[_DATASET],
        reason=texts[_REASON],
        expectation=texts[_EXPECTATION],
        error=texts[_ERROR],
        topic=texts[_TOPIC],
        partition=int(texts[_PARTITION]),
        offset=int(texts[_OFFSET]),
        time_ms=int(texts[_TIME]),
        key=record.key,
        value=record.value,
        headers=rest,
        timestamp_ms=record.timestamp_ms,
        place=(record.partition, record.offset),
    )


def headers_of(letter: Letter) -> list[tuple[str, bytes | None]]:
    """Return all headers of a dead letter, with those of the record."""
    said = (
        letter.pipeline,
        letter.dataset,
        letter.reason,
        letter.expectation,
        letter.error,
        letter.topic,
        letter.partition,
        letter.offset,
        letter.time_ms,
    )
    own = [(name, str(value).encode()) for name, value in zip(HEADERS, said, strict=True)]
    return [*own, *letter.headers]


def refused_headers(pipeline: str, flow: str) -> dict[str, str]:
    """Return the headers of rows that a topic does not take, as the option `deadLetterHeaders` of the sink."""
    said = (pipeline, flow, Reason.SINK.value, "", "{message}", "{topic}", "-1", "-1", "{time}")
    return dict(zip(HEADERS, said, strict=True))


# -- Spark


def record_column(origin: str, replay_topic: str, *, raw: Column, raw_key: Column) -> Column:
    """Return `_record`, the record as it was first read, also of a replayed one.

    Args:
        origin: the topic of the record.
        replay_topic: the topic of replayed records.
        raw: bytes of the value.
        raw_key: bytes of the key.
    """
    from pyspark.sql import functions as F

    headers, replayed = F.col("headers"), F.col("topic") == replay_topic

    def own(index: int) -> Column:
        return F.get(headers, F.lit(index)).getField("value").cast("string")

    rest = F.slice(headers, len(HEADERS) + 1, F.greatest(F.size(headers) - len(HEADERS), F.lit(0)))
    return F.struct(
        raw_key.alias("key"),
        raw.alias("value"),
        F.when(replayed, rest).otherwise(headers).alias("headers"),
        F.lit(origin).alias("topic"),
        F.when(replayed, own(_PARTITION).cast("int")).otherwise(F.col("partition")).alias("partition"),
        F.when(replayed, own(_OFFSET).cast("long")).otherwise(F.col("offset")).alias("offset"),
        F.col("timestamp"),
        F.when(replayed, own(_DATASET)).alias(REPLAYED_FOR),
    ).alias(RECORD_COLUMN)


def is_for(origin: str, replay_topic: str, datasets: Iterable[str]) -> Column:
    """Return whether a record is of the topic, or a replay of one of its records for one of these datasets."""
    from pyspark.sql import functions as F

    headers = F.col("headers")

    def own(index: int) -> Column:
        return F.get(headers, F.lit(index)).getField("value").cast("string")

    replayed = (own(_TOPIC) == origin) & own(_DATASET).isin(*sorted(datasets))
    return (F.col("topic") != replay_topic) | F.coalesce(replayed, F.lit(False))


def bad_rows(frame: DataFrame, reason: Reason | Column, expectation: Column, error: Column) -> DataFrame:
    """Return the rows of a frame, which has the column `_record`, as `letter_columns` takes them."""
    from pyspark.sql import functions as F

    return frame.select(
        F.col(RECORD_COLUMN).alias("record"),
        (F.lit(reason.value) if isinstance(reason, Reason) else reason).alias("reason"),
        F.coalesce(expectation, F.lit("")).alias("expectation"),
        F.coalesce(error, F.lit("")).alias("error"),
    )


def letter_columns(frame: DataFrame, pipeline: str, dataset: str, readers: Sequence[str]) -> DataFrame:
    """Return dead letters with the columns of format "kafkaraw".

    Args:
        frame: rows of `bad_rows`.
        pipeline: name of the pipeline.
        dataset: the dataset or flow that cannot use the records.
        readers: datasets and flows that read this one. A record that was replayed for one of them stays one of that
            one: the others have it already.
    """
    return frame.select(*_letter_columns(frame.sparkSession, pipeline, dataset, tuple(readers)))


@lru_cache(64)
def _letter_columns(spark: SparkSession, pipeline: str, dataset: str, readers: tuple[str, ...]) -> tuple[Column, ...]:
    """Make the columns, once for a session: it takes hundreds of calls to the JVM."""
    from pyspark.sql import functions as F

    record = F.col("record")
    replayed_for = record.getField(REPLAYED_FOR)
    said = {
        "kafkaraw.pipeline": F.lit(pipeline),
        "kafkaraw.dataset": F.when(replayed_for.isin(*readers), replayed_for).otherwise(F.lit(dataset))
        if readers
        else F.lit(dataset),
        "kafkaraw.reason": F.col("reason"),
        "kafkaraw.expectation": F.col("expectation"),
        "kafkaraw.error": F.col("error"),
        "kafkaraw.topic": record.getField("topic"),
        "kafkaraw.partition": record.getField("partition"),
        "kafkaraw.offset": record.getField("offset"),
        "kafkaraw.time": F.unix_millis(F.current_timestamp()),  # of the micro-batch: the same if it is repeated
    }
    own = F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in ((name, said[name]) for name in HEADERS)
        )
    )
    rest = F.coalesce(record.getField("headers"), F.array().cast("array<struct<key:string,value:binary>>"))
    return (
        record.getField("key").alias("key"),
        record.getField("value").alias("value"),
        F.concat(own, rest).alias("headers"),
        record.getField("timestamp").alias("timestamp"),
    )
