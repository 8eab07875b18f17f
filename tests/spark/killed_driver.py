"""A driver that starts streaming queries, each of which stops at a step of one of its micro-batches.

Run as a script by the tests, which let some queries go on, and then kill it. Its one argument is JSON: a list of cases.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql.streaming import StreamingQuery

from kafkaraw.spark import session
from tests.spark import faulty
from tests.spark.kill_case import KillCase
from tests.spark.side_by_side import few_at_a_time

ROOT = Path(__file__).parents[2]


def main() -> None:
    cases = [KillCase(**case) for case in json.loads(sys.argv[1])]
    spark = session("to be killed", master=f"local[{2 * len(cases)},4]")  # a task is tried four times
    spark.sparkContext.setLogLevel("OFF")
    faulty.register(spark)
    for some in few_at_a_time(cases):
        for case in some:
            threading.Thread(target=follow, args=(case, case.start(spark)), daemon=True).start()
        for case in some:
            while not case.reached.exists():
                time.sleep(0.02)
    threading.Event().wait()


def follow(case: KillCase, query: StreamingQuery) -> None:
    """Say when a query that was told to go on has read everything, or what it died of, though it was not told to."""
    error = ""
    try:
        while not case.go_on.exists() and not query.awaitTermination(0.2):
            pass
        if case.trigger == "processing time":
            query.processAllAvailable()
        else:
            query.awaitTermination()
    except Exception as problem:  # noqa: BLE001  # told to the test
        error = str(problem)
    whole = case.ended.with_suffix(".part")
    whole.write_text(error)
    whole.rename(case.ended)


@contextmanager
def driver_at_its_steps(cases: Sequence[KillCase]) -> Iterator[Driver]:
    """Run such a driver until every case has got to its step; in the end it is killed."""
    log = Path(cases[0].folder, "driver.log")
    command = [sys.executable, "-m", __name__, json.dumps([dataclasses.asdict(case) for case in cases])]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        driver = Driver(process, log)
        for case in cases:
            driver.wait_for(case.reached, case.ended)
            assert case.reached.exists(), case.ended.read_text()
        yield driver
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@dataclasses.dataclass(frozen=True)
class Driver:
    """The process, and what it prints."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, *files: Path, timeout: float = 900) -> None:
        """Wait until one of the files is there."""
        deadline = time.monotonic() + timeout
        while not any(file.exists() for file in files):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"there is none of {files}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.05)

    def ends_of(self, cases: Sequence[KillCase]) -> dict[KillCase, str]:
        """Let cases go on until they have ended; gives what they died of, or nothing."""
        for case in cases:
            case.go_on.touch()
        for case in cases:
            self.wait_for(case.ended)
        return {case: case.ended.read_text() for case in cases}


if __name__ == "__main__":
    main()
