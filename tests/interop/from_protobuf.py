"""Compare columns and values with Spark's own from_protobuf, on random messages, in a Spark of its own.

    python -m tests.interop.from_protobuf JAR[,JAR...] FIRST LAST

Prints one line of JSON: the seeds, and what differs. The jars are spark-protobuf, protobuf-java and protobuf-java-util.
Differences that decision 0042 lists are left out: fixed32 and fixed64 are made uint32 and uint64.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.sql import SparkSession
from pyspark.sql.protobuf.functions import from_protobuf

from kafkaraw.schemas.arrow import _implementation
from kafkaraw.schemas.arrow.protobuf_plan import columns_of
from kafkaraw.spark.reading.typed_columns import spark_type
from tests.interop.from_avro import plain
from tests.schemas.arrow.test_protobuf_columns import F, Messages, run

RECORDS = 12
OPTIONS = {"upcast.unsigned.ints": "true"}
_UNSIGNED = {F.TYPE_FIXED32: F.TYPE_UINT32, F.TYPE_FIXED64: F.TYPE_UINT64}


class Comparable(Messages):
    """Random messages of types that both decode in the same way."""

    def message(self, name: str, depth: int) -> None:
        super().message(name, depth)
        made = self.file.message_type[-1]
        for field in (*made.field, *(each for entry in made.nested_type for each in entry.field)):
            field.type = _UNSIGNED.get(field.type, field.type)


def differences(spark: SparkSession, seed: int) -> list[str]:
    """Compare one message type, and values of it."""
    maker = Comparable(seed)
    payloads = [maker.value(maker.descriptor).SerializeToString() for _ in range(RECORDS)]
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(maker.file)
    frame = spark.createDataFrame([(at, bytearray(each)) for at, each in enumerate(payloads)], "at int, v binary")
    decoded = from_protobuf("v", "p.M", options=OPTIONS, binaryDescriptorSet=files.SerializeToString())
    frame = frame.select("at", decoded.alias("v")).orderBy("at")
    ours_type, theirs_type = spark_type(columns_of(maker.descriptor)), frame.schema["v"].dataType
    if ours_type != theirs_type:
        return [f"seed {seed}: {ours_type.json()} is {theirs_type.json()}"]
    array, reasons = run(_implementation.decoding, maker.descriptor, payloads)
    if reasons:
        return [f"seed {seed}: {reasons}"]
    theirs = [plain(row.v.asDict(recursive=True)) for row in frame.collect()]
    found = [plain(each) for each in array.to_pylist()]
    return [
        f"seed {seed}: {mine} is {other}"
        for mine, other in zip(found, theirs, strict=True)
        if repr(mine) != repr(other)
    ]


def main() -> None:
    jars, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars)
    builder = builder.config("spark.driver.extraClassPath", jars.replace(",", ":"))
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    found = [each for seed in range(first, last) for each in differences(spark, seed)]
    print(json.dumps({"seeds": last - first, "pyarrow": pa.__version__, "differences": found}))
    spark.stop()


if __name__ == "__main__":
    main()
