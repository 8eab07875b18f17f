"""Topics in SQL, in this session and through Spark Connect."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.connect_python import FetchError, connect_python
from tests.spark.needs import needs_partial_inserts

ROOT = Path(__file__).parents[2]


@needs_partial_inserts
def test_a_temporary_view_reads_and_takes_inserts(spark, kafka):
    topic = kafka.new_topic()
    spark.sql(
        f"CREATE TEMP VIEW sql_topic USING kafkaraw OPTIONS (`kafka.bootstrap.servers` '{kafka.servers}', "
        f"subscribe '{topic}', topic '{topic}')"
    )
    kafka.produce(topic, [7])
    spark.sql("INSERT INTO sql_topic (key, value) SELECT CAST('k' AS BINARY), CAST('8' AS BINARY)")
    rows = spark.sql("SELECT key, value FROM sql_topic ORDER BY offset").collect()
    assert [tuple(row) for row in rows] == [(None, b"7"), (b"k", b"8")]
    spark.catalog.dropTempView("sql_topic")


def test_options_follow_the_name_of_a_table(spark, kafka):
    topic = kafka.new_topic()
    kafka.produce(topic, range(5))
    spark.sql("CREATE TABLE any_topic USING kafkaraw")
    try:
        given = f"`kafka.bootstrap.servers` = '{kafka.servers}', subscribe = '{topic}'"
        rows = spark.sql(f"SELECT offset FROM any_topic WITH ({given}) WHERE offset > 2 ORDER BY offset").collect()
    finally:
        spark.sql("DROP TABLE any_topic")
    assert [row.offset for row in rows] == [3, 4]


@pytest.fixture
def table(spark, kafka) -> Iterator[str]:
    """A table with the options of a topic, in the catalog, and five records in the topic."""
    topic = kafka.new_topic()
    kafka.produce(topic, range(5))
    options = f"`kafka.bootstrap.servers` '{kafka.servers}', subscribe '{topic}', startingOffsets 'earliest'"
    spark.sql(f"CREATE TABLE of_{topic[6:]} USING kafkaraw OPTIONS ({options}, topic '{topic}')")
    yield f"of_{topic[6:]}"
    spark.sql(f"DROP TABLE of_{topic[6:]}")


def test_a_table_is_read_with_the_options_that_it_was_created_with(spark, table, tmp_path):
    assert [row.offset for row in spark.sql(f"SELECT offset FROM {table} ORDER BY offset").collect()] == [0, 1, 2, 3, 4]
    narrowed = spark.sql(f"SELECT offset FROM {table} WITH (maxRecordsPerPartition = '2') WHERE offset > 2")
    assert (narrowed.count(), narrowed.rdd.getNumPartitions()) == (2, 3)
    stream = spark.readStream.table(table).writeStream.format("memory").queryName(f"stream_{table}")
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert spark.table(f"stream_{table}").count() == 5


def test_a_query_that_names_brokers_takes_no_option_of_the_table(spark, kafka, table):
    other = kafka.new_topic()
    kafka.produce(other, [7])
    given = f"`kafka.bootstrap.servers` = '{kafka.servers}', subscribe = '{other}', startingOffsets = 'earliest'"
    rows = spark.sql(f"SELECT cast(value AS string) FROM {table} WITH ({given})").collect()
    assert [row.value for row in rows] == ["7"]


@needs_partial_inserts
def test_an_insert_into_a_table_needs_the_options_beside_it(spark, kafka, table):
    with pytest.raises(Exception, match=r"kafka\.bootstrap\.servers is missing.*INSERT INTO"):
        spark.sql(f"INSERT INTO {table} (value) SELECT cast('x' AS binary)")
    other = kafka.new_topic()
    given = f"`kafka.bootstrap.servers` = '{kafka.servers}', topic = '{other}'"
    spark.sql(f"INSERT INTO {table} WITH ({given}) (value) SELECT cast('8' AS binary)")
    assert kafka.numbers(other) == [8]


def test_a_table_keeps_no_secrets(spark):
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    options = "`kafka.bootstrap.servers` 'h:1', `kafka.security.protocol` 'SASL_SSL', `kafka.sasl.mechanism` 'PLAIN'"
    with pytest.raises(Exception, match=r"a table keeps no secrets.*jaas\.config"):
        spark.sql(f"CREATE TABLE with_secret USING kafkaraw OPTIONS ({options}, `kafka.sasl.jaas.config` '{login}')")


CONNECTED = """
import sys
from pyspark.sql import SparkSession
servers, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
kafka = {"kafka.bootstrap.servers": servers}
rows = spark.readStream.format("kafkaraw").options(**kafka, subscribe=source, startingOffsets="earliest").load()
writer = rows.select("value").writeStream.format("kafkaraw").options(**kafka, topic=target)
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
assert query.awaitTermination(100)
print(spark.read.format("kafkaraw").options(**kafka, subscribe=target).load().where("offset >= 3").count())
try:
    spark.read.format("kafkaraw").options(**kafka, subscripe=source).load().schema
except Exception as error:
    print("did you mean subscribe?" in str(error), "Py4J" in str(error))
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_spark_connect_reads_and_writes(kafka, tmp_path):
    try:
        python = connect_python()
    except FetchError as error:
        pytest.skip(str(error))
    source, target = kafka.new_topic(partitions=2), kafka.new_topic()
    for partition in range(2):
        kafka.produce(source, range(partition, 10, 2), partition)
    command = [str(python), "-c", CONNECTED, kafka.servers, source, target, str(tmp_path / "checkpoint")]
    environ = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert kafka.numbers(target) == list(range(10))
    assert done.stdout.split() == ["7", "True", "False"]
