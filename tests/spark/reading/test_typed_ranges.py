"""Typed columns of many partitions in one task: each row, reason and dead letter belongs to its partition and offset.

Each partition has records of two writers' schemas, in transactions that are committed or aborted, and some that cannot
be decoded. The rows are compared with what a plain consumer reads.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import DeserializationError
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.records import Record, TopicPartition
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.reading.typed_columns import decoding_for
from tests.schemas.arrow.random_avro import varint

PARTITIONS = 60
TOPICS = ("one", "two")
V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
VALUE = StructType([StructField("id", LongType(), False), StructField("note", StringType())])
ROWS = StructType(
    [
        StructField("value", VALUE),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
Row = dict[str, object]


@dataclass(frozen=True)
class Written:
    """What is in the topics, and where.

    Attributes:
        servers: of the broker.
        registry: the registry's URL.
        records: those that are committed, by partition.
        ends: of the partitions.
    """

    servers: str
    registry: str
    records: dict[TopicPartition, list[Record]]
    ends: dict[TopicPartition, int]

    def read(self, schema: StructType, **options: str) -> Iterator[Row]:
        """Read all partitions in one task."""
        given = {
            "kafka.bootstrap.servers": self.servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(TOPICS),
            "schema.registry.url": self.registry,
            "value.format": "avro",
            "value.schema": json.dumps(V2),
            **options,
        }
        parsed = parse_options(given)
        settings = ReadSettings(consumer_settings(parsed.client), True, 30_000, decoding_for(parsed, schema))
        work = [OffsetRange(of.topic, of.partition, 0, end) for of, end in self.ends.items() if end]
        for batch in read_ranges(work, arrow_schema(schema), settings):
            batch.validate(full=True)
            yield from batch.to_pylist()

    def expected(self, *, bad: bool) -> list[Row]:
        """The rows of good records, or of all of them."""
        return sorted(
            (
                {"value": value, "topic": of.topic, "partition": of.partition, "offset": record.offset}
                for of, records in self.records.items()
                for record in records
                if (value := decoded(record)) is not None or bad
            ),
            key=place_of,
        )

    def bad_places(self) -> list[tuple[object, ...]]:
        rows = self.expected(bad=True)
        return [place_of(row) for row in rows if row["value"] is None]


def place_of(row: Row) -> tuple[object, ...]:
    return row["topic"], row["partition"], row["offset"]


def decoded(record: Record) -> Row | None:
    """The key says in plain text what the value has; a bad record has no key."""
    return None if record.key is None else json.loads(record.key)


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    rng = random.Random(7)
    with EmbeddedBroker() as broker, EmbeddedRegistry() as embedded, Registry(embedded.url) as registry:
        servers = broker.bootstrap_servers
        registry.set_compatibility("NONE")
        ids = [registry.register("orders", Schema(json.dumps(schema))).id for schema in (V1, V2)]
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS) for topic in (*TOPICS, "dead")])
        partitions = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        with Producer(bootstrap_servers=servers, transactional_id="writer", linger_ms=5) as producer:
            producer.init_transactions()
            for transaction in range(6):
                producer.begin_transaction()
                for of in rng.choices(partitions, k=200):
                    number = rng.randrange(1000)
                    if rng.random() < 0.1:
                        producer.send(of.topic, b"plain", partition=of.partition)
                        continue
                    version = rng.randrange(2)
                    note = f"n{number}" if version else None
                    payload = varint(number) + (b"\2" + varint(len(note)) + note.encode() if note else b"")
                    value = b"\0" + struct.pack(">I", ids[version]) + payload
                    key = json.dumps({"id": number, "note": note}).encode()
                    producer.send(of.topic, value, key, partition=of.partition)
                (producer.abort_transaction if transaction % 3 == 1 else producer.commit_transaction)()
        with Consumer(
            bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            ends = consumer.end_offsets(partitions)
            records: dict[TopicPartition, list[Record]] = {of: [] for of in partitions}
            consumer.assign(partitions)
            while any(consumer.position(of) < ends[of] for of in partitions):
                for of, batch in consumer.poll(0.05).items():
                    records[of] += batch
        yield Written(servers, embedded.url, records, ends)


def test_typed_rows_of_many_partitions_are_those_of_a_plain_consumer(written):
    schema = StructType([*ROWS.fields, StructField("value_error", StringType())])
    rows = sorted(written.read(schema, decodeErrors="column"), key=place_of)
    reasons = {place_of(row): row.pop("value_error") for row in rows}
    assert rows == written.expected(bad=True)
    assert [place for place, reason in reasons.items() if reason is not None] == written.bad_places()


def test_dead_letters_of_many_partitions_have_their_places(written):
    rows = sorted(written.read(ROWS, decodeErrors="deadLetter", deadLetterTopic="dead"), key=place_of)
    assert rows == written.expected(bad=False)
    with Consumer(bootstrap_servers=written.servers, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(consumer.partitions_for("dead"))
        consumer.assign(list(ends))
        letters: list[Record] = []
        while len(letters) < sum(ends.values()):
            for batch in consumer.poll(0.05).values():
                letters += batch
    places = []
    for letter in letters:
        named = {name.removeprefix("kafkaraw.error."): value for name, value in letter.headers}
        places.append((named["topic"].decode(), int(named["partition"]), int(named["offset"])))
    assert sorted(places) == written.bad_places()


def test_error_of_one_of_many_partitions_names_its_place(written):
    with pytest.raises(DeserializationError) as failed:
        list(written.read(ROWS))
    error = failed.value
    assert (error.topic, error.partition, error.offset) in written.bad_places()
    assert f"value of {error.topic}-{error.partition} at offset {error.offset}: it is not framed" in str(error)
