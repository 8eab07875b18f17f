"""One streaming query that a driver runs until it is killed, and that another driver then finishes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.faulty import Fault

TRIGGERS = {
    "once": {"once": True},
    "available now": {"availableNow": True},
    "processing time": {"processingTime": "50 milliseconds"},
}


@dataclass(frozen=True)
class KillCase:
    """Copy topic `source` to topic `target`, from `starting`, with `trigger`; die at `step` of micro-batch `batch`."""

    servers: str
    source: str
    target: str
    folder: str
    starting: str
    trigger: str
    step: str
    batch: int = 0
    exactly_once: bool = False

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder, "checkpoint")

    @property
    def reached(self) -> Path:
        return Path(self.folder, "reached")

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query, to fail at its step."""
        fault = Fault(self.step, self.batch, str(self.reached))
        return self._query(spark, "faulty", fault.options(), TRIGGERS[self.trigger])

    def finish(self, spark: SparkSession, **options: str) -> StreamingQuery:
        """Start the query again, to go from what is in its checkpoint to what is in the topic."""
        return self._query(spark, "kafkaraw", options, TRIGGERS["available now"])

    def _query(
        self, spark: SparkSession, kind: str, options: dict[str, str], trigger: dict[str, object]
    ) -> StreamingQuery:
        common = {"kafka.bootstrap.servers": self.servers}
        reading = common | {"subscribe": self.source, "startingOffsets": self.starting, "maxOffsetsPerTrigger": "10"}
        writing = common | {"topic": self.target, "exactlyOnce": str(self.exactly_once).lower()}
        faults = options if kind == "faulty" else {}
        rows = spark.readStream.format(kind).options(**reading | options).load().select("value")
        writer = rows.writeStream.format(kind).options(**writing | faults)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
