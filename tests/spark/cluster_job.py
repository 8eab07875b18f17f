"""A job that reads a topic on a cluster and copies it exactly once, as a stream; what tests submit.

    cluster_job.py SERVERS SOURCE TARGET FOLDER ROWS [SECONDS]

A micro-batch reads ROWS records, one each SECONDS if given; the checkpoint is in FOLDER. Files there: `read.json` has
what the batch read found, `executors.json` the Python of each task. With a password in the environment the job logs
in, and notes instead, in files `shown-*.txt`, what Spark's user interface shows and the command lines of all processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kafkaraw.spark import session

PASSWORD = "JOB_LOGIN"
"""The environment variable with the password of the user ada. Its name does not say that it is a secret."""
PAGES = ("environment/", "executors/", "SQL/", "SQL/execution/?id=0", "StreamingQuery/")
"""Those that show settings, command lines, plans and options; `shown_by_spark.py` looks at all of them."""


def place_of_python(_: Iterator[object]) -> Iterator[tuple[str, str]]:
    import kafkaraw

    yield sys.executable, str(kafkaraw.__file__)


def login() -> dict[str, str]:
    if PASSWORD not in os.environ:
        return {}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="ada" password="{os.environ[PASSWORD]}";',
    }


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace").replace("\0", " "))
        except OSError:
            continue  # the process has ended
    return "\n".join(found)


def main(servers: str, source: str, target: str, folder: Path, rows_per_batch: str, interval_s: str = "") -> None:
    spark = session()
    common = {"kafka.bootstrap.servers": servers} | login()
    rows = spark.read.format("kafkaraw").options(**common, subscribe=source).load()
    read = rows.select("partition", "offset", "value").collect()
    folder.joinpath("read.json").write_text(
        json.dumps(sorted([row.partition, row.offset, row.value.decode()] for row in read))
    )
    stream = spark.readStream.format("kafkaraw").options(
        **common, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=rows_per_batch
    )
    writing = stream.load().select("value").writeStream.format("kafkaraw").options(**common, topic=target)
    writing = writing.option("exactlyOnce", "true").option("checkpointLocation", str(folder / "checkpoint"))
    if interval_s:
        query = writing.trigger(processingTime=f"{interval_s} seconds").start()
        query.processAllAvailable()
        query.stop()
    else:
        writing.trigger(availableNow=True).start().awaitTermination()
    if PASSWORD in os.environ:
        from tests.spark.shown_by_spark import page_texts

        shown = {**page_texts(spark, PAGES), "commands": command_lines()}
        for name, text in shown.items():
            folder.joinpath(f"shown-{name}.txt").write_text(text)
    else:
        places = spark.sparkContext.parallelize(range(4), 4).mapPartitions(place_of_python).collect()
        folder.joinpath("executors.json").write_text(json.dumps([list(place) for place in places]))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), *sys.argv[5:])
