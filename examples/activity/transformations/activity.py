"""Page views of a web site: sessions of its visitors, and its most read pages."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkaraw import pipelines as kp

spark = SparkSession.active()

VIEW = "visitor STRING, page STRING, referrer STRING, agent STRING, status INT, at TIMESTAMP"
GAP = "2 seconds"  # a session ends after this time without a view; for people, take 30 minutes


@dp.temporary_view
@kp.expect_or_quarantine("has a visitor and a page", "visitor IS NOT NULL AND page IS NOT NULL")
@kp.expect_or_drop("is no probe", "agent NOT LIKE 'probe%'")
def views():
    """The views. The probe, which looks at the site all the time, advances the watermark, and is dropped."""
    return kp.topic("page-views", value="json", schema=VIEW).withWatermark("at", "1 second")


@dp.table
@kp.expect("the page exists", "status = 200")
def page_views():
    """Every view, as it was."""
    return spark.readStream.table("views").select("visitor", "page", "referrer", "agent", "status", "at")


@dp.table
def sessions():
    """The sessions of each visitor, when they have ended."""
    by_session = spark.readStream.table("views").groupBy("visitor", F.session_window("at", GAP).alias("session"))
    return by_session.agg(
        F.count("*").alias("views"),
        F.min_by("page", "at").alias("first_page"),
        F.max_by("page", "at").alias("last_page"),
    ).select(
        "visitor",
        F.col("session.start").alias("start"),
        F.col("session.end").alias("end"),
        "views",
        "first_page",
        "last_page",
    )


@dp.materialized_view
def top_pages():
    """Views and visitors of each page."""
    return (
        spark.read.table("page_views")
        .where("status = 200")
        .groupBy("page")
        .agg(F.count("*").alias("views"), F.countDistinct("visitor").alias("visitors"))
    )
