"""Write a streaming query in update mode, which Spark does not allow for sinks written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkaraw.spark.options.client import PATIENCE_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def batch_writer(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that appends each micro-batch to Kafka, in any output mode.

        query = counts.writeStream.outputMode("update").foreachBatch(batch_writer({
            "kafka.bootstrap.servers": "localhost:9092", "topic": "counts"})).start()

    At least once, like the sink itself: a micro-batch that failed is written again.

    Args:
        options: options of format "kafkaraw" for writing.
    """
    chosen = dict(options)

    def write(batch: DataFrame, batch_id: int) -> None:
        # As in a sink of streams, whatever the user says counts.
        writer = batch.write.format("kafkaraw").option(*PATIENCE_OPTION).options(**chosen)
        writer.mode("append").save()

    return write
