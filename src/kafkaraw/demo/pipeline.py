"""The Spark pipeline of the flights demo: one stream of flights, three queries. The part to copy and change.

    flights --+-- delays by hour   -> Kafka, topic delays-by-hour (update mode, key = origin|hour)
              +-- cleaned flights  -> Parquet, partitioned by month
              +-- what is no flight -> Kafka, topic flights.dead-letter, with the reason

Every record takes exactly one of two ways: `classified` gives each a reason why it is no flight, or null; the first
two queries keep the nulls, the third keeps the rest. Nothing is dropped on the way.

The functions from `classified` to `dead_letters` take and give DataFrames and know no Kafka; `start_queries` wires
them up. PySpark is imported here at the top: import this module only where Spark is wanted. Times are UTC: the
session must have `spark.sql.session.timeZone` set to UTC, as in SESSION_SETTINGS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from kafkaraw.demo.schema import FLIGHT_FIELDS, REFERENCE_TABLES, SCHEDULED_DEPARTURE, Field, Kind
from kafkaraw.demo.topics import DEAD_LETTER_HEADERS, Topics
from kafkaraw.spark import batch_writer
from kafkaraw.spark.versions import features

SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # The shuffles here carry a few thousand rows: more partitions would cost more than they save.
    "spark.sql.shuffle.partitions": "2",
    # percentile() is an object aggregate; over 128 groups it would sort instead, which is slower here.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}

LATE_BY = "10 days"
"""How far behind the newest flight another may be read and still be counted; bounds the state that Spark keeps.

The partitions are read side by side, each at its own pace through the year: a carrier that flies more in summer puts
its partition behind the others. With 3 partitions read in proportion the distance is 4.6 days at most (measured).
"""

DELAYS_BY_HOUR, CLEANED, DEAD_LETTERS = "delays by hour", "cleaned flights", "dead letters"

_CORRUPT = "_corrupt"
_TYPES: dict[Kind, DataType] = {"string": StringType(), "int": IntegerType(), "double": DoubleType()}
_DEPARTURE_FORMAT = "yyyy-MM-dd'T'HH:mm:ssX"
_KAFKA_HEADERS = "array<struct<key:string,value:binary>>"


def spark_schema(fields: tuple[Field, ...]) -> StructType:
    """The Spark schema of a table of fields."""
    return StructType([StructField(field.name, _TYPES[field.kind]) for field in fields])


def classified(records: DataFrame) -> DataFrame:
    """Add the columns `flight` (struct), `departure` (timestamp) and `reason` to Kafka records.

    Args:
        records: at least the column `value` (binary).

    Returns:
        All rows and columns of `records`; `reason` is null for a flight, and a short text for anything else.
    """
    fields = (*FLIGHT_FIELDS, SCHEDULED_DEPARTURE)
    schema = spark_schema(fields).add(_CORRUPT, StringType())
    text = F.col("value").cast("string")
    parsed = F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    departure = F.try_to_timestamp(F.col(f"flight.{SCHEDULED_DEPARTURE.name}"), F.lit(_DEPARTURE_FORMAT))
    # explode() of one element is a fence: without it Spark moves the filters on `reason` below the parser and parses
    # each record a dozen times over (seen in the plan of 4.3.0; a third of the time of a query).
    return (
        records.select("*", F.explode(F.array(parsed)).alias("flight"))
        .withColumn("departure", departure)
        .withColumn("reason", _reason(text, tuple(field.name for field in fields if field.mandatory)))
    )


def _reason(text: Column, mandatory: tuple[str, ...]) -> Column:
    missing = F.concat_ws(", ", *[F.when(F.col(f"flight.{name}").isNull(), F.lit(name)) for name in mandatory])
    wrong: list[tuple[Column, Column]] = [
        (F.col("value").isNull(), F.lit("no value")),
        (F.length("value") == 0, F.lit("empty value")),
        (~F.is_valid_utf8(text), F.lit("not UTF-8")),
        (~F.ltrim(text).startswith("{"), F.lit("not a JSON object")),
        (F.json_object_keys(text).isNull(), F.lit("broken JSON")),
        (F.col(f"flight.{_CORRUPT}").isNotNull(), F.lit("a field has the wrong type")),
        (missing != "", F.concat(F.lit("missing: "), missing)),
        (F.col("departure").isNull(), F.lit("impossible scheduled departure")),
    ]
    # The cheap question first: a flight that parsed whole needs none of the expensive ones.
    whole = F.col(f"flight.{_CORRUPT}").isNull() & (missing == "") & F.col("departure").isNotNull()
    reason = F.when(whole & F.is_valid_utf8(text) & F.ltrim(text).startswith("{"), F.lit(None).cast("string"))
    for condition, words in wrong:
        reason = reason.when(condition, words)
    return reason


def cleaned_flights(classified_records: DataFrame) -> DataFrame:
    """The flights alone, as columns: typed, times in UTC, and whether the flight was cancelled."""
    return classified_records.where(F.col("reason").isNull()).select(
        *[F.col(f"flight.{field.name}").alias(field.name) for field in FLIGHT_FIELDS],
        F.col("departure").alias(SCHEDULED_DEPARTURE.name),
        F.col("flight.dep_time").isNull().alias("cancelled"),
    )


def delays_by_hour(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    """Per origin airport and hour of scheduled departure: how late the flights left, as Kafka records.

    Args:
        flights: from `cleaned_flights`.
        airlines: `carrier` and `name`, one row per carrier.

    Returns:
        `key` = origin|start of the hour (UTC), `value` = JSON. In update mode one row per key and micro-batch.
    """
    # A cancelled flight has no delay: it counts as cancelled and is nowhere else. The carrier's code breaks ties, so
    # that two runs give the same record.
    latest = F.max(F.when(F.col("dep_delay").isNotNull(), F.struct("dep_delay", "carrier")))
    hours = (
        flights.withWatermark(SCHEDULED_DEPARTURE.name, LATE_BY)
        .groupBy("origin", F.window(SCHEDULED_DEPARTURE.name, "1 hour").alias("hour"))
        .agg(
            F.count("*").alias("flights"),
            F.count_if("cancelled").alias("cancelled"),
            F.round(F.avg("dep_delay"), 2).alias("mean_delay_min"),
            F.round(F.percentile("dep_delay", F.lit(0.95)), 2).alias("p95_delay_min"),
            latest.alias("latest"),
        )
    )
    # A left join: in an hour in which nothing left, no carrier was the latest, and the hour still counts.
    named = hours.join(F.broadcast(airlines), F.col("latest.carrier") == F.col("carrier"), "left")
    start = F.date_format("hour.start", "yyyy-MM-dd'T'HH:mm:ss'Z'")
    value = F.struct(
        "origin",
        start.alias("hour"),
        "flights",
        "cancelled",
        "mean_delay_min",
        "p95_delay_min",
        F.col("latest.dep_delay").alias("worst_delay_min"),
        F.coalesce("name", "latest.carrier").alias("worst_carrier"),
    )
    return named.select(
        F.concat_ws("|", "origin", start).cast("binary").alias("key"),
        F.to_json(value, {"ignoreNullFields": "false"}).cast("binary").alias("value"),
    )


def dead_letters(classified_records: DataFrame) -> DataFrame:
    """Return the records that are no flights, unchanged, with headers for the reason and the source offset.

    Args:
        classified_records: from `classified`, with the source's columns key, headers, topic, partition and offset.
    """
    added = F.array(
        *[
            F.struct(F.lit(header).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))
            for column, header in DEAD_LETTER_HEADERS.items()
        ]
    )
    own = F.coalesce("headers", F.array().cast(_KAFKA_HEADERS))
    return classified_records.where(F.col("reason").isNotNull()).select(
        "key", "value", F.concat(own, added.cast(_KAFKA_HEADERS)).alias("headers")
    )


def latest_airlines(records: DataFrame) -> DataFrame:
    """The airlines topic as a table: `carrier` and `name`, the last record of each key."""
    table = next(table for table in REFERENCE_TABLES if table.name == "airlines")
    parsed = F.from_json(F.col("value").cast("string"), spark_schema(table.fields))
    return (
        records.groupBy("key")
        .agg(F.max_by("value", F.struct("partition", "offset")).alias("value"))
        .select(parsed.alias("airline"))
        .select("airline.*")
    )


@dataclass(frozen=True, slots=True)
class Places:
    """Where the pipeline reads and writes.

    Attributes:
        bootstrap_servers: the Kafka cluster.
        topics: the names of the topics.
        folder: Parquet goes to `parquet/` in it, checkpoints to `checkpoints/`.
    """

    bootstrap_servers: str
    topics: Topics
    folder: Path

    @property
    def parquet(self) -> str:
        """The folder of the Parquet files."""
        return str(self.folder / "parquet")

    def checkpoint(self, query: str) -> str:
        """The folder of one query's checkpoint."""
        return str(self.folder / "checkpoints" / query.replace(" ", "-"))

    def options(self, **more: str) -> dict[str, str]:
        """Options of the kafkaraw source and sink."""
        patience = {"kafka.default.api.timeout.ms": "30000"}  # a broker failure is reported in half the default time
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **patience, **more}


def start_queries(spark: SparkSession, places: Places, offsets_per_trigger: int) -> dict[str, StreamingQuery]:
    """Start the three queries; each ends by itself when it has read all that was there at its start.

    Args:
        spark: a session with SESSION_SETTINGS.
        places: where to read and write.
        offsets_per_trigger: how many records a micro-batch takes at most; before Spark 4.2 one takes all, because
            `availableNow` ends after it.
    """
    limit = {"maxOffsetsPerTrigger": str(offsets_per_trigger)} if features().read_limits else {}

    def records(columns: str | None = None) -> DataFrame:
        options = places.options(
            subscribe=places.topics.flights,
            startingOffsets="earliest",
            includeHeaders="true",
            **limit,
        )
        reader = spark.readStream.format("kafkaraw").options(**options)
        # A schema of one's own is the choice of columns: what it leaves out is not even decoded.
        return classified((reader if columns is None else reader.schema(columns)).load())

    airlines = latest_airlines(
        spark.read.format("kafkaraw").options(**places.options(subscribe=places.topics.airlines)).load()
    ).cache()
    airlines.count()
    # Spark takes no Python sink in update mode, so this query writes each micro-batch by a batch write.
    by_hour = (
        delays_by_hour(cleaned_flights(records("value binary")), airlines)
        .writeStream.outputMode("update")
        .foreachBatch(batch_writer(places.options(topic=places.topics.delays_by_hour)))
    )
    cleaned = (
        cleaned_flights(records("value binary"))
        .writeStream.format("parquet")
        .partitionBy("month")
        .option("path", places.parquet)
    )
    dead = (
        dead_letters(records())
        .writeStream.format("kafkaraw")
        .options(**places.options(topic=places.topics.dead_letters))
    )
    writers = {DELAYS_BY_HOUR: by_hour, CLEANED: cleaned, DEAD_LETTERS: dead}
    return {
        name: writer.queryName(name)
        .option("checkpointLocation", places.checkpoint(name))
        .trigger(availableNow=True)
        .start()
        for name, writer in writers.items()
    }
