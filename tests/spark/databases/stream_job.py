"""A job that copies a topic into a table of PostgreSQL as a stream; tests kill its processes.

    stream_job.py SERVERS TOPIC DATABASE TABLE CHECKPOINT ROWS [--key COLUMN] [--master URL]

A micro-batch reads ROWS records; it ends at the end of the topic.
"""

from __future__ import annotations

import argparse

from kafkaraw.spark import session


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "topic", "database", "table", "checkpoint", "rows"):
        parser.add_argument(name)
    parser.add_argument("--key", default="")
    parser.add_argument("--master", default=None)
    given = parser.parse_args()
    spark = session("a stream that is killed", master=given.master)
    rows = spark.readStream.format("kafkaraw").options(
        subscribe=given.topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=given.rows,
        **{"kafka.bootstrap.servers": given.servers},
    )
    columns = "partition", "offset", "CAST(value AS string) AS value"
    options = {"key": given.key} if given.key else {}
    writing = rows.load().selectExpr(*columns).writeStream.format("kafkaraw.postgresql")
    query = (
        writing.options(url=given.database, table=given.table, **options)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
