"""A filter that is pushed down returns what it returns over the whole topic: DuckDB, Polars and PyArrow."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.datasets.dataset import KafkaDataset, dataset
from kafkaraw.testing.pytest_plugin import KEEP_RECORDS
from tests.datasets.filters import Filter, filters

TIME_MS = 1_767_225_600_000
COUNT = 240
PARTITIONS = 3
TOPICS = ["orders", "stamped"]
COLUMNS = ["topic", "partition", "offset"]
TIMES_US = [(TIME_MS + 1_000 * number) * 1_000 for number in range(0, COUNT, 9)]


def order(rng: random.Random) -> bytes | None:
    """A value: an order, with nulls and missing fields; or a tombstone; or no JSON."""
    kind = rng.randrange(12)
    if kind < 2:
        return None if kind else b"no json"
    fields: dict[str, object] = {"amount": rng.choice([None, rng.randrange(20)])} if kind > 3 else {}
    return json.dumps({**fields, "status": rng.choice(["new", "paid", None])}).encode()


def fill(servers: str) -> None:
    """Write records whose timestamps go backwards, with aborted transactions and deleted records."""
    rng = random.Random(7)
    stamped = NewTopic("stamped", 1, configs={"message.timestamp.type": "LogAppendTime"})
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders", PARTITIONS), stamped])
        with Producer(bootstrap_servers=servers, transactional_id="t", batch_size=400) as producer:
            producer.init_transactions()
            for number in range(COUNT):
                if number % 20 == 0:
                    producer.begin_transaction()
                at = TIME_MS + 1_000 * number - (rng.randrange(90_000) if rng.random() < 0.3 else 0)
                at = -1 if number == 100 else at
                key = None if rng.random() < 0.2 else b"k%d" % rng.randrange(9)
                producer.send(
                    "orders", order(rng), key, partition=rng.randrange(PARTITIONS),
                    **({} if at < 0 else {"timestamp_ms": at}),
                )  # fmt: skip
                if number % 20 == 19:
                    (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)()
        with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            for _ in range(40):
                producer.send("stamped", order(rng), timestamp_ms=1_000).result()
        admin.delete_records({TopicPartition("orders", 2): 11})


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(properties=KEEP_RECORDS) as broker:
        fill(broker.bootstrap_servers)
        yield broker.bootstrap_servers


@pytest.fixture(scope="module", params=["read_committed", "read_uncommitted"])
def read(request: pytest.FixtureRequest, servers: str) -> tuple[KafkaDataset, pa.Table]:
    """A data set, and its whole table."""
    found = dataset(TOPICS, value="json", key="string", isolation_level=request.param, bootstrap_servers=servers)
    return found, found.to_table()


def places(rows: pa.Table | pl.DataFrame) -> list[tuple[object, ...]]:
    table = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def test_a_whole_scan_has_the_records_of_a_consumer(read: tuple[KafkaDataset, pa.Table], servers: str):
    data, table = read
    level = data.source.origin.settings["isolation_level"]  # type: ignore[attr-defined]
    found = []
    with Consumer(bootstrap_servers=servers, isolation_level=level, auto_offset_reset="earliest") as consumer:
        consumer.assign(list(data.offsets))
        ends = {of: end for of, (_, end) in data.offsets.items()}
        while any(consumer.position(of) < end for of, end in ends.items()):
            for of, batch in consumer.poll(1).items():
                found += [(of.topic, of.partition, record.offset, record.key, record.value) for record in batch]
    rows = zip(*(table[name].to_pylist() for name in [*COLUMNS, "key", "value"]), strict=True)
    expected = [(*place, key and key.decode(), value and value.decode()) for *place, key, value in found]
    assert sorted(rows, key=str) == sorted(expected, key=str)
    assert 0 < table["amount"].null_count < table.num_rows


FILTERS = filters(TOPICS, PARTITIONS, COUNT // PARTITIONS, TIMES_US)


@settings(max_examples=40, deadline=None)
@given(filter=FILTERS)
def test_a_filter_of_duckdb(read: tuple[KafkaDataset, pa.Table], filter: Filter):
    data, table = read
    query = f'SELECT topic, partition, "offset" FROM {{}} WHERE {filter.duckdb}'
    with duckdb.connect() as connection:
        connection.register("data", data)
        connection.register("whole", table)
        pushed = connection.sql(query.format("data")).to_arrow_table()
        assert places(pushed) == places(connection.sql(query.format("whole")).to_arrow_table())


@settings(max_examples=40, deadline=None)
@given(filter=FILTERS)
def test_a_filter_of_pyarrow(read: tuple[KafkaDataset, pa.Table], filter: Filter):
    data, table = read
    pushed = data.to_table(COLUMNS, filter=filter.arrow)
    assert places(pushed) == places(table.filter(filter.arrow))
    assert data.count_rows(filter.arrow) == pushed.num_rows
    assert data.filter(filter.arrow).to_table(COLUMNS).num_rows == pushed.num_rows


@settings(max_examples=40, deadline=None)
@given(filter=FILTERS)
def test_a_filter_of_polars(read: tuple[KafkaDataset, pa.Table], filter: Filter):
    data, table = read
    expected = places(pl.from_arrow(table).lazy().filter(filter.polars).select(COLUMNS).collect())
    assert places(data.to_polars().filter(filter.polars).select(COLUMNS).collect()) == expected
    # This way Polars takes PyArrow's result for null, which may be true: `~is_in`.
    found = places(pl.scan_pyarrow_dataset(data).filter(filter.polars).select(COLUMNS).collect())
    assert set(found) >= set(expected)


def test_a_frame_of_polars_reads_what_its_query_needs(read: tuple[KafkaDataset, pa.Table]):
    data, table = read
    frame = data.to_polars()
    assert frame.collect_schema().names() == table.schema.names
    assert frame.collect().height == table.num_rows
    assert frame.head(7).collect().height == 7
    assert frame.filter(pl.col("offset") > 10).head(5).collect()["offset"].min() > 10
    assert frame.filter(~pl.col("amount").is_in([0])).collect()["amount"].null_count() == 0
    counted = frame.group_by("status").len().collect()
    assert dict(counted.iter_rows()) == {
        row["values"]: row["counts"] for row in table["status"].value_counts().to_pylist()
    }
    assert frame.select(pl.len()).collect().item() == table.num_rows
    assert frame.collect(engine="streaming").height == table.num_rows


@settings(max_examples=20, deadline=None)
@given(filter=FILTERS, limit=st.integers(0, 40), descending=st.booleans())
def test_a_limit_and_an_order_with_a_filter(
    read: tuple[KafkaDataset, pa.Table], filter: Filter, limit: int, descending: bool
):
    data, table = read
    order = "DESC" if descending else "ASC"
    query = f'SELECT topic, partition, "offset" FROM {{}} WHERE {filter.duckdb} ORDER BY ALL {order} LIMIT {limit}'
    with duckdb.connect() as connection:
        connection.register("data", data)
        connection.register("whole", table)
        found, expected = (connection.sql(query.format(name)).fetchall() for name in ("data", "whole"))
        assert found == expected
        counted = f"SELECT count(*) FROM (SELECT * FROM data WHERE {filter.duckdb} LIMIT {limit})"
        [(matching,)] = connection.sql(f"SELECT count(*) FROM whole WHERE {filter.duckdb}").fetchall()
        assert connection.sql(counted).fetchall() == [(min(limit, matching),)]
