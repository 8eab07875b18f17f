"""Compare columns and values with Spark's own from_avro, on random schemas. Run as a program, in a Spark of its own.

    python -m tests.interop.from_avro JAR FIRST LAST

Prints one line of JSON: the seeds, and what differs. Maps are compared without their order, which Java does not keep.
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
    found = [each for seed in range(first, last) for each in differences(spark, seed)]
    print(json.dumps({"seeds": last - first, "pyarrow": pa.__version__, "differences": found}))
    spark.stop()


if __name__ == "__main__":
    main()
