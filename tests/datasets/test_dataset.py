"""Topics as data sets: columns, snapshots, filters, and records that do not decode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
import pytest

from kafkaraw import Admin, DeserializationError, NewTopic, Producer, TopicPartition, UnknownTopicError, UsageError
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.datasets.dataset import RECORD_SCHEMA, KafkaDataset, dataset
from kafkaraw.datasets.origins import RecordsGoneError

COUNT = 3_000
STATES = ("new", "paid", "sent")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics(
                [NewTopic("orders", 3), NewTopic("mixed", 1), NewTopic("empty", 2), NewTopic("times", 1)]
            )
        with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
            for number in range(COUNT):
                order = {"id": number, "status": STATES[number % 3], "amount": number / 2, "user": {"id": number % 7}}
                value = json.dumps(order).encode()
                producer.send(
                    "orders", value, key=b"k%d" % (number % 10), partition=number % 3, timestamp_ms=1_000 + number
                )
            for value in (b'{"id": 1}', b"no json", None, b'{"id": 2.5}', b'{"id": "x"}', b"[1]", b'\xff{"id": 3}'):
                producer.send("mixed", value, key=b"\xff" if value is None else b"k")
            for number in range(200):
                producer.send("times", b"%d" % number, timestamp_ms=100_000 - number if number % 2 else number)
            producer.flush()
        yield broker


@pytest.fixture(scope="module")
def orders(broker: EmbeddedBroker) -> KafkaDataset:
    return dataset("orders", value="json", key="string", bootstrap_servers=broker.bootstrap_servers, threads=2)


def test_fields_of_json_values_are_columns(orders: KafkaDataset):
    kinds = {field.name: field.type for field in orders.schema}
    assert kinds["id"] == pa.int64()
    assert kinds["amount"] == pa.float64()
    assert kinds["user"] == pa.struct([("id", pa.int64())])
    assert kinds["key"] == kinds["value"] == pa.string()
    assert orders.schema.names[:5] == ["topic", "partition", "offset", "timestamp", "timestamp_type"]


def test_duckdb_polars_and_pyarrow_read_the_same_rows(orders: KafkaDataset):
    expected = {status: COUNT // 3 for status in STATES}
    assert dict(duckdb.sql("SELECT status, count(*) FROM orders GROUP BY ALL").fetchall()) == expected
    counted = pl.scan_pyarrow_dataset(orders).group_by("status").len().collect()
    assert dict(counted.iter_rows()) == expected
    table = orders.to_table(["id", "status"])
    assert sorted(table["id"].to_pylist()) == list(range(COUNT))
    assert orders.count_rows(pc.field("status") == "new") == COUNT // 3


def test_a_filter_returns_what_it_returns_without_being_pushed_down(orders: KafkaDataset):
    whole = orders.to_table()
    filter = (pc.field("partition") == 1) & (pc.field("offset") >= 300) & (pc.field("amount") < 700)
    columns = ["offset", "id"]
    expected = whole.filter(filter).select(columns).sort_by("offset")
    assert orders.to_table(columns, filter=filter).sort_by("offset") == expected
    assert sum(each.size for each in orders.planned(filter)) == COUNT // 3 - 300


def test_columns_can_be_named_by_their_places(orders: KafkaDataset):
    places = [orders.schema.names.index(name) for name in ("partition", "offset")]
    filter = (pc.field(places[0]) == 1) & (pc.field(places[1]) >= 990)
    whole = orders.to_table()
    assert orders.to_table(["offset", "id"], filter=filter).num_rows == whole.filter(filter).num_rows == 10
    assert orders.to_table({"n": pc.field(places[1])}, filter=filter).num_rows == 10


def test_a_filter_on_timestamps_reads_from_the_first_record_of_that_time(broker: EmbeddedBroker):
    times = dataset("times", value="string", bootstrap_servers=broker.bootstrap_servers)
    since = pc.field("timestamp") >= pa.scalar(99_900_000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    found = times.to_table(["value"], filter=since)["value"].to_pylist()
    assert [int(each) for each in found] == list(range(1, 101, 2))  # those behind are older, and not in order
    assert [(each.start, each.end) for each in times.planned(since)] == [(1, 200)]


def test_a_snapshot_does_not_change_and_refresh_makes_another_one(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("growing", 1)])
        producer.send("growing", b"1")
        producer.flush()
        first = dataset("growing", bootstrap_servers=servers)
        producer.send("growing", b"2")
        producer.flush()
    assert first.count_rows() == first.count_rows() == 1
    assert first.offsets == {TopicPartition("growing", 0): (0, 1)}
    assert first.refresh().to_table(["value"])["value"].to_pylist() == [b"1", b"2"]


def test_tail_has_the_newest_offsets_of_each_partition(orders: KafkaDataset):
    assert sorted(orders.tail(2).to_table(["id"])["id"].to_pylist()) == list(range(COUNT - 6, COUNT))
    with pytest.raises(UsageError, match="tail: -1"):
        orders.tail(-1)


def test_a_record_that_does_not_decode_has_null_and_a_reason(broker: EmbeddedBroker):
    schema = pa.schema([("id", pa.int64())])
    mixed = dataset("mixed", value="json", schema=schema, key="string", bootstrap_servers=broker.bootstrap_servers)
    rows = mixed.to_table(["id", "value", "value_error", "key_error"]).to_pylist()
    assert [row["id"] for row in rows] == [1, None, None, None, None, None, None]
    assert [row["value_error"] for row in rows] == [
        None, "not a JSON object", None, "id is 2.5, and its column int64", 'id is "x", and its column int64',
        "not a JSON object", "not a JSON object",
    ]  # fmt: skip
    assert [row["key_error"] for row in rows] == [None, None, "not UTF-8", None, None, None, None]
    assert rows[-1]["value"] == '�{"id": 3}'


def test_with_on_error_raise_such_a_record_is_an_error(broker: EmbeddedBroker):
    strict = dataset("mixed", value="json", on_error="raise", bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(DeserializationError, match="value of mixed-0 at offset 1: not a JSON object"):
        strict.to_table(["id"])


def test_fields_of_several_types_are_text(broker: EmbeddedBroker):
    mixed = dataset("mixed", value="json", bootstrap_servers=broker.bootstrap_servers)
    assert [row["id"] for row in mixed.to_table(["id"]).to_pylist()] == ["1", None, None, "2.5", "x", None, None]


def test_auto_finds_formats(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    found = dataset("orders", key="auto", value="auto", bootstrap_servers=servers)
    assert "status" in found.schema.names
    assert (
        dataset("times", key="auto", value="auto", bootstrap_servers=servers).schema.field("value").type == pa.string()
    )
    assert (
        dataset("mixed", key="auto", value="auto", bootstrap_servers=servers).schema.field("value").type == pa.binary()
    )


def test_several_topics_and_patterns_are_one_data_set(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    assert dataset(["times", "mixed"], bootstrap_servers=servers).count_rows() == 207
    assert dataset(re.compile("t.*|e.*"), bootstrap_servers=servers).count_rows() == 200
    assert dataset("empty", value="json", bootstrap_servers=servers).to_table().num_rows == 0


def test_a_reader_that_stops_early_ends_the_scan(orders: KafkaDataset):
    assert duckdb.sql("SELECT id FROM orders LIMIT 1").fetchall()
    assert orders.head(5).num_rows == 5


def test_records_that_are_deleted_before_they_are_read_are_an_error(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    place = TopicPartition("deleted", 0)
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("deleted", 1)])
        for _ in range(10):
            producer.send("deleted", b"x")
        producer.flush()
        found = dataset("deleted", bootstrap_servers=servers)
        admin.delete_records({place: 4})
    with pytest.raises(RecordsGoneError, match=r"deleted-0 starts at offset 4 now.*`refresh\(\)`"):
        found.count_rows()
    assert found.refresh().count_rows() == 6


@pytest.mark.parametrize(
    ("topics", "arguments", "error", "message"),
    [
        ("orders", {"value": "xml"}, UsageError, "value='xml' is none of auto, bytes"),
        ("orders", {"key": "json"}, UsageError, "key='json' is none of"),
        ("orders", {"on_error": "skip"}, UsageError, "on_error='skip'"),
        ("orders", {"threads": 0}, UsageError, "threads=0"),
        ("orders", {"value": "avro"}, UsageError, "needs registry="),
        ("orders", {"schema": pa.schema([])}, UsageError, "value='bytes' has none"),
        ("nowhere", {}, UnknownTopicError, "nowhere"),
        (re.compile("nowhere.*"), {}, UnknownTopicError, "no topic matches"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    broker: EmbeddedBroker, topics: str, arguments: dict[str, object], error: type[Exception], message: str
):
    with pytest.raises(error, match=re.escape(message)):
        dataset(topics, bootstrap_servers=broker.bootstrap_servers, **arguments)


def test_what_is_for_files_is_refused(orders: KafkaDataset):
    with pytest.raises(UsageError, match="no fragments"):
        orders.get_fragments()
    with pytest.raises(UsageError, match="fixed"):
        orders.replace_schema(orders.schema)
    assert str(orders.partition_expression) == "true"
    newest, names = orders.tail(1), ["status", "id"]
    plain = dataset("times", bootstrap_servers=orders.source.origin.settings["bootstrap_servers"])  # type: ignore[attr-defined]
    with pytest.raises(pa.ArrowInvalid, match="headers"):
        plain.join(plain.tail(5), "offset", right_suffix="_2")
    assert newest.sort_by("id").to_table(names)["id"].to_pylist() == sorted(newest.to_table(names)["id"].to_pylist())
    assert orders.take([0, COUNT - 1]).num_rows == 2
    with pytest.raises(UsageError):
        pa_dataset.dataset([orders, orders])


def test_dask_can_tell_data_sets_apart(orders: KafkaDataset, broker: EmbeddedBroker):
    """Dask takes what it calls files of a data set for its contents."""
    servers = broker.bootstrap_servers
    others = [
        dataset("orders", value="json", key="string", bootstrap_servers=servers, **more)  # type: ignore[arg-type]
        for more in ({"isolation_level": "read_committed"}, {"on_error": "raise"})
    ]
    filtered = orders.filter(pc.field("id") > 3)
    some = [orders, *orders.split(3), orders.tail(5), filtered, *others, dataset("orders", bootstrap_servers=servers)]
    assert len({tuple(each.files) for each in some}) == len(some)
    assert orders.refresh().files == orders.files


def test_files_are_written_from_a_data_set(orders: KafkaDataset, tmp_path: Path):
    pa_dataset.write_dataset(orders.scanner(["id", "status"]), tmp_path / "s", format="parquet")
    pa_dataset.write_dataset(orders, tmp_path / "d", format="parquet", partitioning=["partition"])
    assert pa_dataset.dataset(tmp_path / "s").count_rows() == pa_dataset.dataset(tmp_path / "d").count_rows() == COUNT


def test_what_a_column_has_does_not_depend_on_the_columns_that_are_asked_for(broker: EmbeddedBroker):
    schema = pa.schema([("id", pa.int64()), ("other", pa.int64())])
    servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("unfit", 1)])
        for value in (b'{"id": 1, "other": "x"}', b'{"id": "y", "other": 2}', b'{"id": 3, "other": 4, "other": 5}'):
            producer.send("unfit", value)
    data = dataset("unfit", value="json", schema=schema, bootstrap_servers=servers)
    both = data.to_table(["id", "other", "value_error"]).to_pydict()
    assert (both["id"], both["other"]) == ([1, None, 3], [None, 2, 5])
    assert both["value_error"] == ['other is "x", and its column int64', 'id is "y", and its column int64', None]
    for name in ("id", "other", "value_error"):
        assert data.to_table([name])[name].to_pylist() == both[name]


def test_names_of_fields_that_no_column_can_have_are_changed_or_left_out(broker: EmbeddedBroker):
    servers = broker.bootstrap_servers
    value = {
        "Key": 1, "ID": 2, "id": 3, "": 4, "a.b": 5, 'q"q': 6, "nul\0": 7, "\ud800": 8, "\x1b[2J": 9,
        "nested": {"A": 1, "a": 2}, "map": {str(number): number for number in range(300)}, "text": "\ud800",
    }  # fmt: skip
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic("names", 1)])
        producer.send("names", json.dumps(value).encode())
        producer.send("names", b"[" * 5_000)
    data = dataset("names", value="json", bootstrap_servers=servers)
    fields = [name for name in data.schema.names if name not in RECORD_SCHEMA.names and name != "value_error"]
    assert fields == ["value_Key", "ID", "value_id", "decoded", "a.b", 'q"q', "\x1b[2J", "nested", "map", "text"]
    with duckdb.connect() as connection:
        connection.register("data", data)
        found = connection.sql('SELECT * EXCLUDE (value) FROM data WHERE "a.b" = 5 AND "q""q" = 6').to_arrow_table()
    [row] = found.to_pylist()
    assert [row[name] for name in fields[:7]] == [1, 2, 3, 4, 5, 6, 9]
    assert json.loads(row["nested"]) == {"A": 1, "a": 2}
    assert len(json.loads(row["map"])) == 300
    assert row["text"] is None
    assert row["value_error"] == "text is '\\ud800', which has half of a surrogate pair"
    rows = pl.scan_pyarrow_dataset(data).filter(pl.col("a.b") == 5).select("decoded", 'q"q').collect().rows()
    assert rows == [(4, 6)]


def test_a_notebook_shows_columns_and_offsets(orders: KafkaDataset):
    page = orders._repr_html_()
    assert "<td>status</td><td>string</td>" in page
    assert "<td>orders</td><td>2</td><td>0</td><td>1,000</td>" in page
