"""A Spark session that writes down what it shows of its queries, for `test_no_secret_is_shown`: a process of its own.

    python -m tests.spark.shown_by_spark FOLDER OPTIONS.json

The file has the options of the connection, "client", of reads with typed columns, "typed", and of formats that write
tables, "tables".

It reads, by DataFrame and by SQL view, copies a topic as a stream, and writes tables by batches and streams. The event
log goes to the folder; so does a file
for each thing that users see: explanations, the pages of the user interface, its REST API, and the query's progress.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kafkaraw.spark import session

_PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")
_REST = ("jobs", "stages", "environment", "storage/rdd", "sql?details=false")


def printed(call: Callable[[], object]) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        call()
    return text.getvalue()


def explanations(frame: DataFrame) -> dict[str, str]:
    """What a DataFrame tells of itself; each of the first two plans the read once, which starts a Python process."""
    execution = frame._jdf.queryExecution()
    plans = {"logical": execution.logical(), "executed": execution.executedPlan()}
    return {
        "explain": printed(lambda: frame.explain(mode="extended")),
        "lineage": frame.rdd.toDebugString().decode(),
        "frame": repr(frame),
        "execution": execution.toString(),
        **{f"plan-{name}": plan.toJSON() for name, plan in plans.items()},
    }


def pages(spark: SparkSession) -> dict[str, str]:
    """The user interface, with a page for each execution, and its REST API."""
    context = spark.sparkContext
    api = f"api/v1/applications/{context.applicationId}"
    paths = [f"{page}/" for page in _PAGES] + [f"{api}/{what}" for what in _REST]
    return page_texts(spark, [*paths, *(f"SQL/execution/?id={number}" for number in range(8))])


def page_texts(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """Pages of the user interface, each with its path."""
    found = {}
    for number, path in enumerate(paths):
        with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{path}", timeout=20) as answer:
            found[f"page-{number}"] = f"{path}\n{answer.read().decode()}"
    return found


def shown_in(folder: Path) -> dict[str, str]:
    """Settings of a session with Spark's user interface, and with an event log in a folder."""
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def write_tables(
    frame: DataFrame, stream: DataFrame, folder: Path, tables: dict[str, dict[str, str]]
) -> dict[str, str]:
    """Write tables of each format, by a batch and by a stream; return what Spark shows of that."""
    shown = {}
    for name, options in tables.items():
        place = {"path": str(folder / "tables" / name)} if name.endswith("delta") else {"table": "shown.rows"}
        given = options | place
        frame.select("value").write.format(name).options(**given).mode("append").save()
        writing = stream.select("value").writeStream.format(name).options(**given).trigger(availableNow=True)
        query = writing.option("checkpointLocation", str(folder / "checkpoints" / name)).start()
        assert query.awaitTermination(60)
        shown[f"progress-{name}"] = str(query.recentProgress)
        shown[f"query-{name}"] = printed(lambda query=query: query.explain(True))
        with contextlib.suppress(Exception):
            frame.selectExpr("1 AS other").write.format(name).options(**given).mode("append").save()
    return shown


def main(folder: Path, options: dict[str, str], typed: dict[str, str], tables: dict[str, dict[str, str]]) -> None:
    reads = options | typed
    spark = session("what is shown", master="local[2]", conf=shown_in(folder))
    frame = spark.read.format("kafkaraw").options(**reads, subscribe="secret-in").load()
    shown = explanations(frame)
    assert frame.count() == 3
    given = ", ".join(f"'{name}' '{text}'" for name, text in reads.items())
    spark.sql(f"CREATE TEMPORARY VIEW shown USING kafkaraw OPTIONS ({given}, 'subscribe' 'secret-in')")
    assert spark.sql("SELECT * FROM shown").count() == 3
    stream = spark.readStream.format("kafkaraw").options(**reads, subscribe="secret-in", startingOffsets="earliest")
    writing = stream.load().select("value").writeStream.format("kafkaraw").options(**options, topic="secret-out")
    query = writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    shown |= {
        "progress": str(query.recentProgress),
        "stream": printed(lambda: query.explain(True)),
        "query": str(query.status),
    }
    shown |= write_tables(frame, stream.load(), folder, tables)
    shown |= pages(spark)
    spark.stop()
    for name, text in shown.items():
        (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[2]).read_text())
    main(Path(sys.argv[1]), given["client"], given["typed"], given["tables"])
