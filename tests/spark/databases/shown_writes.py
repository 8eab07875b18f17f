"""A Spark session that writes down what it shows of writes into PostgreSQL, for `test_no_password_is_shown`.

    python -m tests.spark.databases.shown_writes FOLDER OPTIONS.json

It writes by DataFrame and as a stream, with the right password and with a wrong one; some writes fail in tasks, some
while the driver prepares or commits them. The event log and the checkpoint go to the folder; so does a file for each
thing that users see.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafkaraw.spark import session
from tests.spark.cluster_job import command_lines
from tests.spark.shown_by_spark import pages, printed, shown_in

FORMAT = "kafkaraw.postgresql"


def failed(call: Callable[[], object]) -> str:
    """What a user sees of a write that fails."""
    try:
        call()
    except PySparkException as error:
        return f"{error!r}\n{error}\n{error.__cause__!r}"
    raise AssertionError("the write should have failed")


def literal(text: str) -> str:
    """A text in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def write(rows: DataFrame, options: dict[str, str], **more: str) -> None:
    rows.write.format(FORMAT).options(**options | more).mode("append").save()


def errors(spark: SparkSession, options: dict[str, str], wrong: dict[str, str]) -> dict[str, str]:
    rows = spark.createDataFrame([(1, "a")], "id bigint, name string")
    with_nul = spark.createDataFrame([(1, "a\0b")], "id bigint, name string")
    twice = spark.createDataFrame([(1, "a"), (1, "b")], "id bigint, name string")
    given = ", ".join(f"'{name}' {literal(text)}" for name, text in options.items())
    in_url = f"{options['url']} password={literal(options['password'])}"
    return {
        "wrong-password": failed(lambda: write(rows, options | wrong)),
        "unreachable": failed(lambda: write(rows, options, url="postgresql://ada@127.0.0.1:1/shop")),
        "in-the-url": failed(lambda: write(rows, options, url=in_url)),
        "unknown-option": failed(lambda: write(rows, options, passwords=options["password"])),
        "task": failed(lambda: write(with_nul, options)),
        "commit": failed(lambda: write(twice, options, table="shown.keyed", key="id")),
        "columns": failed(lambda: write(spark.range(1).withColumnRenamed("id", "other"), options)),
        "view": failed(lambda: spark.sql(f"CREATE TEMPORARY VIEW v USING {FORMAT} OPTIONS ({given})")),
    }


def main(folder: Path, source: Path, options: dict[str, str], wrong: dict[str, str]) -> None:
    spark = session("what is shown of writes", master="local[2]", conf=shown_in(folder))
    rows = spark.readStream.schema("id bigint, name string").json(str(source))
    writing = rows.writeStream.format(FORMAT).options(**options).trigger(availableNow=True)
    query = writing.option("checkpointLocation", str(folder / "checkpoint")).start()
    assert query.awaitTermination(100)
    shown = {"stream": printed(lambda: query.explain(True)), "progress": str(query.recentProgress)}
    write(spark.createDataFrame([(2, "b")], "id bigint, name string"), options)
    shown |= {f"error-{name}": text for name, text in errors(spark, options, wrong).items()}
    refused = rows.writeStream.format(FORMAT).options(**options | wrong).trigger(availableNow=True)
    stopped = refused.option("checkpointLocation", str(folder / "refused")).start()
    shown["error-stream"] = failed(lambda: stopped.awaitTermination(100)) + str(stopped.exception())
    shown |= pages(spark)
    shown["commands"] = command_lines()
    spark.stop()
    for name, text in shown.items():
        (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[2]).read_text())
    main(Path(sys.argv[1]), Path(given["source"]), given["options"], given["wrong"])
