"""Filters on columns of fields return what they return in memory, whatever the fields have: DuckDB and Polars."""

from __future__ import annotations

import datetime
import io
import json
import math
import random
from collections.abc import Iterator
from decimal import Decimal

import fastavro
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw import Admin, Consumer, DeserializationError, NewTopic, Producer, SqlSession, TopicPartition, dataset
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.datasets.dataset import KafkaDataset
from kafkaraw.schemas import Registry, Schema
from kafkaraw.schemas.server.embedded import EmbeddedRegistry
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS

COUNT = 150
PARTITIONS = 2
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NAN = math.nan
RATIOS = [1.0, NAN, None, math.inf, -math.inf, 7.5, -0.0, 0.0]
PRICES = [None, Decimal("1.10"), Decimal("-3.00"), Decimal("99.99"), Decimal("0.00")]
STATES = ["new", "paid", "sent"]
NAMES = ["a", "", "ä", "a%", "A", "b"]
AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "ratio", "type": ["null", "double"]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": STATES}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "user", "type": ["null", {"type": "record", "name": "User", "fields": [
            {"name": "name", "type": "string"}, {"name": "score", "type": ["null", "float"]}]}]},
        {"name": "either", "type": ["null", "string", "long"]},
        {"name": "data", "type": "bytes"},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
UNREADABLE = b"\0\0\0\0"


def order(number: int, rng: random.Random) -> dict[str, object]:
    user = None if rng.random() < 0.3 else {"name": rng.choice(NAMES), "score": rng.choice([None, 2.5, NAN])}
    return {
        "id": number,
        "ratio": rng.choice(RATIOS),
        "price": rng.choice(PRICES),
        "state": rng.choice(STATES),
        "day": rng.choice([None, (START + datetime.timedelta(days=rng.randrange(-40_000, 5))).date()]),
        "at": START + datetime.timedelta(hours=rng.randrange(9), microseconds=rng.randrange(3)),
        "user": user,
        "either": rng.choice([None, "text", "", 7, -1]),
        "data": rng.choice([b"", b"\xff", b"a\0", b"a"]),
        "tags": rng.choice([[], ["x"], ["x", None], ["y"] * 3]),
        "counts": rng.choice([{}, {"x": 1}, {"x": 2, "y": 3}]),
    }


class Written:
    """A broker and a registry with a topic, and what was written to it by offset; None if it cannot be decoded."""

    def __init__(self, broker: EmbeddedBroker, registry: EmbeddedRegistry) -> None:
        self.servers, self.url = broker.bootstrap_servers, registry.url
        self.orders: dict[tuple[int, int], dict[str, object] | None] = {}
        rng = random.Random(5)
        parsed = fastavro.parse_schema(AVRO)
        with Registry(self.url) as registered, Admin(bootstrap_servers=self.servers) as admin:
            number = registered.register("orders-value", Schema(json.dumps(AVRO))).id
            admin.create_topics([NewTopic("orders", PARTITIONS)])
        with Producer(bootstrap_servers=self.servers, linger_ms=2) as producer:
            for count in range(COUNT):
                given = order(count, rng)
                stream = io.BytesIO()
                fastavro.schemaless_writer(stream, parsed, given)
                value: bytes | None = b"\0" + number.to_bytes(4, "big") + stream.getvalue()
                kind = rng.randrange(20)
                if kind < 2:
                    value = None if kind else UNREADABLE
                stamp = 1_767_225_600_000 + 1_000 * rng.randrange(COUNT)
                ticket = producer.send("orders", value, partition=count % PARTITIONS, timestamp_ms=stamp)
                place = ticket.result()
                self.orders[place.partition, place.offset] = given if kind > 1 else None


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    with EmbeddedBroker(properties=KEEP_RECORDS) as broker, EmbeddedRegistry() as registry:
        yield Written(broker, registry)


@pytest.fixture(scope="module")
def registry(written: Written) -> Iterator[Registry]:
    with Registry(written.url) as registry:
        yield registry


@pytest.fixture(scope="module")
def data(written: Written, registry: Registry) -> KafkaDataset:
    return dataset("orders", value="avro", registry=registry, bootstrap_servers=written.servers)


@pytest.fixture(scope="module")
def session(written: Written) -> Iterator[SqlSession]:
    """A session with a table in memory of what the topic has."""
    with SqlSession(bootstrap_servers=written.servers, value="avro", registry=written.url) as session:
        session.query("SET timezone = 'UTC'").read_all()
        session.query("CREATE TABLE whole AS SELECT * FROM orders").read_all()
        yield session


def test_columns_have_what_another_decoder_finds(written: Written, data: KafkaDataset):
    found = {(row["partition"], row["offset"]): row for row in data.to_table().to_pylist()}
    assert found.keys() == written.orders.keys()
    for place, expected in written.orders.items():
        row = found[place]
        for name in ("id", "price", "state", "day", "at", "data", "tags"):
            assert row[name] == (None if expected is None else expected[name]), (place, name)
        ratio = None if expected is None else expected["ratio"]
        assert repr(row["ratio"]) == repr(ratio)
        assert (row["value_error"] is None) == (expected is not None or row["value"] is None)


LITERALS = {
    "id": ["3", "2.5", "-1"],
    "ratio": ["5", "0", "'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE"],
    "price": ["1.1", "0", "2.555", "-3"],
    "state": ["'new'", "'paid'", "'lost'"],
    "day": ["DATE '2026-01-03'", "DATE '1950-06-01'", "TIMESTAMP '2026-01-02 00:00:01'"],
    '"at"': ["TIMESTAMPTZ '2026-01-01 03:00:00+00'", "TIMESTAMPTZ '2026-01-01 03:00:00.000001+02'"],
    '"user".name': ["'a'", "''", "'ä'"],
    '"user".score': ["2.5", "'nan'::DOUBLE", "0"],
    "data": ["''::BLOB", "'a'::BLOB", "'\\xff'::BLOB"],
    "tags": ["['x']", "[]"],
    '"offset"': ["7", "40.5"],
    "timestamp": ["TIMESTAMPTZ '2026-01-01 00:01:00+00'", "TIMESTAMPTZ '2026-01-01 05:02:00+05'"],
}
SIGNS = ["<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
LEAVES = st.sampled_from(sorted(LITERALS)).flatmap(
    lambda name: (
        st.builds(lambda sign, one: f"{name} {sign} {one}", st.sampled_from(SIGNS), st.sampled_from(LITERALS[name]))
        | st.builds(
            lambda word, some: f"{name} {word} ({', '.join(some)})",
            st.sampled_from(["IN", "NOT IN"]),
            st.lists(st.sampled_from([*LITERALS[name], "NULL"]), min_size=1, max_size=3),
        )
        | st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"])
        | st.builds(
            lambda one, two: f"{name} BETWEEN {one} AND {two}",
            st.sampled_from(LITERALS[name]),
            st.sampled_from(LITERALS[name]),
        )
    )
) | st.sampled_from(["state LIKE 'p%'", "\"user\".name LIKE 'a\\%' ESCAPE '\\'", "len(tags) > 1", "isnan(ratio)",
                     "counts['x'] = 1", "either IS NULL", "value_error IS NULL",
                     'day::TIMESTAMP < "at"'])  # fmt: skip
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda one, other: f"({one} AND {other})", inner, inner)
        | st.builds(lambda one, other: f"({one} OR {other})", inner, inner)
        | st.builds(lambda one: f"NOT ({one})", inner)
    ),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
@given(filter=FILTERS, limit=st.none() | st.integers(0, 40), skipped=st.integers(0, 10), descending=st.booleans())
def test_sql_over_a_topic_returns_what_it_returns_in_memory(
    session: SqlSession, filter: str, limit: int | None, skipped: int, descending: bool
):
    bounds = "" if limit is None else f"LIMIT {limit} OFFSET {skipped}"
    order = "DESC" if descending else "ASC"
    query = f'SELECT partition, "offset", id FROM {{}} WHERE {filter} ORDER BY "offset" {order}, partition {bounds}'
    found, expected = (session.query(query.format(name)).read_all() for name in ("orders", "whole"))
    assert found == expected


@settings(max_examples=15, deadline=None)
@given(filter=FILTERS, other=FILTERS, kind=st.sampled_from(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"]))
def test_joins_return_what_they_return_in_memory(session: SqlSession, filter: str, other: str, kind: str):
    query = f"""SELECT a.partition, a."offset" FROM (SELECT * FROM {{0}} WHERE {filter}) a {kind} (
        SELECT * FROM {{0}} WHERE {other}) b ON a.state = b.state AND a."user".name = b."user".name AND a.id < b.id
        ORDER BY ALL"""
    found, expected = (session.query(query.format(name)).read_all() for name in ("orders", "whole"))
    assert found == expected


VALUES: dict[str, list[object]] = {
    "id": [3, 2.5], "ratio": [5.0, 0.0, NAN, math.inf, -math.inf], "price": [Decimal("1.10"), Decimal("0.00")],
    "day": [datetime.date(2026, 1, 3)], "at": [START + datetime.timedelta(hours=3)], "data": [b"a", b""],
    "offset": [7, 40], "timestamp": [START + datetime.timedelta(minutes=1)], "partition": [1],
}  # fmt: skip
COMPARED = st.sampled_from(sorted(VALUES)).flatmap(
    lambda name: (
        st.builds(
            lambda verb, value: getattr(pl.col(name), verb)(pl.lit(value)),
            st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne", "eq_missing", "ne_missing"]),
            st.sampled_from(VALUES[name]),
        )
        | st.sampled_from([pl.col(name).is_null(), pl.col(name).is_in(VALUES[name][:1])])
    )
) | st.sampled_from([
    pl.col("ratio").is_nan(), pl.col("ratio") + 1 > 3, pl.col("ratio") == pl.col("ratio"), pl.col("state") == "new",
    pl.col("user").struct.field("name") == "a", pl.col("tags").list.len() > 1, pl.col("at").dt.hour() > 3,
])  # fmt: skip
PREDICATES = st.recursive(
    COMPARED,
    lambda inner: st.builds(lambda a, b: a & b, inner, inner) | st.builds(lambda a, b: a | b, inner, inner)
    | st.builds(lambda a: ~a, inner),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(predicate=PREDICATES)
def test_a_frame_of_polars_returns_what_it_returns_in_memory(data: KafkaDataset, predicate: pl.Expr):
    whole = pl.DataFrame(data.to_table()).lazy()
    found, expected = (
        frame.filter(predicate).select("partition", "offset").sort("partition", "offset").collect()
        for frame in (data.to_polars(), whole)
    )
    assert found.rows() == expected.rows()


def test_rows_of_a_consumer_and_of_sql_are_the_same(written: Written, session: SqlSession):
    rows: list[dict[str, object]] = []
    with Consumer(bootstrap_servers=written.servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(PARTITIONS)])
        while len(rows) < COUNT:
            for of, batch in consumer.poll(1).items():
                rows += [
                    {"partition": of.partition, "n": record.offset, "size": record.value and len(record.value),
                     "ms": record.timestamp_ms}
                    for record in batch
                ]  # fmt: skip
    sums = [("n", "count"), ("n", "sum"), ("size", "sum"), ("ms", "max")]
    expected = pa.Table.from_pylist(rows).group_by("partition").aggregate(sums).sort_by("partition")
    found = session.query(
        """SELECT partition, count(*), sum("offset")::BIGINT, sum(octet_length(value))::BIGINT, max(epoch_ms(timestamp))
           FROM orders GROUP BY ALL ORDER BY ALL"""
    ).read_all()
    assert [tuple(row.values()) for row in found.to_pylist()] == [tuple(row.values()) for row in expected.to_pylist()]


def test_a_value_that_does_not_decode_is_named_by_its_place(written: Written, registry: Registry):
    with SqlSession(bootstrap_servers=written.servers, value="avro", registry=written.url) as session:
        found = session.query("SELECT count(*) AS n FROM orders WHERE value_error IS NOT NULL").read_all()["n"]
    assert found.to_pylist()[0] > 0
    strict = dataset(
        "orders", value="avro", registry=registry, on_error="raise", bootstrap_servers=written.servers, threads=1
    )
    with pytest.raises(DeserializationError, match=r"value of orders-[01] at offset \d+: ") as raised:
        strict.to_table(["id"])
    assert raised.value.topic == "orders"
    assert written.orders[raised.value.partition, raised.value.offset] is None
    assert strict.to_table(["partition", "offset"]).num_rows == COUNT
