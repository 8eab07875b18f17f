"""Spark schemas for tests that have no Spark session."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "map<string,binary>": MapType(StringType(), BinaryType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType().add("key", StringType()).add("value", BinaryType())
    ),
}


def struct(ddl: str) -> StructType:
    """The schema of "name type, name type not null" (parsing any DDL needs a session)."""
    schema = StructType()
    for column in ddl.split(", "):
        name, kind = column.removesuffix(" not null").split(" ", 1)
        schema.add(name, _TYPES[kind], nullable=not column.endswith(" not null"))
    return schema
