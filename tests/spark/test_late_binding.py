"""A batch read sees the records that are there when its query starts; one query sees one snapshot."""

from __future__ import annotations

import pytest

from kafkaraw.records import TopicPartition
from kafkaraw.spark.launch.late_binding import bind_late
from kafkaraw.spark.versions import running


@pytest.fixture
def topic(kafka) -> str:
    """A topic of two partitions with 0 to 9 in the first."""
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, range(10))
    return topic


@pytest.fixture
def frame(spark, kafka, topic):
    return kafka.batch(spark, subscribe=topic).load()


def test_a_dataframe_that_is_used_again_reads_records_written_since(kafka, topic, frame):
    assert frame.count() == 10
    kafka.produce(topic, range(10, 15))
    kafka.produce(topic, range(15, 17), partition=1)
    assert frame.count() == 17
    assert frame.where("partition = 1").count() == 2


@pytest.mark.parametrize("name", ["collect", "toArrow", "toLocalIterator"])
def test_an_action_that_is_repeated_on_one_dataframe_object_reads_records_written_since(kafka, topic, frame, name):
    chosen = frame.select("value")

    def rows() -> int:
        found = getattr(chosen, name)()
        return found.num_rows if name == "toArrow" else len(list(found))

    assert rows() == 10
    kafka.produce(topic, range(10, 15))
    assert rows() == 15


def test_a_repeated_action_on_a_dataframe_that_reads_no_topic_keeps_its_plan(spark):
    frame = spark.range(3)
    assert frame.collect() == frame.collect()
    kept = frame._jdf.queryExecution().executedPlan()
    frame.collect()
    assert frame._jdf.queryExecution().executedPlan().equals(kept)


def test_a_view_that_is_used_again_reads_records_written_since(spark, kafka, topic, frame):
    frame.createOrReplaceTempView("late_view")
    query = "SELECT count(*) AS n, max(offset) AS last FROM late_view"
    assert tuple(spark.sql(query).first()) == (10, 9)
    kafka.produce(topic, range(10, 15))
    assert tuple(spark.sql(query).first()) == (15, 14)


def test_partitions_that_were_added_since_are_read(kafka, topic, frame):
    assert frame.count() == 10
    kafka.admin.create_partitions({topic: 3})
    kafka.produce(topic, range(4), partition=2)
    assert frame.where("partition = 2").count() == 4


def test_records_that_retention_has_deleted_since_are_no_loss(kafka, topic, frame):
    assert frame.count() == 10
    kafka.admin.delete_records({TopicPartition(topic, 0): 6})
    assert frame.count() == 4


class AllScans:
    """What `DataSourceV2ScanRelation` nodes of a query's optimized plan read from, subqueries included."""

    @staticmethod
    def of(frame) -> list[object]:
        plan = frame._jdf.queryExecution().optimizedPlan()
        leaves = [plan.collectLeaves()]
        leaves += [each.collectLeaves() for each in _listed(plan.subqueriesAll())]
        scans = [
            leaf.scan() for some in leaves for leaf in _listed(some) if "ScanRelation" in leaf.getClass().getName()
        ]
        return [scan.toBatch() for scan in scans]


def _listed(scala_seq) -> list:
    return [scala_seq.apply(index) for index in range(scala_seq.size())]


def test_all_scans_of_a_relation_in_one_query_share_one_snapshot(spark, kafka, topic, frame):
    frame.createOrReplaceTempView("late_shared")
    query = """
        SELECT a.offset, (SELECT max(offset) FROM late_shared) AS last
        FROM late_shared AS a JOIN late_shared AS b USING (offset)
        WHERE a.offset IN (SELECT offset FROM late_shared WHERE partition = 0)
    """
    first = spark.sql(query)
    batches = AllScans.of(first)
    assert len(batches) >= 4
    assert all(batch.equals(batches[0]) for batch in batches)
    other = AllScans.of(spark.sql(query))[0]
    assert not other.equals(batches[0])
    kafka.produce(topic, range(10, 20))
    assert spark.sql(query).count() == 20


def test_a_filter_on_one_scan_does_not_narrow_another_scan_of_the_same_query(kafka, topic, frame):
    kafka.produce(topic, range(5), partition=1)
    both = frame.where("partition = 0").union(frame.where("partition = 1 AND offset >= 3"))
    assert {row["partition"]: row["count"] for row in both.groupBy("partition").count().collect()} == {0: 10, 1: 2}


def test_a_cached_dataframe_keeps_its_rows(kafka, topic, frame):
    frame.cache()
    try:
        assert frame.count() == 10
        kafka.produce(topic, range(10, 15))
        assert frame.count() == 10
    finally:
        frame.unpersist()
    assert frame.count() == 15


def test_each_micro_batch_of_a_join_with_a_stream_reads_records_written_since(spark, kafka, topic, frame, tmp_path):
    names = frame.selectExpr("cast(value AS string) AS name")
    source, target = kafka.new_topic(), kafka.new_topic()
    stream = kafka.stream(spark, subscribe=source, startingOffsets="earliest").load()
    joined = stream.selectExpr("cast(value AS string) AS name").join(names, "name").selectExpr("name AS value")
    query = (
        joined.writeStream.format("kafkaraw")
        .options(**kafka.options(topic=target))
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        kafka.produce(source, [3, 11])
        query.processAllAvailable()
        assert kafka.numbers(target) == [3]
        kafka.produce(topic, [11])
        kafka.produce(source, [11])
        query.processAllAvailable()
        assert kafka.numbers(target) == [3, 11]
    finally:
        query.stop()


def test_binding_late_twice_adds_one_rule(spark):
    before = spark._jsparkSession.experimental().extraOptimizations().size()
    assert bind_late(spark, "kafkaraw")
    assert spark._jsparkSession.experimental().extraOptimizations().size() == before


def test_other_sessions_bind_when_the_dataframe_is_loaded(spark, kafka, topic):
    """What docs/spark.md says of a session without `prepare_session`."""
    plain = spark.newSession()
    frame = kafka.batch(plain, subscribe=topic).load()
    assert frame.count() == 10
    kafka.produce(topic, range(10, 15))
    assert frame.count() == (10 if running() >= (4, 1) else 15)
    assert kafka.batch(plain, subscribe=topic).load().count() == 15
