"""A run that kills itself at a step, and the pipeline that it runs. Started as a script by `kills.py`.

Arguments: a folder, the brokers, the input topic, the step (0: none), and the delay in seconds after the step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kafkaraw.pipelines import tables
from kafkaraw.pipelines.running import flow_query, storage, targets
from kafkaraw.pipelines.running.driver_session import started_session
from kafkaraw.pipelines.running.runner import RunOptions, run
from tests.pipelines.runs import Definition, topic_functions

BATCH = "60"


class Steps:
    """Counts the steps of a run; kills the process at one of them."""

    def __init__(self, last: int, delay: float) -> None:
        self._last = last
        self._delay = delay
        self._done = 0
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self._done += 1
            if self._done == self._last:
                time.sleep(self._delay)
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: object, name: str) -> None:
        """Make a function two steps: before and after it."""
        original: Callable[..., object] = getattr(owner, name)

        def stepping(*args: object, **named: object) -> object:
            self.step()
            try:
                return original(*args, **named)
            finally:
                self.step()

        setattr(owner, name, stepping)


def define(spark, folder: Path, servers: str, topic: str) -> Definition:
    """Return a pipeline: topic -> table -> topic, aggregates of the topic into a topic, and a materialized view."""
    definition = Definition(spark, folder / "storage", servers, name="killed")
    definition.table("clean", lambda: definition.numbers(topic, maxOffsetsPerTrigger=BATCH).where("n % 7 != 0"))
    definition.to_topic(f"{topic}-copy", lambda: spark.readStream.option("maxFilesPerTrigger", 2).table("clean"))
    counts = lambda: definition.numbers(topic, maxOffsetsPerTrigger=BATCH).groupBy("n").count()  # noqa: E731
    definition.to_topic(f"{topic}-counts", counts, output_mode="update")
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    return definition


def main() -> None:
    folder, servers, topic, step, delay = sys.argv[1:]
    steps = Steps(int(step), float(delay))
    steps.around(tables, "write_atomically")
    steps.around(storage, "write_atomically")
    steps.around(storage.FlowStorage, "keep_counts")
    steps.around(flow_query.BatchGate, "__call__")
    steps.around(tables.StreamingTable, "_publish")
    steps.around(targets, "batch_writer")
    spark = started_session("killed", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    definition = define(spark, Path(folder), servers, topic)
    summary = run(definition.pipeline(), spark, RunOptions(once=True), topics=topic_functions())
    print(*(f"{each.flow} {each.state} {each.failure}" for each in summary.status.flows), sep="\n", flush=True)
    spark.stop()
    sys.exit(summary.exit_code)


if __name__ == "__main__":
    main()
