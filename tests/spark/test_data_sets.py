"""SQL over topics returns what Spark returns over the same topics, with any filter."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw import NewTopic, Producer, SqlSession
from tests.datasets.filters import Filter, filters
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first one starts Spark
TIME_MS = 1_767_225_600_000
COUNT = 300
PARTITIONS = 3
TOPICS = ["sql-orders", "sql-stamped"]
TIMES_US = [(TIME_MS + 1_000 * number) * 1_000 for number in range(0, COUNT, 11)]
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def written(kafka: Kafka) -> Kafka:
    """Topics with nulls, timestamps that go backwards, aborted transactions, and timestamps of the broker."""
    rng = random.Random(11)
    stamped = NewTopic(TOPICS[1], 1, configs={"message.timestamp.type": "LogAppendTime"})
    kafka.admin.create_topics([NewTopic(TOPICS[0], PARTITIONS), stamped])
    with Producer(bootstrap_servers=kafka.servers, transactional_id="sql", batch_size=500) as producer:
        producer.init_transactions()
        for number in range(COUNT):
            if number % 15 == 0:
                producer.begin_transaction()
            at = TIME_MS + 1_000 * number - (rng.randrange(90_000) if rng.random() < 0.3 else 0)
            fields = {"amount": rng.choice([None, rng.randrange(20)]), "status": rng.choice(["new", "paid", None])}
            value = None if rng.random() < 0.1 else json.dumps(fields).encode()
            key = None if rng.random() < 0.2 else b"k%d" % rng.randrange(9)
            topic, partition = (TOPICS[0], rng.randrange(PARTITIONS)) if number % 5 else (TOPICS[1], 0)
            producer.send(topic, value, key, partition=partition, timestamp_ms=at)
            if number % 15 == 14:
                (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    return kafka


@pytest.fixture(scope="module", params=["read_committed", "read_uncommitted"])
def level(request: pytest.FixtureRequest, written: Kafka, spark: SparkSession) -> str:
    frame = (
        spark.read.format("kafkaraw")
        .option("kafka.bootstrap.servers", written.servers)
        .option("kafka.isolation.level", request.param)
        .option("subscribe", ",".join(TOPICS))
        .load()
    )
    frame.createOrReplaceTempView("orders_of_spark")
    return str(request.param)


@pytest.fixture(scope="module")
def session(level: str, written: Kafka):
    with SqlSession(bootstrap_servers=written.servers, isolation_level=level, value="json", key="string") as session:
        yield session


@QUICK
@given(filter=filters(TOPICS, PARTITIONS, COUNT // PARTITIONS, TIMES_US))
def test_a_filter_returns_what_it_returns_in_spark(session: SqlSession, spark: SparkSession, filter: Filter):
    ours = session.query(f"SELECT topic, partition, \"offset\" FROM topics('sql-.*') WHERE {filter.duckdb}").read_all()
    theirs = spark.sql(f"SELECT topic, partition, offset FROM orders_of_spark WHERE {filter.spark}").collect()
    found = zip(*(ours[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    assert sorted(found) == sorted(tuple(row) for row in theirs)


NEWEST = """SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY topic, partition, key ORDER BY offset DESC) AS number
    FROM orders_of_spark WHERE topic = 'sql-orders' AND key IS NOT NULL
) WHERE number = 1 AND value IS NOT NULL"""


@QUICK
@given(filter=filters(TOPICS[:1], PARTITIONS, COUNT // PARTITIONS, TIMES_US))
def test_the_newest_records_of_keys_are_those_of_spark(session: SqlSession, spark: SparkSession, filter: Filter):
    ours = session.query(
        f"SELECT partition, \"offset\", key, value FROM compacted('sql-orders') WHERE {filter.duckdb}"
    ).read_all()
    theirs = spark.sql(
        f"SELECT partition, offset, CAST(key AS STRING), CAST(value AS STRING) FROM ({NEWEST}) WHERE {filter.spark}"
    ).collect()
    found = zip(*(ours[name].to_pylist() for name in ("partition", "offset", "key", "value")), strict=True)
    assert sorted(found) == sorted(tuple(row) for row in theirs)


@QUICK
@given(
    filter=filters(TOPICS, PARTITIONS, COUNT // PARTITIONS, TIMES_US),
    limit=st.integers(0, 60),
    skipped=st.integers(0, 20),
    order=st.sampled_from(["ASC", "DESC"]),
)
def test_pages_of_rows_are_those_of_spark(
    session: SqlSession, spark: SparkSession, filter: Filter, limit: int, skipped: int, order: str
):
    ours = session.query(
        f"""SELECT topic, partition, "offset" FROM topics('sql-.*') WHERE {filter.duckdb}
            ORDER BY timestamp {order} NULLS LAST, topic, partition, "offset" LIMIT {limit} OFFSET {skipped}"""
    ).read_all()
    theirs = spark.sql(
        f"""SELECT topic, partition, offset FROM orders_of_spark WHERE {filter.spark}
            ORDER BY timestamp {order} NULLS LAST, topic, partition, offset LIMIT {limit} OFFSET {skipped}"""
    ).collect()
    assert [tuple(row.values()) for row in ours.to_pylist()] == [tuple(row) for row in theirs]


AMOUNT = "CAST(get_json_object(CAST(value AS STRING), '$.amount') AS BIGINT)"
STATUS = "get_json_object(CAST(value AS STRING), '$.status')"


@pytest.mark.parametrize(
    ("query", "of_spark"),
    [
        (
            "SELECT status, count(*), count(amount), sum(amount)::BIGINT, max(timestamp) FROM {} GROUP BY 1",
            f"SELECT {STATUS}, count(*), count({AMOUNT}), sum({AMOUNT}), max(timestamp) FROM {{}} GROUP BY 1",
        ),
        (
            "SELECT a.key, count(*) FROM {} a JOIN {} b ON a.key = b.key AND a.amount = b.amount GROUP BY 1",
            f"SELECT CAST(a.key AS STRING), count(*) FROM (SELECT key, {AMOUNT} AS amount FROM {{}}) a JOIN "
            f"(SELECT key, {AMOUNT} AS amount FROM {{}}) b ON a.key = b.key AND a.amount = b.amount GROUP BY 1",
        ),
        (
            'SELECT topic, partition, "offset", row_number() OVER (PARTITION BY key ORDER BY timestamp, topic, '
            'partition, "offset") FROM {} WHERE value IS NOT NULL',
            "SELECT topic, partition, offset, row_number() OVER (PARTITION BY key ORDER BY timestamp, topic, "
            "partition, offset) FROM {} WHERE value IS NOT NULL",
        ),
    ],
)
def test_a_query_returns_what_it_returns_in_spark(session: SqlSession, spark: SparkSession, query: str, of_spark: str):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = "topics('sql-.*')"
    ours = session.query(query.format(table, table)).read_all()
    theirs = spark.sql(of_spark.format("orders_of_spark", "orders_of_spark")).toArrow()
    found = zip(*(column.to_pylist() for column in ours.columns), strict=True)
    expected = zip(*(column.to_pylist() for column in theirs.columns), strict=True)
    assert sorted(found, key=str) == sorted(expected, key=str)
