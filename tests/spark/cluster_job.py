"""A job that reads a topic on a cluster and copies it exactly once, as a stream; what tests submit.

    cluster_job.py SERVERS SOURCE TARGET FOLDER

Files in FOLDER: `read.json` has what the batch read has found, `executors.json` the Python of each task.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from kafkaraw.spark import session


def place_of_python(_: Iterator[object]) -> Iterator[tuple[str, str]]:
    import kafkaraw

    yield sys.executable, str(kafkaraw.__file__)


def main(servers: str, source: str, target: str, folder: Path) -> None:
    spark = session()
    common = {"kafka.bootstrap.servers": servers}
    rows = spark.read.format("kafkaraw").options(**common, subscribe=source).load()
    read = rows.select("partition", "offset", "value").collect()
    folder.joinpath("read.json").write_text(
        json.dumps(sorted([row.partition, row.offset, row.value.decode()] for row in read))
    )
    places = spark.sparkContext.parallelize(range(4), 4).mapPartitions(place_of_python).collect()
    folder.joinpath("executors.json").write_text(json.dumps([list(place) for place in places]))
    stream = spark.readStream.format("kafkaraw").options(
        **common, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100"
    )
    writing = stream.load().select("value").writeStream.format("kafkaraw").options(**common, topic=target)
    query = (
        writing.option("exactlyOnce", "true")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"driver on {socket.gethostname()}: copied")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
