"""Queries of DuckDB over topics: names, our functions, what is read, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kafkaraw import Admin, KafkaError, NewTopic, Producer, TopicPartition, UsageError
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.datasets.sql import SqlSession, calls_in, sql


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 2), NewTopic("my-users", 1), NewTopic("short", 1)])
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(100):
                value = json.dumps({"id": number, "buyer": number % 5}).encode()
                producer.send("orders", value, partition=number % 2)
                producer.send("my-users", json.dumps({"name": f"n{number}"}).encode(), key=b"%d" % (number % 5))
            producer.send("my-users", None, key=b"4")
            producer.send("my-users", b'{"name": "without a key"}')
            producer.send("short", b"1")
            producer.flush()
        yield broker


@pytest.fixture
def session(broker: EmbeddedBroker) -> Iterator[SqlSession]:
    with SqlSession(bootstrap_servers=broker.bootstrap_servers) as session:
        yield session


def rows(session: SqlSession, query: str) -> list[dict[str, object]]:
    return session.query(query).read_all().to_pylist()


def test_a_name_that_is_no_table_is_a_topic(broker: EmbeddedBroker):
    found = sql("SELECT count(*) AS n, max(id) AS last FROM orders", bootstrap_servers=broker.bootstrap_servers)
    assert found.to_pylist() == [{"n": 100, "last": 99}]


def test_compacted_has_the_newest_record_of_each_key_that_is_not_deleted(session: SqlSession):
    found = rows(session, "SELECT key, name FROM compacted('my-users') ORDER BY key")
    assert found == [{"key": str(key), "name": f"n{95 + key}"} for key in range(4)]


def test_topics_are_joined(session: SqlSession):
    query = """SELECT name, count(*) AS n FROM orders JOIN compacted('my-users') u ON buyer = u.key::INT
               GROUP BY ALL ORDER BY name"""
    assert rows(session, query) == [{"name": f"n{95 + key}", "n": 20} for key in range(4)]


def test_only_columns_of_the_query_and_offsets_of_its_filter_are_read(session: SqlSession):
    [scan] = session.explain('SELECT max(id) FROM orders WHERE partition = 1 AND "offset" >= 40')
    assert scan.columns == ("partition", "offset", "id")
    assert [(each.partition, each.start, each.end) for each in scan.ranges] == [(1, 40, 50)]
    assert scan.offsets == 10


def test_a_format_can_be_given_in_the_query(session: SqlSession):
    found = rows(
        session, """SELECT count(*) AS n FROM topic('orders', value => 'string') WHERE value LIKE '%"id": 1%'"""
    )
    assert found == [{"n": 11}]


def test_tables_of_the_session_stay_and_topics_are_read_anew(session: SqlSession, broker: EmbeddedBroker):
    rows(session, "CREATE TABLE kept AS SELECT * FROM short")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("short", b"2")
    assert rows(session, "SELECT count(*) AS n FROM kept") == [{"n": 1}]
    assert rows(session, "SELECT count(*) AS n FROM short") == [{"n": 2}]
    assert rows(session, "WITH orders AS (SELECT 1 AS x) SELECT * FROM orders") == [{"x": 1}]


def test_texts_comments_and_quoted_names_are_no_calls():
    assert list(calls_in("""SELECT 'topic(''a'')', "topic('b')" -- compacted('c')""")) == []
    [call] = calls_in("SELECT * FROM Topic('it''s', VALUE = 'json') t")
    assert (call.topic, dict(call.arguments)) == ("it's", {"value": "json"})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM ordres", "there is no topic and no table 'ordres'; did you mean orders?"),
        ("SELECT * FROM topic('nowhere')", "nowhere"),
        ("SELECT nope FROM orders", 'column "nope" not found'),
        ("SELECT id FRM orders", "syntax error"),
        ("SELECT * FROM topic(orders)", "the first argument is the name of a topic in single quotes"),
        ("SELECT * FROM topic('orders', format='json')", "format is unknown; there are key, value, subject"),
        ("SELECT * FROM topic('orders', value=json)", "write value='json'"),
        ("SELECT error('stopped') FROM orders", "stopped"),
        ("SELECT value::INT FROM topic('orders', value='string')", "Could not convert"),
    ],
)
def test_a_wrong_query_says_what_is_wrong(session: SqlSession, query: str, message: str):
    with pytest.raises(KafkaError) as raised:
        rows(session, query)
    assert message in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_an_error_of_a_scan_is_raised_as_it_is(session: SqlSession, broker: EmbeddedBroker):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("gone", 1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("gone", b"1")
            producer.send("gone", b"2")
        reader = session.query("SELECT * FROM gone")
        admin.delete_records({TopicPartition("gone", 0): 1})
    try:
        reader.read_all()  # the scan may have been quicker
    except KafkaError as error:
        assert not isinstance(error, UsageError)
        assert "gone-0 starts at offset 1 now" in str(error)
