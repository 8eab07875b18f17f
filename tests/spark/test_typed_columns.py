"""`value.format`: topics of framed Avro as typed columns, in batches and streams, with schemas that change."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema, SchemaType
from kafkaraw.schemas.errors import SubjectNotFoundError
from kafkaraw.schemas.model import RuleSet
from kafkaraw.spark import from_schema, recommended_conf, to_schema
from kafkaraw.spark.options import tables
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading.arrow import spark_schema
from kafkaraw.spark.reading.typed_columns import METADATA, TypedColumns, decoding_for
from kafkaraw.spark.source import KafkaDataSource
from kafkaraw.spark.versions import running
from kafkaraw.spark.writing.task import sum_rows, write_settings
from kafkaraw.spark.writing.typed_rows import comparable
from tests.schemas.arrow.random_avro import varint

V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
V2 = {**V1, "fields": [*V1["fields"], NOTE]}


class Schemas:
    """A registry in this process that takes any version; schemas are registered and counted by their ids."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = Registry(url)
        self.client.set_compatibility("NONE")

    def register(self, subject: str, schema: Any) -> int:
        return self.client.register(subject, Schema(schema if isinstance(schema, str) else json.dumps(schema))).id


@pytest.fixture(scope="module")
def registry() -> Iterator[Schemas]:
    with EmbeddedRegistry() as embedded:
        schemas = Schemas(embedded.url)
        yield schemas
        schemas.client.close()


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def typed(registry: Schemas, topic: str, **given: str) -> dict[str, str]:
    return {"subscribe": topic, "value.format": "avro", "schema.registry.url": registry.url} | given


def send(kafka: Any, topic: str, *values: bytes | None) -> None:
    for ticket in [kafka.producer.send(topic, value, b"k") for value in values]:
        ticket.result(30)


def test_a_batch_has_a_struct_in_place_of_the_bytes(spark, kafka, registry):
    topic = kafka.new_topic()
    first, second = registry.register(f"{topic}-value", V1), registry.register(f"{topic}-value", V2)
    send(kafka, topic, framed(first, varint(1)), framed(second, varint(2) + b"\2\2x"), None)
    frame = kafka.batch(spark, **typed(registry, topic)).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,note:string>"
    assert not frame.schema["value"].dataType["id"].nullable
    rows = frame.orderBy("offset").select("value.*", "key", "offset").collect()
    assert [tuple(row) for row in rows] == [(1, None, b"k", 0), (2, "x", b"k", 1), (None, None, b"k", 2)]
    assert [row[0] for row in frame.selectExpr("value IS NULL").collect()] == [False, False, True]


def test_a_version_or_a_schema_of_the_user_is_the_readers(spark, kafka, registry):
    topic = kafka.new_topic()
    registry.register(f"{topic}-value", V1)
    second = registry.register(f"{topic}-value", V2)
    send(kafka, topic, framed(second, varint(2) + b"\2\2x"))
    old = kafka.batch(spark, **typed(registry, topic, **{"value.schema.version": "1"})).load()
    assert [tuple(row.value) for row in old.collect()] == [(2,)]
    own = {**V1, "fields": [{"name": "nr", "type": "double", "aliases": ["id"]}]}
    chosen = kafka.batch(spark, **typed(registry, topic, **{"value.schema": json.dumps(own)})).load()
    assert [row.value.nr for row in chosen.collect()] == [2.0]
    picked = kafka.batch(spark, **typed(registry, topic)).schema("value struct<id: bigint, note: string>").load()
    assert [tuple(row.value) for row in picked.collect()] == [(2, "x")]


def test_a_stream_keeps_its_columns_and_resolves_new_writers(spark, kafka, registry, tmp_path):
    topic = kafka.new_topic()
    first = registry.register(f"{topic}-value", V2)
    options = typed(registry, topic, startingOffsets="earliest")

    def run() -> None:
        frame = kafka.stream(spark, **options).load().select("value.*")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("parquet")
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    send(kafka, topic, framed(first, varint(1) + b"\2\2a"))
    run()
    newer = {**V2, "fields": [*V2["fields"], {"name": "more", "type": "int"}]}
    frame = kafka.stream(spark, **options).load()
    second = registry.register(f"{topic}-value", newer)
    send(kafka, topic, framed(second, varint(2) + b"\0" + varint(9)))
    query = frame.select("value.*").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.format("parquet").trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, None)]


def test_bad_records_fail_the_query_with_their_place(spark, kafka, registry):
    topic = kafka.new_topic()
    first = registry.register(f"{topic}-value", V1)
    send(kafka, topic, framed(first, varint(1)), b"plain")
    with pytest.raises(PySparkException, match=rf"value of {topic}-0 at offset 1: it is not framed.*decodeErrors"):
        kafka.batch(spark, **typed(registry, topic)).load().collect()


def test_bad_records_are_null_with_a_reason(spark, kafka, registry):
    topic = kafka.new_topic()
    first = registry.register(f"{topic}-value", V1)
    send(
        kafka, topic, framed(first, varint(1)), b"plain", framed(99, b""), framed(first, b""), framed(first, varint(4))
    )
    rows = kafka.batch(spark, **typed(registry, topic, decodeErrors="column")).load().orderBy("offset").collect()
    assert [row.value and row.value.id for row in rows] == [1, None, None, None, 4]
    reasons = [row.value_error for row in rows]
    assert reasons[0] is None and reasons[4] is None
    assert reasons[1].startswith("it is not framed") and "99" in reasons[2] and "field id" in reasons[3]


def test_raw_columns_have_the_bytes_of_good_and_bad_records(spark, kafka, registry):
    topic = kafka.new_topic()
    first = registry.register(f"{topic}-value", V1)
    sent = [framed(first, varint(1)), b"plain", None]
    send(kafka, topic, *sent)
    options = typed(registry, topic, decodeErrors="column", includeRaw="true")
    rows = kafka.batch(spark, **options).load().orderBy("offset").collect()
    assert [row.value_raw for row in rows] == sent
    assert [row.value and row.value.id for row in rows] == [1, None, None]
    assert [row.value_error is None for row in rows] == [True, False, True]


def test_columns_that_come_from_decoding_can_be_chosen_without_the_typed_one(spark, kafka, registry):
    topic = kafka.new_topic()
    first = registry.register(f"{topic}-value", V1)
    sent = [framed(first, varint(1)), b"plain", None]
    send(kafka, topic, *sent)
    reader = kafka.batch(spark, **typed(registry, topic, decodeErrors="column", includeRaw="true"))
    reasons = reader.schema("offset long, value_error string").load().orderBy("offset").collect()
    assert [row.value_error is None for row in reasons] == [True, False, True]
    raw = reader.schema("offset long, value_raw binary").load().orderBy("offset").collect()
    assert [row.value_raw for row in raw] == sent
    assert [row.offset for row in reader.schema("offset long").load().collect()] == [0, 1, 2]


def test_a_query_fails_while_the_registry_is_down_and_loses_nothing(spark, kafka, tmp_path):
    topic = kafka.new_topic()
    registered = [(f"{topic}-value", V1), (f"{topic}-other", V2)]
    with EmbeddedRegistry() as server, Registry(server.url) as client:
        port = server.settings.port
        first, second = (client.register(name, Schema(json.dumps(each))).id for name, each in registered)
        options = {"subscribe": topic, "value.format": "avro", "schema.registry.url": server.url}
        options |= {"startingOffsets": "earliest", "decodeErrors": "column", "schema.registry.max.retries": "0"}
        frame = kafka.stream(spark, **options).load().select("value.*", "value_error")

    def run() -> None:
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("parquet")
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    send(kafka, topic, framed(first, varint(1)), framed(second, varint(2) + b"\2\2x"))
    with pytest.raises(PySparkException, match=r"cannot get the schema with id .*is the registry running"):
        run()
    with EmbeddedRegistry(port=port) as server, Registry(server.url) as client:
        for name, each in registered:
            client.register(name, Schema(json.dumps(each)))
        run()
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, None)]


def test_bad_records_go_to_the_dead_letter_topic_with_their_bytes(spark, kafka, registry):
    topic, dead = kafka.new_topic(), kafka.new_topic()
    first = registry.register(f"{topic}-value", V1)
    kafka.producer.send(topic, b"plain", b"key", headers=[("h", b"x")], timestamp_ms=1234).result(30)
    send(kafka, topic, framed(first, varint(4)))
    frame = kafka.batch(spark, **typed(registry, topic, decodeErrors="deadLetter", deadLetterTopic=dead)).load()
    assert [row.value.id for row in frame.collect()] == [4]
    (letter,) = kafka.records(dead)
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"key", b"plain", 1234)
    headers = dict(letter.headers)
    assert headers["kafkaraw.error.topic"] == topic.encode()
    assert (headers["kafkaraw.error.partition"], headers["kafkaraw.error.offset"]) == (b"0", b"0")
    assert headers["kafkaraw.error.message"].startswith(b"value: it is not framed")
    assert headers["h"] == b"x"


def test_key_and_value_are_typed_each_by_its_subject(spark, kafka, registry):
    topic = kafka.new_topic()
    key, value = registry.register(f"{topic}-key", '"string"'), registry.register(f"{topic}-value", V1)
    kafka.producer.send(topic, framed(value, varint(7)), framed(key, b"\4ab")).result(30)
    (row,) = kafka.batch(spark, **typed(registry, topic, **{"key.format": "avro"})).load().collect()
    assert (row.key, row.value.id) == ("ab", 7)


def test_all_types_arrive_in_spark(spark, kafka, registry):
    """A record with each type; the values equal those that fastavro reads."""
    topic = kafka.new_topic()
    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "b", "type": "boolean"},
            {"name": "i", "type": "int"},
            {"name": "f", "type": "float"},
            {"name": "raw", "type": "bytes"},
            {"name": "fix", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
            {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
            {"name": "u", "type": ["null", "int", "string"]},
            {"name": "n", "type": ["int", "long"]},
            {"name": "inner", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "double"}]}},
        ],
    }
    number = registry.register(f"{topic}-value", schema)
    payload = (
        b"\1"
        + varint(-5)
        + struct.pack("<f", 1.5)
        + b"\4\1\2"
        + b"xy"
        + b"\2"
        + varint(19_000)
        + varint(1_700_000_000_123)
        + varint(1_700_000_000_123_456)
        + b"\4\x30\x39"
        + b"\4\2"
        + varint(8)
        + b"\0\0"
        + b"\2\2k\2\2v\0\0"
        + b"\4\2s"
        + b"\2"
        + varint(2**40)
        + struct.pack("<d", 2.5)
    )
    theirs = fastavro.schemaless_reader(__import__("io").BytesIO(payload), fastavro.parse_schema(schema))
    send(kafka, topic, framed(number, payload))
    (row,) = kafka.batch(spark, **typed(registry, topic)).load().select("value.*").collect()
    ours = row.asDict(recursive=True)
    assert ours.pop("u") == {"member0": None, "member1": "s"} and theirs.pop("u") == "s"
    assert ours.pop("at").timestamp() == theirs.pop("at").timestamp()
    assert bytes(ours.pop("raw")) == theirs.pop("raw") and bytes(ours.pop("fix")) == theirs.pop("fix")
    assert ours == theirs


def test_protobuf_is_decoded_into_the_fields_of_its_message(spark, kafka, registry):
    topic = kafka.new_topic()
    text = (
        'syntax = "proto3"; message A { int32 a = 1; } '
        "message B { string b = 1; repeated uint64 n = 2; map<int32, bool> m = 3; }"
    )
    schema = Schema(text, SchemaType.PROTOBUF)
    number = registry.client.register(f"{topic}-value", schema).id
    send(
        kafka,
        topic,
        framed(number, varint(1) + varint(1) + b"\n\1x\x12\2\1\2\x1a\4\x08\7\x10\1"),
        framed(number, varint(1) + varint(1)),
    )
    options = typed(registry, topic) | {"value.format": "protobuf", "value.schema.message": "B"}
    frame = kafka.batch(spark, **options).load()
    assert frame.schema["value"].dataType.simpleString() == "struct<b:string,n:array<decimal(20,0)>,m:map<int,boolean>>"
    rows = frame.orderBy("offset").collect()
    assert [(row.value.b, [int(each) for each in row.value.n]) for row in rows] == [("x", [1, 2]), (None, [])]
    assert [row.value.m for row in rows] == [{7: True}, {}]


def test_json_is_decoded_into_the_properties_of_its_schema(spark, kafka, registry):
    topic = kafka.new_topic()
    properties = {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}, "any": {}}
    schema = {"type": "object", "properties": properties, "required": ["id"]}
    first = registry.client.register(f"{topic}-value", Schema(json.dumps(schema), SchemaType.JSON)).id
    options = typed(registry, topic) | {"value.format": "json-schema", "decodeErrors": "column"}
    frame = kafka.batch(spark, **options).load()
    properties["more"] = {"type": "object", "additionalProperties": {"type": "number"}}
    second = registry.client.register(f"{topic}-value", Schema(json.dumps(schema), SchemaType.JSON)).id
    values = [(first, b'{"id":1,"tags":["a","b"],"any":{"x":[1]}}'), (second, b'{"id":2,"more":{"a":1}}')]
    send(kafka, topic, *(framed(*each) for each in values), framed(first, b'{"id":"x"}'), None)
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,tags:array<string>,any:string>"
    rows = [row.asDict(recursive=True) for row in frame.orderBy("offset").collect()]
    assert [row["value"] for row in rows] == [
        {"id": 1, "tags": ["a", "b"], "any": '{"x":[1]}'},
        {"id": 2, "tags": None, "any": None},
        None,
        None,
    ]
    assert [row["value_error"] for row in rows] == [
        None,
        None,
        'the schema that it was written with refuses it: id: "x" is not of type "integer"',
        None,
    ]
    newest = kafka.batch(spark, **options).load().selectExpr("value.more['a']").where("value.id = 2")
    assert [row[0] for row in newest.collect()] == [1.0]


# -- writing


def written(registry: Schemas, topic: str, **given: str) -> dict[str, str]:
    return {"topic": topic, "value.format": "avro", "schema.registry.url": registry.url} | given


def test_rows_are_written_with_a_schema_of_their_columns_and_read_back(spark, kafka, registry):
    topic = kafka.new_topic()
    rows = spark.sql(
        "SELECT named_struct('id', id, 'tags', array('a', null), 'm', map('k', 1.5D)) AS value FROM range(5)"
    )
    rows.write.format("kafkaraw").options(**kafka.options(**written(registry, topic))).mode("append").save()
    found = registry.client.version(f"{topic}-value", "latest")
    number = found.id
    assert json.loads(found.schema.text)["fields"][0] == {"name": "id", "type": "long"}
    assert all(record.value.startswith(framed(number, b"")) for record in kafka.records(topic))
    frame = kafka.batch(spark, **typed(registry, topic)).load()
    found = [row.value.asDict() for row in frame.orderBy("value.id").collect()]  # two tasks write
    assert found == [{"id": each, "tags": ["a", None], "m": {"k": 1.5}} for each in range(5)]


def test_rows_are_written_as_json_with_a_schema_of_their_columns(spark, kafka, registry):
    topic = kafka.new_topic()
    rows = spark.sql("SELECT named_struct('id', id, 'tags', array('a', null)) AS value FROM range(3)")
    given = written(registry, topic) | {"value.format": "json-schema"}
    rows.write.format("kafkaraw").options(**kafka.options(**given)).mode("append").save()
    found = registry.client.version(f"{topic}-value", "latest")
    assert found.schema.schema_type is SchemaType.JSON
    expected = {framed(found.id, b'{"id":%d,"tags":["a",null]}' % each) for each in range(3)}
    assert {record.value for record in kafka.records(topic)} == expected


PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { int32 a = 1; }
message Order { int64 id = 1; repeated uint32 n = 2; google.protobuf.Timestamp at = 3; Other other = 4; Kind kind = 5; }
enum Kind { NONE = 0; SOME = 1; }
"""


def test_rows_are_written_as_messages_of_a_schema_and_read_back(spark, kafka, registry):
    topic = kafka.new_topic()
    number = registry.client.register(f"{topic}-value", Schema(PROTO, SchemaType.PROTOBUF)).id
    rows = spark.sql(
        "SELECT named_struct('id', id, 'n', array(1, 4294967295), 'at', TIMESTAMP '2026-11-23 12:00:00Z', "
        "'kind', IF(id = 1, 'SOME', NULL)) AS value FROM range(1, 4)"
    )
    options = {"value.format": "protobuf", "value.schema.message": "shop.Order"}
    given = kafka.options(**(written(registry, topic) | options))
    rows.write.format("kafkaraw").options(**given).mode("append").save()
    found = sorted(record.value for record in kafka.records(topic))
    ids = b"\x12\6\1\xff\xff\xff\xff\x0f"
    noon = Timestamp(seconds=int(datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp())).SerializeToString()
    at = b"\x1a" + bytes([len(noon)]) + noon
    assert [each[:7] for each in found] == [framed(number, varint(1) + varint(1))] * 3
    assert [each[7:] for each in found] == [
        b"\x08\1" + ids + at + b"\x28\1",
        b"\x08\2" + ids + at,
        b"\x08\3" + ids + at,
    ]
    frame = kafka.batch(spark, **(typed(registry, topic) | options)).load()
    read = [row.value for row in frame.orderBy("value.id").collect()]
    assert [(row.id, row.n, row.kind, row.other) for row in read] == [
        (1, [1, 2**32 - 1], "SOME", None),
        (2, [1, 2**32 - 1], None, None),
        (3, [1, 2**32 - 1], None, None),
    ]
    bad = spark.sql("SELECT named_struct('n', array(1, -1)) AS value")
    with pytest.raises(PySparkException, match=r"field n\[\]: -1 is not a number from 0 to 4294967295"):
        bad.write.format("kafkaraw").options(**given).mode("append").save()


def test_rows_are_written_as_protobuf_with_a_schema_of_their_columns(spark, kafka, registry):
    topic = kafka.new_topic()
    rows = spark.sql("SELECT named_struct('id', id, 'inner', named_struct('x', array('a'))) AS value FROM range(2)")
    given = written(registry, topic) | {"value.format": "protobuf"}
    rows.write.format("kafkaraw").options(**kafka.options(**given)).mode("append").save()
    found = registry.client.version(f"{topic}-value", "latest")
    assert "optional int64 id = 1;" in found.schema.text
    frame = kafka.batch(spark, **(typed(registry, topic) | {"value.format": "protobuf"})).load()
    assert [tuple(row.value) for row in frame.orderBy("value.id").collect()] == [(0, (["a"],)), (1, (["a"],))]
    with pytest.raises(UsageError, match="Protobuf has no type for date32"):
        given = written(registry, "other") | {"value.format": "protobuf"}
        settings_of(spark, registry, "value struct<d: date>", **given)


def test_a_stream_writes_protobuf_exactly_once(spark, kafka, registry, tmp_path):
    source, topic = kafka.new_topic(), kafka.new_topic()
    kafka.produce(source, range(20))
    frame = kafka.stream(spark, subscribe=source, startingOffsets="earliest").load()
    rows = frame.selectExpr("named_struct('id', CAST(CAST(value AS STRING) AS BIGINT)) AS value")
    given = written(registry, topic, exactlyOnce="true") | {"value.format": "protobuf"}
    writer = rows.writeStream.format("kafkaraw").options(**kafka.options(**given))
    writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    number = registry.client.version(f"{topic}-value", "latest").id
    written_values = sorted(record.value for record in kafka.records(topic))
    assert written_values == sorted(framed(number, b"\0\x08" + bytes([n])) for n in range(20))


def test_a_stream_writes_exactly_once_with_the_latest_version(spark, kafka, registry, tmp_path):
    source, topic = kafka.new_topic(), kafka.new_topic()
    kafka.produce(source, range(20))
    number = registry.register(f"{topic}-value", V2)
    frame = kafka.stream(spark, subscribe=source, startingOffsets="earliest").load()
    rows = frame.selectExpr("named_struct('id', CAST(CAST(value AS STRING) AS BIGINT)) AS value")
    writer = rows.writeStream.format("kafkaraw").options(
        **kafka.options(**written(registry, topic, exactlyOnce="true"))
    )
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    records = kafka.records(topic)
    assert sorted(record.value for record in records) == sorted(framed(number, varint(n) + b"\0") for n in range(20))


def settings_of(spark, registry, columns: str, **given: str) -> Any:
    options = parse_options({"kafka.bootstrap.servers": "h:1"} | given)
    return write_settings(options, spark.createDataFrame([], columns).schema)


def test_columns_that_do_not_fit_the_schema_are_refused_before_the_write(spark, registry):
    registry.register("fits-value", V1)
    with pytest.raises(UsageError, match=r"cannot become struct<id: int64 not null>.*no field more"):
        settings_of(spark, registry, "value struct<id: bigint, more: int>", **written(registry, "fits"))
    with pytest.raises(SubjectNotFoundError):
        settings_of(spark, registry, "value bigint", **written(registry, "other", autoRegisterSchemas="false"))
    several = written(registry, "x", **{"value.schema": json.dumps(V1)})
    del several["topic"]
    with pytest.raises(ConfigError, match=r"give value\.schema\.subject"):
        settings_of(spark, registry, "value struct<id: bigint>, topic string", **several)
    with pytest.raises(ConfigError, match=r"must be binary or string, or give value\.format"):
        settings_of(spark, registry, "value bigint", topic="t")


def test_sums_of_rows_do_not_depend_on_the_version_of_the_schema(spark, registry):
    """A micro-batch that is repeated with a newer schema has the same rows."""
    batch = pa.RecordBatch.from_pylist([{"value": {"id": 1}}, {"value": {"id": 2}}, {"value": None}])
    sums = set()
    for schema in (V1, V2):
        registry.register("sums-value", schema)
        settings = settings_of(spark, registry, "value struct<id: bigint>", **written(registry, "sums"))
        sums.add(sum_rows([batch], settings))
    assert len(sums) == 1
    assert sums != {sum_rows([batch.slice(1)], settings)}


# -- functions


def test_maps_that_avro_lacks_have_sums_of_rows(registry):
    options = {"kafka.bootstrap.servers": "h:1", "topic": "maps", "exactlyOnce": "true", "value.format": "protobuf"}
    options |= {"schema.registry.url": registry.url}
    inner = MapType(IntegerType(), ArrayType(MapType(StringType(), LongType())))
    schema = StructType([StructField("value", StructType([StructField("m", inner)]), False)])
    with pytest.raises(UsageError, match="Protobuf has no type for list"):  # the sums are no hindrance any more
        write_settings(parse_options(options), schema)
    schema["value"].dataType = StructType([StructField("m", MapType(IntegerType(), StringType()))])
    settings = write_settings(parse_options(options), schema)
    kind = pa.struct([("m", pa.map_(pa.int32(), pa.string()))])
    rows = [{"m": [(1, "a")]}, {"m": [(2, "a")]}, {"m": [(1, "a")]}, {"m": None}]
    batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], ["value"])
    first, second, third, fourth = comparable(batch, settings.encoding).column("value").to_pylist()
    assert first == third and len({first, second, fourth}) == 3


def test_a_type_that_arrow_lacks_is_refused_before_the_write(registry):
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t", "value.format": "avro"}
    schema = StructType([StructField("value", StructType([StructField("age", YearMonthIntervalType())]))])
    with pytest.raises(UsageError, match="a type that Arrow lacks; cast it first"):
        write_settings(parse_options(options | {"schema.registry.url": registry.url}), schema)


@pytest.mark.skipif(running() < (4, 1), reason="Spark has Arrow functions since 4.1")
def test_functions_encode_and_decode_columns_of_any_dataframe(spark, registry):
    registry.register("functions", V1)
    newer = registry.register("functions", V2)
    rows = spark.sql("SELECT named_struct('id', id) AS v FROM range(3)")
    framed_rows = rows.select(to_schema("v", registry.url, subject="functions").alias("v"))
    assert [bytes(row.v) for row in framed_rows.collect()] == [framed(newer, varint(n) + b"\0") for n in range(3)]
    typed_rows = framed_rows.select(from_schema("v", registry.url, subject="functions", version=1).alias("v"))
    assert typed_rows.schema["v"].dataType.simpleString() == "struct<id:bigint>"
    assert [row.v.id for row in typed_rows.collect()] == [0, 1, 2]
    bad = framed_rows.unionAll(spark.sql("SELECT CAST('x' AS BINARY) AS v"))
    settings = {"schema.registry.url": registry.url}
    nulls = bad.select(from_schema("v", settings, schema=json.dumps(V2), on_error="null").alias("v")).collect()
    assert [row.v and row.v.id for row in nulls] == [0, 1, 2, None]
    both = bad.select(from_schema("v", settings, schema=json.dumps(V2), on_error="struct").alias("v")).collect()
    assert both[3].v.value is None and both[3].v.error.startswith("it is not framed")
    with pytest.raises(PySparkException, match="it is not framed"):
        bad.select(from_schema("v", registry.url, subject="functions")).collect()


@pytest.mark.skipif(running() < (4, 1), reason="Spark has Arrow functions since 4.1")
def test_functions_use_schemas_with_rules_only_if_told_to_ignore_them(spark, registry):
    rules = RuleSet(domain_rules=({"name": "encrypt", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"},))
    registry.client.register("ruled", Schema(json.dumps(V1), rule_set=rules))
    rows = spark.sql("SELECT named_struct('id', id) AS v FROM range(2)")
    with pytest.raises(UsageError, match=r"has rules.*encrypt.*ignore_rules=True"):
        to_schema("v", registry.url, subject="ruled")
    framed_rows = rows.select(to_schema("v", registry.url, subject="ruled", ignore_rules=True).alias("v"))
    with pytest.raises(PySparkException, match=r"has rules.*encrypt.*ignore_rules=True"):
        framed_rows.select(from_schema("v", registry.url, subject="ruled")).collect()
    ignoring = from_schema("v", registry.url, subject="ruled", ignore_rules=True)
    assert [row.v.id for row in framed_rows.select(ignoring.alias("v")).collect()] == [0, 1]


@pytest.mark.parametrize("format", ["xml", "protobuf"])
def test_functions_refuse_another_format_before_the_query(registry, format):
    registry.register("of-avro", V1)
    with pytest.raises(ConfigError, match=f"format=.?{format}"):
        from_schema("v", registry.url, subject="of-avro", format=format)
    with pytest.raises((ConfigError, UsageError), match=format):
        to_schema("v", registry.url, subject="of-avro", format=format)


@pytest.mark.skipif(running() < (4, 1), reason="Spark has Arrow functions since 4.1")
def test_functions_write_and_read_a_message_of_a_protobuf_schema(spark, registry):
    registry.client.register("messages", Schema(PROTO, SchemaType.PROTOBUF))
    rows = spark.sql("SELECT named_struct('id', id, 'n', array(id)) AS v FROM range(1, 3)")
    chosen = {"subject": "messages", "format": "protobuf", "message": "shop.Order"}
    framed_rows = rows.select(to_schema("v", registry.url, **chosen).alias("v"))
    found = framed_rows.select(from_schema("v", registry.url, **chosen).alias("v")).select("v.id", "v.n").collect()
    assert [tuple(row) for row in found] == [(1, [1]), (2, [2])]


# -- options

HERE = {"schema__registry__url": "http://h"}


def checked(**given: str) -> Any:
    names = {name.replace("__", "."): text for name, text in given.items()}
    return parse_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | names)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value__format": "avro"}, "schema.registry.url is missing"),
        ({"value__format": "avor", **HERE}, "value.format='avor': must be avro, protobuf, json-schema"),
        ({**HERE}, "schema.registry.url needs value.format or key.format"),
        ({"value__format": "avro", "schema__registry__url": "h:8081"}, "must begin with http://"),
        ({"value__format": "avro", **HERE, "schema__registry__usr": "x"}, "usr"),
        ({"value__format": "avro", **HERE, "value__schema__version": "0"}, "from 1, or"),
        ({"value__format": "avro", **HERE, "key__schema": "x"}, "key.schema needs key.format"),
        ({"value__format": "avro", **HERE, "decodeErrors": "skip"}, "fail or column or deadLetter"),
        ({"value__format": "avro", **HERE, "value__schema": "x", "value__schema__version": "2"}, "leave out"),
    ],
)
def test_wrong_options_of_schemas_name_the_option_and_the_remedy(given, message):
    with pytest.raises(ConfigError, match=message):
        checked(**given)


def test_dead_letters_of_a_read_need_a_topic():
    source = KafkaDataSource(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "value.format": "avro", "decodeErrors": "deadLetter",
         "schema.registry.url": "http://h"}
    )  # fmt: skip
    with pytest.raises(ConfigError, match="decodeErrors=deadLetter needs deadLetterTopic"):
        source.schema()


@pytest.mark.parametrize("read", [{"subscribe": "a,dead"}, {"subscribePattern": "de.*"}, {"assign": '{"dead": [0]}'}])
def test_a_dead_letter_topic_that_is_read_is_refused(read):
    options = {"value.format": "avro", "value.schema": '"string"', "schema.registry.url": "http://h"}
    letters = {"kafka.bootstrap.servers": "h:1", "decodeErrors": "deadLetter", "deadLetterTopic": "dead"}
    with pytest.raises(ConfigError, match="deadLetterTopic=dead is one of the topics that are read"):
        KafkaDataSource(options | letters | read).schema()


def test_a_dead_letter_without_a_timestamp_is_sent(kafka, registry):
    dead = kafka.new_topic()
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "deadLetterTopic": dead,
        "decodeErrors": "deadLetter",
    }
    schema = spark_schema(include_headers=False)
    schema["value"].dataType = StructType([StructField("id", LongType(), False)])
    schema["value"].metadata = {METADATA: json.dumps(["AVRO", json.dumps(V1), [], ""])}
    decoding = decoding_for(parse_options(options | typed(registry, "t")), schema)
    raw = {
        "key": pa.array([None], pa.binary()),
        "value": pa.array([b"plain"], pa.binary()),
        "offset": pa.array([5]),
        "timestamp": pa.array([-1000]).cast(pa.timestamp("us", "UTC")),
        "headers": pa.array([None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    }
    assert TypedColumns(decoding, registry.client).decode(raw, [("t", 0, 1)])[1] == [0]
    (letter,) = kafka.records(dead)
    assert letter.value == b"plain" and letter.timestamp_ms > 0


def test_exactly_once_refuses_types_without_sums_before_the_write(registry):
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t", "exactlyOnce": "true", "value.format": "avro"}
    as_long = {"value.schema": '"long"', "schema.registry.url": registry.url}
    with pytest.raises(UsageError, match="Avro has no type for duration"):
        write_settings(
            parse_options(options | as_long), StructType([StructField("value", DayTimeIntervalType(), False)])
        )


def test_several_topics_need_a_subject(registry):
    options = {"kafka.bootstrap.servers": "h:1"} | typed(registry, "a,b")
    with pytest.raises(ConfigError, match=r"several topics are read, so give value\.schema\.subject"):
        KafkaDataSource(options).schema()
    registry.register("common", V1)
    assert KafkaDataSource(options | {"value.schema.subject": "common"}).schema()["value"].dataType.names == ["id"]


def test_a_missing_subject_is_found_before_the_query(registry):
    with pytest.raises(SubjectNotFoundError, match="no-such-topic-value"):
        KafkaDataSource({"kafka.bootstrap.servers": "h:1"} | typed(registry, "no-such-topic")).schema()


def test_the_settings_of_the_registry_are_not_shown():
    options = checked(
        value__format="avro",
        schema__registry__url="http://h",
        **{"schema__registry__basic.auth.user.info": "ada:Sesam"},
    )
    assert "Sesam" not in repr(options)
    options = checked(value__format="avro", schema__registry__url="http://ada:Sesam@h")
    assert "Sesam" not in repr(options)
    schema = spark_schema(include_headers=False)
    schema["value"].dataType = StructType([StructField("id", LongType(), False)])
    schema["value"].metadata = {METADATA: json.dumps(["AVRO", json.dumps(V1), [], ""])}
    assert "Sesam" not in repr(decoding_for(options, schema))


@pytest.mark.parametrize(
    "secret", [{"schema.registry.basic.auth.user.info": "ada:Sesam"}, {"schema.registry.url": "https://ada:Sesam@h"}]
)
def test_a_table_keeps_no_secrets_of_the_registry_and_spark_hides_them(secret):
    with pytest.raises(ConfigError, match="a table keeps no secrets"):
        tables.check_kept({"value.format": "avro"} | secret)
    hidden = re.compile(recommended_conf()["spark.redaction.regex"])
    assert all(hidden.search(name) or hidden.search(text) for name, text in secret.items())
    assert not hidden.search("schema.registry.url") and not hidden.search("http://localhost:8081/a@b")
