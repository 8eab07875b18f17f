"""A Spark driver that streams a topic into a Delta and an Iceberg table, until the tests kill it.

Run as a script. Its one argument is JSON: see `main`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from kafkaraw.spark import session
from tests.spark.lake.tables import FORMATS, Lake

ROWS_PER_BATCH = 40

Stores = Mapping[str, tuple[str, Mapping[str, str]]]
"""Format -> URL in an object store, and its options."""


def main(folder: str, servers: str, topic: str, ends: bool, stores: Stores) -> None:
    """Stream until the end of the topic, or for as long as the process lives."""
    spark = session("to be killed", master="local[2,4]", conf={"spark.sql.shuffle.partitions": "1"})
    spark.sparkContext.setLogLevel("OFF")
    queries = []
    for kind in FORMATS:
        lake = lake_in(folder, kind, stores)
        rows = (
            spark.readStream.format("kafkaraw")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "1000000" if ends else str(ROWS_PER_BATCH))
            .load()
            .selectExpr("cast(cast(value AS string) AS bigint) AS n", "partition")
        )
        writer = rows.writeStream.format(f"kafkaraw.{kind}").options(**lake.given())
        writer = writer.option("checkpointLocation", str(checkpoint_in(folder, kind)))
        queries.append((writer.trigger(availableNow=True) if ends else writer).start())
    for query in queries:
        query.awaitTermination()


def lake_in(folder: str | Path, kind: str, stores: Stores) -> Lake:
    """The table of a format: in the folder, or in an object store."""
    found = Lake(kind, Path(folder, kind), *stores.get(kind, ()))
    found.folder.mkdir(exist_ok=True)
    return found


def checkpoint_in(folder: str | Path, kind: str) -> Path:
    return Path(folder, f"checkpoint-{kind}")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
