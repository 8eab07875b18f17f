"""A filter on one scan of a DataFrame never changes the rows of another scan.

Spark up to 4.3 keeps what a scan has pushed down on the relation that all scans of a DataFrame share
(`PythonDataSourceV2.setReadInfo`), so the source must not take filters, whatever the setting says.
"""

from __future__ import annotations

import pytest

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["true", "false"], ids=["pushdown on", "pushdown off"])
def frame(request, spark, kafka):
    """Three partitions of ten records each, read as a batch."""
    topic = kafka.new_topic(partitions=3)
    for number in range(30):
        kafka.producer.send(topic, b"%d" % number, partition=number % 3)
    kafka.producer.flush(10)
    before = spark.conf.get(PUSHDOWN, "false")  # Spark 4.0 does not know it
    spark.conf.set(PUSHDOWN, request.param)
    try:
        yield kafka.batch(spark, subscribe=topic).load()
    finally:
        spark.conf.set(PUSHDOWN, before)


def by_partition(frame) -> dict[int, int]:
    return {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}


def test_a_filtered_scan_does_not_narrow_a_later_scan_of_the_same_dataframe(frame):
    assert frame.where("partition = 0").count() == 10
    assert frame.count() == 30


def test_each_branch_of_a_union_reads_the_rows_of_its_own_filter(frame):
    both = frame.where("partition = 0").union(frame.where("partition = 1 AND offset >= 5"))
    assert by_partition(both) == {0: 10, 1: 5}


def test_each_side_of_a_self_join_reads_the_rows_of_its_own_filter(frame):
    left = frame.where("partition = 0").selectExpr("offset AS position", "value AS left_value")
    right = frame.where("partition = 2").selectExpr("offset AS position", "value AS right_value")
    rows = left.join(right, "position").collect()
    assert sorted((int(row.left_value), int(row.right_value)) for row in rows) == [
        (3 * n, 3 * n + 2) for n in range(10)
    ]


def test_filters_on_a_view_do_not_reach_its_other_uses(spark, frame):
    frame.createOrReplaceTempView("shared_plan")
    query = """
        SELECT (SELECT count(*) FROM shared_plan WHERE partition = 1 AND offset < 3) AS few,
               (SELECT count(*) FROM shared_plan WHERE timestamp IS NOT NULL) AS all
    """
    assert tuple(spark.sql(query).first()) == (3, 30)
