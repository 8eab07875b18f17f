"""The metrics and log files of one machine: aggregates for each minute, and alerts."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark = SparkSession.active()

SAMPLE = "host STRING, metric STRING, value DOUBLE, at TIMESTAMP"
ALERT_ABOVE = {"cpu.busy.percent": 90.0, "memory.used.percent": 90.0, "load.1m": 64.0}
LINE = r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (\w+) (\S+) ?(.*)$"
FIELDS = ("at", "action", "package", "version")


def with_id(rows):
    """Add the minute, and a text that identifies host, metric and minute."""
    minute = F.date_format("minute", "yyyy-MM-dd'T'HH:mm'Z'")
    rows = rows.withColumn("minute", F.col("window.start")).drop("window")
    return rows.withColumn("id", F.concat_ws("|", "host", "metric", minute))


@dp.temporary_view
@kp.expect_or_quarantine("is a number", "value IS NOT NULL AND NOT isnan(value)")
@kp.expect("percentages are between 0 and 100", "metric NOT LIKE '%.percent' OR value BETWEEN 0 AND 100")
def samples():
    """Samples of /proc, a few for each second."""
    return kp.topic("metrics", value="json", schema=SAMPLE).withWatermark("at", "2 minutes")


@kp.to_topic("metrics-by-minute", key="id", output_mode="update", config={"cleanup.policy": "compact"})
def metrics_by_minute():
    """Minimum, mean and maximum of each metric for each minute."""
    minutes = spark.readStream.table("samples").groupBy("host", "metric", F.window("at", "1 minute"))
    return minutes.agg(
        F.count("*").alias("samples"),
        F.min("value").alias("min"),
        F.avg("value").alias("mean"),
        F.max("value").alias("max"),
    ).transform(with_id)


@kp.to_topic("alerts", key="id", output_mode="update", config={"cleanup.policy": "compact"})
def alerts():
    """One alert for each metric and minute in which the mean is above its limit."""
    limits = spark.createDataFrame(list(ALERT_ABOVE.items()), "metric STRING, above DOUBLE")
    minutes = spark.readStream.table("samples").groupBy("host", "metric", F.window("at", "1 minute"))
    high = minutes.agg(F.avg("value").alias("mean")).join(F.broadcast(limits), "metric").where("mean > above")
    return high.transform(with_id)


@dp.table
@kp.expect_or_quarantine("has a time and an action", "action != ''")
def package_events():
    """What the package manager has done, from its log file; a line of another kind is a dead letter."""
    lines = kp.topic("log-lines", value="string").where("NOT _tombstone")
    part = {name: F.regexp_extract("value", LINE, number) for number, name in enumerate(FIELDS, start=1)}
    return lines.select(
        F.try_to_timestamp(part["at"], F.lit("yyyy-MM-dd HH:mm:ss")).alias("at"),
        *(part[name].alias(name) for name in FIELDS[1:]),
        "_record",
    )


@dp.materialized_view
def package_events_by_minute():
    """Actions for each minute."""
    return spark.read.table("package_events").groupBy(F.date_trunc("minute", "at").alias("minute"), "action").count()
