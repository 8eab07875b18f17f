"""Rows that are too large go to a topic of dead letters, and all others where they were to go."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import Admin, Consumer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.config import ProducerConfig
from kafkaraw.errors import ConfigError, RecordTooLargeError, SerializationError
from kafkaraw.records import Record, encode_batch
from kafkaraw.schemas.arrow.decode import FORMATS
from kafkaraw.schemas.arrow.plans import Texts
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.writing.dead_letters import AS_JSON, Sieve, TopicRules
from kafkaraw.spark.writing.exactly_once import Slot, commit_batch, write_slot
from kafkaraw.spark.writing.task import WriteSettings, write_rows, write_settings
from kafkaraw.spark.writing.typed_rows import EncodedColumn, encodable
from tests.spark.spark_types import struct

LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MAP = pa.map_(pa.string(), pa.binary())
SIZES = {"small": 300, "large": 600, "dead": 700}
TOPICS = {name: TopicRules(size) for name, size in SIZES.items()} | {"compact": TopicRules(600, needs_key=True)}


def sieve(**settings: object) -> Sieve:
    config = ProducerConfig(bootstrap_servers="h:1", max_request_size=1_000, **settings)
    return Sieve("dead", config, TOPICS.get)


sizes = st.integers(0, 30) | st.integers(150, 1_100)
ROWS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from([*SIZES, "unknown"]),
        "key": st.none() | sizes.map(lambda size: b"k" * size),
        "value": st.none() | sizes.map(lambda size: b"v" * size),
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | sizes.map(bytes)), max_size=4),
    }
)


def fits(topic: str, row: dict, limit: int = 1_000) -> bool:
    headers = [(name, value) for name, value in row["headers"] or []]
    bound = 82 + len(row["key"] or b"") + len(row["value"] or b"")
    bound += sum(10 + len(name.encode()) + len(value or b"") for name, value in headers)
    return bound <= limit and len(encode_batch([(0, row["key"], row["value"], headers)])) <= SIZES.get(topic, limit)


@given(rows=st.lists(ROWS, max_size=8), form=st.sampled_from([LIST, MAP]), skipped=st.integers(0, 2))
def test_exactly_the_rows_that_do_not_fit_are_taken_out(rows, form, skipped):
    filler = {"topic": "small", "key": None, "value": b"v" * 900, "headers": None}
    given_rows = [filler] * skipped + rows
    columns = {
        "topic": pa.array([row["topic"] for row in given_rows]),
        "key": pa.array([row["key"] for row in given_rows], pa.binary()),
        "value": pa.array([row["value"] for row in given_rows], pa.binary()),
        "headers": pa.array(
            [
                row["headers"]
                if row["headers"] is None or form == MAP
                else [{"key": name, "value": value} for name, value in row["headers"]]
                for row in given_rows
            ],
            form,
        ),
    }
    batch = pa.RecordBatch.from_pydict(columns).slice(skipped)
    kept, letters = sieve().sift(batch, None)
    too_large = [row for row in rows if not fits(row["topic"], row)]
    assert kept.column("topic").to_pylist() == [row["topic"] for row in rows if fits(row["topic"], row)]
    assert len(letters) == len(too_large)
    for letter, row in zip(letters, too_large, strict=True):
        assert dict(letter.headers)["kafkaraw.error.topic"].decode() == row["topic"]
        said = {"key": letter.key, "value": letter.value, "headers": letter.headers}
        assert fits("dead", said), "a dead letter that cannot be delivered"


def one_row(**fields: object) -> pa.RecordBatch:
    types = {"key": pa.string(), "value": pa.string(), "headers": LIST, "timestamp": pa.timestamp("us", "UTC")}
    return pa.RecordBatch.from_pydict({name: pa.array([value], types[name]) for name, value in fields.items()})


def test_a_dead_letter_has_the_error_and_as_much_of_the_record_as_fits():
    headers = [{"key": "mine", "value": b"1"}]
    _, (letter,) = sieve().sift(one_row(value="v" * 300, key="k", headers=headers, timestamp=1_500), "small")
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", b"v" * 300, 1)
    assert letter.headers == (
        ("kafkaraw.error.topic", b"small"),
        (
            "kafkaraw.error.message",
            b"the record takes 378 bytes in a batch of its own, max.message.bytes of topic 'small' is 300",
        ),
        ("mine", b"1"),
    )


def test_given_headers_replace_the_usual_ones():
    config = sieve()._producer
    chosen = (("why", "{message} {topic}"), ("at", "{time}"), ("x", "{y}"))
    _, (letter,) = Sieve("dead", config, TOPICS.get, chosen).sift(one_row(value="v" * 300), "small")
    (why, said), (at, when), last = letter.headers
    assert (why, said[-14:], at, last) == ("why", b"' is 300 small", "at", ("x", b"{y}"))
    assert abs(int(when or b"") - 1000 * time.time()) < 60_000
    with pytest.raises(ConfigError, match="deadLetterHeaders='x': must be a JSON object of texts"):
        parse_options({"kafka.bootstrap.servers": "h:1", "topic": "t", "deadLetterHeaders": "x"})


@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [((10, 2_000, 10), "value"), ((10, 2_000, 2_000), "value,headers"), ((2_000, 10, 10), "value,headers,key")],
)
def test_fields_too_large_for_a_dead_letter_are_omitted_and_named(sizes, left_out):
    key, value, header = sizes
    row = one_row(key="k" * key, value="v" * value, headers=[{"key": "mine", "value": b"h" * header}])
    _, (letter,) = sieve().sift(row, "large")
    assert dict(letter.headers)["kafkaraw.error.left.out"].decode() == left_out
    assert (letter.value, letter.key is None) == (None, "key" in left_out)
    assert b"max_request_size is 1000" in (dict(letter.headers)["kafkaraw.error.message"] or b"")


def test_the_compressed_size_decides():
    row = one_row(value="v" * 500)
    assert len(sieve().sift(row, "small")[1]) == 1
    assert sieve(compression_type="gzip").sift(row, "small")[1] == []


def error_of(letter) -> str:
    return (dict(letter.headers)["kafkaraw.error.message"] or b"").decode()


def test_a_row_without_a_topic_or_with_an_impossible_name_is_a_dead_letter():
    names = ["small", None, "no name", "", "x" * 250, "unknown"]
    rows = pa.RecordBatch.from_pydict({"value": list("abcdef"), "topic": names})
    kept, letters = sieve().sift(rows, None)
    assert kept.column("value").to_pylist() == ["a", "f"]
    assert [letter.value for letter in letters] == [b"b", b"c", b"d", b"e"]
    assert [error_of(each) for each in letters[:2]] == [
        "the column topic is null",
        "the column topic has 'no name', which no topic can have",
    ]


@pytest.mark.parametrize("topic", ["compact", None])
def test_a_row_without_a_key_is_a_dead_letter_of_a_compacted_topic(topic):
    columns = {"key": [None, "k", None, ""], "value": ["a", "b", "c" * 1_000, "d"]}
    if topic is None:
        columns["topic"] = ["compact"] * 4
    kept, letters = sieve().sift(pa.RecordBatch.from_pydict(columns), topic)
    assert kept.column("value").to_pylist() == ["b", "d"]
    assert [error_of(each) for each in letters] == [
        "topic 'compact' is compacted, and takes no record without a key"
    ] * 2
    assert sieve().sift(pa.RecordBatch.from_pydict({"value": ["a"]}), "compact")[0].num_rows == 0
    assert sieve().sift(pa.RecordBatch.from_pydict({"value": ["a"]}), "large")[0].num_rows == 1


SCHEMA = """{"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "int"}, {"name": "tags", "type": {"type": "array", "items": "int"}}]}"""
AVRO = EncodedColumn("value", "avro", 7, Texts(FORMATS["avro"], SCHEMA))


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([1, 2, None, 2**40]), st.lists(st.sampled_from([1, 2**40]), max_size=3)), max_size=9
    ),
    skipped=st.integers(0, 1),
)
def test_exactly_the_rows_that_do_not_fit_their_schema_are_dead_letters(rows, skipped):
    kind = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.int64()))])
    values = [{"id": 2**40, "tags": [2**40]}] * skipped + [{"id": number, "tags": tags} for number, tags in rows]
    keys = [str(number) for number in range(-skipped, len(rows))]
    batch = pa.RecordBatch.from_pydict({"key": keys, "value": pa.array(values, kind)}).slice(skipped)
    kept, unfit = encodable(batch, (AVRO,))
    bad = [number for number, (key, tags) in enumerate(rows) if key not in (1, 2) or 2**40 in tags]
    assert [each.row for each in unfit] == bad
    assert kept.column("key").to_pylist() == [str(number) for number in range(len(rows)) if number not in bad]
    letters = sieve().unfit(batch, "large", unfit)
    assert [json.loads(letter.value or b"") for letter in letters] == [
        {"id": rows[number][0], "tags": rows[number][1]} for number in bad
    ]
    assert all(dict(letter.headers)[AS_JSON] == b"value" for letter in letters)
    assert all("of row" not in error_of(letter) for letter in letters)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def settings(servers: str) -> WriteSettings:
    """To a topic that takes 1000 bytes, with dead letters."""
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("out", "dead")]
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(names[0], 1, configs={"max.message.bytes": "1000"}), NewTopic(names[1], 1)])
    given = {"kafka.bootstrap.servers": servers, "topic": names[0], "deadLetterTopic": names[1], "exactlyOnce": "true"}
    return write_settings(parse_options(given), struct("value string"))


ROW_SIZES = [10, 5_000, 20, 1_100_000, 30]


def batches() -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": ["v" * size for size in sizes]}) for sizes in (ROW_SIZES, [6_000])]


def read(servers: str, topic: str | None) -> list[Record]:
    found: list[Record] = []
    given = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=servers, **given) as consumer:
        (partition,) = consumer.partitions_for(str(topic))
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        for _ in itertools.takewhile(lambda _: consumer.position(partition) < end, itertools.count()):
            found += [record for batch in consumer.poll(0.01).values() for record in batch]
    return found


def delivered(servers: str, settings: WriteSettings) -> list[list[int]]:
    return [
        sorted(len(record.value or b"") for record in read(servers, topic))
        for topic in (settings.topic, settings.dead_letter_topic)
    ]


def test_at_least_once_what_is_too_large_becomes_dead_letters(servers, settings):
    assert write_rows(batches(), replace(settings, exactly_once=None)) == 6
    assert delivered(servers, settings) == [[10, 20, 30], [0, 5_000, 6_000]]


def test_exactly_once_dead_letters_are_part_of_the_transaction(servers, settings):
    slot = Slot(f"query-{uuid.uuid4().hex}", 0, 0)
    write_slot(batches(), settings, slot)  # its driver dies
    commit_batch([write_slot(batches(), settings, slot)], settings)
    commit_batch([write_slot(batches(), settings, slot)], settings)
    assert delivered(servers, settings) == [[10, 20, 30], [0, 5_000, 6_000]]


def test_rows_too_large_fail_the_write_without_a_dead_letter_topic(settings):
    with pytest.raises(RecordTooLargeError, match="max_request_size"):
        write_rows(batches(), replace(settings, exactly_once=None, dead_letter_topic=None))


def test_exactly_once_rows_that_do_not_fit_their_schema_are_dead_letters(servers, settings):
    kind = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.int64()))])
    rows = [{"id": 1, "tags": [1]}, {"id": None, "tags": []}, {"id": 2**40, "tags": [1]}, {"id": 2, "tags": []}]
    batch = pa.RecordBatch.from_pydict({"value": pa.array(rows, kind)})
    typed, slot = replace(settings, encoding=(AVRO,)), Slot(f"query-{uuid.uuid4().hex}", 0, 0)
    commit_batch([write_slot([batch], typed, slot)], typed)
    commit_batch([write_slot([batch], typed, slot)], typed)
    assert len(read(servers, settings.topic)) == 2
    assert [json.loads(each.value or b"")["id"] for each in read(servers, settings.dead_letter_topic)] == [None, 2**40]
    with pytest.raises(SerializationError, match="value of row 2: field id"):
        write_slot([batch], replace(typed, dead_letter_topic=None), replace(slot, batch_id=1))
