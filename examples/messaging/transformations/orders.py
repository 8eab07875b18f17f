"""Work orders and what became of them: orders joined with the results that the workers write."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark = SparkSession.active()

ORDER = "id LONG, path STRING, ordered_at TIMESTAMP"
RESULT = (
    "id LONG, worker STRING, attempt INT, state STRING, lines INT, functions INT, error STRING, finished_at TIMESTAMP"
)


@dp.temporary_view
@kp.expect_or_quarantine("names a file", "id IS NOT NULL AND path IS NOT NULL")
def orders():
    """The work orders: one source file to measure each. An order without a file is a dead letter."""
    return kp.topic("work-orders", value="json", schema=ORDER).withWatermark("ordered_at", "10 minutes")


@dp.temporary_view
@kp.expect_unique("one result for each order", ["order_id"])
def results():
    """The result of each order: `done`, or `failed` after its last attempt."""
    return (
        kp.topic("work-results", value="json", schema=RESULT)
        .withColumnRenamed("id", "order_id")
        .withWatermark("finished_at", "10 minutes")
    )


@dp.table
def finished_orders():
    """Each order with its result, and the seconds between them."""
    joined = spark.readStream.table("orders").join(
        spark.readStream.table("results"),
        F.expr("id = order_id AND finished_at BETWEEN ordered_at AND ordered_at + INTERVAL 10 MINUTES"),
    )
    seconds = F.col("finished_at").cast("double") - F.col("ordered_at").cast("double")
    return joined.select(
        "id", "path", "worker", "attempt", "state", "lines", "functions", "error", seconds.alias("seconds")
    )


@dp.materialized_view
def work_by_worker():
    """What each worker has done."""
    return (
        spark.read.table("finished_orders")
        .groupBy("worker")
        .agg(
            F.count_if(F.col("state") == "done").alias("done"),
            F.count_if(F.col("state") == "failed").alias("failed"),
            F.sum("lines").alias("lines"),
        )
    )


@kp.to_topic("failed-orders", key="id", value="json")
def failed_orders():
    """The orders that no attempt could finish, for the people who wrote them."""
    return (
        spark.readStream.table("results")
        .where("state = 'failed'")
        .select(F.col("order_id").alias("id"), "error", "attempt")
    )
