"""The Spark session of a run, in a process group of its own, and with its output in a file.

Ctrl-C in a terminal, and `kill` of a process group, reach the driver only: the driver finishes micro-batches with the
JVM that runs them. What Spark and Python functions print, goes to the log of the run. Must not know pipelines. Start at
`started_session`.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import KafkaError
from kafkaraw.pipelines.running.output import Output
from kafkaraw.spark.launch.session_builder import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAIR: Final = {"spark.scheduler.mode": "FAIR"}
"""Tasks of all flows take turns; with Spark's default, those of the flow that came first run first."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings of a run.

    Args:
        master: of Spark.
        given: settings of the specification and the command line, which override these.
    """
    chosen = dict(_FAIR)
    if master.startswith("local"):
        # Each partition of a stateful operator costs files and tasks in each micro-batch; the default is 200.
        chosen[_PARTITIONS] = str(cores_of(master))
    return chosen | dict(given)


def cores_of(master: str) -> int:
    """Return the number of cores of a local master."""
    text = master.partition("[")[2].rstrip("]").partition(",")[0]
    if text == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(text) if text.isdigit() else 1


def started_session(name: str, master: str, given: Mapping[str, str]) -> SparkSession:
    """Start Spark.

    Args:
        name: of the application.
        master: of Spark.
        given: see `settings`.
    """
    with _jvm_in_group_of_its_own():
        return session(name, master, settings(master, given))


@contextmanager
def _jvm_in_group_of_its_own() -> Iterator[None]:
    """Start JVMs in a session of the operating system that no terminal sends signals to.

    They end with the driver: its end closes their standard input.
    """
    module: Any = import_module("pyspark.core.context")
    launch = module.launch_gateway
    module.launch_gateway = partial(launch, popen_kwargs={"start_new_session": True})
    try:
        yield
    finally:
        module.launch_gateway = launch


@contextmanager
def output_in(log: Path) -> Iterator[Output]:
    """Send everything that this process and its children print to a file.

    Yields:
        the standard output as it was, for what the run itself shows.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(1), os.dup(2)
    shown = Output(os.dup(1))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.getLogger().addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield shown
    finally:
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(handler)
        sys.stdout.flush()
        sys.stderr.flush()
        shown.close()
        for number, saved in zip((1, 2), before, strict=True):
            os.dup2(saved, number)
            os.close(saved)


@contextmanager
def output_hidden() -> Iterator[Output]:
    """Keep what this process and Spark's print from being seen; show it after an error that is none of kafkaraw's.

    Yields:
        the standard output as it was.
    """
    with tempfile.TemporaryDirectory(prefix="kafkaraw-log-") as folder:
        log = Path(folder, "log")
        try:
            with output_in(log) as shown:
                yield shown
        except (KafkaError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
            raise
