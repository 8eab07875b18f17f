"""A driver that starts streaming queries, each of which stops at a step of its first micro-batch, and waits.

Run as a script by the tests, which kill it. Its one argument is JSON: servers, and a list of cases.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from kafkaraw.spark import session
from tests.spark import stalling
from tests.spark.kill_case import KillCase
from tests.spark.side_by_side import few_at_a_time


def main() -> None:
    job = json.loads(sys.argv[1])
    cases = [KillCase(**case) for case in job["cases"]]
    spark = session("to be killed", master=f"local[{2 * len(cases)}]")
    spark.sparkContext.setLogLevel("OFF")
    stalling.register(spark)
    for some in few_at_a_time(cases):
        for case in some:
            case.start(spark, job["servers"])
        for case in some:
            wait_for_file(case.reached)
    threading.Event().wait()


def wait_for_file(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main()
