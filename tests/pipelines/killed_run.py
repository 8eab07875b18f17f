"""A run that kills itself at a step, and the pipelines that it runs. Started as a script by `kills.py`.

Arguments: the brokers, the step (0: none), the delay in seconds after the step, "driver" or "jvm" for what is killed
first, and a folder and a topic for each pipeline. All pipelines run at the same time, each with a storage of its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafkaraw.pipelines import tables, topic
from kafkaraw.pipelines.model import Pipeline
from kafkaraw.pipelines.running import flow_query, storage, targets
from kafkaraw.pipelines.running.driver_session import started_session
from kafkaraw.pipelines.running.runner import RunOptions, jvm_process_id, run
from tests.pipelines.runs import Definition

BATCH = "60"
OUTPUTS = ("copy", "counts", "dead", "replays")


class Steps:
    """Counts the steps of a run; kills it some time after one of them."""

    def __init__(self, last: int, kill: Callable[[], None], delay: float) -> None:
        self._last = last
        self._kill = kill
        self._delay = delay
        self._done = 0
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self._done += 1
            if self._done == self._last:
                if self._delay:
                    threading.Timer(self._delay, self._kill).start()
                else:
                    self._kill()

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


def define(spark, folder: Path, servers: str, name: str) -> Pipeline:
    """Return a pipeline: topic -> table -> topic, aggregates of the topic into a topic, and a materialized view."""
    definition = Definition(spark, folder / "storage", servers, name="killed")
    read = lambda: topic(name, value="json", schema="n LONG", options={"maxOffsetsPerTrigger": BATCH})  # noqa: E731
    definition.view("numbers", read)
    definition.table("clean", lambda: spark.readStream.table("numbers").where("n % 7 != 0"))
    copied = lambda: spark.readStream.option("maxFilesPerTrigger", 2).table("clean").select("n")  # noqa: E731
    definition.to_topic(f"{name}-copy", copied)
    counts = lambda: spark.readStream.table("numbers").groupBy("n").count()  # noqa: E731
    definition.to_topic(f"{name}-counts", counts, output_mode="update")
    definition.materialized_view("total", lambda: spark.read.table("clean").groupBy().sum("n").toDF("n"))
    return definition.pipeline(dead_letter_topic=f"{name}-dead", replay_topic=f"{name}-replays", group_prefix=name)


def killer(jvm: int | None, first: str) -> Callable[[], None]:
    def kill() -> None:
        if first == "jvm" and jvm is not None:
            os.kill(jvm, signal.SIGKILL)
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    return kill


def run_all(spark, servers: str, places: Iterable[tuple[str, ...]]) -> int:
    def run_one(place: tuple[str, ...]) -> int:
        folder, name = place
        summary = run(define(spark, Path(folder), servers, name), spark, RunOptions(once=True))
        failed = [f"{name}: {each.flow} {each.state} {each.failure}" for each in summary.failed]
        print("\n".join(failed), flush=True)
        return summary.exit_code

    chosen = list(places)
    with ThreadPoolExecutor(len(chosen)) as pool:
        return max(pool.map(run_one, chosen))


def main() -> None:
    servers, step, delay, first, *places = sys.argv[1:]
    conf = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    spark = started_session("killed", "local[2]", conf)
    steps = Steps(int(step), killer(jvm_process_id(spark), first), float(delay))
    steps.around(tables, "write_atomically")
    steps.around(storage, "write_atomically")
    steps.around(storage.FlowStorage, "keep_counts")
    steps.around(flow_query.BatchGate, "__call__")
    steps.around(tables.StreamingTable, "_publish")
    steps.around(targets, "batch_writer")
    code = run_all(spark, servers, zip(places[::2], places[1::2], strict=True))
    spark.stop()
    sys.exit(code)


if __name__ == "__main__":
    main()
