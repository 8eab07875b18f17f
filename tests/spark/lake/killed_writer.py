"""A driver without Spark that writes micro-batches into a table, until it is killed at a step that a seed has drawn.

After every other micro-batch it replaces small files, as maintenance does.

Run as a script by the tests. It does what Spark does: a checkpoint has the offsets of each micro-batch before it is
written, and says when it is committed; after a start, a micro-batch without such a note is repeated. The steps are all
calls of functions of the package and of the libraries of the format that are written in Python: at the one with the
drawn number the process kills itself with SIGKILL.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import commit_batch
from kafkaraw.spark.lake.layout import Commit, DataFile
from tests.spark.lake.tables import Lake, numbered

BATCHES = 4
ROWS = 40
TASKS = 2
TARGET = 1 << 20
_PACKAGES = ("kafkaraw/spark/lake", "deltalake", "pyiceberg", "sqlalchemy/engine")


def main(kind: str, folder: str, run: str, kill_at: int) -> None:
    if kill_at:
        sys.setprofile(_killer(kill_at))
    write_batches(Lake(kind, Path(folder)), Path(folder, "checkpoint"), run)
    sys.setprofile(None)
    print(_calls.count)


def write_batches(lake: Lake, checkpoint: Path, run: str) -> None:
    """Write what the checkpoint says is missing."""
    checkpoint.mkdir(exist_ok=True)
    for number in range(BATCHES):
        planned, done = checkpoint / f"{number}.planned", checkpoint / f"{number}.done"
        if done.exists():
            continue
        planned.touch()
        rows = numbered(range(number * ROWS, (number + 1) * ROWS))
        table, layout = lake.prepare(rows.schema, targetFileSize="1k")
        batch = BatchId("query", number, run)
        files: list[DataFile] = []
        for task in range(TASKS):
            some = rows.slice(task * ROWS // TASKS, ROWS // TASKS)
            files += lake.files(some, batch, layout, task, targetFileSize="1k")
        commit_batch(table, Commit(batch, files), layout)
        if number % 2:
            lake.maintenance().optimize(TARGET)
        done.touch()


class _Calls:
    """How many calls there were."""

    count = 0


_calls = _Calls()


def _killer(kill_at: int) -> Callable[[FrameType, str, object], None]:
    """Return a profiler that kills the process at a call: before it, or after it if the number is odd."""
    at = "return" if kill_at % 2 else "call"

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        if event == at and any(each in frame.f_code.co_filename for each in _PACKAGES):
            _calls.count += 1
            if _calls.count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    return profile


def drawn(seed: int, calls_max: int) -> list[int]:
    """Return at which calls the drivers of a seed are killed, one after the other."""
    rng = random.Random(seed)
    return [rng.randrange(1, calls_max) for _ in range(3)]


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
