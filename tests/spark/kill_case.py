"""One streaming query that a driver runs until it is killed, and that another driver then finishes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.faulty import NEVER, Fault

TRIGGERS = {
    "once": {"once": True},
    "available now": {"availableNow": True},
    "processing time": {"processingTime": "50 milliseconds"},
}


@dataclass(frozen=True)
class KillCase:
    """Copy topic `source` to topic `target`, from `starting`, with `trigger`; stop at `step` of micro-batch `batch`."""

    servers: str
    source: str
    target: str
    folder: str
    starting: str
    trigger: str
    step: str
    batch: int = 0
    exactly_once: bool = False
    strict: bool = True
    count: int = 0
    decisions: str = ""
    tasks: int = 0
    outlives: bool = False

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder, "checkpoint")

    @property
    def reached(self) -> Path:
        """There as soon as the query is at its step."""
        return Path(self.folder, "reached")

    @property
    def go_on(self) -> Path:
        """To be made when the query is to go on."""
        return Path(self.folder, "go-on")

    @property
    def ended(self) -> Path:
        """There when the query has gone on to the end of its topic; holds the error if there was one."""
        return Path(self.folder, "ended")

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query, to stop at its step."""
        return self._query(spark, "faulty", self._faults(self.step), TRIGGERS[self.trigger], strict=self.strict)

    def finish(self, spark: SparkSession, *, strict: bool = True) -> StreamingQuery:
        """Start the query again, to go from what is in its checkpoint to what is in the topic."""
        return self._query(spark, "kafkaraw", {}, TRIGGERS["available now"], strict=strict)

    def finish_noting(self, spark: SparkSession) -> StreamingQuery:
        """The same, and have the tasks of the sink note what they do."""
        return self._query(spark, "faulty", self._faults(NEVER), TRIGGERS["available now"], strict=True)

    def _faults(self, step: str) -> dict[str, str]:
        notes = self.folder if self.decisions else ""
        return Fault(step, self.batch, str(self.reached), str(self.go_on), self.count, notes, self.outlives).options()

    def _query(
        self,
        spark: SparkSession,
        kind: str,
        faults: dict[str, str],
        trigger: dict[str, object],
        *,
        strict: bool,
    ) -> StreamingQuery:
        common = {"kafka.bootstrap.servers": self.servers}
        reading = common | {"subscribe": self.source, "startingOffsets": self.starting, "maxOffsetsPerTrigger": "10"}
        reading |= {"failOnDataLoss": str(strict).lower()}
        if self.tasks:  # else as many as the driver has cores
            reading |= {"minPartitions": str(self.tasks), "maxTasks": str(self.tasks)}
        writing = common | {"topic": self.target, "exactlyOnce": str(self.exactly_once).lower()}
        writing |= {"decisionsTopic": self.decisions} if self.decisions else {}
        rows = spark.readStream.format(kind).options(**reading | faults).load().select("value")
        writer = rows.writeStream.format(kind).options(**writing | faults)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
