"""The column of JSON values that are decoded while records are read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types

from kafkaraw.errors import ConfigError
from kafkaraw.schemas.arrow.json_objects import is_compiled
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.options.parsing import JSON_OPTION, parse_options
from kafkaraw.spark.reading import json_values
from kafkaraw.spark.reading.json_values import JsonValues

FIELDS = types.StructType(
    [
        types.StructField("id", types.LongType(), nullable=False),
        types.StructField("at", types.TimestampType()),
        types.StructField("o", types.StructType([types.StructField("x", types.DecimalType(9, 2), nullable=False)])),
    ]
)
VALUES = JsonValues(FIELDS.json(), utc=True)


def test_the_option_is_read_as_it_was_written_and_nothing_else_is_taken():
    options = parse_options({"kafka.bootstrap.servers": "localhost:9092", JSON_OPTION: VALUES.to_text()})
    found = JsonValues.from_text(options.json_columns)
    assert (found.struct(), found.utc) == (FIELDS, True)
    for text in ("id LONG", "{}", "[]", "null"):
        with pytest.raises(ConfigError, match="it is set by pipelines; leave it out"):
            JsonValues.from_text(text)


@pytest.mark.skipif(not is_compiled(), reason="needs the compiled module")
def test_the_column_has_the_type_that_spark_expects_and_null_for_what_is_not_plain():
    schema = VALUES.added_to(types.StructType([types.StructField("value", types.BinaryType())]))
    raw = {"value": pa.array([b'{"id":1,"o":{"x":1.5}}', b'{"id":"1"}', None, b'{"id":2}'], pa.binary())}
    arrays, left_out = VALUES.decoder().decode(raw, [("t", 0, 4)])
    assert arrays["json"].type == arrow_schema(schema).field("json").type
    assert [row and row["id"] for row in arrays["json"].to_pylist()] == [1, None, None, 2]
    assert (left_out, arrays["value"]) == ([], raw["value"])


def test_without_the_compiled_module_each_value_is_left_to_another_decoder(monkeypatch):
    monkeypatch.setattr(json_values, "_objects", lambda values: None)
    assert JsonValues.of(FIELDS, utc=True) is None
    schema = VALUES.added_to(types.StructType([types.StructField("value", types.BinaryType())]))
    found = VALUES.decoder().decode({"value": pa.array([b'{"id":1}'], pa.binary())}, [("t", 0, 1)])[0]["json"]
    assert (found.to_pylist(), found.type) == ([None], arrow_schema(schema).field("json").type)


def test_types_without_a_plain_form_are_left_to_another_decoder():
    listed = types.StructType([types.StructField("l", types.ArrayType(types.LongType()))])
    assert JsonValues.of(listed, utc=True) is None
