"""Queries that either connector can run, and what came of each: rows, offsets, or what failed.

Run as a script it does them with one connector and prints the outcomes as JSON. Spark's own connector has no kafkaraw
in its Python, so nothing of it may be imported here. Its argument is JSON: format, jars, servers, topics, checkpoints,
names. What is lost between two runs of a stream is done by the caller: the script says "ready" and waits for a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READY = "ready"

# Name -> options; T and U stand for the topics, of two partitions with 20 records each and of one with 5.
BATCHES: dict[str, dict[str, str]] = {
    "everything": {"subscribe": "T,U"},
    "headers": {"subscribe": "U", "includeHeaders": "true"},
    "a pattern": {"subscribePattern": "^T$|^U[0-9]*$"},
    "an assignment": {"assign": '{"T":[1],"U":[0]}'},
    "offsets": {"subscribe": "T", "startingOffsets": '{"T":{"0":3,"1":-2}}', "endingOffsets": '{"T":{"0":9,"1":-1}}'},
    "times": {"subscribe": "T", "startingTimestamp": "1000500", "endingTimestamp": "1001200"},
    "times of partitions": {"subscribe": "T", "startingOffsetsByTimestamp": '{"T":{"0":1000700,"1":1001800}}'},
    "a time that is too late, leniently": {
        "subscribe": "T", "startingTimestamp": "9000000", "startingOffsetsByTimestampStrategy": "latest",
    },
    "the time before the offsets": {"subscribe": "T", "startingTimestamp": "1001500", "startingOffsets": "earliest"},
    "many tasks": {"subscribe": "T", "minPartitions": "7"},
}  # fmt: skip

# Name -> options of queries that end with what is there.
STREAMS: dict[str, dict[str, str]] = {
    "earliest": {"subscribe": "T,U", "startingOffsets": "earliest"},
    "in batches": {"subscribe": "T,U", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "18"},
    "from offsets": {"subscribe": "T", "startingOffsets": '{"T":{"0":15,"1":-1}}', "maxOffsetsPerTrigger": "3"},
}

# What is wrong -> the option that we must name, how they call it, kind of read, options.
FAILURES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "nothing to read": ("subscribe", "subscribe", "batch", {}),
    "two things to read": ("assign", "assign", "batch", {"subscribe": "T", "assign": '{"T":[0]}'}),
    "no servers": (
        "kafka.bootstrap.servers",
        "bootstrap.servers",
        "batch",
        {"subscribe": "T", "kafka.bootstrap.servers": ""},
    ),
    "latest to start with": (
        "startingOffsets",
        "starting offset",
        "batch",
        {"subscribe": "T", "startingOffsets": "latest"},
    ),
    "latest in a partition": (
        "startingOffsets",
        "startingOffsets",
        "batch",
        {"subscribe": "U", "startingOffsets": '{"U":{"0":-1}}'},
    ),
    "earliest to end with": (
        "endingOffsets",
        "ending offset",
        "batch",
        {"subscribe": "T", "endingOffsets": "earliest"},
    ),
    "offsets of a partition left out": (
        "startingOffsets",
        "Partitions specified for Kafka start offsets",
        "batch",
        {"subscribe": "T", "startingOffsets": '{"T":{"0":1}}'},
    ),
    "a time that is too late": (
        "startingTimestamp",
        "timestamp",
        "batch",
        {"subscribe": "T", "startingTimestamp": "9000000"},
    ),
    "an end for a stream": ("endingOffsets", "ending offset", "stream", {"subscribe": "T", "endingOffsets": "latest"}),
    "a reset policy": (
        "auto.offset.reset",
        "auto.offset.reset",
        "batch",
        {"subscribe": "T", "kafka.auto.offset.reset": "latest"},
    ),
    "a deserializer": (
        "key.deserializer",
        "key.deserializer",
        "batch",
        {"subscribe": "T", "kafka.key.deserializer": "x.Y"},
    ),
    "automatic commits": (
        "enable.auto.commit",
        "enable.auto.commit",
        "batch",
        {"subscribe": "T", "kafka.enable.auto.commit": "true"},
    ),
    "no number of partitions": ("minPartitions", "minPartitions", "batch", {"subscribe": "T", "minPartitions": "0"}),
}

# What befalls a topic of one partition, ten records of which a stream has read; whether the stream then fails; options.
# "deleted N": its records up to offset N; "made anew N": it has N others; "gone": there is only another topic.
LOSSES: dict[str, tuple[str, bool, dict[str, str]]] = {
    "deleted records that were read": ("deleted 7", False, {}),
    "deleted records": ("deleted 15", True, {}),
    "deleted records, leniently": ("deleted 15", False, {"failOnDataLoss": "false"}),
    "a topic made anew": ("made anew 3", True, {}),
    "a topic made anew, leniently": ("made anew 3", False, {"failOnDataLoss": "false"}),
    "a topic made anew that has grown": ("made anew 14", False, {}),
    "a topic that is gone": ("gone", True, {}),
    "a topic that is gone, leniently": ("gone", False, {"failOnDataLoss": "false"}),
}

# Those of each kind that the quick run does.
CORE = ("everything", "headers", "offsets", "times", "in batches", "two things to read", "latest to start with")


class Asked:
    """The queries, done with one connector on one session."""

    def __init__(self, spark: SparkSession, asked: dict[str, Any]) -> None:
        self._spark = spark
        self._asked = asked

    def outcomes(self) -> dict[str, Any]:
        """What came of each query, by kind and name."""
        names = self._asked["names"]
        return {
            "batches": {name: self._rows(BATCHES[name]) for name in names if name in BATCHES},
            "streams": {name: self._stream(STREAMS[name]) for name in names if name in STREAMS},
            "failures": {name: self._failure(*FAILURES[name][2:]) for name in names if name in FAILURES},
        }

    def _options(self, given: dict[str, str]) -> dict[str, str]:
        topics = self._asked["topics"]
        filled = {name: text.replace("T", topics["T"]).replace("U", topics["U"]) for name, text in given.items()}
        filled = {"kafka.bootstrap.servers": self._asked["servers"]} | filled
        return {name: text for name, text in filled.items() if text}

    def _rows(self, given: dict[str, str]) -> list[str]:
        frame = self._spark.read.format(self._asked["format"]).options(**self._options(given)).load()
        return sorted(str(row.asDict(recursive=True)) for row in frame.collect())

    def _stream(self, given: dict[str, str]) -> dict[str, Any]:
        frame = self._spark.readStream.format(self._asked["format"]).options(**self._options(given)).load()
        name = f"stream{len(list(Path(self._asked['checkpoints']).iterdir()))}"
        writer = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{self._asked['checkpoints']}/{name}").start()
        query.awaitTermination()
        rows = [str(row.asDict(recursive=True)) for row in self._spark.table(name).collect()]
        # Ours has an empty batch first, where it starts at the end of a partition.
        batches = [json.loads(each.json) for each in query.recentProgress]
        return {
            "rows": sorted(rows),
            "ends": [each["sources"][0]["endOffset"] for each in batches if each["numInputRows"]],
        }

    def first_runs(self) -> None:
        """Have streams read what there is, before something is lost."""
        for name in self._lossy():
            outcome = self._run_again(name)
            assert len(outcome["offsets"]) == 10, outcome

    def second_runs(self) -> dict[str, dict[str, Any]]:
        """What the same streams read after that, or what they died of."""
        return {name: self._run_again(name) for name in self._lossy()}

    def _lossy(self) -> list[str]:
        return [name for name in self._asked["names"] if name in LOSSES]

    def _run_again(self, name: str) -> dict[str, Any]:
        topics = self._asked["topics"][name]
        options = {"kafka.bootstrap.servers": self._asked["servers"], "startingOffsets": "earliest"} | LOSSES[name][2]
        frame = self._spark.readStream.format(self._asked["format"]).options(**options, subscribe=topics).load()
        offsets: list[int] = []

        def keep(batch: DataFrame, batch_id: int) -> None:
            offsets.extend(row.offset for row in batch.collect())

        writer = frame.writeStream.foreachBatch(keep).trigger(availableNow=True)
        error = ""
        try:
            writer.option("checkpointLocation", f"{self._asked['checkpoints']}/{name}").start().awaitTermination()
        except Exception as problem:  # noqa: BLE001  # of many kinds, in another Python and Spark
            error = str(problem)
        return {"offsets": sorted(offsets), "error": error}

    def _failure(self, kind: str, given: dict[str, str]) -> str:
        try:
            if kind == "batch":
                self._rows(given)
            else:
                self._stream(given)
        except Exception as error:  # noqa: BLE001  # of many kinds, in another Python and Spark
            return str(error)
        return ""


def main() -> None:
    from pyspark.sql import SparkSession

    asked = json.loads(sys.argv[1])
    conf = {"spark.jars": ",".join(asked["jars"]), "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    queries = Asked(spark, asked)
    outcomes = queries.outcomes()
    queries.first_runs()
    print(READY, flush=True)
    sys.stdin.readline()
    print(json.dumps(outcomes | {"losses": queries.second_runs()}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
