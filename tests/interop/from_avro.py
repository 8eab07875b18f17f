"""Compare columns and values with Spark's own from_avro, on random schemas. Run as a program, in a Spark of its own.

    python -m tests.interop.from_avro JAR FIRST LAST

Prints one line of JSON: the seeds, and what differs. Types of schemas that random ones lack are compared, too: `TYPES`
(decision 0042 has the differences that are known). Maps are compared without their order, which Java does not keep.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro

from kafkaraw.schemas.arrow import _implementation
from kafkaraw.schemas.arrow.avro_plan import columns_of
from kafkaraw.schemas.arrow.avro_types import load
from kafkaraw.spark.reading.typed_columns import spark_type
from tests.schemas.arrow.random_avro import Maker
from tests.schemas.arrow.test_avro_columns import run


def logical(base: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": kind, **more}


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "v", "type": "long"},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "many", "type": {"type": "array", "items": "Node"}},
    ],
}
GRAPH = {
    "type": "record",
    "name": "Graph",
    "fields": [
        {"name": "m", "type": {"type": "map", "values": "Graph"}},
        {"name": "u", "type": ["null", "string", "Graph"]},
        {"name": "i", "type": "int"},
    ],
}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
TYPES: list[tuple[Any, int]] = [
    *((each, 0) for each in ("long", "null", ["long"], ["null", "int"], ["int", "null"], ["int", "string"])),
    *(
        (each, 0)
        for each in (["int", "long"], ["float", "double"], ["null", "int", "long"], ["null", "float", "double"])
    ),
    (logical("int", "time-millis"), 0),
    (logical("string", "uuid"), 0),
    (logical("fixed", "uuid", name="U", size=16), 0),
    (logical("fixed", "duration", name="D", size=12), 0),
    (logical("bytes", "decimal", precision=38, scale=38), 0),
    (logical("bytes", "decimal", precision=4), 0),
    (logical("bytes", "big-decimal"), 0),
    (logical("fixed", "decimal", name="X", size=4, precision=9, scale=0), 0),
    (logical("long", "date"), 0),
    (logical("int", "timestamp-millis"), 0),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, 0),
    ({"type": "map", "values": ["null", "int"]}, 0),
    ({"type": "array", "items": ["null", "string"]}, 0),
    (EMPTY, 0),
    (["null", EMPTY], 0),
    ({"type": "array", "items": EMPTY}, 0),
    (["null", "int", "bytes", logical("long", "timestamp-millis")], 0),
    (["null", logical("bytes", "decimal", precision=4)], 0),
    *((NODE, levels) for levels in (1, 2, 3)),
    (GRAPH, 2),
]
"""Schemas, and how often a record may contain itself."""


def type_differences(spark: SparkSession) -> list[str]:
    """Compare the types of the schemas in `TYPES`, as roots and as fields."""
    found = []
    for schema, levels in TYPES:
        field = {"type": "record", "name": "Root", "fields": [{"name": "f", "type": schema}]}
        for text in (json.dumps(schema), json.dumps(field)):
            options = {"recursiveFieldMaxDepth": str(levels)} if levels else {}
            frame = spark.sql("SELECT unhex('00') AS v").select(from_avro("v", text, options).alias("v"))
            ours, theirs = spark_type(columns_of(load(text), levels)).json(), frame.schema["v"].dataType.json()
            if ours != theirs:
                found.append(f"{text}: {ours} is {theirs}")
    return found


def differences(spark: SparkSession, seed: int) -> list[str]:
    """Compare one schema; odd seeds read with another reader's schema."""
    maker = Maker(seed)
    writer = maker.record()
    payloads = [maker.encode(writer) for _ in range(6)]
    reader = maker.reader_of(writer) if seed % 2 else writer
    options = {"avroSchema": json.dumps(reader)} if seed % 2 else {}
    frame = spark.createDataFrame([(at, bytearray(each)) for at, each in enumerate(payloads)], "at int, v binary")
    frame = frame.select("at", from_avro("v", json.dumps(writer), options).alias("v")).orderBy("at")
    ours_type, theirs_type = spark_type(columns_of(load(json.dumps(reader)))), frame.schema["v"].dataType
    if ours_type != theirs_type:
        return [f"seed {seed}: {ours_type.json()} is {theirs_type.json()}"]
    ours, _ = run(_implementation.decoding, writer, reader, payloads)
    theirs = [row.v.asDict(recursive=True) for row in frame.collect()]
    found = [plain(each) for each in ours.to_pylist()]
    return [
        f"seed {seed}: {mine} is {other}"
        for mine, other in zip(found, map(plain, theirs), strict=True)
        if repr(mine) != repr(other)
    ]


def plain(value: Any) -> Any:
    """Return a value of Arrow or of Spark in one form; both have UTC."""
    match value:
        case dict():
            return {str(name): plain(each) for name, each in sorted(value.items(), key=repr)} or "empty"
        case list() if value and all(isinstance(each, tuple) for each in value):
            return plain(dict(value))
        case list():
            return [plain(each) for each in value] or "empty"
        case bytearray():
            return bytes(value)
    if hasattr(value, "tzinfo"):
        return value.replace(tzinfo=None)
    return value


def main() -> None:
    jar, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    found = type_differences(spark) + [each for seed in range(first, last) for each in differences(spark, seed)]
    print(json.dumps({"seeds": last - first, "pyarrow": pa.__version__, "differences": found}))
    spark.stop()


if __name__ == "__main__":
    main()
