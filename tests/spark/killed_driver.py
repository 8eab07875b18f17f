"""A driver that starts streaming queries, each of which stops at a step of one of its micro-batches, and waits.

Run as a script by the tests, which kill it. Its one argument is JSON: a list of cases.
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
from collections.abc import Sequence
from pathlib import Path

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
            case.start(spark)
        for case in some:
            while not case.reached.exists():
                time.sleep(0.02)
    threading.Event().wait()


def kill_when_all_have_stopped(cases: Sequence[KillCase], timeout: float = 200) -> None:
    """Run such a driver until every case has got to its step, and kill it."""
    log = Path(cases[0].folder, "driver.log")
    command = [sys.executable, "-m", __name__, json.dumps([dataclasses.asdict(case) for case in cases])]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with log.open("wb") as output:
        driver = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + timeout
        while missing := [case for case in cases if not case.reached.exists()]:
            assert driver.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{missing} did not get there\n{log.read_text()[-3000:]}"
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


if __name__ == "__main__":
    main()
