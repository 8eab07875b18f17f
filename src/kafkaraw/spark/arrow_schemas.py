"""The Arrow schema that Spark passes to Python, and expects from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.spark.versions import features

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches for this schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC") if features().schema_takes_timezone else to_arrow_schema(schema)
