"""Queries of DuckDB over topics: names, our functions, what is read, and errors."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkaraw import (
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    QueryInterruptedError,
    TopicPartition,
    UnknownTopicError,
    UsageError,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.datasets.origins import ClusterOrigin
from kafkaraw.datasets.sql import SqlSession, sql
from kafkaraw.datasets.statements import calls_in, copy_in, statements_in
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            names = ("my-users", "short", "Mixed", "mixed", "eu.orders", "target", "partly", "late", "many")
            days = NewTopic("hours", 1, configs={"retention.ms": "-1"})
            admin.create_topics([NewTopic("orders", 2), days, *(NewTopic(name, 1) for name in names)])
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(100):
                value = json.dumps({"id": number, "buyer": number % 5}).encode()
                producer.send("orders", value, partition=number % 2)
                producer.send("my-users", json.dumps({"name": f"n{number}"}).encode(), key=b"%d" % (number % 5))
            producer.send("my-users", None, key=b"4")
            producer.send("my-users", b'{"name": "without a key"}')
            newest = int(time.time() * 1_000)
            for number in range(100):
                producer.send("hours", b"x", timestamp_ms=newest - (99 - number) * 86_400_000)
            producer.send("short", b"1")
            producer.send("Mixed", b"large")
            producer.send("mixed", b"small")
            producer.send("eu.orders", b'{"id": 1}')
            producer.flush()
            values = pa.array([b"%d" % number for number in range(300_000)], pa.binary())
            producer.send_arrow("many", pa.record_batch({"value": values}))
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


@pytest.mark.parametrize(
    "condition",
    [
        "timestamp > now() - INTERVAL 1 HOUR",
        "timestamp >= current_date - 1",
        "timestamp BETWEEN now() - INTERVAL 1 HOUR AND now()",
        "date_trunc('hour', timestamp) >= date_trunc('hour', now())",
    ],
)
def test_a_filter_on_time_is_understood_in_the_forms_of_sql(session: SqlSession, condition: str):
    [scan] = session.explain(f"SELECT count(*) FROM hours WHERE {condition}")
    assert 0 < scan.offsets <= 3


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
        ("SELECT * FROM ordres", "there is no topic and no table 'ordres'; did you mean orders"),
        ("SELECT * FROM topic('nowhere')", "nowhere"),
        ("SELECT nope FROM orders", 'column "nope" not found'),
        ("SELECT nope FROM topic('orders')", "nope"),
        ("SELECT offset, id FROM orders LIMIT 3 OFFSET 1", 'because OFFSET is a keyword of SQL: "offset"'),
        ("SELECT id FROM orders WHERE offset > 3", 'because OFFSET is a keyword of SQL: "offset"'),
        ("SELECT * FROM eu.orders", 'A name with dots is written in double quotes: "eu.orders"'),
        ('SELECT * FROM Mixed JOIN "mixed" ON true', "Mixed and mixed are one name in SQL: write topic('Mixed')"),
        ("SELECT * FROM my-users", 'A name with dashes is written in double quotes: "my-users"'),
        ("SELECT id-1 FRM orders", "syntax error"),
        ("SELECT * FROM topics('(')", "topics('('): not a regex"),
        ("SELECT * FROM topics('nowhere.*')", "no topic matches 'nowhere.*'"),
        ("SELECT * FROM topic('orders', tail='x')", "or tail=100"),
        ("SELECT * FROM topic('orders', value=5)", "value='json'"),
        ("COPY orders TO TOPIC target", "name one topic in single quotes"),
        ("COPY TO TOPIC 'target'", "write COPY (SELECT ...) TO TOPIC 'name'"),
        ("COPY (SELECT 1 AS n) TO TOPIC 'nowhere'", "nothing was written: create it first"),
        ("COPY orders TO TOPIC 'target'", "are no part of a record"),
        ("SELECT '\ud800'", "surrogates not allowed"),
        ("SELECT id FRM orders", "syntax error"),
        ("SELECT * FROM topic(orders)", "the first argument is the name of a topic in single quotes"),
        ("SELECT * FROM topic('orders', format='json')", "format is unknown; there are key, value, subject, tail"),
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


def records(broker: EmbeddedBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic."""
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        found = []
        while len(found) < end:
            found += [(record.key, record.value) for batch in consumer.poll(1).values() for record in batch]
        return found


def test_copy_writes_the_rows_to_a_topic(session: SqlSession, broker: EmbeddedBroker):
    query = "SELECT buyer AS key, count(*) AS n, sum(id) AS total FROM orders WHERE buyer < 2 GROUP BY ALL ORDER BY key"
    assert rows(session, f"COPY ({query}) TO TOPIC 'target' -- so") == [{"Count": 2}]
    rows(session, "CREATE TABLE pairs AS SELECT 'k' AS key, 'v' AS value, NULL AS headers")
    assert rows(session, "copy pairs to topic 'target';") == [{"Count": 1}]
    assert session.write("SELECT 1.5::DECIMAL(9, 2) AS a, 'nan'::DOUBLE AS b, DATE '2026-01-02' AS c", "target") == 1
    assert records(broker, "target") == [
        (b"0", b'{"n": 20, "total": 950}'),
        (b"1", b'{"n": 20, "total": 970}'),
        (b"k", b"v"),
        (None, b'{"a": 1.5, "b": null, "c": "2026-01-02"}'),
    ]


def test_a_copy_that_fails_tells_how_many_records_stay(broker: EmbeddedBroker):
    query = "SELECT CASE WHEN \"offset\" < 299000 THEN value ELSE error('no more') END AS value FROM many"
    with SqlSession(bootstrap_servers=broker.bootstrap_servers, threads=1, value="bytes") as session:
        rows(session, "SET threads = 1")
        with pytest.raises(UsageError, match="no more") as raised:
            rows(session, f"COPY ({query}) TO TOPIC 'partly'")
    [note] = raised.value.__notes__
    told = re.search(r"up to ([\d,]+) records were written before this error, and stay there", note)
    assert told is not None
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        place = TopicPartition("partly", 0)
        assert 0 < consumer.end_offsets([place])[place] <= int(told[1].replace(",", ""))


def test_an_error_behind_the_first_rows_is_one_of_the_statement(broker: EmbeddedBroker):
    query = "SELECT CASE WHEN \"offset\" < 299000 THEN value ELSE error('no more') END AS value FROM many"
    with SqlSession(bootstrap_servers=broker.bootstrap_servers, threads=1, value="bytes") as session:
        rows(session, "SET threads = 1")
        reader = session.query(query)
        with pytest.raises(UsageError, match="no more"):
            reader.read_all()


def test_statements_end_at_semicolons_that_are_no_part_of_a_text():
    whole, rest = statements_in("SELECT 'é;' ; -- x;\n COPY (SELECT (1)) TO TOPIC 'a' /* ; */; select $$;$$")
    assert [each[:6] for each in whole] == ["SELECT", "-- x;\n"]
    assert rest == "select $$;$$"
    assert statements_in("-- nothing") == ([], "")
    copied = copy_in("COPY (SELECT (1), ')') TO TOPIC 'it''s'")
    assert copied is not None
    assert (copied.query, copied.topic) == ("SELECT (1), ')'", "it's")
    assert copy_in("COPY orders TO 'topic.csv'") is None
    assert copy_in("SELECT 'COPY x TO TOPIC'") is None


def test_functions_are_found_behind_letters_of_several_bytes(session: SqlSession):
    query = "SELECT 'é€' AS e, count(*) AS n FROM topic('orders', value='json') WHERE 'é' = 'é'"
    assert rows(session, query) == [{"e": "é€", "n": 100}]


def test_a_pattern_and_the_newest_offsets_are_tables(session: SqlSession):
    found = rows(
        session, "SELECT topic, count(*) AS n FROM topics('(my-)?users|orders', tail=3) GROUP BY ALL ORDER BY 1"
    )
    assert found == [{"topic": "my-users", "n": 3}, {"topic": "orders", "n": 6}]
    assert rows(session, "SELECT count(*) AS n FROM topics('.*', value='bytes') WHERE topic LIKE '\\_%'") == [{"n": 0}]


def test_views_and_other_statements_find_topics(session: SqlSession):
    rows(session, "CREATE VIEW small AS SELECT * FROM orders WHERE id < 10")
    rows(session, "SELECT 1")
    assert rows(session, "SELECT count(*) AS n FROM small") == [{"n": 10}]
    rows(session, "CREATE TABLE kept (id BIGINT)")
    rows(session, "INSERT INTO kept SELECT id FROM orders WHERE id >= 98")
    assert rows(session, "FROM KEPT ORDER BY id") == [{"id": 98}, {"id": 99}]
    assert "buyer" in [row["column_name"] for row in rows(session, "DESCRIBE orders")]
    assert rows(session, "PIVOT orders ON buyer USING count(*)")
    assert rows(session, "SELECT count(*) AS n FROM (SUMMARIZE orders)")[0]["n"] == len(session.table("orders").schema)


def test_show_tables_names_topics_and_tables(session: SqlSession):
    rows(session, "CREATE TABLE kept AS SELECT 1 AS x")
    found = [row["name"] for row in rows(session, "show tables -- all\n;")]
    assert {"orders", "my-users", "eu.orders", "kept"} <= set(found)
    assert not any(str(name).startswith("__") for name in found)
    assert found == sorted(found)


def test_names_are_topics_and_never_variables_of_the_program(session: SqlSession):
    ordres = pa.table({"id": [1]})
    with pytest.raises(UsageError, match="there is no topic and no table 'ordres'"):
        rows(session, "SELECT * FROM ordres")
    del ordres


def test_fields_appear_when_an_empty_topic_gets_records(session: SqlSession, broker: EmbeddedBroker):
    assert rows(session, "SELECT * FROM late") == []
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("late", b'{"id": 7}')
    assert rows(session, "SELECT id FROM late") == [{"id": 7}]


def test_a_query_reads_one_snapshot_of_each_topic(session: SqlSession, broker: EmbeddedBroker):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        query = (
            "SELECT (SELECT count(*) FROM topic('short')) - (SELECT count(*) FROM topic('short', value='bytes')) AS d"
        )
        asked = iter(range(10))
        for _ in asked:
            producer.send("short", b"3")
            producer.flush()
            assert rows(session, query) == [{"d": 0}]


def test_a_filter_outside_of_compacted_does_not_choose_older_records(session: SqlSession):
    assert rows(session, "SELECT * FROM compacted('my-users') WHERE \"offset\" < 50") == []
    assert rows(session, "SELECT key FROM compacted('my-users') WHERE name LIKE 'n9%' AND key = '2'") == [{"key": "2"}]


def test_explain_reads_and_writes_nothing(session: SqlSession):
    scans = session.explain("COPY (SELECT id FROM orders JOIN \"my-users\" u ON name = 'x') TO TOPIC 'target'")
    assert sorted(scan.topic for scan in scans) == ["my-users", "orders"]
    [scan] = session.explain("SELECT count(*) FROM orders")
    assert scan.size_bytes is not None and 2_000 < scan.size_bytes < 10_000
    for statement in ("CREATE TABLE t AS SELECT * FROM orders", "COPY orders TO '/nowhere/x.csv'"):
        with pytest.raises(UsageError, match="only a query can be explained"):
            session.explain(statement)


def test_a_session_keeps_its_connections_behind_a_limit(session: SqlSession):
    origin = session._tables.source.origin
    assert isinstance(origin, ClusterOrigin) and origin.kept is not None
    assert len(rows(session, "SELECT value FROM many LIMIT 1")) == 1
    kept = set(map(id, origin.kept._idle))
    assert kept
    for _ in range(3):
        assert len(rows(session, "SELECT value FROM many LIMIT 5")) == 5
        assert rows(session, "SELECT count(*) AS n FROM many") == [{"n": 300_000}]
    assert kept <= set(map(id, origin.kept._idle))


def scan_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if re.match("kafkaraw-(scan|statement)", each.name)]


def test_a_query_that_is_interrupted_ends_with_its_threads(session: SqlSession):
    slow = "SELECT count(*) FROM many a, many b WHERE a.value || b.value LIKE '%x%'"
    timer = threading.Timer(0.5, session.interrupt)
    timer.start()
    with pytest.raises(QueryInterruptedError, match="the query was interrupted"):
        rows(session, slow)
    timer.join()
    assert wait_until(lambda: scan_threads() == [], 10)
    assert rows(session, "SELECT count(*) AS n FROM many") == [{"n": 300_000}]


def test_a_reader_that_is_dropped_or_followed_by_a_statement_ends(session: SqlSession):
    reader = session.query("SELECT * FROM many")
    assert reader.read_next_batch().num_rows
    reader.close()
    del reader
    assert wait_until(lambda: scan_threads() == [], 10)
    reader = session.query("SELECT * FROM many")
    assert rows(session, "SELECT 1 AS n") == [{"n": 1}]
    with pytest.raises(KafkaError, match="interrupted"):
        reader.read_all()
    session.query("SELECT * FROM many")
    session.close()
    assert wait_until(lambda: scan_threads() == [], 10)


def test_sessions_run_at_the_same_time_in_threads(broker: EmbeddedBroker):
    found: list[object] = []

    def count() -> None:
        query = "SELECT count(*) AS n, max(value::INT) AS last FROM topic('many', value='string')"
        found.append(sql(query, bootstrap_servers=broker.bootstrap_servers).to_pylist())

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[{"n": 300_000, "last": 299_999}]] * 3


def test_a_topic_that_is_deleted_is_unknown_to_the_next_query(session: SqlSession, broker: EmbeddedBroker):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("brief", 1)])
        assert rows(session, "SELECT count(*) AS n FROM brief") == [{"n": 0}]
        admin.delete_topics(["brief"])
    with pytest.raises((UnknownTopicError, UsageError), match="brief"):
        rows(session, "SELECT count(*) FROM brief")
