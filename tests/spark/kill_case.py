"""One streaming query that a driver runs until it is killed, and that another driver then finishes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.stalling import stall, stalled

TRIGGERS = {
    "once": {"once": True},
    "available now": {"availableNow": True},
    "processing time": {"processingTime": "50 milliseconds"},
}


@dataclass(frozen=True)
class KillCase:
    """Copy topic `source` to topic `target`, from `starting`, with `trigger`; die at `step` of batch 0."""

    starting: str
    trigger: str
    step: str
    source: str
    target: str
    folder: str

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder, "checkpoint")

    @property
    def reached(self) -> Path:
        return Path(self.folder, "reached")

    def start(self, spark: SparkSession, servers: str) -> StreamingQuery:
        """Start the query, to stop at its step."""
        return self._query(spark, servers, self.step, TRIGGERS[self.trigger])

    def finish(self, spark: SparkSession, servers: str) -> StreamingQuery:
        """Start the query again, to go from what is in its checkpoint to what is in the topic."""
        return self._query(spark, servers, "never", TRIGGERS["available now"])

    def _query(self, spark: SparkSession, servers: str, step: str, trigger: dict[str, object]) -> StreamingQuery:
        options = {"kafka.bootstrap.servers": servers, "subscribe": self.source, "startingOffsets": self.starting}
        rows = spark.readStream.format("kafkaraw").options(**options).load().select("value")
        copy = partial(
            _copy, servers=servers, topic=self.target, reached=str(self.reached) if step == "written" else ""
        )
        writer = stalled(rows, step, str(self.reached)).writeStream.foreachBatch(copy)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()


def _copy(batch: DataFrame, batch_id: int, servers: str, topic: str, reached: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    batch.write.format("kafkaraw").options(**options).mode("append").save()
    if reached:
        stall(reached)
