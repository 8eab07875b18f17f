r"""Spark: format "kafkaraw" for batch and streaming reads and writes, without a JAR.

    import kafkaraw.spark

    spark = kafkaraw.spark.session("my-app")
    df = spark.readStream.format("kafkaraw").option("kafka.bootstrap.servers", "localhost:9092") \
        .option("subscribe", "flights").load()

Options have the names of Spark's own Kafka connector. Start at `source.py` and `sink.py`, which Spark calls. They use
`options/` (the options of a DataFrame), `reading/` and `writing/` (the driver's decisions and the work of tasks).
`errors.py` and `worker.py` serve both; `versions.py` has the features of the running Spark. `launch/` starts Spark
itself and does not depend on Kafka; `lag.py`, `foreach_batch.py` and `functions.py` are independent helpers. Importing
this package imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafkaraw.spark.foreach_batch import batch_writer
from kafkaraw.spark.launch.session_builder import (
    configure,
    prepare_environment,
    prepare_session,
    recommended_conf,
    session,
)

if TYPE_CHECKING:
    from kafkaraw.spark.functions import from_schema, to_schema
    from kafkaraw.spark.lag import KafkaLagListener, QueryLag
    from kafkaraw.spark.lake.merges import table_merger

__all__ = [
    "KafkaLagListener",
    "QueryLag",
    "batch_writer",
    "configure",
    "from_schema",
    "prepare_environment",
    "prepare_session",
    "recommended_conf",
    "session",
    "table_merger",
    "to_schema",
]

_HOMES = {
    "KafkaLagListener": "lag",
    "QueryLag": "lag",
    "from_schema": "functions",
    "table_merger": "lake.merges",
    "to_schema": "functions",
}


def __getattr__(name: str) -> object:
    """Import the names that need pyspark when they are used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
