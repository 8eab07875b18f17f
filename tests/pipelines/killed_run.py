"""A run that is killed at a point of its steps, and the pipelines that it runs. Started as a script by `kills.py`.

Arguments: the brokers, and a folder and a topic for each pipeline. All pipelines run at the same time, each with a
storage of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafkaraw.pipelines import topic
from kafkaraw.pipelines.model import Changes, FlowKind, Pipeline
from kafkaraw.pipelines.running.driver_session import started_session
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, jvm_process_id, run
from tests.pipelines.kill_steps import FOLDER_VARIABLE, POINT_VARIABLE, Kill, Watch, kill
from tests.pipelines.runs import Definition

BATCH = "30"
RESERVED = ("_key", "_timestamp", "_tombstone", "_record")


def define(spark, folder: Path, servers: str, name: str) -> Pipeline:
    """Return a pipeline: topic -> table -> topic, an aggregate into a topic, changes, a materialized view."""
    definition = Definition(spark, folder / "storage", servers, name="killed")
    read = lambda: topic(name, value="json", schema="n LONG, i LONG", options={"maxOffsetsPerTrigger": BATCH})  # noqa: E731
    definition.view("numbers", read)
    numbers = lambda: spark.readStream.table("numbers")  # noqa: E731
    definition.table("clean", lambda: numbers().where("n % 7 != 0").select("n", "i"))
    copied = lambda: spark.readStream.option("maxFilesPerTrigger", 2).table("clean").select("n", "i")  # noqa: E731
    definition.to_topic(f"{name}-copy", copied)
    definition.to_topic(f"{name}-counts", lambda: numbers().groupBy("n").count(), output_mode="update")
    definition.table("newest")
    newest = Changes("numbers", ("n",), "i", except_columns=RESERVED)
    definition.flow("newest", "newest", numbers, kind=FlowKind.CHANGES, changes=newest)
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    return definition.pipeline(dead_letter_topic=f"{name}-dead", replay_topic=f"{name}-replays", group_prefix=name)


def run_all(spark, servers: str, places: Iterable[tuple[str, ...]]) -> int:
    def run_one(place: tuple[str, ...]) -> int:
        folder, name = place
        pipeline = define(spark, Path(folder), servers, name)
        summary = run(pipeline, spark, RunOptions(once=True), plan=planned(pipeline, spark))
        failed = [f"{name}: {each.flow} {each.state} {each.failure}" for each in summary.failed]
        print("\n".join([*failed, *(str(each) for each in summary.status.balance)]), flush=True)
        return summary.exit_code

    chosen = list(places)
    with ThreadPoolExecutor(len(chosen)) as pool:
        return max(pool.map(run_one, chosen))


def main() -> None:
    servers, *given = sys.argv[1:]
    places = list(zip(given[::2], given[1::2], strict=True))
    spark = started_session("killed", "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"})
    Path(os.environ[FOLDER_VARIABLE], "processes").write_text(f"{os.getpid()} {jvm_process_id(spark)}")
    Watch([Path(folder) / "storage" for folder, _ in places]).start()
    chosen = Kill.of(os.environ[POINT_VARIABLE])
    if chosen is not None and not chosen.step:
        threading.Timer(chosen.after_s, kill, [chosen.first]).start()
    code = run_all(spark, servers, places)
    spark.stop()
    os._exit(code)


if __name__ == "__main__":
    main()
