"""Delays of the flights that left New York in 2013: by hour, by aircraft and by weather.

The setting `flights.topic.prefix` is the beginning of all names of topics, where others share the cluster.
"""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark: SparkSession = SparkSession.active()

PREFIX = spark.conf.get("flights.topic.prefix", "")
FLIGHT = (
    "carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT, "
    "dep_delay INT, arr_delay INT, air_time INT, scheduled_departure TIMESTAMP"
)
PLANE = "tailnum STRING, manufacturer STRING, model STRING, year INT, seats INT"
WEATHER = "origin STRING, time_hour TIMESTAMP, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE"
LATE_BY = "10 days"


@dp.temporary_view
@kp.expect_or_quarantine(
    "names carrier and airports", "carrier IS NOT NULL AND origin IS NOT NULL AND dest IS NOT NULL"
)
@kp.expect_or_quarantine("has a scheduled departure", "scheduled_departure IS NOT NULL")
@kp.expect("has left", "dep_delay IS NOT NULL")
def flights():
    """The flights; records that are none are dead letters. A flight may come 10 days late."""
    records = kp.topic(f"{PREFIX}flights", value="json", schema=FLIGHT)
    return records.withColumn("hour", F.date_trunc("hour", "scheduled_departure")).withWatermark("hour", LATE_BY)


@dp.temporary_view
def weather():
    """The weather at the three airports of New York, one reading for each hour."""
    readings = kp.topic(f"{PREFIX}weather", value="json", schema=WEATHER)
    return readings.select(
        F.col("origin").alias("airport"), "time_hour", "wind_speed", "precip", "visib"
    ).withWatermark("time_hour", LATE_BY)


@kp.to_topic(f"{PREFIX}delays-by-hour", key="id", output_mode="update", config={"cleanup.policy": "compact"})
def delays_by_hour():
    """For each airport and hour: flights, cancelled ones, delays in minutes. The newest record of an hour counts."""
    has_left = F.col("dep_delay").isNotNull()
    hours = spark.readStream.table("flights").groupBy("origin", "hour")
    return hours.agg(
        F.count("*").alias("flights"),
        F.count_if(~has_left).alias("cancelled"),
        F.round(F.avg("dep_delay"), 2).alias("mean_delay"),
        F.round(F.percentile("dep_delay", F.lit(0.95)), 2).alias("p95_delay"),
        F.max(F.when(has_left, F.struct("dep_delay", "carrier"))).alias("worst"),
    ).withColumn("id", F.concat_ws("|", "origin", F.date_format("hour", "yyyy-MM-dd'T'HH'Z'")))


@dp.table(partition_cols=["origin"])
def departures():
    """Stream-table join: each flight with its aircraft, from a compacted topic."""
    planes = kp.latest_by_key(f"{PREFIX}planes", value="json", schema=PLANE)
    flown = spark.readStream.table("flights").select(
        "carrier", "flight", "tailnum", "origin", "dest", "hour", "dep_delay"
    )
    return flown.join(planes, "tailnum", "left")


@dp.table
def departures_in_weather():
    """Stream-stream join: each flight with the weather in the hour of its departure."""
    flown = spark.readStream.table("flights").select("carrier", "flight", "origin", "dest", "hour", "dep_delay")
    readings = spark.readStream.table("weather")
    return flown.join(readings, F.expr("origin = airport AND hour = time_hour"))


@dp.materialized_view
def delays_by_manufacturer():
    """The mean delay and the number of flights for each manufacturer."""
    return (
        spark.read.table("departures")
        .groupBy("manufacturer")
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("mean_delay"))
    )


@dp.materialized_view
def delays_by_wind():
    """The mean delay for each 5 miles per hour of wind."""
    wind = (F.floor(F.col("wind_speed") / 5) * 5).alias("wind_mph")
    return (
        spark.read.table("departures_in_weather")
        .groupBy(wind)
        .agg(F.count("*").alias("flights"), F.avg("dep_delay").alias("mean_delay"))
    )
